"""Single-shot detectors on MobileNet V1: plain, embedded, with a feature pyramid, with pooling."""

from __future__ import annotations

from typing import Dict, List, Optional

import tensorflow as tf

from model_fns.backbones import mobilenet_v1
from model_fns.detection.feature_extractors import pyramids
from model_fns.detection.feature_extractors.extractor import (
    EXTRACTORS,
    FeatureExtractor,
    MapLayout,
    stacked_maps,
)

tf1 = tf.compat.v1


# The backbone's end point at each level of a pyramid.
_PYRAMID_TAPS = {
    2: 'Conv2d_3_pointwise',
    3: 'Conv2d_5_pointwise',
    4: 'Conv2d_11_pointwise',
    5: 'Conv2d_13_pointwise',
}


class _MobileNetV1Extractor(FeatureExtractor):
    """What the variants share: the backbone."""

    min_size = 33
    # As published for detection, unlike for classification.
    penalize_depthwise = True

    def end_points(
        self, images: tf.Tensor, final_endpoint: Optional[str] = None
    ) -> Dict[str, tf.Tensor]:
        """The backbone's feature maps by name, in the current scope."""
        settings = self.settings
        return mobilenet_v1.mobilenet_v1_features(
            images,
            settings.base_style(
                mobilenet_v1.mobilenet_v1_style, penalize_depthwise=self.penalize_depthwise
            ),
            depth_multiplier=settings.depth_multiplier,
            min_depth=settings.min_depth,
            padding=settings.padding,
            final_endpoint=final_endpoint or mobilenet_v1.LAST_END_POINT,
        )


@EXTRACTORS.register('ssd_mobilenet_v1')
class SsdMobileNetV1(_MobileNetV1Extractor):
    """Two taps, and four maps stacked on them (Huang et al. 2017)."""

    layout = (
        MapLayout('Conv2d_11_pointwise'),
        MapLayout('Conv2d_13_pointwise'),
        MapLayout(depth=512),
        MapLayout(depth=256),
        MapLayout(depth=256),
        MapLayout(depth=128),
    )

    def feature_maps(self, images: tf.Tensor) -> List[tf.Tensor]:
        """See `FeatureExtractor`."""
        end_points = self.end_points(images)
        with tf1.variable_scope(mobilenet_v1.SCOPE):
            return stacked_maps(end_points, self.layout, self.settings)


@EXTRACTORS.register('embedded_ssd_mobilenet_v1')
class EmbeddedSsdMobileNetV1(SsdMobileNetV1):
    """Five maps; the last convolution is 2x2, for a 256x256 image's 2x2 map."""

    penalize_depthwise = False
    layout = (
        MapLayout('Conv2d_11_pointwise'),
        MapLayout('Conv2d_13_pointwise'),
        MapLayout(depth=512),
        MapLayout(depth=256),
        MapLayout(depth=256, kernel_size=2),
    )


@EXTRACTORS.register('ssd_mobilenet_v1_fpn')
class SsdMobileNetV1Fpn(_MobileNetV1Extractor):
    """Levels 3 to 7 of a feature pyramid."""

    def feature_maps(self, images: tf.Tensor) -> List[tf.Tensor]:
        """See `FeatureExtractor`."""
        end_points = self.end_points(images)
        pyramid = self.settings.pyramid
        tapped = range(pyramid.min_level, min(pyramid.max_level, 5) + 1)
        coarser = range(14, 14 + max(0, pyramid.max_level - 5))
        with tf1.variable_scope(mobilenet_v1.SCOPE):
            return pyramids.feature_pyramid(
                [end_points[_PYRAMID_TAPS[level]] for level in tapped],
                self.settings,
                self.settings.depth(pyramid.depth),
                [f'bottom_up_Conv2d_{number}' for number in coarser],
            )


@EXTRACTORS.register('ssd_mobilenet_v1_ppn')
class SsdMobileNetV1Ppn(_MobileNetV1Extractor):
    """One tap, pooled again and again (Jin et al. 2018)."""

    def feature_maps(self, images: tf.Tensor) -> List[tf.Tensor]:
        """See `FeatureExtractor`."""
        # The layers above the tap have variables in published checkpoints, and no other use.
        maps = [self.end_points(images)['Conv2d_11_pointwise']]
        for _ in range(5):
            maps.append(tf.nn.max_pool2d(maps[-1], 2, 2, padding='SAME'))
        return maps
