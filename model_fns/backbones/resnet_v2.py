"""ResNet V2 (He et al. 2016): residual units that normalize and activate before convolutions.

The sum of a unit is passed on as it is; one more normalization follows the last unit.
"""

from __future__ import annotations

import functools
from typing import Dict, Sequence, Tuple

import tensorflow as tf

from model_fns import layers
from model_fns.backbones import registry, resnet_blocks

tf1 = tf.compat.v1

# Residual units in each block.
ARCHITECTURES: Dict[str, Tuple[int, ...]] = {
    'resnet_v2_50': (3, 4, 6, 3),
    'resnet_v2_101': (3, 4, 23, 3),
    'resnet_v2_152': (3, 8, 36, 3),
    'resnet_v2_200': (3, 24, 36, 3),
}


def bottleneck_v2(
    inputs: tf.Tensor, unit: resnet_blocks.Unit, style: layers.LayerStyle
) -> Tuple[tf.Tensor, registry.EndPoints]:
    """Build 1x1, 3x3 and 1x1 convolutions of the normalized input, and add them to the input.

    Where the channels change, what is added is a projection of the normalized input.

    Returns:
        [batch, height', width', 4 * depth], and the end points within.
    """
    depth = 4 * unit.depth
    preact = _normalize(inputs, style, 'preact')
    parts: registry.EndPoints = {}
    if inputs.shape[-1] == depth:
        shortcut = resnet_blocks.subsample(inputs, unit.stride)
    else:
        # Of the normalized input, with biases and no batch norm: as published, unlike in V1.
        shortcut = layers.conv2d(preact, depth, 1, style.linear(), 'shortcut', stride=unit.stride)
        parts['shortcut'] = shortcut
    conv1 = layers.conv2d(preact, unit.depth, 1, style, 'conv1')
    conv2 = layers.conv2d(
        conv1, unit.depth, 3, style, 'conv2', stride=unit.stride, rate=unit.rate, padding='FIXED'
    )
    conv3 = layers.conv2d(conv2, depth, 1, style.linear(), 'conv3')
    parts.update(conv1=conv1, conv2=conv2, conv3=conv3)
    return layers.add(shortcut, conv3, style), parts


def basic_v2(
    inputs: tf.Tensor, unit: resnet_blocks.Unit, style: layers.LayerStyle
) -> Tuple[tf.Tensor, registry.EndPoints]:
    """Build two 3x3 convolutions of the normalized input, and add them to the input.

    As published the first unit of a block adds a projection of the normalized input, whether the
    channels change or not, and the second convolution is activated before the sum.

    Returns:
        [batch, height', width', depth], and the end points within.
    """
    preact = _normalize(inputs, style, 'preact')
    parts: registry.EndPoints = {}
    if unit.is_first:
        shortcut = layers.conv2d(
            preact, unit.depth, 1, style.linear(), 'shortcut', stride=unit.stride
        )
        parts['shortcut'] = shortcut
    else:
        shortcut = resnet_blocks.subsample(inputs, unit.stride)
    conv1 = layers.conv2d(preact, unit.depth, 3, style, 'conv1')
    conv2 = layers.conv2d(conv1, unit.depth, 3, style, 'conv2', stride=unit.stride, padding='FIXED')
    parts.update(conv1=conv1, conv2=conv2)
    return layers.add(shortcut, conv2, style), parts


def basic_features(
    images: tf.Tensor, units: Sequence[int], style: layers.LayerStyle, scope: str
) -> registry.EndPoints:
    """Return the feature maps of a small network of `basic_v2`: ResNet 18 and 34 of CenterNet.

    The first block does not stride, and each of the others in its last unit. Like the networks of
    Keras it pools with a border of zeros.

    Args:
        images: float32 [batch, height, width, channels], normalized.
        units: how many each of the four blocks has.
        style: of all layers.
        scope: the variable scope.

    Returns:
        See `resnet_v2_features`; a block's stride is 4, 8, 16, 32.
    """
    blocks = [
        resnet_blocks.Block(f'block{index + 1}', 64 * 2**index, (1,) * count, 2 if index else 1)
        for index, count in enumerate(units)
    ]
    with tf1.variable_scope(scope):
        conv1 = layers.conv2d(images, 64, 7, style.linear(), 'conv1', stride=2, padding='FIXED')
        pooled = resnet_blocks.pool_root(conv1, 'FIXED')
        points = resnet_blocks.stack_blocks(pooled, blocks, basic_v2, style, scope)
    return {f'{scope}/conv1': conv1, **points}


def postnorm(features: tf.Tensor, style: layers.LayerStyle) -> tf.Tensor:
    """Return the last block's sum, normalized and activated, in the current variable scope.

    Returns:
        [batch, height, width, channels].
    """
    return _normalize(features, style, 'postnorm')


