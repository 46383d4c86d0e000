"""Single-shot detectors on networks without published detectors, by one rule for all.

`ssd_<network>` has the maps of strides 16 and 32 and four stacked on these (Liu et al. 2016),
`ssd_<network>_fpn` a feature pyramid (Lin et al. 2016).
"""

from __future__ import annotations

import functools
from typing import Any, List, Tuple

import tensorflow as tf

from model_fns import layers
from model_fns.backbones import registry
from model_fns.backbones.modern import convnext, efficientnet_v2, resnet_v1_5
from model_fns.detection.networks.feature_extractors import pyramids
from model_fns.detection.networks.feature_extractors.extractor import (
    EXTRACTORS,
    FeatureExtractor,
    Settings,
)
from model_fns.detection.networks.feature_extractors.stacks import stack_layout, stacked_maps

tf1 = tf.compat.v1

# Names of the networks.
NETWORKS: Tuple[str, ...] = (*resnet_v1_5.UNITS, *efficientnet_v2.SIZES, *convnext.SIZES)

_TAPPED_STRIDES = (16, 32)


class _GeneralExtractor(FeatureExtractor):
    """Base of both kinds, with their backbone.

    Args:
        settings: settings from the config.
        network: name of the backbone.
    """

    min_size = 33

    def __init__(self, settings: Settings, network: str):
        self.backbone = network
        self.rare = (*type(self).rare, *({'drop_path_keep_prob'} & set(self.network.honors)))
        super().__init__(settings)

    def base_style(self) -> layers.LayerStyle:
        """Return the backbone's style; overriding hyperparameters only replace its regularizer.

        Normalization and activation are those of its published weights.
        """
        style = self.network.style(self.settings.style.is_training, registry.Options())
        if self.settings.override_base:
            style = style.but(regularizer=self.settings.style.regularizer, bias_regularizer=None)
        return self.settings.with_statistics(style)

    def end_points(self, images: tf.Tensor, **options: Any) -> registry.EndPoints:
        """Compute the backbone's feature maps; training drops branches as configured.

        Returns:
            [B, height', width', channels'] each.
        """
        keep_prob = self.settings.drop_path_keep_prob
        return super().end_points(images, drop_path_keep_prob=keep_prob, **options)


class SsdGeneral(_GeneralExtractor):
    """Feature extractor with two taps and four stacked maps."""

    unsupported = (('pyramid', 'it has no feature pyramid'),)
    rare = ('pad_stacked_maps',)

    def feature_maps(self, images: tf.Tensor) -> List[tf.Tensor]:
        """Compute the tapped and the stacked maps: [B, height', width', channels'] each."""
        end_points = self.end_points(images)
        taps = [self.network.feature_maps[stride] for stride in _TAPPED_STRIDES]
        with tf1.variable_scope(self.backbone_scope):
            return stacked_maps(end_points, stack_layout(taps), self.settings)


class SsdGeneralFpn(_GeneralExtractor, pyramids.PyramidExtractor):
    """Feature extractor with a feature pyramid."""


for _network in NETWORKS:
    EXTRACTORS.add(f'ssd_{_network}', functools.partial(SsdGeneral, network=_network))
    EXTRACTORS.add(f'ssd_{_network}_fpn', functools.partial(SsdGeneralFpn, network=_network))
