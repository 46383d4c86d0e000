"""MobileNet V2 (Sandler et al. 2018): inverted residuals with linear bottlenecks."""

from __future__ import annotations

from typing import Optional, Tuple

import tensorflow as tf

from model_fns import layers
from model_fns.backbones import mobilenet_parts, registry
from model_fns.backbones.mobilenet_parts import Convolution, InvertedResidual

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
    options: registry.Options = registry.PUBLISHED,
) -> registry.EndPoints:
    """Return the feature maps of MobileNet V2.

    Args:
        images: float32 [batch, height, width, channels], in [-1, 1].
        style: of all layers, but for the activation.
        options: those of `mobilenet_parts.mobilenet_features` count, and `last_channels`.

    Returns:
        End points by name, `layer_1` to `layer_19`, as `mobilenet_parts.mobilenet_features` does.
    """
    (last_channels,) = options.last_channels or (LAST_CHANNELS,)
    return mobilenet_parts.mobilenet_features(images, _layers(last_channels), style, options, SCOPE)


def mobilenet_v2(
    images: tf.Tensor, num_classes: int, style: layers.LayerStyle, options: registry.Options
) -> registry.EndPoints:
    """Return the classifier.

    A factor below 1 leaves the last layer's 1280 channels (section 6.1 of the paper).

    Args:
        images: float32 [batch, height, width, channels], in [-1, 1].
        num_classes: how many logits.
        style: of all layers, but for the activation.
        options: factors and rounding of channels, `output_stride`, `padding` and dropout count.

    Returns:
        The feature maps, `global_pool`, `Logits` and `Predictions` by name.
    """
    # Divided, because the factor multiplies it again: slim's finegrain_classification_mode.
    last_channels = (LAST_CHANNELS / min(1.0, options.depth_multiplier),)
    end_points = mobilenet_v2_features(images, style, options.but(last_channels=last_channels))
    mobilenet_parts.add_logits(
        end_points,
        end_points[LAST_END_POINT],
        num_classes,
        style,
        options.get('dropout_keep_prob', 0.8),
        scope=SCOPE,
    )
    return end_points


def _layers(last_channels: float = LAST_CHANNELS) -> Tuple[mobilenet_parts.Layer, ...]:
    blocks = [
        InvertedResidual(
            expansion, channels, stride=stride if index == 0 else 1, activation=tf.nn.relu6
        )
        for expansion, channels, count, stride in _BLOCKS
        for index in range(count)
    ]
    first = Convolution(32, kernel_size=3, stride=2, activation=tf.nn.relu6)
    last = Convolution(last_channels, kernel_size=1, stride=1, activation=tf.nn.relu6)
    return (first, *blocks, last)


def _register(
    name: str, depth_multiplier: float, segmentation: Optional[registry.Segmentation] = None
) -> None:
    registry.add(
        registry.Network(
            name=name,
            scope=SCOPE,
            features=registry.scaled(mobilenet_v2_features, depth_multiplier),
            style=mobilenet_parts.mobilenet_style,
            detection_style=mobilenet_parts.detection_style,
            feature_maps=mobilenet_parts.feature_maps(_layers()),
            honors=mobilenet_parts.HONORS,
            segmentation=segmentation,
            build=registry.scaled(mobilenet_v2, depth_multiplier),
            logits_scopes=(f'{SCOPE}/Logits',),
            keras_layers=mobilenet_parts.keras_layers(_layers()),
        )
    )


_register(
    'mobilenet_v2',
    1.0,
    # DeepLab leaves the last layer out.
    mobilenet_parts.segmentation(_layers(), final_endpoint='layer_18'),
)
_register('mobilenet_v2_140', 1.4)
_register('mobilenet_v2_035', 0.35)
