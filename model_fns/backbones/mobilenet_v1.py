"""MobileNet V1 (Howard et al. 2017): depthwise separable convolutions throughout."""

from __future__ import annotations

import functools
from typing import Dict, Optional

import tensorflow as tf

from model_fns import layers
from model_fns.backbones import output_strides, registry

tf1 = tf.compat.v1

SCOPE = 'MobilenetV1'
LAST_END_POINT = 'Conv2d_13_pointwise'

# Output channels and stride: one full convolution, then thirteen separable ones.
_LAYERS = (
    (32, 2),
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    (512, 1),
    (512, 1),
    (512, 1),
    (512, 1),
    (512, 1),
    (1024, 2),
    (1024, 1),
)


def mobilenet_v1_style(is_training: bool, options: registry.Options) -> layers.LayerStyle:
    """The style as published: ReLU6, and no penalty on depthwise weights."""
    return layers.LayerStyle(
        is_training=is_training,
        initializer=layers.truncated_normal(0.09),
        penalty=layers.l2(options.get('weight_decay', 4e-5)),
        activation=tf.nn.relu6,
        batch_norm=layers.BatchNorm(
            decay=options.get('batch_norm_decay', 0.9997),
            epsilon=options.get('batch_norm_epsilon', 0.001),
            scale=True,
        ),
    )


def mobilenet_v1_features(
    images: tf.Tensor,
    style: layers.LayerStyle,
    *,
    depth_multiplier: float = 1.0,
    min_depth: int = 8,
    output_stride: Optional[int] = None,
    final_endpoint: str = LAST_END_POINT,
    padding: layers.Padding = 'SAME',
    scope: str = SCOPE,
) -> Dict[str, tf.Tensor]:
    """The feature maps of MobileNet V1.

    Args:
        images: float32 [batch, height, width, channels], in [-1, 1].
        style: of all layers.
        depth_multiplier: factor on all channel counts.
        min_depth: least channel count that the factor leaves.
        output_stride: 1, 2, 4, 8, 16 or 32: from there on convolutions are atrous instead of
            strided; None: 32.
        final_endpoint: where to stop.
        padding: `SAME`, or `FIXED` (what the published network calls explicit padding).
        scope: variable scope of the network.

    Returns:
        Float32 [batch, height', width', channels'] by name, from the image on: `Conv2d_0`, then
        `Conv2d_<i>_depthwise` and `Conv2d_<i>_pointwise` for i from 1 to 13.

    Raises:
        ValueError: there is no such final end point.
    """
    steps = output_strides.atrous_strides([stride for _, stride in _LAYERS], output_stride)
    end_points: Dict[str, tf.Tensor] = {}
    outputs = images
    with tf1.variable_scope(scope):
        for index, ((channels, _), (stride, rate)) in enumerate(zip(_LAYERS, steps)):
            channels = max(int(channels * depth_multiplier), min_depth)
            name = f'Conv2d_{index}'
            if index == 0:
                layer = functools.partial(
                    layers.conv2d, num_outputs=channels, kernel_size=3, stride=stride
                )
                parts = {name: layer}
            else:
                parts = {
                    f'{name}_depthwise': functools.partial(
                        layers.depthwise_conv2d, kernel_size=3, stride=stride, rate=rate
                    ),
                    f'{name}_pointwise': functools.partial(
                        layers.conv2d, num_outputs=channels, kernel_size=1
                    ),
                }
            for part, layer in parts.items():
                outputs = layer(outputs, style=style, scope=part, padding=padding)
                end_points[part] = outputs
                if part == final_endpoint:
                    return end_points
    raise ValueError(f'MobileNet V1 has no end point {final_endpoint!r}.')


def mobilenet_v1(
    images: tf.Tensor,
    num_classes: int,
    style: layers.LayerStyle,
    options: registry.Options,
    depth_multiplier: float = 1.0,
) -> registry.EndPoints:
    """The classifier: mean over the image, dropout, a linear layer.

    Args:
        images: float32 [batch, height, width, channels], in [-1, 1].
        num_classes: how many logits.
        style: of all layers.
        options: see `registry.Options`.
        depth_multiplier: the network's own factor, which that of the options multiplies.

    Returns:
        The feature maps, `AvgPool_1a`, `Logits` and `Predictions` by name.
    """
    end_points = mobilenet_v1_features(
        images,
        style,
        depth_multiplier=depth_multiplier * options.depth_multiplier,
        min_depth=int(options.get('min_depth', 8)),
        output_stride=options.output_stride,
    )
    with tf1.variable_scope(f'{SCOPE}/Logits'):
        pooled = tf.reduce_mean(end_points[LAST_END_POINT], [1, 2], keepdims=True)
        keep_prob = options.get('dropout_keep_prob', 0.999)
        dropped = layers.dropout(pooled, keep_prob, style.is_training, 'Dropout_1b')
        logits = layers.conv2d(dropped, num_classes, 1, style.linear(), 'Conv2d_1c_1x1')
        logits = tf.squeeze(logits, [1, 2])
    end_points['AvgPool_1a'] = pooled
    end_points[registry.LOGITS] = logits
    end_points['Predictions'] = tf.nn.softmax(logits)
    return end_points


def _register(name: str, depth_multiplier: float) -> None:
    registry.NETWORKS.add(
        name,
        registry.Network(
            name=name,
            build=functools.partial(mobilenet_v1, depth_multiplier=depth_multiplier),
            style=mobilenet_v1_style,
            scope=SCOPE,
            logits_scopes=(f'{SCOPE}/Logits',),
            image_size=224,
            honours=(
                'depth_multiplier',
                'min_depth',
                'output_stride',
                'dropout_keep_prob',
                'weight_decay',
                'batch_norm_decay',
                'batch_norm_epsilon',
            ),
        ),
    )


_register('mobilenet_v1', 1.0)
_register('mobilenet_v1_075', 0.75)
_register('mobilenet_v1_050', 0.5)
_register('mobilenet_v1_025', 0.25)
