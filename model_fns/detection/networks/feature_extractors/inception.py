"""Single-shot detectors on Inception V2 and V3."""

from __future__ import annotations

from estimator_lib import errors
from model_fns.detection.networks.feature_extractors.extractor import EXTRACTORS, WHERE, Settings
from model_fns.detection.networks.feature_extractors.stacks import StackedExtractor, layout_of


class _InceptionExtractor(StackedExtractor):
    """What the two share: no style of their own for detection.

    Explicit padding is that of the stacked maps; the backbones have none.
    """

    def __init__(self, settings: Settings):
        super().__init__(settings)
        if not settings.override_base:
            raise errors.ConfigError(
                f'{WHERE}.override_base_feature_extractor_hyperparams: got false; the Inception '
                'feature extractors have no hyperparameters of their own for detection, so '
                'expected true.'
            )


@EXTRACTORS.register('ssd_inception_v2')
class SsdInceptionV2(_InceptionExtractor):
    """Two taps, and four maps stacked on them (Huang et al. 2017)."""

    backbone = 'inception_v2'
    layout = layout_of(['Mixed_4c', 'Mixed_5c'])


@EXTRACTORS.register('ssd_inception_v3')
class SsdInceptionV3(_InceptionExtractor):
    """Three taps, and three maps stacked on them (Huang et al. 2017)."""

    backbone = 'inception_v3'
    # Convolutions without padding leave nothing of smaller images.
    min_size = 75
    layout = layout_of(['Mixed_5d', 'Mixed_6e', 'Mixed_7c'], depths=(512, 256, 128))
