"""Single-shot detectors on Inception V2 and V3."""

from __future__ import annotations

from estimator_lib import errors
from model_fns.detection.networks.feature_extractors.extractor import EXTRACTORS, WHERE, Settings
from model_fns.detection.networks.feature_extractors.stacks import StackedExtractor, stack_layout


class _InceptionExtractor(StackedExtractor):
    """Base of both extractors, which have no default style for detection.

    Explicit padding only applies to the stacked maps, as the backbones have none.
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
    """Feature extractor with two taps and four stacked maps (Huang et al. 2017)."""

    backbone = 'inception_v2'
    layout = stack_layout(['Mixed_4c', 'Mixed_5c'])


@EXTRACTORS.register('ssd_inception_v3')
class SsdInceptionV3(_InceptionExtractor):
    """Feature extractor with three taps and three stacked maps (Huang et al. 2017)."""

    backbone = 'inception_v3'
    # Convolutions without padding reduce smaller images to nothing.
    min_size = 75
    layout = stack_layout(['Mixed_5d', 'Mixed_6e', 'Mixed_7c'], depths=(512, 256, 128))
