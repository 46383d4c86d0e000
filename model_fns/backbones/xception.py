"""Xception (Chollet 2017) as DeepLab widens it (Chen et al. 2018, section 3.3).

Modules of three separable convolutions, with batch norm after both halves of each, in three flows.
Pooling is replaced by strides: in the last separable convolution of a module and its shortcut.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Dict, Mapping, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib import errors
from model_fns import layers
from model_fns.backbones import output_strides, registry

tf1 = tf.compat.v1

# Options that these networks use.
HONORS = (
    'output_stride',
    'multi_grid',
    'dropout_keep_prob',
    'weight_decay',
    'batch_norm_decay',
    'batch_norm_epsilon',
)

_ROOT_STRIDE = 2
_BOUND = 6.0


@dataclasses.dataclass(frozen=True)
class Block:
    """A sequence of modules of one shape.

    Attributes:
        scope: its scope, flow included.
        depths: output channels of the three separable convolutions.
        skip: what is added to their output: `convolution` (of the input), `input` or `nothing`.
        units: how many modules.
        stride: of its last module.
        active: whether ReLU follows both halves of a separable convolution; else it precedes the
            whole.
    """

    scope: str
    depths: Tuple[int, int, int]
    skip: str = 'convolution'
    units: int = 1
    stride: int = 1
    active: bool = False


@dataclasses.dataclass(frozen=True)
class _Step:
    """Stride of a module, and the atrous rate of each of its separable convolutions."""

    stride: int
    rates: Tuple[int, ...]


def _blocks(entry: Sequence[Tuple[int, int]], middle_units: int) -> Tuple[Block, ...]:
    """Return the blocks of a network whose entry flow has those (channels, stride)."""
    return (
        *(
            Block(f'entry_flow/block{index + 1}', (depth,) * 3, stride=stride)
            for index, (depth, stride) in enumerate(entry)
        ),
        Block('middle_flow/block1', (728, 728, 728), skip='input', units=middle_units),
        Block('exit_flow/block1', (728, 1024, 1024), stride=2),
        Block('exit_flow/block2', (1536, 1536, 2048), skip='nothing', active=True),
    )


# Of DeepLab's xception.py. Xception 71 has a block without a stride before each of the last two.
_ENTRY = ((128, 2), (256, 2), (728, 2))
_LONG_ENTRY = ((128, 2), (256, 1), (256, 2), (728, 1), (728, 2))

ARCHITECTURES: Dict[str, Tuple[Block, ...]] = {
    'xception_41': _blocks(_ENTRY, 8),
    'xception_65': _blocks(_ENTRY, 16),
    'xception_71': _blocks(_LONG_ENTRY, 16),
}


def xception_style(is_training: bool, options: registry.Options) -> layers.LayerStyle:
    """Return the style as published: depthwise weights are not regularized."""
    return layers.LayerStyle(
        is_training=is_training,
        # All numbers are those of DeepLab's xception_arg_scope.
        initializer=layers.truncated_normal(0.09),
        regularizer=layers.l2(options.get('weight_decay', 4e-5)),
        batch_norm=layers.BatchNorm(
            decay=options.get('batch_norm_decay', 0.9997),
            epsilon=options.get('batch_norm_epsilon', 1e-3),
            scale=True,
        ),
    )


def xception_features(
    images: tf.Tensor, style: layers.LayerStyle, options: registry.Options, name: str
) -> registry.EndPoints:
    """Return the feature maps of an Xception.

    Args:
        images: float32 [batch, height, width, channels], in [-1, 1].
        style: of all layers, but for the activation.
        options: `output_stride`, `multi_grid` (of the last module's three convolutions) and
            `bounded` count: ReLU6 instead of ReLU, and what is added or convolved without an
            activation is cut to [-6, 6], so that all values fit a quantized range.
        name: one of `ARCHITECTURES`; also the variable scope.

    Returns:
        Float32 [batch, height', width', channels'] by name: `<name>/entry_flow/conv1_1` and
        `conv1_2`; `<name>/<flow>/block<i>` and, within, `/unit_<k>/xception_module` and its
        `/separable_conv<j>_depthwise`, `/separable_conv<j>_pointwise` and `/shortcut`.

    Raises:
        errors.ConfigError: the network cannot have that output stride or that multi_grid.
    """
    multi_grid, bounded = options.multi_grid, options.bounded
    if multi_grid and len(multi_grid) != 3:
        raise errors.ConfigError(
            f'multi_grid: got {len(multi_grid)} rates ({", ".join(map(str, multi_grid))}); '
            'expected none, or 3: one for each separable convolution of the last block.'
        )
    style = style.but(activation=tf.nn.relu6 if bounded else tf.nn.relu)
    module = functools.partial(_module, style=style, bounded=bounded)
    with tf1.variable_scope(name):
        end_points = _root(images, style)
        outputs = end_points['entry_flow/conv1_2']
        steps = iter(_steps(ARCHITECTURES[name], options.output_stride, multi_grid))
        for block in ARCHITECTURES[name]:
            for unit in range(block.units):
                scope = f'{block.scope}/unit_{unit + 1}/xception_module'
                with tf1.variable_scope(scope):
                    outputs, parts = module(outputs, block, next(steps))
                end_points.update({f'{scope}/{part}': value for part, value in parts.items()})
                end_points[scope] = outputs
            end_points[block.scope] = outputs
    return {f'{name}/{scope}': value for scope, value in end_points.items()}


def xception(
    images: tf.Tensor,
    num_classes: int,
    style: layers.LayerStyle,
    options: registry.Options,
    name: str,
) -> registry.EndPoints:
    """Return the classifier: the mean over the image, dropout, a linear layer.

    Args:
        images: float32 [batch, height, width, channels], in [-1, 1].
        num_classes: how many logits.
        style: of all layers, but for the activation.
        options: those of `HONORS` and `bounded` count.
        name: one of `ARCHITECTURES`.

    Returns:
        The feature maps, `global_pool`, `<name>/logits` [batch, 1, 1, num_classes],
        `registry.LOGITS` [batch, num_classes] and `predictions` by name.
    """
    end_points = xception_features(images, style, options, name)
    features = end_points[last_end_point(name)]
    with tf1.variable_scope(name):
        pooled = layers.global_mean(features)
        # The rate of Chollet 2017, section 4.3.
        keep_prob = options.get('dropout_keep_prob', 0.5)
        dropped = layers.dropout(pooled, keep_prob, style.is_training, 'prelogits_dropout')
        unsqueezed = layers.conv2d(dropped, num_classes, 1, style.linear(), 'logits')
    logits = tf.squeeze(unsqueezed, [1, 2])
    return {
        **end_points,
        'global_pool': pooled,
        f'{name}/logits': unsqueezed,
        registry.LOGITS: logits,
        'predictions': tf.nn.softmax(logits),
    }


def last_end_point(name: str) -> str:
    """Return the name of the last feature map of that network."""
    return f'{name}/{ARCHITECTURES[name][-1].scope}'


def _root(images: tf.Tensor, style: layers.LayerStyle) -> registry.EndPoints:
    """Build two convolutions, of stride 2 together."""
    with tf1.variable_scope('entry_flow'):
        strided = layers.conv2d(
            images, 32, 3, style, 'conv1_1', stride=_ROOT_STRIDE, padding='FIXED'
        )
        # At stride 1 SAME and FIXED are equal, so the plain one is taken.
        outputs = layers.conv2d(strided, 64, 3, style, 'conv1_2')
    return {'entry_flow/conv1_1': strided, 'entry_flow/conv1_2': outputs}


def _steps(
    blocks: Sequence[Block], output_stride: Optional[int], multi_grid: Tuple[int, ...]
) -> Tuple[_Step, ...]:
    """Compute the stride and the atrous rates of each module of all blocks."""
    if output_stride is not None and output_stride < _ROOT_STRIDE:
        raise errors.ConfigError(
            f'output_stride: got {output_stride}; an Xception has {_ROOT_STRIDE} or more.'
        )
    strides = [_ROOT_STRIDE]
    for block in blocks:
        strides += [1] * (block.units - 1) + [block.stride]
    steps = output_strides.atrous_strides(strides, output_stride)[1:]
    # The grid is of the three convolutions of one module; of a ResNet it is of units.
    factors = [(1, 1, 1)] * (len(steps) - 1) + [multi_grid or (1, 1, 1)]
    return tuple(
        _Step(stride, tuple(rate * factor for factor in each))
        for (stride, rate), each in zip(steps, factors)
    )


def _module(
    inputs: tf.Tensor, block: Block, step: _Step, style: layers.LayerStyle, bounded: bool
) -> Tuple[tf.Tensor, registry.EndPoints]:
    """Build three separable convolutions and the shortcut around them, in the current scope.

    Returns:
        The sum, or the convolutions alone, and the end points by their scope in the module.
    """
    limit = functools.partial(_limit, bounded=bounded)
    inner = style if block.active else style.but(activation=limit)
    parts: registry.EndPoints = {}
    outputs = inputs
    for index, (depth, rate) in enumerate(zip(block.depths, step.rates)):
        scope = f'separable_conv{index + 1}'
        stride = step.stride if index == len(block.depths) - 1 else 1
        if not block.active:
            # Activated outside of the convolution: the shortcut reads the input without a ReLU.
            outputs = style.activation(outputs)
        # Stride and rate exclude each other: a strided module has rates of 1.
        outputs = parts[f'{scope}_depthwise'] = layers.depthwise_conv2d(
            outputs, 3, inner, f'{scope}_depthwise', stride=stride, rate=rate, padding='FIXED'
        )
        outputs = parts[f'{scope}_pointwise'] = layers.conv2d(
            outputs, depth, 1, inner, f'{scope}_pointwise'
        )
    if block.skip == 'nothing':
        return outputs, parts
    added = inputs
    if block.skip == 'convolution':
        linear = style.but(activation=None)
        added = layers.conv2d(inputs, depth, 1, linear, 'shortcut', stride=step.stride)
        parts['shortcut'] = added
    activation = tf.nn.relu6 if bounded else None
    # In float the sum has no activation: the next module begins with one.
    return layers.add(limit(outputs), limit(added), style, activation), parts


def _limit(values: tf.Tensor, bounded: bool) -> tf.Tensor:
    return tf.clip_by_value(values, -_BOUND, _BOUND) if bounded else values


def _feature_maps(name: str) -> Mapping[int, str]:
    maps, stride = {_ROOT_STRIDE: f'{name}/entry_flow/conv1_2'}, _ROOT_STRIDE
    for block in ARCHITECTURES[name]:
        stride *= block.stride
        maps[stride] = f'{name}/{block.scope}'
    return maps


def _segmentation(name: str) -> registry.Segmentation:
    taps, stride = {}, _ROOT_STRIDE
    for block in ARCHITECTURES[name]:
        if block.stride > 1:
            # Before the third separable convolution, which strides.
            module = f'{name}/{block.scope}/unit_1/xception_module'
            taps[stride] = f'{module}/separable_conv2_pointwise'
        stride *= block.stride
    return registry.Segmentation(
        last_end_point=last_end_point(name),
        # DeepLab lists no tap at stride 2.
        decoder_taps={stride: tap for stride, tap in taps.items() if stride > _ROOT_STRIDE},
        honors=tuple(option for option in HONORS if option != 'dropout_keep_prob'),
    )


for _name in ARCHITECTURES:
    registry.add(
        registry.Network(
            name=_name,
            scope=_name,
            features=functools.partial(xception_features, name=_name),
            style=xception_style,
            feature_maps=_feature_maps(_name),
            honors=HONORS,
            segmentation=_segmentation(_name),
            build=functools.partial(xception, name=_name),
            logits_scopes=(f'{_name}/logits',),
            image_size=299,
        )
    )
