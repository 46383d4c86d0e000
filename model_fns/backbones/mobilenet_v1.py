"""MobileNet V1 (Howard et al. 2017): depthwise separable convolutions throughout."""

from __future__ import annotations

import functools
from typing import Callable, Iterator, Sequence, Tuple

import tensorflow as tf

from model_fns import layers
from model_fns.backbones import mobilenet_parts, output_strides, registry

tf1 = tf.compat.v1

SCOPE = 'MobilenetV1'
LAST_END_POINT = 'Conv2d_13_pointwise'
_LAST_CHANNELS = (1024, 1024)

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
    """Return the style as published: ReLU6, and depthwise weights are not regularized."""
    return layers.LayerStyle(
        is_training=is_training,
        initializer=layers.truncated_normal(0.09),
        regularizer=layers.l2(options.get('weight_decay', 4e-5)),
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
    options: registry.Options = registry.PUBLISHED,
) -> registry.EndPoints:
    """Return the feature maps of MobileNet V1.

    Args:
        images: float32 [batch, height, width, channels], in [-1, 1].
        style: of all layers.
        options: factors of channels, `output_stride`, `padding` (`FIXED` is what the published
            network calls explicit padding), `last_channels` (of the last two pairs) and
            `final_endpoint` count.

    Returns:
        Float32 [batch, height', width', channels'] by name, from the image on: `Conv2d_0`, then
        `Conv2d_<i>_depthwise` and `Conv2d_<i>_pointwise` for i from 1 to 13.

    Raises:
        ValueError: there is no such final end point.
    """
    last_channels = options.last_channels or _LAST_CHANNELS
    channels = [*(channels for channels, _ in _LAYERS[:-2]), *last_channels]
    least = int(options.get('min_depth', 8))
    # Cut to integers, not to multiples of 8 as in V2: published variables have these shapes.
    channels = [max(int(count * options.depth_multiplier), least) for count in channels]
    strides = [stride for _, stride in _LAYERS]
    steps = output_strides.atrous_strides(strides, options.output_stride)
    final_endpoint = options.final_endpoint or LAST_END_POINT
    end_points: registry.EndPoints = {}
    with tf1.variable_scope(SCOPE):
        # As published, where ops of the trunk are in a scope of that name twice.
        style = style.ranges_below(SCOPE)
        for name, layer in _named_layers(channels, steps):
            images = layer(images, style=style, scope=name, padding=options.padding)
            end_points[name] = images
            if name == final_endpoint:
                return end_points
    raise ValueError(f'MobileNet V1 has no end point {final_endpoint!r}.')


def mobilenet_v1(
    images: tf.Tensor, num_classes: int, style: layers.LayerStyle, options: registry.Options
) -> registry.EndPoints:
    """Return the classifier: mean over the image, dropout, a linear layer.

    Args:
        images: float32 [batch, height, width, channels], in [-1, 1].
        num_classes: how many logits.
        style: of all layers.
        options: factors and rounding of channels, `output_stride`, `padding` and dropout count.

    Returns:
        The feature maps, `AvgPool_1a`, `Logits` and `Predictions` by name.
    """
    end_points = mobilenet_v1_features(images, style, options)
    mobilenet_parts.add_logits(
        end_points,
        end_points[LAST_END_POINT],
        num_classes,
        style,
        # slim's default: MobileNet V1 overfits little (section 3.2 of the paper).
        options.get('dropout_keep_prob', 0.999),
        scope=SCOPE,
        pool_name='AvgPool_1a',
    )
    return end_points


def mobilenet_v1_second_stage(
    inputs: tf.Tensor, style: layers.LayerStyle, depth_multiplier: float = 1.0
) -> tf.Tensor:
    """Build the last two pairs alone: the second stage of a two-stage detector, on its crops.

    As published they are separable convolutions in one layer each, with nothing between the
    depthwise and the pointwise part, so their variables are not those of the whole network.

    Args:
        inputs: [batch, height, width, channels].
        style: of all layers.
        depth_multiplier: factor on the channels.
    """
    with tf1.variable_scope(SCOPE):
        for index, (channels, stride) in enumerate(_LAYERS[-2:], start=12):
            count, scope = max(int(channels * depth_multiplier), 8), f'Conv2d_{index}_pointwise'
            inputs = layers.separable_conv2d(inputs, count, 3, style, scope, stride=stride)
    return inputs


def _named_layers(
    channels: Sequence[int], steps: Sequence[Tuple[int, int]]
) -> Iterator[Tuple[str, Callable[..., tf.Tensor]]]:
    """End point and layer, from the image on; a layer awaits input, style, scope and padding."""
    convolution = functools.partial(layers.conv2d, num_outputs=channels[0], kernel_size=3)
    # Without a rate: the output stride is at least that of this layer.
    yield 'Conv2d_0', functools.partial(convolution, stride=steps[0][0])
    for index, (count, (stride, rate)) in enumerate(zip(channels[1:], steps[1:]), start=1):
        yield (
            f'Conv2d_{index}_depthwise',
            functools.partial(layers.depthwise_conv2d, kernel_size=3, stride=stride, rate=rate),
        )
        yield (
            f'Conv2d_{index}_pointwise',
            functools.partial(layers.conv2d, num_outputs=count, kernel_size=1),
        )


def _detection_style(is_training: bool, options: registry.Options) -> layers.LayerStyle:
    """Return the style for detection, which is published with regularized depthwise weights."""
    return mobilenet_v1_style(is_training, options).but(regularize_depthwise=True)


def _keras_layers() -> Tuple[str, ...]:
    """Return the scopes of the layers in Keras' order, each followed by its batch norm."""
    steps = [(1, 1)] * len(_LAYERS)
    names = [name for name, _ in _named_layers([1] * len(_LAYERS), steps)]
    return tuple(f'{name}{part}' for name in names for part in ('', '/BatchNorm'))


def _register(name: str, depth_multiplier: float) -> None:
    registry.add(
        registry.Network(
            name=name,
            scope=SCOPE,
            features=registry.scaled(mobilenet_v1_features, depth_multiplier),
            style=mobilenet_v1_style,
            detection_style=_detection_style,
            feature_maps={
                2: 'Conv2d_1_pointwise',
                4: 'Conv2d_3_pointwise',
                8: 'Conv2d_5_pointwise',
                16: 'Conv2d_11_pointwise',
                32: LAST_END_POINT,
            },
            honors=mobilenet_parts.HONORS,
            second_stage=functools.partial(
                mobilenet_v1_second_stage, depth_multiplier=depth_multiplier
            ),
            build=registry.scaled(mobilenet_v1, depth_multiplier),
            logits_scopes=(f'{SCOPE}/Logits',),
            keras_layers=_keras_layers(),
        )
    )


_register('mobilenet_v1', 1.0)
_register('mobilenet_v1_075', 0.75)
_register('mobilenet_v1_050', 0.5)
_register('mobilenet_v1_025', 0.25)
