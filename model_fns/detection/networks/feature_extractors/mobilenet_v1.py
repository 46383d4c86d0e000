"""Single-shot detectors on MobileNet V1: plain, embedded, with a feature pyramid, with pooling."""

from __future__ import annotations

import types
from typing import List

import tensorflow as tf

from model_fns.detection.networks.feature_extractors import pyramids
from model_fns.detection.networks.feature_extractors.extractor import (
    EXTRACTORS,
    FeatureExtractor,
)
from model_fns.detection.networks.feature_extractors.stacks import (
    MapLayout,
    StackedExtractor,
    layout_of,
    pooled_maps,
)

# Of the last two layers, for the pyramid with separable convolutions.
_LITE_LAST_CHANNELS = (512, 256)


@EXTRACTORS.register('ssd_mobilenet_v1')
class SsdMobileNetV1(StackedExtractor):
    """Two taps, and four maps stacked on them (Huang et al. 2017)."""

    backbone = 'mobilenet_v1'
    layout = layout_of(['Conv2d_11_pointwise', 'Conv2d_13_pointwise'])


@EXTRACTORS.register('embedded_ssd_mobilenet_v1')
class EmbeddedSsdMobileNetV1(SsdMobileNetV1):
    """Five maps; the last convolution is 2x2, for a 256x256 image's 2x2 map."""

    style_changes = types.MappingProxyType({'regularize_depthwise': False})
    layout = (*SsdMobileNetV1.layout[:4], MapLayout(depth=256, kernel_size=2))


@EXTRACTORS.register('ssd_mobilenet_v1_fpn')
class SsdMobileNetV1Fpn(FeatureExtractor):
    """Levels 3 to 7, unless told otherwise, of a feature pyramid."""

    backbone = 'mobilenet_v1'
    min_size = 33
    unsupported = (('num_layers', pyramids.LEVELS_ARE_THOSE_OF_FPN),)

    def feature_maps(self, images: tf.Tensor) -> List[tf.Tensor]:
        """See `FeatureExtractor`."""
        last_channels = _LITE_LAST_CHANNELS if self.settings.use_depthwise else ()
        return pyramids.tapped_pyramid(
            self.end_points(images, last_channels=last_channels),
            self.network,
            self.settings,
            'bottom_up_Conv2d_{}',
            first_coarse=14,
        )


@EXTRACTORS.register('ssd_mobilenet_v1_ppn')
class SsdMobileNetV1Ppn(FeatureExtractor):
    """One tap, pooled again and again (Jin et al. 2018)."""

    backbone = 'mobilenet_v1'
    min_size = 33
    unsupported = (
        ('pyramid', 'its pyramid is made by pooling'),
        ('use_depthwise', 'it adds no convolutions to the backbone'),
    )

    def feature_maps(self, images: tf.Tensor) -> List[tf.Tensor]:
        """See `FeatureExtractor`."""
        # The layers above the tap have variables in published checkpoints, and no other use.
        tap = self.end_points(images)[self.network.feature_maps[16]]
        return pooled_maps(tap, self.settings.num_layers)
