"""Shared parts of the residual networks: sequences of units, strides and rates, the head.

A network is a root of stride 4, then blocks of residual units. A block's stride is that of its
last unit, or, as in the networks of Keras, the next block's first unit has it. Where an output
stride is asked for and reached, the strides that are left become atrous rates of the units after
them (Chen et al. 2017, section 3.1).
"""

from __future__ import annotations

import dataclasses
from typing import Callable, Mapping, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib import errors
from model_fns import layers
from model_fns.backbones import output_strides, registry

tf1 = tf.compat.v1

ROOT_STRIDE = 4

# Options that these networks use.
HONORS = (
    'depth_multiplier',
    'min_depth',
    'output_stride',
    'multi_grid',
    'weight_decay',
    'batch_norm_decay',
    'batch_norm_epsilon',
)


@dataclasses.dataclass(frozen=True)
class Block:
    """A sequence of residual units of one width.

    Attributes:
        name: its scope.
        depth: channels of the narrow convolutions.
        rates: for each unit, a factor on its atrous rate.
        stride: of the whole block.
        strides_first: whether its first unit strides, in its first convolution; else its last one,
            in the 3x3 convolution.
    """

    name: str
    depth: int
    rates: Tuple[int, ...]
    stride: int
    strides_first: bool = False


@dataclasses.dataclass(frozen=True)
class Unit:
    """The shape of one residual unit.

    Attributes:
        depth: channels of the narrow convolutions.
        stride: output against input.
        rate: atrous rate of the 3x3 convolutions.
        bounded: whether all values are kept within [-6, 6], to fit a quantized range.
        strides_first: whether it strides in its first convolution; else in its 3x3 one.
        activation: of the sum, where it is not bounded.
        is_first: of its block.
    """

    depth: int
    stride: int
    rate: int
    bounded: bool = False
    strides_first: bool = False
    activation: layers.Activation = tf.nn.relu
    is_first: bool = False


# (inputs, shape, style) -> the unit's output, and its end points by their scope in the unit.
UnitFunction = Callable[[tf.Tensor, Unit, layers.LayerStyle], Tuple[tf.Tensor, registry.EndPoints]]


def resnet_style(is_training: bool, options: registry.Options) -> layers.LayerStyle:
    """Return the style as published: He initialization (fan in), batch norm with a scale."""
    return layers.LayerStyle(
        is_training=is_training,
        initializer=layers.Initializer('truncated_normal', 2.0, fan='in'),
        regularizer=layers.l2(options.get('weight_decay', 1e-4)),
        batch_norm=layers.BatchNorm(
            decay=options.get('batch_norm_decay', 0.997),
            epsilon=options.get('batch_norm_epsilon', 1e-5),
            scale=True,
        ),
    )


def make_blocks(
    units: Sequence[int], options: registry.Options = registry.PUBLISHED
) -> Tuple[Block, ...]:
    """Return the four blocks of a network: 64, 128, 256, 512 narrow channels; strides 2, 2, 2, 1.

    Args:
        units: how many each block has.
        options: factors on the narrow channels, `multi_grid` and `strides_first` count.
            Where a block strides in its first convolution, strides are 1, 2, 2, 2 and each block's
            output has the stride that it has in the end.

    Raises:
        errors.ConfigError: another number of multi_grid rates than of units.
    """
    multi_grid, strides_first = options.multi_grid, options.strides_first
    if multi_grid and len(multi_grid) != units[-1]:
        raise errors.ConfigError(
            f'multi_grid: got {len(multi_grid)} rates ({", ".join(map(str, multi_grid))}); '
            f'expected none, or {units[-1]}: one for each unit of the last block.'
        )
    # Chen et al. 2017, section 3.2.1, applies the grid to the last block alone.
    rates = [(1,) * count for count in units[:-1]] + [tuple(multi_grid) or (1,) * units[-1]]
    # slim's `depth_func`: cut to an integer, at least 8.
    least = int(options.get('min_depth', 8))
    return tuple(
        Block(
            name=f'block{index + 1}',
            depth=max(int(64 * 2**index * options.depth_multiplier), least),
            rates=rates[index],
            stride=1 if index == (0 if strides_first else len(units) - 1) else 2,
            strides_first=strides_first,
        )
        for index in range(len(units))
    )


