"""EfficientNet (Tan and Le 2019, "Rethinking Model Scaling"): one network in eight sizes.

Seven stacks of inverted residuals with gates lie between a strided convolution and a wide 1x1 one;
a size multiplies their channels and how many blocks a stack has. The networks are those that
TensorFlow 2's detectors were published on. `modern.efficientnet_v2` has other stacks. Variables:

    <scope>/stem                                the first convolution, with batch norm
    <scope>/stack_<i>/block_<j>/                expand, depthwise, squeeze_excite/{Conv,Conv_1},
                                                project; of a fused block: expand, project
    <scope>/top                                 the last convolution, with batch norm
    <scope>/logits
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Iterator, Mapping, Optional, Tuple

import tensorflow as tf

from model_fns import layers
from model_fns.backbones import mobilenet_parts, output_strides, registry
from model_fns.layers import weights

tf1 = tf.compat.v1

SCOPE = 'EfficientNet'
# Least probability that training keeps the branch of a residual block: the last one's.
KEEP_PROB = 0.8
HONORS = (
    'depth_multiplier',
    'dropout_keep_prob',
    'weight_decay',
    'batch_norm_decay',
    'batch_norm_epsilon',
    'drop_path_keep_prob',
)

_STEM_STRIDE = 2
# Tan and Le 2019, table 1, stage 9.
_TOP_CHANNELS = 1280
# Channels between the layers of a gate, by those of the block's input.
_GATE_RATIO = 0.25
_STEM, _TOP = 'stem', 'top'


@dataclasses.dataclass(frozen=True)
class Stack:
    """Similar blocks: only the first one's stride and input differ. A size multiplies them.

    Attributes:
        channels: output channels of each block.
        blocks: how many there are.
        kernel_size: height and width of the filters.
        stride: of the first block.
        expansion: expanded channels over input channels.
        fused: whether one convolution expands and filters, and there are no gates. Without
            expansion it is all that a block has.
    """

    channels: int
    blocks: int
    kernel_size: int
    stride: int
    expansion: int = 6
    fused: bool = False


# Table 1 of the paper.
STACKS = (
    Stack(16, 1, kernel_size=3, stride=1, expansion=1),
    Stack(24, 2, kernel_size=3, stride=2),
    Stack(40, 2, kernel_size=5, stride=2),
    Stack(80, 3, kernel_size=3, stride=2),
    Stack(112, 3, kernel_size=5, stride=1),
    Stack(192, 4, kernel_size=5, stride=2),
    Stack(320, 1, kernel_size=3, stride=1),
)


@dataclasses.dataclass(frozen=True)
class Size:
    """One of the networks.

    Attributes:
        width: factor on channels.
        depth: factor on the numbers of blocks.
        image_size: height and width that its classifier was published for.
        keep_prob: of the classifier's dropout.
        stacks: what it multiplies.
        stem_channels: of the first convolution, before the factor.
        least_share: see `layers.divisible_channels`.
        scope: the variable scope of everything in it.
        normalization: of images.
        preprocessing: see `registry.Network`.
    """

    width: float
    depth: float
    image_size: int
    keep_prob: float
    stacks: Tuple[Stack, ...] = STACKS
    stem_channels: int = 32
    least_share: float = 0.9
    scope: str = SCOPE
    normalization: registry.Normalization = registry.IMAGENET_STANDARDS
    preprocessing: str = 'efficientnet'


# Factors, sizes and dropout of the published efficientnet_builder.py.
SIZES: Mapping[str, Size] = {
    'efficientnet_b0': Size(1.0, 1.0, 224, 0.8),
    'efficientnet_b1': Size(1.0, 1.1, 240, 0.8),
    'efficientnet_b2': Size(1.1, 1.2, 260, 0.7),
    'efficientnet_b3': Size(1.2, 1.4, 300, 0.7),
    'efficientnet_b4': Size(1.4, 1.8, 380, 0.6),
    'efficientnet_b5': Size(1.6, 2.2, 456, 0.6),
    'efficientnet_b6': Size(1.8, 2.6, 528, 0.5),
    'efficientnet_b7': Size(2.0, 3.1, 600, 0.5),
}


@dataclasses.dataclass(frozen=True)
class Block:
    """One block of a network of some size.

    Attributes:
        name: its scope in the network's, and its end point.
        stack: what it is one of.
        stride: its own.
        share: its place in the network, from 0 for the first block to nearly 1 for the last: the
            share of the least probability to drop a branch that it has.
        rate: atrous rate of its filters.
    """

    name: str
    stack: Stack
    stride: int
    share: float
    rate: int = 1


def list_blocks(size: Size, output_stride: Optional[int] = None) -> Tuple[Block, ...]:
    """Return the blocks of a network, from the image on.

    Args:
        size: which network.
        output_stride: input size over feature-map size, see `output_strides`; None: 32.

    Raises:
        errors.ConfigError: the network cannot have that output stride.
    """
    stacks = size.stacks
    # Rounded up, as `round_repeats` does; channels go to the nearest multiple of 8.
    counts = [math.ceil(stack.blocks * size.depth) for stack in stacks]
    places = [(number, index) for number, count in enumerate(counts) for index in range(count)]
    published = [stacks[number].stride if index == 0 else 1 for number, index in places]
    # The first convolution strides too.
    steps = output_strides.atrous_strides([_STEM_STRIDE, *published], output_stride)[1:]
    return tuple(
        # As published: divided by the count, so that the last block keeps more than `KEEP_PROB`.
        Block(f'stack_{number}/block_{index}', stacks[number], stride, place / len(places), rate)
        for place, ((number, index), (stride, rate)) in enumerate(zip(places, steps))
    )


def efficientnet_style(is_training: bool, options: registry.Options) -> layers.LayerStyle:
    """Return the published style: biases (gates, logits) are regularized, depthwise weights not."""
    # Section 5.2 of the paper: weight decay 1e-5, batch norm momentum 0.99.
    regularizer = layers.l2(options.get('weight_decay', 1e-5))
    return layers.LayerStyle(
        is_training=is_training,
        # The published conv_kernel_initializer: fan out, and a normal that is not truncated.
        initializer=weights.scaled_normal(2.0, 'out'),
        regularizer=regularizer,
        bias_regularizer=regularizer,
        activation=tf.nn.swish,
        batch_norm=layers.BatchNorm(
            decay=options.get('batch_norm_decay', 0.99),
            epsilon=options.get('batch_norm_epsilon', 0.001),
            scale=True,
        ),
    )


def efficientnet_features(
    images: tf.Tensor, style: layers.LayerStyle, options: registry.Options, size: Size
) -> registry.EndPoints:
    """Return the feature maps of a network.

    Args:
        images: float32 [batch, height, width, channels], normalized.
        style: of all layers.
        options: those of `HONORS`, `final_endpoint` and `output_stride` count.
        size: which network.

    Returns:
        `stem` and `stack_<i>/block_<j>` by name, [batch, height', width', channels'].

    Raises:
        ValueError: there is no such final end point.
    """
    blocks = _leading_blocks(list_blocks(size, options.output_stride), options.final_endpoint)
    channels = functools.partial(_channels, size, options)
    with tf1.variable_scope(size.scope):
        features = layers.conv2d(
            images, channels(size.stem_channels), 3, style, _STEM, stride=_STEM_STRIDE
        )
        return {_STEM: features, **_run(blocks, features, style, options, channels)}


def efficientnet(
    images: tf.Tensor,
    num_classes: int,
    style: layers.LayerStyle,
    options: registry.Options,
    size: Size,
) -> registry.EndPoints:
    """Return the classifier: a wide convolution, its mean over the image, dropout, a linear layer.

    Args:
        images: float32 [batch, height, width, channels], normalized.
        num_classes: how many logits.
        style: of all layers.
        options: those of `HONORS`, `final_endpoint` and `output_stride` count.
        size: which network.

    Returns:
        The feature maps, `top`, `global_pool`, `Logits` and `Predictions` by name.
    """
    end_points = efficientnet_features(images, style, options, size)
    last = list(end_points)[-1]
    end_points.update(_top(end_points[last], num_classes, style, options, size))
    return end_points


def add_unused(
    end_points: registry.EndPoints,
    num_classes: int,
    style: layers.LayerStyle,
    options: registry.Options,
    size: Size,
) -> None:
    """Add the variables of the rest of a classifier, behind the features that a model uses.

    Checkpoints of the published detectors have them, and their losses the regularization of these
    weights. Nothing else depends on them: their moving statistics stay as they are.

    Args:
        end_points: what `efficientnet_features` gave.
        num_classes: how many logits.
        style: the style of the layers that `efficientnet_features` built.
        options: the options that `efficientnet_features` got.
        size: which network.
    """
    last = list(end_points)[-1]
    blocks = list_blocks(size)
    rest = blocks[len(_leading_blocks(blocks, last)) :]
    style = style.but(is_training=False)
    channels = functools.partial(_channels, size, options)
    with tf1.variable_scope(size.scope):
        further = _run(rest, end_points[last], style, options, channels)
    features = [end_points[last], *further.values()][-1]
    _top(features, num_classes, style, options, size)


def keras_layers(size: Size) -> Tuple[str, ...]:
    """Return the scopes of the layers in Keras' order, with the classifier's last layers."""
    return tuple(_keras_layers(size))


def feature_maps(size: Size) -> Mapping[int, str]:
    """Return the name of the last block of each stride, by stride."""
    maps, stride = {}, _STEM_STRIDE
    for block in list_blocks(size):
        stride *= block.stride
        maps[stride] = block.name
    return maps


def _keras_layers(size: Size) -> Iterator[str]:
    convolutions = [(_STEM, ())]
    for block in list_blocks(size):
        gates = [f'{block.name}/squeeze_excite/{name}' for name in ('Conv', 'Conv_1')]
        if block.stack.expansion > 1:
            convolutions.append((f'{block.name}/expand', ()))
        convolutions.append((f'{block.name}/depthwise', gates))
        convolutions.append((f'{block.name}/project', ()))
    for name, gates in [*convolutions, (_TOP, ())]:
        # Keras builds the gates behind the batch norm of the filter that they scale.
        yield from (name, f'{name}/BatchNorm', *gates)
    yield 'logits'


def _channels(size: Size, options: registry.Options, channels: float) -> int:
    """Return channels of a layer of a network of that size, whose width a config may change."""
    return layers.divisible_channels(
        channels * size.width * options.depth_multiplier, least_share=size.least_share
    )


def _leading_blocks(blocks: Tuple[Block, ...], last: Optional[str]) -> Tuple[Block, ...]:
    """Return the blocks up to that of a name; None: all."""
    if last is None:
        return blocks
    names = [block.name for block in blocks]
    if last not in names:
        raise ValueError(f'There is no block {last!r}; there are {", ".join(names)}.')
    return blocks[: names.index(last) + 1]


def _run(
    blocks: Tuple[Block, ...],
    features: tf.Tensor,
    style: layers.LayerStyle,
    options: registry.Options,
    channels: functools.partial,
) -> registry.EndPoints:
    """Return the outputs of blocks by name, in the current variable scope."""
    least = options.get('drop_path_keep_prob', KEEP_PROB)
    end_points = {}
    for block in blocks:
        keep_prob = 1.0 - block.share * (1.0 - least)
        with tf1.variable_scope(block.name):
            features = _block(features, block, style, channels(block.stack.channels), keep_prob)
        end_points[block.name] = features
    return end_points


def _block(
    inputs: tf.Tensor, block: Block, style: layers.LayerStyle, channels: int, keep_prob: float
) -> tf.Tensor:
    """Return a block's branch, plus the input where the shapes agree."""
    stack, depth = block.stack, inputs.shape[-1]
    branch = _fused_branch if stack.fused else _gated_branch
    outputs = branch(inputs, block, style, channels)
    strides = stack.stride > 1 and block.name.endswith('/block_0')  # or is atrous instead
    if strides or channels != depth:
        return outputs
    kept = layers.dropout(outputs, keep_prob, style.is_training, 'drop_path', whole_examples=True)
    return layers.add(kept, inputs, style)


def _gated_branch(
    inputs: tf.Tensor, block: Block, style: layers.LayerStyle, channels: int
) -> tf.Tensor:
    """Expand, filter each channel, gate, project."""
    stack, depth = block.stack, inputs.shape[-1]
    outputs = inputs
    if stack.expansion > 1:
        outputs = layers.conv2d(inputs, depth * stack.expansion, 1, style, 'expand')
    outputs = layers.depthwise_conv2d(
        outputs, stack.kernel_size, style, 'depthwise', stride=block.stride, rate=block.rate
    )
    # Of the block's input, and cut, not rounded to 8: MobileNet V3 does both otherwise.
    hidden = max(1, int(depth * _GATE_RATIO))
    outputs = mobilenet_parts.gated(outputs, hidden, style, tf.nn.swish, tf.sigmoid)
    return layers.conv2d(outputs, channels, 1, style.but(activation=None), 'project')


def _fused_branch(
    inputs: tf.Tensor, block: Block, style: layers.LayerStyle, channels: int
) -> tf.Tensor:
    """Expand and filter by one convolution, and project; or only filter, without expansion."""
    stack, moves = block.stack, {'stride': block.stride, 'rate': block.rate}
    size = stack.kernel_size
    if stack.expansion == 1:
        return layers.conv2d(inputs, channels, size, style, 'project', **moves)
    depth = inputs.shape[-1] * stack.expansion
    outputs = layers.conv2d(inputs, depth, size, style, 'expand', **moves)
    return layers.conv2d(outputs, channels, 1, style.but(activation=None), 'project')


def _top(
    features: tf.Tensor,
    num_classes: int,
    style: layers.LayerStyle,
    options: registry.Options,
    size: Size,
) -> registry.EndPoints:
    """Return the classifier's last layers by the names of their end points."""
    # The published range is 1 / sqrt(classes) in both directions: a variance of 1 / (3 classes).
    uniform = layers.Initializer('uniform', 1.0 / 3.0, fan='out')
    keep_prob = options.get('dropout_keep_prob', size.keep_prob)
    with tf1.variable_scope(size.scope):
        top = layers.conv2d(features, _channels(size, options, _TOP_CHANNELS), 1, style, _TOP)
        pooled = layers.global_mean(top)
        dropped = layers.dropout(pooled, keep_prob, style.is_training, 'dropout')
        flat = tf.squeeze(dropped, [1, 2])
        linear = style.linear().but(initializer=uniform)
        logits = layers.fully_connected(flat, num_classes, linear, 'logits')
    return {
        _TOP: top,
        'global_pool': pooled,
        registry.LOGITS: logits,
        'Predictions': tf.nn.softmax(logits),
    }


def _segmentation(size: Size) -> registry.Segmentation:
    """Describe a network for DeepLab: heads read the last block, a decoder earlier ones."""
    maps = feature_maps(size)
    return registry.Segmentation(
        last_end_point=list_blocks(size)[-1].name,
        decoder_taps={stride: name for stride, name in maps.items() if stride < max(maps)},
        honors=(*(name for name in HONORS if name != 'dropout_keep_prob'), 'output_stride'),
        options=registry.Options(output_stride=16, weight_decay=1e-5),
        normalization=size.normalization,
        mean_pixel=size.normalization.means or registry.Segmentation.mean_pixel,
    )


def register(name: str, size: Size, keras: Tuple[str, ...] = ()) -> None:
    """Add a network to the registry.

    Args:
        name: its name.
        size: which network.
        keras: scopes of the layers with weights, in the order in which Keras numbers them.
    """
    registry.add(
        registry.Network(
            name=name,
            scope=size.scope,
            features=functools.partial(efficientnet_features, size=size),
            style=efficientnet_style,
            feature_maps=feature_maps(size),
            normalization=size.normalization,
            honors=HONORS,
            build=functools.partial(efficientnet, size=size),
            logits_scopes=(f'{size.scope}/logits',),
            keras_layers=keras,
            image_size=size.image_size,
            segmentation=_segmentation(size),
            preprocessing=size.preprocessing,
        )
    )


for _name, _size in SIZES.items():
    register(_name, _size, keras_layers(_size))
