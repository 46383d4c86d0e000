"""Single-shot detectors on MobileNet V2: plain, with a feature pyramid, with a searched neck."""

from __future__ import annotations

import functools
import logging
from typing import Dict, List

import tensorflow as tf

from model_fns.backbones import mobilenet_parts, mobilenet_v2, registry
from model_fns.detection.networks.feature_extractors import mnasfpn, pyramids
from model_fns.detection.networks.feature_extractors.extractor import (
    EXTRACTORS,
    FeatureExtractor,
    Settings,
)
from model_fns.detection.networks.feature_extractors.stacks import StackedExtractor, layout_of

tf1 = tf.compat.v1

# For detection the moving statistics are published with a slower decay.
_OPTIONS = registry.Options(batch_norm_decay=0.9997)

# Of `layer_19` in the pyramid with separable convolutions.
_LITE_LAST_CHANNELS = 256

# The backbone's end point at each level of a pyramid.
_PYRAMID_TAPS = {2: 'layer_4', 3: 'layer_7', 4: 'layer_14', 5: 'layer_19'}


def _end_points(
    images: tf.Tensor, settings: Settings, last_channels: int = mobilenet_v2.LAST_CHANNELS
) -> Dict[str, tf.Tensor]:
    """The backbone's feature maps by name, in the current scope."""
    return mobilenet_v2.mobilenet_v2_features(
        images,
        settings.base_style(mobilenet_parts.mobilenet_style, _OPTIONS),
        depth_multiplier=settings.depth_multiplier,
        min_depth=settings.min_depth,
        last_channels=last_channels,
        padding=settings.padding,
    )


@EXTRACTORS.register('ssd_mobilenet_v2')
class SsdMobileNetV2(StackedExtractor):
    """Two taps, the first within a block, and four maps stacked on them (Sandler et al. 2018)."""

    backbone_scope = mobilenet_v2.SCOPE
    layout = layout_of(['layer_15/expansion_output', 'layer_19'])

    def end_points(self, images: tf.Tensor) -> Dict[str, tf.Tensor]:
        """See `StackedExtractor`."""
        return _end_points(images, self.settings)


@EXTRACTORS.register('ssd_mobilenet_v2_fpn')
class SsdMobileNetV2Fpn(FeatureExtractor):
    """Levels 3 to 7, unless told otherwise, of a feature pyramid."""

    backbone_scope = mobilenet_v2.SCOPE
    min_size = 33
    unsupported = (('num_layers', pyramids.LEVELS_ARE_THOSE_OF_FPN),)

    def feature_maps(self, images: tf.Tensor) -> List[tf.Tensor]:
        """See `FeatureExtractor`."""
        lite = self.settings.use_depthwise
        last_channels = _LITE_LAST_CHANNELS if lite else mobilenet_v2.LAST_CHANNELS
        end_points = _end_points(images, self.settings, last_channels)
        with tf1.variable_scope(self.backbone_scope):
            return pyramids.tapped_pyramid(
                end_points, _PYRAMID_TAPS, self.settings, 'bottom_up_Conv2d_{}', first_coarse=20
            )


@EXTRACTORS.register('ssd_mobilenet_v2_mnasfpn')
class SsdMobileNetV2MnasFpn(FeatureExtractor):
    """Levels 3 to 6 of a searched neck, whose convolutions are all separable (Chen et al. 2019).

    Backbone and neck have the published style, whatever `conv_hyperparams` says, and whether it is
    to override the backbone's: the published config says that it is, and its checkpoints are made
    with the other style.
    """

    backbone_scope = mobilenet_v2.SCOPE
    min_size = 33
    unsupported = (('num_layers', pyramids.LEVELS_ARE_THOSE_OF_FPN),)

    def __init__(self, settings: Settings):
        super().__init__(settings)
        self._pyramid = mnasfpn.levels_of(settings.pyramid)
        _warn_of_own_style()

    def feature_maps(self, images: tf.Tensor) -> List[tf.Tensor]:
        """See `FeatureExtractor`."""
        settings = self.settings
        is_training = settings.style.is_training
        base_style = mnasfpn.mnasfpn_style(is_training, mnasfpn.BACKBONE_WEIGHT_DECAY)
        end_points = mobilenet_v2.mobilenet_v2_features(
            images,
            settings.with_statistics(base_style),
            depth_multiplier=settings.depth_multiplier,
            min_depth=settings.min_depth,
            final_endpoint='layer_18',
            padding=settings.padding,
        )
        return mnasfpn.mnasfpn(
            [end_points[name] for name in ('layer_7', 'layer_14', 'layer_18')],
            settings.with_statistics(mnasfpn.mnasfpn_style(is_training)),
            mobilenet_parts.Channels(settings.depth_multiplier, settings.min_depth),
            depth=self._pyramid.depth,
            padding=settings.padding,
        )


@functools.cache
def _warn_of_own_style() -> None:
    """Once a process, not each time that the network is built."""
    logging.getLogger(__name__).warning(
        'model.ssd.feature_extractor.conv_hyperparams: without effect on ssd_mobilenet_v2_mnasfpn, '
        'whose backbone and neck always have their published style.'
    )
