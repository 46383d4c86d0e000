"""ConvNeXt (Liu et al. 2022, "A ConvNet for the 2020s"): residual blocks of 7x7 depthwise filters.

Four stages of blocks lie behind convolutions of 4x4 and 2x2 pixels that do not overlap. Variables:

    ConvNeXt/stem                               the first convolution, and its LayerNorm
    ConvNeXt/stage_<i>/downsample               the convolution before a stage, and its LayerNorm
    ConvNeXt/stage_<i>/block_<j>/               depthwise, LayerNorm, expand, project, gamma
    ConvNeXt/stage_<i>/LayerNorm                of the feature maps for detection and segmentation
    ConvNeXt/LayerNorm, ConvNeXt/logits         of the classifier
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Iterator, Mapping, Optional, Tuple

import tensorflow as tf

from model_fns import layers
from model_fns.backbones import output_strides, registry
from model_fns.layers import weights

tf1 = tf.compat.v1

SCOPE = 'ConvNeXt'
HONORS = ('depth_multiplier', 'weight_decay', 'drop_path_keep_prob')

# Liu et al. 2022, section 2; the epsilon is that of the published code, without which its weights
# give other numbers.
_STEM_STRIDE = 4
_KERNEL_SIZE = 7
_EXPANSION = 4
_EPSILON = 1e-6
# Initial value of the factor of each channel of a branch.
# Table 5 of the paper: a block begins as the identity.
_LAYER_SCALE = layers.Initializer('constant', 1e-6, fan=None)
_STEM = 'stem'


@dataclasses.dataclass(frozen=True)
class Size:
    """One of the networks.

    Attributes:
        channels: of each stage.
        blocks: how many each stage has.
        keep_prob: least probability that training keeps the branch of a block: the last one's.
    """

    channels: Tuple[int, ...]
    blocks: Tuple[int, ...]
    keep_prob: float


# Section 3 of the paper; the probabilities are those of its table 5.
SIZES: Mapping[str, Size] = {
    'convnext_tiny': Size((96, 192, 384, 768), (3, 3, 9, 3), keep_prob=0.9),
    'convnext_small': Size((96, 192, 384, 768), (3, 3, 27, 3), keep_prob=0.6),
    'convnext_base': Size((128, 256, 512, 1024), (3, 3, 27, 3), keep_prob=0.5),
}


@dataclasses.dataclass(frozen=True)
class Stage:
    """One stage of a network.

    Attributes:
        name: its scope in the network's, and the end point of its features.
        channels: of its blocks.
        blocks: how many there are.
        stride: of the convolution before it.
        downsample_rate: atrous rate of that convolution.
        rate: atrous rate of the blocks.
    """

    name: str
    channels: int
    blocks: int
    stride: int
    downsample_rate: int
    rate: int


def list_stages(
    size: Size, depth_multiplier: float = 1.0, output_stride: Optional[int] = None
) -> Tuple[Stage, ...]:
    """Return the stages of a network, from the image on.

    Args:
        size: which network.
        depth_multiplier: factor on channels.
        output_stride: input size over feature-map size, see `output_strides`; None: 32.

    Raises:
        errors.ConfigError: the network cannot have that output stride.
    """
    # Each stage's convolution is followed by blocks, which have the rate that it leaves.
    steps = output_strides.atrous_strides([_STEM_STRIDE, 1, 2, 1, 2, 1, 2, 1], output_stride)
    return tuple(
        Stage(
            f'stage_{index}',
            layers.divisible_channels(channels * depth_multiplier),
            blocks,
            stride=steps[2 * index][0],
            downsample_rate=steps[2 * index][1],
            rate=steps[2 * index + 1][1],
        )
        for index, (channels, blocks) in enumerate(zip(size.channels, size.blocks))
    )


def convnext_style(is_training: bool, options: registry.Options) -> layers.LayerStyle:
    """Return the published style: biases everywhere, weights of a deviation of 0.02."""
    return layers.LayerStyle(
        is_training=is_training,
        initializer=weights.truncated_normal(0.02),
        regularizer=layers.l2(options.get('weight_decay', 1e-5)),
        activation=None,
    )


def convnext_features(
    images: tf.Tensor, style: layers.LayerStyle, options: registry.Options, size: Size
) -> registry.EndPoints:
    """Return the feature maps of a network, each with a layer norm as in the published detectors.

    Where a side is no multiple of the stride, a map is rounded up.

    Args:
        images: float32 [batch, height, width, channels], normalized.
        style: of all layers.
        options: those of `HONORS` and `output_stride` count.
        size: which network.

    Returns:
        `stem`, `stage_<i>/block_<j>` and `stage_<i>`, which has the layer norm:
        [batch, height', width', channels'].
    """
    stages = list_stages(size, options.depth_multiplier, options.output_stride)
    # SAME, so that maps cover the image and fit those of a decoder at any size.
    end_points = _run(images, stages, style, options, size, 'SAME')
    with tf1.variable_scope(SCOPE):
        for stage in stages:
            last = end_points[f'{stage.name}/block_{stage.blocks - 1}']
            with tf1.variable_scope(stage.name):
                end_points[stage.name] = layers.layer_norm(last, _EPSILON)
    return end_points


def convnext(
    images: tf.Tensor,
    num_classes: int,
    style: layers.LayerStyle,
    options: registry.Options,
    size: Size,
) -> registry.EndPoints:
    """Return the classifier: the mean over the image, layer norm, a linear layer.

    As published, what is left of a side that is no multiple of a stride is cut off.

    Args:
        images: float32 [batch, height, width, channels], normalized; at least 32 x 32.
        num_classes: how many logits.
        style: of all layers.
        options: those of `HONORS` and `output_stride` count.
        size: which network.

    Returns:
        `stem`, `stage_<i>/block_<j>`, `global_pool`, `Logits` and `Predictions` by name.
    """
    stages = list_stages(size, options.depth_multiplier)
    end_points = _run(images, stages, style, options, size, 'VALID')
    with tf1.variable_scope(SCOPE):
        pooled = layers.global_mean(list(end_points.values())[-1])
        normal = layers.layer_norm(pooled, _EPSILON)
        logits = tf.squeeze(layers.conv2d(normal, num_classes, 1, style, 'logits'), [1, 2])
    return {
        **end_points,
        'global_pool': pooled,
        registry.LOGITS: logits,
        'Predictions': tf.nn.softmax(logits),
    }


def _run(
    images: tf.Tensor,
    stages: Tuple[Stage, ...],
    style: layers.LayerStyle,
    options: registry.Options,
    size: Size,
    padding: layers.Padding,
) -> registry.EndPoints:
    """Return the outputs of the stem and of all blocks by name."""
    end_points: registry.EndPoints = {}
    keep_probs = _keep_probs(size, options)
    features = images
    with tf1.variable_scope(SCOPE):
        for index, stage in enumerate(stages):
            if index == 0:
                features = layers.conv2d(
                    features, stage.channels, 4, style, _STEM, stride=4, padding=padding
                )
                with tf1.variable_scope(_STEM):
                    features = layers.layer_norm(features, _EPSILON)
                end_points[_STEM] = features
            with tf1.variable_scope(stage.name):
                if index > 0:
                    features = _downsample(features, stage, style, padding)
                for number in range(stage.blocks):
                    with tf1.variable_scope(f'block_{number}'):
                        features = _block(features, stage, style, next(keep_probs))
                    end_points[f'{stage.name}/block_{number}'] = features
    return end_points


def _keep_probs(size: Size, options: registry.Options) -> Iterator[float]:
    """Yield the probability of each block to keep its branch: from 1 to the least one."""
    least, count = options.get('drop_path_keep_prob', size.keep_prob), sum(size.blocks)
    for index in range(count):
        # To the last block, torch.linspace(0, rate, count); EfficientNets stop a step before.
        yield 1.0 - (1.0 - least) * index / (count - 1)


def _downsample(
    features: tf.Tensor, stage: Stage, style: layers.LayerStyle, padding: layers.Padding
) -> tf.Tensor:
    """Normalize, and convolve patches of 2x2 pixels."""
    with tf1.variable_scope('downsample'):
        features = layers.layer_norm(features, _EPSILON)
    if stage.stride == 1:
        # Atrous instead: the patch of a pixel is that of the strided convolution.
        rate = stage.downsample_rate
        features, padding = tf.pad(features, [[0, 0], [0, rate], [0, rate], [0, 0]]), 'VALID'
    return layers.conv2d(
        features,
        stage.channels,
        2,
        style,
        'downsample',
        stride=stage.stride,
        rate=stage.downsample_rate,
        padding=padding,
    )


def _block(
    inputs: tf.Tensor, stage: Stage, style: layers.LayerStyle, keep_prob: float
) -> tf.Tensor:
    """Filter each channel, normalize, expand and project each pixel, and add the input."""
    # The style has no activation: the one GELU of a block is behind `expand`.
    outputs = layers.depthwise_conv2d(inputs, _KERNEL_SIZE, style, 'depthwise', rate=stage.rate)
    outputs = layers.layer_norm(outputs, _EPSILON)
    wide = _EXPANSION * stage.channels
    outputs = layers.conv2d(outputs, wide, 1, style.but(activation=layers.gelu), 'expand')
    outputs = layers.conv2d(outputs, stage.channels, 1, style, 'project')
    gamma = weights.variable('gamma', [stage.channels], _LAYER_SCALE)
    outputs = layers.multiply(outputs, tf.convert_to_tensor(gamma), style)
    kept = layers.dropout(outputs, keep_prob, style.is_training, 'drop_path', whole_examples=True)
    return layers.add(kept, inputs, style)


def _register(name: str, size: Size) -> None:
    maps = {_STEM_STRIDE * 2**index: f'stage_{index}' for index in range(len(size.blocks))}
    registry.add(
        registry.Network(
            name=name,
            scope=SCOPE,
            features=functools.partial(convnext_features, size=size),
            style=convnext_style,
            feature_maps=maps,
            normalization=registry.IMAGENET_STANDARDS,
            min_size=32,
            honors=HONORS,
            build=functools.partial(convnext, size=size),
            logits_scopes=(f'{SCOPE}/logits',),
            segmentation=registry.Segmentation(
                last_end_point=maps[32],
                decoder_taps={stride: maps[stride] for stride in (4, 8, 16)},
                honors=(*HONORS, 'output_stride'),
                options=registry.Options(output_stride=16, weight_decay=1e-5),
                normalization=registry.IMAGENET_STANDARDS,
                mean_pixel=registry.IMAGENET_STANDARDS.means,
            ),
            preprocessing='efficientnet',
        )
    )


for _name, _size in SIZES.items():
    _register(_name, _size)
