"""Single-shot detectors on MobileNet V1: plain, embedded, with a feature pyramid, with pooling."""

from __future__ import annotations

import types
from typing import Any, List

import tensorflow as tf

from model_fns.backbones import registry
from model_fns.detection.networks.feature_extractors import pyramids
from model_fns.detection.networks.feature_extractors.extractor import (
    EXTRACTORS,
    FeatureExtractor,
)
from model_fns.detection.networks.feature_extractors.stacks import (
    MapLayout,
    StackedExtractor,
    pooled_maps,
    stack_layout,
)

# Channels of the last two layers, for the pyramid with separable convolutions.
# In place of 1024 each, as the published extractor of fpnlite changes Conv2d_12 and Conv2d_13.
_LITE_LAST_CHANNELS = (512, 256)


@EXTRACTORS.register('ssd_mobilenet_v1')
class SsdMobileNetV1(StackedExtractor):
    """Feature extractor with two taps and four stacked maps (Huang et al. 2017)."""

    backbone = 'mobilenet_v1'
    layout = stack_layout(['Conv2d_11_pointwise', 'Conv2d_13_pointwise'])


@EXTRACTORS.register('embedded_ssd_mobilenet_v1')
class EmbeddedSsdMobileNetV1(SsdMobileNetV1):
    """Feature extractor with five maps for 256x256 images; the last convolution is 2x2."""

    # The published extractor asks for the backbone's default style, which leaves depthwise weights
    # out. The plain one asks for them.
    style_changes = types.MappingProxyType({'regularize_depthwise': False})
    # Maps of 256x256 images have 16, 8, 4 and 2 cells a side, and the last convolution sees 2 x 2.
    layout = (*SsdMobileNetV1.layout[:4], MapLayout(depth=256, kernel_size=2))


@EXTRACTORS.register('ssd_mobilenet_v1_fpn')
class SsdMobileNetV1Fpn(pyramids.PyramidExtractor):
    """Feature extractor with a feature pyramid."""

    backbone = 'mobilenet_v1'
    # Published names continue the count of the backbone's last layer, Conv2d_13.
    coarse_scope, first_coarse = 'bottom_up_Conv2d_{}', 14

    def end_points(self, images: tf.Tensor, **options: Any) -> registry.EndPoints:
        """Compute the backbone's feature maps, [B, height', width', channels'] each."""
        last_channels = _LITE_LAST_CHANNELS if self.settings.use_depthwise else ()
        return super().end_points(images, last_channels=last_channels, **options)


@EXTRACTORS.register('ssd_mobilenet_v1_ppn')
class SsdMobileNetV1Ppn(FeatureExtractor):
    """Feature extractor with one tap that is pooled repeatedly (Jin et al. 2018)."""

    backbone = 'mobilenet_v1'
    min_size = 33
    unsupported = (
        ('pyramid', 'its pyramid is made by pooling'),
        ('use_depthwise', 'it adds no convolutions to the backbone'),
    )

    def feature_maps(self, images: tf.Tensor) -> List[tf.Tensor]:
        """Compute the pooled maps: [B, height', width', channels'] each."""
        # The layers above the tap only exist because published checkpoints have their variables.
        # Conv2d_12 and Conv2d_13 learn nothing: their batch norms get no gradient, and their
        # weights only that of the regularizer.
        tap = self.end_points(images)[self.network.feature_maps[16]]
        return pooled_maps(tap, self.settings.num_layers)
