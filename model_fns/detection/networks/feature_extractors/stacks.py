"""Feature maps without a pyramid: taps of a backbone, and smaller maps stacked on the last."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib import errors
from model_fns import layers
from model_fns.detection.networks.feature_extractors.extractor import (
    WHERE,
    FeatureExtractor,
    Settings,
    pad_to_multiple,
)

tf1 = tf.compat.v1

# The default of `num_layers` in configs.
_DEFAULT_NUM_LAYERS = 6


@dataclasses.dataclass(frozen=True)
class MapLayout:
    """Layout of a feature map of a detector without a pyramid.

    Attributes:
        tap: end point of the backbone; None: convolutions on the previous map.
        depth: channels of these convolutions, before the factor.
        kernel_size: kernel size of these convolutions.
    """

    tap: Optional[str] = None
    depth: int = 0
    kernel_size: int = 3


def stack_layout(
    taps: Sequence[str], depths: Sequence[int] = (512, 256, 256, 128)
) -> Tuple[MapLayout, ...]:
    """Build the layout of taps and stacked maps of these channels (Huang et al. 2017)."""
    # The paper's VGG has 256 channels in the last map (Liu et al. 2016, figure 2), the published
    # MobileNets and Inceptions 128.
    return (
        *(MapLayout(tap) for tap in taps),
        *(MapLayout(depth=depth) for depth in depths),
    )


class StackedExtractor(FeatureExtractor):
    """Feature extractor with taps of a backbone, and maps stacked on the last of them.

    Attributes:
        layout: layout of the feature maps.
    """

    # As the published extractors assert: one pixel more than the stride of the last tap.
    min_size = 33
    unsupported: Tuple[Tuple[str, str], ...] = (('pyramid', 'it has no feature pyramid'),)
    rare = ('pad_stacked_maps',)
    layout: Tuple[MapLayout, ...]

    def feature_maps(self, images: tf.Tensor) -> List[tf.Tensor]:
        """Compute the tapped and the stacked maps: [B, height', width', channels'] each."""
        end_points = self.end_points(images)
        with tf1.variable_scope(self.backbone_scope):
            return stacked_maps(end_points, self.layout, self.settings)


def stacked_maps(
    end_points: Dict[str, tf.Tensor], layout: Tuple[MapLayout, ...], settings: Settings
) -> List[tf.Tensor]:
    """Build feature maps tapped from a backbone, and smaller maps stacked on the last of them.

    A stacked map is a 1x1 convolution to half its channels, then a 3x3 one with stride 2 (Liu et
    al. 2016, figure 2). Its layers are named after the last tap.

    Args:
        end_points: end points of the backbone, [B, height', width', channels'] each.
        layout: layout of all maps; the first `settings.num_layers` are built.
        settings: style, padding and channel rule.

    Raises:
        errors.ConfigError: the layout has fewer maps.
    """
    # A network that is published with fewer maps ignores the default of `num_layers`.
    most = max(len(layout), _DEFAULT_NUM_LAYERS)
    if not 1 <= settings.num_layers <= most:
        raise errors.ConfigError(
            f'{WHERE}.num_layers: got {settings.num_layers}; expected 1 to {len(layout)}.'
        )
    maps: List[tf.Tensor] = []
    base = ''
    for index, item in enumerate(layout[: settings.num_layers]):
        if item.tap is not None:
            base = item.tap.replace('/', '_')
            maps.append(end_points[item.tap])
        else:
            maps.append(_stacked_map(maps[-1], f'{base}_', index, item, settings))
    return maps


def pooled_maps(features: tf.Tensor, num_layers: int) -> List[tf.Tensor]:
    """Build a pooling pyramid (Jin et al. 2018): a map, repeatedly pooled by 2x2.

    Args:
        features: float32 [batch, height, width, channels].
        num_layers: number of maps.

    Raises:
        errors.ConfigError: the number is below 1.
    """
    if num_layers < 1:
        raise errors.ConfigError(f'{WHERE}.num_layers: got {num_layers}; expected 1 or more.')
    maps = [features]
    for _ in range(num_layers - 1):
        maps.append(tf.nn.max_pool2d(maps[-1], 2, 2, padding='SAME'))
    return maps


def _stacked_map(
    features: tf.Tensor, prefix: str, index: int, layout: MapLayout, settings: Settings
) -> tf.Tensor:
    # The factor and the least depth apply to each number, as published: half of a bounded depth
    # would differ.
    half, depth = settings.depth(layout.depth / 2), settings.depth(layout.depth)
    size = layout.kernel_size
    features = layers.conv2d(
        features, half, 1, settings.style, f'{prefix}1_Conv2d_{index}_1x1_{half}'
    )
    if settings.pad_stacked_maps:
        features = pad_to_multiple(features, 2)
    scope = f'{prefix}2_Conv2d_{index}_{size}x{size}_s2_{depth}'
    stride_2: Dict[str, Any] = {'stride': 2, 'padding': settings.padding}
    if not settings.use_depthwise:
        return layers.conv2d(features, depth, size, settings.style, scope, **stride_2)
    if settings.generation.fuses_stacked:
        return layers.separable_conv2d(features, depth, size, settings.style, scope, **stride_2)
    features = layers.depthwise_conv2d(
        features, size, settings.style, f'{scope}_depthwise', **stride_2
    )
    return layers.conv2d(features, depth, 1, settings.style, scope)
