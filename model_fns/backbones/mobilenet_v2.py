"""MobileNet V2 (Sandler et al. 2018): inverted residuals with linear bottlenecks."""

from __future__ import annotations

import functools
from typing import Any, Dict, Optional, Tuple

import tensorflow as tf

from model_fns import layers
from model_fns.backbones import mobilenet_parts, registry
from model_fns.backbones.mobilenet_parts import Channels, Convolution, InvertedResidual

SCOPE = 'MobilenetV2'
LAST_END_POINT = 'layer_19'
# Sandler et al. 2018, table 2.
LAST_CHANNELS = 1280

# Expansion, output channels, how many blocks, stride of the first: table 2 of the paper.
_BLOCKS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobilenet_v2_features(
    images: tf.Tensor,
    style: layers.LayerStyle,
    *,
    depth_multiplier: float = 1.0,
    min_depth: int = 8,
    divisor: int = 8,
    output_stride: Optional[int] = None,
    final_endpoint: str = LAST_END_POINT,
    last_channels: float = LAST_CHANNELS,
    padding: layers.Padding = 'SAME',
    activation: layers.Activation = tf.nn.relu6,
) -> Dict[str, tf.Tensor]:
    """Return the feature maps of MobileNet V2.

    Args:
        images: float32 [batch, height, width, channels], in [-1, 1].
        style: of all layers, but for the activation.
        depth_multiplier: factor on all channel counts.
        min_depth: least channel count that the factor leaves.
        divisor: channel counts are rounded to a multiple of it.
        output_stride: 1, 2, 4, 8, 16 or 32: from there on convolutions are atrous instead of
            strided; None: 32.
        final_endpoint: `layer_<i>`, i from 1 to 19: where to stop.
        last_channels: of `layer_19`, before the factor.
        padding: `SAME`, or `FIXED` (what the published network calls explicit padding).
        activation: of all layers but the projections.

    Returns:
        End points by name: see `mobilenet_parts.mobilenet_features`.
    """
    return mobilenet_parts.mobilenet_features(
        images,
        _layers(activation, last_channels),
        style,
        Channels(depth_multiplier, min_depth, divisor),
        scope=SCOPE,
        output_stride=output_stride,
        final_endpoint=final_endpoint,
        padding=padding,
    )


def mobilenet_v2(
    images: tf.Tensor,
    num_classes: int,
    style: layers.LayerStyle,
    options: registry.Options,
    depth_multiplier: float = 1.0,
) -> registry.EndPoints:
    """Return the classifier.

    A factor below 1 leaves the last layer's 1280 channels (section 6.1 of the paper).

    Args:
        images: float32 [batch, height, width, channels], in [-1, 1].
        num_classes: how many logits.
        style: of all layers, but for the activation.
        options: factors and rounding of channels, `output_stride`, `padding` and dropout count.
        depth_multiplier: the network's own factor, which that of the options multiplies.

    Returns:
        The feature maps, `global_pool`, `Logits` and `Predictions` by name.
    """
    depth_multiplier *= options.depth_multiplier
    last_channels = (LAST_CHANNELS / min(1.0, depth_multiplier),)
    options = options.but(depth_multiplier=depth_multiplier, last_channels=last_channels)
    end_points = _features(images, style, options)
    mobilenet_parts.add_logits(
        end_points,
        end_points[LAST_END_POINT],
        num_classes,
        style,
        options.get('dropout_keep_prob', 0.8),
        scope=SCOPE,
    )
    return end_points


def _layers(
    activation: layers.Activation, last_channels: float
) -> Tuple[mobilenet_parts.Layer, ...]:
    blocks = [
        InvertedResidual(
            expansion, channels, stride=stride if index == 0 else 1, activation=activation
        )
        for expansion, channels, count, stride in _BLOCKS
        for index in range(count)
    ]
    first = Convolution(32, kernel_size=3, stride=2, activation=activation)
    last = Convolution(last_channels, kernel_size=1, stride=1, activation=activation)
    return (first, *blocks, last)


def _features(
    images: tf.Tensor,
    style: layers.LayerStyle,
    options: registry.Options,
    depth_multiplier: float = 1.0,
) -> registry.EndPoints:
    (last_channels,) = options.last_channels or (LAST_CHANNELS,)
    return mobilenet_v2_features(
        images,
        style,
        depth_multiplier=depth_multiplier * options.depth_multiplier,
        min_depth=int(options.get('min_depth', 8)),
        divisor=int(options.get('channel_divisor', 8)),
        output_stride=options.output_stride,
        final_endpoint=options.final_endpoint or LAST_END_POINT,
        last_channels=last_channels,
        padding=options.padding,
    )


def _register(
    name: str, depth_multiplier: float, segmentation: Optional[registry.Segmentation] = None
) -> None:
    factor: Dict[str, Any] = {'depth_multiplier': depth_multiplier}
    registry.add(
        registry.Network(
            name=name,
            scope=SCOPE,
            features=functools.partial(_features, **factor),
            style=mobilenet_parts.mobilenet_style,
            detection_style=mobilenet_parts.detection_style,
            feature_maps=mobilenet_parts.feature_maps(_layers(tf.nn.relu6, LAST_CHANNELS)),
            honors=mobilenet_parts.HONORS,
            segmentation=segmentation,
            build=functools.partial(mobilenet_v2, **factor),
            logits_scopes=(f'{SCOPE}/Logits',),
            keras_layers=mobilenet_parts.keras_layers(_layers(tf.nn.relu6, LAST_CHANNELS)),
        )
    )


_register(
    'mobilenet_v2',
    1.0,
    # DeepLab leaves the last layer out.
    mobilenet_parts.segmentation(_layers(tf.nn.relu6, LAST_CHANNELS), final_endpoint='layer_18'),
)
_register('mobilenet_v2_140', 1.4)
_register('mobilenet_v2_035', 0.35)