def resnet_v2_features(
    images: tf.Tensor, style: layers.LayerStyle, options: registry.Options, name: str
) -> registry.EndPoints:
    """Return the feature maps of a ResNet V2.

    Args:
        images: float32 [batch, height, width, channels], in [0, 255] less the channels' means.
        style: of all layers.
        options: those of `resnet_blocks.HONORS`, `subsample_after` and `pool_padding` count. The
            factor on channels is that of the blocks, not of the root.
        name: one of `ARCHITECTURES`, which is the variable scope too.

    Returns:
        float32 [batch, height', width', channels'] by name: `<name>/conv1`, `<name>/block<i>` and,
        within, `/unit_<k>/bottleneck_v2` and its `/shortcut`, `/conv1`, `/conv2`, `/conv3`. Block
        outputs are sums, neither normalized nor activated.
    """
    blocks = resnet_blocks.make_blocks(ARCHITECTURES[name], options)
    with tf1.variable_scope(name):
        # The first unit normalizes the root's output.
        conv1 = layers.conv2d(images, 64, 7, style.linear(), 'conv1', stride=2, padding='FIXED')
        pooled = resnet_blocks.pool_root(conv1, options.pool_padding)
        end_points = {f'{name}/conv1': conv1}
        end_points.update(
            resnet_blocks.stack_blocks(
                pooled,
                blocks,
                bottleneck_v2,
                style,
                name,
                options,
            )
        )
    return end_points


def keras_layers(units: Sequence[int]) -> Tuple[str, ...]:
    """Return the scopes of the layers in the order of Keras, by the units of each block.

    Keras sorts layers by their distance from the output: a projection stands before the last
    convolution of its unit.
    """
    return _keras_layers(units, bottleneck_v2.__name__, ('shortcut', 'conv3'))


def basic_keras_layers(units: Sequence[int]) -> Tuple[str, ...]:
    """Return `keras_layers` of `basic_features`: a projection is the last layer of its unit."""
    return _keras_layers(units, basic_v2.__name__, ('shortcut',))


def _keras_layers(units: Sequence[int], unit_name: str, last: Tuple[str, ...]) -> Tuple[str, ...]:
    scopes = ['conv1']
    for block, count in enumerate(units, start=1):
        for index in range(1, count + 1):
            unit = f'block{block}/unit_{index}/{unit_name}'
            scopes.append(f'{unit}/preact')
            scopes += [f'{unit}/conv{n}{part}' for n in (1, 2) for part in ('', '/BatchNorm')]
            scopes += [f'{unit}/{name}' for name in last if index == 1 or name != 'shortcut']
    return (*scopes, 'postnorm')


def resnet_v2(
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
        options: those of `resnet_blocks.HONORS` and `subsample_after` count.
        name: one of `ARCHITECTURES`.

    Returns:
        The feature maps and what `resnet_blocks.classify` returns, by name.
    """
    end_points = resnet_v2_features(images, style, options, name)
    with tf1.variable_scope(name):
        last = postnorm(end_points[f'{name}/block4'], style)
        end_points.update(resnet_blocks.classify(last, num_classes, style, name))
    return end_points


def _normalize(inputs: tf.Tensor, style: layers.LayerStyle, scope: str) -> tf.Tensor:
    return tf.nn.relu(layers.batch_norm(inputs, style.batch_norm, style.is_training, scope))


def _segmentation_features(
    images: tf.Tensor, style: layers.LayerStyle, options: registry.Options, name: str
) -> registry.EndPoints:
    """Return the feature maps, and the last of them normalized and activated: `postnorm`."""
    end_points = resnet_v2_features(images, style, options, name)
    with tf1.variable_scope(name):
        end_points[f'{name}/postnorm'] = postnorm(end_points[f'{name}/block4'], style)
    return end_points


def _segmentation(name: str) -> registry.Segmentation:
    """Describe a network for DeepLab: normalization is that of the classifier.

    A decoder refines with sums of units, as detectors do, and with the root at stride 2.
    """
    return registry.Segmentation(
        last_end_point=f'{name}/postnorm',
        decoder_taps={
            2: f'{name}/conv1',
            # The last unit of a block strides: the one before it is the last at that stride.
            **{
                4 * 2**index: f'{name}/block{index + 1}/unit_{units - 1}/{bottleneck_v2.__name__}'
                for index, units in enumerate(ARCHITECTURES[name][:3])
            },
        },
        honors=resnet_blocks.HONORS,
        options=registry.Options(output_stride=16, weight_decay=1e-4),
        normalization=registry.IMAGENET_MEANS,
        mean_pixel=registry.IMAGENET_MEANS.means,
        features=functools.partial(_segmentation_features, name=name),
    )


def _register(name: str) -> None:
    registry.add(
        registry.Network(
            name=name,
            scope=name,
            features=functools.partial(resnet_v2_features, name=name),
            style=resnet_blocks.resnet_style,
            feature_maps=resnet_blocks.feature_maps(name),
            normalization=registry.IMAGENET_MEANS,
            honors=resnet_blocks.HONORS,
            build=functools.partial(resnet_v2, name=name),
            logits_scopes=(f'{name}/logits',),
            preprocessing='vgg',
            keras_layers=keras_layers(ARCHITECTURES[name]),
            segmentation=_segmentation(name),
        )
    )


for _name in ARCHITECTURES:
    _register(_name)