def stack_blocks(
    inputs: tf.Tensor,
    blocks: Sequence[Block],
    unit_function: UnitFunction,
    style: layers.LayerStyle,
    scope: str,
    options: registry.Options = registry.PUBLISHED,
) -> registry.EndPoints:
    """Run blocks in the current variable scope.

    Args:
        inputs: float32 [batch, height, width, channels], of stride `ROOT_STRIDE`.
        blocks: first to last.
        unit_function: makes a unit; its name is the units' scope.
        style: of all layers.
        scope: what the names of end points begin with.
        options: `output_stride`, `bounded`, `sum_activation` and `subsample_after` count: with this
            a block ends with a plain subsampling of its output, instead of striding in its last
            unit, so that the block's end point has the stride of its input. Feature pyramids are
            built on these.

    Returns:
        `<scope>/<block>/unit_<i>/<unit scope>` and the end points within the unit, for each unit;
        `<scope>/<block>`.

    Raises:
        errors.ConfigError: the network cannot have that output stride.
    """
    steps = iter(_unit_steps(blocks, options.output_stride))
    end_points: registry.EndPoints = {}
    outputs = inputs
    for block in blocks:
        for index, factor in enumerate(block.rates):
            stride, rate = next(steps)
            shape = Unit(
                block.depth,
                # Feature pyramids of the Object Detection API read blocks at their input's stride.
                1 if options.subsample_after else stride,
                rate * factor,
                options.bounded,
                block.strides_first,
                options.sum_activation or tf.nn.relu,
                is_first=index == 0,
            )
            name = f'{block.name}/unit_{index + 1}/{unit_function.__name__}'
            with tf1.variable_scope(name):
                outputs, parts = unit_function(outputs, shape, style)
            end_points.update({f'{scope}/{name}/{part}': value for part, value in parts.items()})
            end_points[f'{scope}/{name}'] = outputs
        end_points[f'{scope}/{block.name}'] = outputs
        if options.subsample_after:
            outputs = subsample(outputs, stride)
    return end_points


def feature_maps(scope: str) -> Mapping[int, str]:
    """Return the end point of each stride, by stride, where blocks stride in their last unit."""
    return {ROOT_STRIDE * 2**index: f'{scope}/block{index + 1}' for index in range(4)}


def pool_root(inputs: tf.Tensor, padding: layers.Padding = 'SAME') -> tf.Tensor:
    """Build the root's pooling, of stride 2.

    Args:
        inputs: [batch, height, width, channels].
        padding: `SAME`, or `FIXED` for a border of zeros on all sides.
    """
    if padding == 'FIXED':
        # Zeros, as `pool1_pad` of Keras. torchvision pads with minus infinity: the same behind
        # a ReLU, and other numbers behind the linear root of a V2.
        inputs, padding = tf.pad(inputs, [[0, 0], [1, 1], [1, 1], [0, 0]]), 'VALID'
    return tf.nn.max_pool2d(inputs, 3, 2, padding, name='pool1')


def subsample(inputs: tf.Tensor, stride: int) -> tf.Tensor:
    """Return every stride-th value in both directions of [batch, height, width, channels]."""
    # slim's `subsample`: checkpoints do not tell it from a slice, recorded graphs do.
    return inputs if stride == 1 else tf.nn.max_pool2d(inputs, 1, stride, 'VALID')


def classify(
    inputs: tf.Tensor, num_classes: int, style: layers.LayerStyle, scope: str
) -> registry.EndPoints:
    """Build the mean over the image, then a linear layer `logits` in the current variable scope.

    Args:
        inputs: float32 [batch, height, width, channels].
        num_classes: how many logits.
        style: of the network's layers.
        scope: what the names of end points begin with.

    Returns:
        `global_pool`, `<scope>/logits` [batch, 1, 1, num_classes], `<scope>/spatial_squeeze` and
        `registry.LOGITS` [batch, num_classes], `predictions`: their softmax.
    """
    pooled = layers.global_mean(inputs)
    # A 1x1 convolution: published weights are [1, 1, 2048, classes].
    unsqueezed = layers.conv2d(pooled, num_classes, 1, style.linear(), 'logits')
    logits = tf.squeeze(unsqueezed, [1, 2])
    return {
        'global_pool': pooled,
        f'{scope}/logits': unsqueezed,
        f'{scope}/spatial_squeeze': logits,
        registry.LOGITS: logits,
        'predictions': tf.nn.softmax(logits),
    }


def _unit_steps(blocks: Sequence[Block], output_stride: Optional[int]) -> Sequence[Tuple[int, int]]:
    """Compute the stride and the atrous rate of each unit of all blocks."""
    if output_stride is not None and output_stride < ROOT_STRIDE:
        raise errors.ConfigError(
            f'output_stride: got {output_stride}; a residual network has {ROOT_STRIDE} or more.'
        )
    # The root cannot become atrous, so it counts as one layer of stride 4.
    strides = [ROOT_STRIDE]
    for block in blocks:
        others = [1] * (len(block.rates) - 1)
        strides += [block.stride, *others] if block.strides_first else [*others, block.stride]
    return output_strides.atrous_strides(strides, output_stride)[1:]
