"""ResNet V1 (He et al. 2015): residual units that normalize and activate after convolutions.

The strides are those of the published checkpoints: in the last unit of a block, not in the first,
unless that is asked for.
The `_beta` variants of DeepLab begin with three 3x3 convolutions instead of one of 7x7.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Dict, Tuple

import tensorflow as tf

from model_fns import layers
from model_fns.backbones import registry, resnet_blocks

tf1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class Architecture:
    """Description of one ResNet V1.

    Attributes:
        scope: its variable scope; the `_beta` variants have that of the plain network.
        units: residual units in each block.
        beta: whether the root is three 3x3 convolutions.
        lite: whether a unit is two 3x3 convolutions instead of a bottleneck.
    """

    scope: str
    units: Tuple[int, ...]
    beta: bool = False
    lite: bool = False


# Residual units in each block.
_UNITS = {
    18: (2, 2, 2, 2),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
    200: (3, 24, 36, 3),
}

# Mean colors that DeepLab's models are published with.
# They are `_MEAN_RGB` of its feature_extractor.py, neither VGG's nor those of `registry`.
_DEEPLAB_MEANS = (123.15, 115.90, 103.06)
_OF_DEEPLAB = tuple(f'resnet_v1_{size}{end}' for size in (18, 50, 101) for end in ('', '_beta'))

ARCHITECTURES: Dict[str, Architecture] = {
    # DeepLab's checkpoints of `_beta` have the scope of the plain network.
    f'resnet_v1_{size}{suffix}': Architecture(
        f'resnet_v1_{size}', units, beta=bool(suffix), lite=size == 18
    )
    for size, units in _UNITS.items()
    for suffix in ('', '_beta')
}


def bottleneck_v1(
    inputs: tf.Tensor, unit: resnet_blocks.Unit, style: layers.LayerStyle
) -> Tuple[tf.Tensor, registry.EndPoints]:
    """Build 1x1, 3x3 and 1x1 convolutions, and add the input or a projection of it.

    Returns:
        [batch, height', width', 4 * depth], and the end points within.
    """
    linear = style.but(activation=None)
    shortcut, parts = _shortcut(inputs, 4 * unit.depth, unit, linear)
    # As published, one term of the sum has a range named so: the shortcut where it is projected.
    linear = linear if parts else linear.with_sum_range()
    first, middle = (unit.stride, 1) if unit.strides_first else (1, unit.stride)
    conv1 = layers.conv2d(inputs, unit.depth, 1, style, 'conv1', stride=first)
    conv2 = _conv3x3(conv1, dataclasses.replace(unit, stride=middle), style, 'conv2')
    conv3 = layers.conv2d(conv2, 4 * unit.depth, 1, linear, 'conv3')
    parts.update(conv1=conv1, conv2=conv2, conv3=conv3)
    return _sum(shortcut, conv3, unit, style), parts


def lite_bottleneck_v1(
    inputs: tf.Tensor, unit: resnet_blocks.Unit, style: layers.LayerStyle
) -> Tuple[tf.Tensor, registry.EndPoints]:
    """Build two 3x3 convolutions, and add the input or a projection of it.

    Returns:
        [batch, height', width', depth], and the end points within.
    """
    linear = style.but(activation=None)
    shortcut, parts = _shortcut(inputs, unit.depth, unit, linear)
    linear = linear if parts else linear.with_sum_range()
    first, last = (unit.stride, 1) if unit.strides_first else (1, unit.stride)
    conv1 = _conv3x3(inputs, dataclasses.replace(unit, stride=first), style, 'conv1')
    conv2 = _conv3x3(conv1, dataclasses.replace(unit, stride=last), linear, 'conv2')
    parts.update(conv1=conv1, conv2=conv2)
    return _sum(shortcut, conv2, unit, style), parts


def resnet_v1_features(
    images: tf.Tensor,
    style: layers.LayerStyle,
    options: registry.Options,
    name: str,
) -> registry.EndPoints:
    """Return the feature maps of a ResNet V1.

    Args:
        images: float32 [batch, height, width, channels], in [0, 255] less the channels' means; the
            `_beta` variants take [-1, 1].
        style: of all layers.
        options: those of `resnet_blocks.HONORS`, `subsample_after`, `strides_first`,
            `sum_activation`, `bounded`, `pool_padding` and `final_endpoint` (of a block) count. The
            factor on channels is that of the blocks, not of the root.
        name: one of `ARCHITECTURES`.

    Returns:
        float32 [batch, height', width', channels'] by name: `<scope>/conv1` (beta: `conv1_1` to
        `conv1_3`), `<scope>/block<i>` and, within, `/unit_<k>/bottleneck_v1` and its `/shortcut`,
        `/conv1`, `/conv2`, `/conv3`, where the scope is the architecture's.
    """
    architecture = ARCHITECTURES[name]
    style = style.but(activation=tf.nn.relu6) if options.bounded else style
    blocks = resnet_blocks.make_blocks(architecture.units, options)
    final_endpoint = options.final_endpoint
    if final_endpoint is not None:
        names = [f'{architecture.scope}/{block.name}' for block in blocks]
        blocks = blocks[: names.index(final_endpoint) + 1]
    with tf1.variable_scope(architecture.scope):
        end_points = _root(images, architecture, style)
        # The last root convolution: there are one or three.
        pooled = resnet_blocks.pool_root(list(end_points.values())[-1], options.pool_padding)
        end_points.update(
            resnet_blocks.stack_blocks(
                pooled,
                blocks,
                lite_bottleneck_v1 if architecture.lite else bottleneck_v1,
                style,
                architecture.scope,
                options,
            )
        )
    return end_points


def resnet_v1_block4(
    inputs: tf.Tensor,
    style: layers.LayerStyle,
    options: registry.Options,
    name: str,
) -> tf.Tensor:
    """Build the last block alone: the second stage of a two-stage detector, on its crops.

    Args:
        inputs: float32 [batch, height, width, channels].
        style: of all layers.
        options: the factor on channels, `min_depth`, `multi_grid`, `strides_first` (then its output
            has half the size) and `sum_activation` count.
        name: one of `ARCHITECTURES`.

    Returns:
        float32 [batch, height, width, channels']. The variables have the names that they have in
        the whole network.
    """
    architecture = ARCHITECTURES[name]
    scope = architecture.scope
    block = resnet_blocks.make_blocks(architecture.units, options)[-1]
    unit = lite_bottleneck_v1 if architecture.lite else bottleneck_v1
    with tf1.variable_scope(scope):
        end_points = resnet_blocks.stack_blocks(inputs, [block], unit, style, scope, options)
    return end_points[f'{scope}/{block.name}']


def resnet_v1(
    images: tf.Tensor,
    num_classes: int,
    style: layers.LayerStyle,
    options: registry.Options,
    name: str,
) -> registry.EndPoints:
    """Return the classifier.

    Args:
        images: float32 [batch, height, width, channels], in [0, 255] less the channels' means.
        num_classes: how many logits.
        style: of all layers.
        options: those of `resnet_blocks.HONORS`, `subsample_after`, `strides_first`,
            `sum_activation`, `bounded` and `pool_padding` count.
        name: one of `ARCHITECTURES`.

    Returns:
        The feature maps and what `resnet_blocks.classify` returns, by name.
    """
    scope = ARCHITECTURES[name].scope
    end_points = resnet_v1_features(images, style, options, name)
    with tf1.variable_scope(scope):
        last = end_points[f'{scope}/block4']
        end_points.update(resnet_blocks.classify(last, num_classes, style, scope))
    return end_points


def _root(
    images: tf.Tensor, architecture: Architecture, style: layers.LayerStyle
) -> registry.EndPoints:
    """Build the convolutions before the first pooling, of stride 2 together."""
    sizes = [('conv1', 64, 7, 2)]
    if architecture.beta:
        sizes = [('conv1_1', 64, 3, 2), ('conv1_2', 64, 3, 1), ('conv1_3', 128, 3, 1)]
    end_points: registry.EndPoints = {}
    outputs = images
    for part, depth, kernel, stride in sizes:
        outputs = layers.conv2d(outputs, depth, kernel, style, part, stride=stride, padding='FIXED')
        end_points[f'{architecture.scope}/{part}'] = outputs
    return end_points


def _shortcut(
    inputs: tf.Tensor, depth: int, unit: resnet_blocks.Unit, linear: layers.LayerStyle
) -> Tuple[tf.Tensor, registry.EndPoints]:
    if inputs.shape[-1] == depth:
        # No projection where only the size changes: slim's units compare channels, not strides.
        return resnet_blocks.subsample(inputs, unit.stride), {}
    style = linear.but(activation=tf.nn.relu6) if unit.bounded else linear
    style = style.with_sum_range()
    shortcut = layers.conv2d(inputs, depth, 1, style, 'shortcut', stride=unit.stride)
    return shortcut, {'shortcut': shortcut}


def _sum(
    shortcut: tf.Tensor,
    residual: tf.Tensor,
    unit: resnet_blocks.Unit,
    style: layers.LayerStyle,
) -> tf.Tensor:
    # DeepLab's use_bounded_activations: both terms of the sum stay in [-6, 6], so that one
    # quantized range fits them.
    if unit.bounded:
        residual = tf.clip_by_value(residual, -6.0, 6.0)
    return layers.add(shortcut, residual, style, tf.nn.relu6 if unit.bounded else unit.activation)


def _conv3x3(
    inputs: tf.Tensor, unit: resnet_blocks.Unit, style: layers.LayerStyle, scope: str
) -> tf.Tensor:
    # slim's conv2d_same: SAME shifts a strided kernel by a pixel at even sizes.
    return layers.conv2d(
        inputs, unit.depth, 3, style, scope, stride=unit.stride, rate=unit.rate, padding='FIXED'
    )


def _segmentation(name: str) -> registry.Segmentation:
    """Describe a network for DeepLab: other batch norm and, except for `_beta`, other means."""
    architecture = ARCHITECTURES[name]
    scope = architecture.scope
    tap = 'lite_bottleneck_v1/conv2' if architecture.lite else 'bottleneck_v1/conv3'
    subtracts = not architecture.beta
    padding = {'mean_pixel': _DEEPLAB_MEANS} if subtracts and not architecture.lite else {}
    return registry.Segmentation(
        last_end_point=f'{scope}/block4',
        # The last unit of a block strides: the one before it is the last at that stride.
        decoder_taps={
            2: f'{scope}/conv1_3' if architecture.beta else f'{scope}/conv1',
            **{
                4 * 2**index: f'{scope}/block{index + 1}/unit_{units - 1}/{tap}'
                for index, units in enumerate(architecture.units[:3])
            },
        },
        honors=resnet_blocks.HONORS,
        options=registry.Options(
            output_stride=16, weight_decay=1e-4, batch_norm_decay=0.95, batch_norm_epsilon=1e-5
        ),
        normalization=registry.Normalization(_DEEPLAB_MEANS if subtracts else None),
        # The ResNet 18 subtracts the means too, but is published with padding in mid gray.
        **padding,
    )


def _keras_layers(architecture: Architecture) -> Tuple[str, ...]:
    """Return the scopes of the layers in the order of Keras.

    Keras sorts layers by their distance from the output: a shortcut's projection, which has one
    convolution and one batch norm, stands beside the last ones of its unit.
    """
    # Keras has no such networks, so no checkpoint is numbered in its order.
    if architecture.lite or architecture.beta:
        return ()
    scopes = ['conv1', 'conv1/BatchNorm']
    for block in resnet_blocks.make_blocks(architecture.units):
        for index in range(len(block.rates)):
            unit = f'{block.name}/unit_{index + 1}/{bottleneck_v1.__name__}'
            scopes += [f'{unit}/conv{n}{part}' for n in (1, 2) for part in ('', '/BatchNorm')]
            last = ('shortcut', 'conv3') if index == 0 else ('conv3',)
            scopes += [f'{unit}/{name}{part}' for part in ('', '/BatchNorm') for name in last]
    return tuple(scopes)


def _register(name: str) -> None:
    architecture = ARCHITECTURES[name]
    scope = architecture.scope
    normalization = registry.Normalization() if architecture.beta else registry.IMAGENET_MEANS
    classifier = {}
    if not architecture.lite and not architecture.beta:
        classifier = {
            'honors': resnet_blocks.HONORS,
            'build': functools.partial(resnet_v1, name=name),
            'logits_scopes': (f'{scope}/logits',),
            'preprocessing': 'vgg',
        }
    registry.add(
        registry.Network(
            name=name,
            scope=scope,
            features=functools.partial(resnet_v1_features, name=name),
            style=resnet_blocks.resnet_style,
            feature_maps=resnet_blocks.feature_maps(scope),
            normalization=normalization,
            keras_layers=_keras_layers(architecture),
            second_stage=functools.partial(resnet_v1_block4, options=registry.PUBLISHED, name=name),
            segmentation=_segmentation(name) if name in _OF_DEEPLAB else None,
            **classifier,
        )
    )


for _name in ARCHITECTURES:
    _register(_name)
