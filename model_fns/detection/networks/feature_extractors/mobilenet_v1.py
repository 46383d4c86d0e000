"""Single-shot detectors on MobileNet V1: plain, embedded, with a feature pyramid, with pooling."""

from __future__ import annotations

from typing import Dict, List, Tuple

import tensorflow as tf

from model_fns.backbones import mobilenet_v1
from model_fns.detection.networks.feature_extractors import pyramids
from model_fns.detection.networks.feature_extractors.extractor import (
    EXTRACTORS,
    FeatureExtractor,
    Settings,
)
from model_fns.detection.networks.feature_extractors.stacks import (
    MapLayout,
    StackedExtractor,
    layout_of,
    pooled_maps,
)

tf1 = tf.compat.v1

_LAST_CHANNELS = (1024, 1024)
# Narrower, for the pyramid with separable convolutions.
_LITE_LAST_CHANNELS = (512, 256)

# The backbone's end point at each level of a pyramid.
_PYRAMID_TAPS = {
    2: 'Conv2d_3_pointwise',
    3: 'Conv2d_5_pointwise',
    4: 'Conv2d_11_pointwise',
    5: 'Conv2d_13_pointwise',
}


def _end_points(
    images: tf.Tensor,
    settings: Settings,
    penalize_depthwise: bool = True,
    last_channels: Tuple[int, int] = _LAST_CHANNELS,
) -> Dict[str, tf.Tensor]:
    """The backbone's feature maps by name, in the current scope.

    For detection it is published with penalties on depthwise weights, unlike for classification.
    """
    return mobilenet_v1.mobilenet_v1_features(
        images,
        settings.base_style(mobilenet_v1.mobilenet_v1_style, penalize_depthwise=penalize_depthwise),
        depth_multiplier=settings.depth_multiplier,
        min_depth=settings.min_depth,
        last_channels=last_channels,
        padding=settings.padding,
    )


@EXTRACTORS.register('ssd_mobilenet_v1')
class SsdMobileNetV1(StackedExtractor):
    """Two taps, and four maps stacked on them (Huang et al. 2017)."""

    backbone_scope = mobilenet_v1.SCOPE
    penalize_depthwise = True
    layout = layout_of(['Conv2d_11_pointwise', 'Conv2d_13_pointwise'])

    def end_points(self, images: tf.Tensor) -> Dict[str, tf.Tensor]:
        """See `StackedExtractor`."""
        return _end_points(images, self.settings, self.penalize_depthwise)


@EXTRACTORS.register('embedded_ssd_mobilenet_v1')
class EmbeddedSsdMobileNetV1(SsdMobileNetV1):
    """Five maps; the last convolution is 2x2, for a 256x256 image's 2x2 map."""

    penalize_depthwise = False
    layout = (*SsdMobileNetV1.layout[:4], MapLayout(depth=256, kernel_size=2))


@EXTRACTORS.register('ssd_mobilenet_v1_fpn')
class SsdMobileNetV1Fpn(FeatureExtractor):
    """Levels 3 to 7, unless told otherwise, of a feature pyramid."""

    backbone_scope = mobilenet_v1.SCOPE
    min_size = 33
    unsupported = (('num_layers', pyramids.LEVELS_ARE_THOSE_OF_FPN),)

    def feature_maps(self, images: tf.Tensor) -> List[tf.Tensor]:
        """See `FeatureExtractor`."""
        lite = self.settings.use_depthwise
        last_channels = _LITE_LAST_CHANNELS if lite else _LAST_CHANNELS
        end_points = _end_points(images, self.settings, last_channels=last_channels)
        with tf1.variable_scope(self.backbone_scope):
            return pyramids.tapped_pyramid(
                end_points, _PYRAMID_TAPS, self.settings, 'bottom_up_Conv2d_{}', first_coarse=14
            )


@EXTRACTORS.register('ssd_mobilenet_v1_ppn')
class SsdMobileNetV1Ppn(FeatureExtractor):
    """One tap, pooled again and again (Jin et al. 2018)."""

    backbone_scope = mobilenet_v1.SCOPE
    min_size = 33
    unsupported = (
        ('pyramid', 'its pyramid is made by pooling'),
        ('use_depthwise', 'it adds no convolutions to the backbone'),
    )

    def feature_maps(self, images: tf.Tensor) -> List[tf.Tensor]:
        """See `FeatureExtractor`."""
        # The layers above the tap have variables in published checkpoints, and no other use.
        tap = _end_points(images, self.settings)['Conv2d_11_pointwise']
        return pooled_maps(tap, self.settings.num_layers)
