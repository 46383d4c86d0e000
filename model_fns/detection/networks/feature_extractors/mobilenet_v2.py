"""Single-shot detectors on MobileNet V2: plain, with a feature pyramid, with a searched neck."""

from __future__ import annotations

import functools
import logging
from typing import Any, List, Tuple

import tensorflow as tf

from model_fns import layers
from model_fns.backbones import mobilenet_parts, mobilenet_v2, registry
from model_fns.detection.networks.feature_extractors import mnasfpn, pyramids
from model_fns.detection.networks.feature_extractors.extractor import (
    EXTRACTORS,
    FeatureExtractor,
    Settings,
)
from model_fns.detection.networks.feature_extractors.stacks import StackedExtractor, stack_layout

# Channels of the last layer, for the pyramid with separable convolutions.
_LITE_LAST_CHANNELS = (256,)


def _last_channels(settings: Settings) -> Tuple[float, ...]:
    """Return the channels of the last layer before the factor; empty: the network's default.

    In the second generation a factor above 1 does not widen that layer.
    """
    if settings.generation.narrows_lite:
        return ()
    return (mobilenet_v2.LAST_CHANNELS / max(1.0, settings.depth_multiplier),)


@EXTRACTORS.register('ssd_mobilenet_v2')
class SsdMobileNetV2(StackedExtractor):
    """Feature extractor with two taps and four stacked maps (Sandler et al. 2018)."""

    backbone = 'mobilenet_v2'
    # Section 6.2 of the paper: the first map is the expansion of layer 15, of stride 16, the others
    # are on top of the last layer.
    layout = stack_layout(['layer_15/expansion_output', 'layer_19'])

    def end_points(self, images: tf.Tensor, **options: Any) -> registry.EndPoints:
        """Compute the backbone's feature maps with the last layer of its generation.

        Returns:
            [B, height', width', channels'] each.
        """
        last_channels = _last_channels(self.settings)
        return super().end_points(images, last_channels=last_channels, **options)


@EXTRACTORS.register('ssd_mobilenet_v2_fpn')
class SsdMobileNetV2Fpn(pyramids.PyramidExtractor):
    """Feature extractor with a feature pyramid."""

    backbone = 'mobilenet_v2'
    # Published names continue the count of the backbone's last layer, layer_19.
    coarse_scope, first_coarse = 'bottom_up_Conv2d_{}', 20

    def end_points(self, images: tf.Tensor, **options: Any) -> registry.EndPoints:
        """Compute the backbone's feature maps, [B, height', width', channels'] each."""
        # The second generation computes the reduced width, but does not pass it on: the recorded
        # kernel of Conv_1 is [1, 1, 320, 1280].
        narrows = self.settings.use_depthwise and self.settings.generation.narrows_lite
        last_channels = _LITE_LAST_CHANNELS if narrows else _last_channels(self.settings)
        return super().end_points(images, last_channels=last_channels, **options)


@EXTRACTORS.register('ssd_mobilenet_v2_mnasfpn')
class SsdMobileNetV2MnasFpn(FeatureExtractor):
    """Feature extractor with levels 3 to 6 of a searched neck (Chen et al. 2019).

    All convolutions of the neck are separable. Backbone and neck always have the published style,
    whatever `conv_hyperparams` and `override_base_feature_extractor_hyperparams` say: the published
    config overrides the style, but its checkpoints were trained without that.
    """

    backbone = 'mobilenet_v2'
    min_size = 33
    unsupported = pyramids.PyramidExtractor.unsupported

    def __init__(self, settings: Settings):
        super().__init__(settings)
        self._pyramid = mnasfpn.check_levels(settings.pyramid)
        _warn_of_own_style()

    def base_style(self) -> layers.LayerStyle:
        """Return the published style of the backbone."""
        style = mnasfpn.mnasfpn_style(
            self.settings.style.is_training, mnasfpn.BACKBONE_WEIGHT_DECAY
        )
        return self.settings.with_statistics(style)

    def feature_maps(self, images: tf.Tensor) -> List[tf.Tensor]:
        """Compute the levels of the searched neck: [B, height', width', channels'] each."""
        settings = self.settings
        # The 1x1 convolution layer_19 is only part of the classifier: the neck begins at the last
        # bottleneck.
        end_points = self.end_points(images, final_endpoint='layer_18')
        is_training = settings.style.is_training
        return mnasfpn.mnasfpn(
            [end_points[name] for name in ('layer_7', 'layer_14', 'layer_18')],
            settings.with_statistics(mnasfpn.mnasfpn_style(is_training)),
            mobilenet_parts.Channels(settings.depth_multiplier, settings.min_depth),
            depth=self._pyramid.depth,
            padding=settings.padding,
        )


@functools.cache
def _warn_of_own_style() -> None:
    """Warn once per process, not each time that the network is built."""
    logging.getLogger(__name__).warning(
        'model.ssd.feature_extractor.conv_hyperparams: without effect on ssd_mobilenet_v2_mnasfpn, '
        'whose backbone and neck always have their published style.'
    )
