"""Hourglass networks (Newell et al. 2016, Law and Deng 2018): repeated down- and upsampling.

A stage halves a map, applies the next stage, enlarges its result, and adds the original map after
residual blocks. Scopes are those of the published checkpoints' objects.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, List, Tuple

import tensorflow as tf

from model_fns import layers

tf1 = tf.compat.v1

INPUT_STRIDE = 4


@dataclasses.dataclass(frozen=True)
class Architecture:
    """Architecture of an hourglass network.

    Attributes:
        input_channels: channels of the first convolution.
        channels: channels of the maps of each stage, the innermost stage last.
        blocks: number of residual blocks of each stage.
        hourglasses: number of consecutive hourglasses.
    """

    input_channels: int
    channels: Tuple[int, ...]
    blocks: Tuple[int, ...]
    hourglasses: int = 1

    @property
    def stride(self) -> int:
        """Stride of the innermost maps, a required divisor of the sides of an input."""
        return INPUT_STRIDE * 2 ** (len(self.channels) - 1)


def _single(width: int, multiples: Tuple[int, ...], blocks: Tuple[int, ...]) -> Architecture:
    """Build an architecture with one hourglass and multiples of a number of channels."""
    return Architecture(width, tuple(width * multiple for multiple in multiples), blocks)


# Names contain the number of layers on the longest path.
ARCHITECTURES: Dict[str, Architecture] = {
    'hourglass_10': _single(32, (2, 2), (1, 1)),
    'hourglass_20': _single(48, (2, 2, 3), (1, 2, 2)),
    'hourglass_32': _single(48, (2, 2, 3, 3), (2, 2, 2, 2)),
    'hourglass_52': _single(64, (2, 2, 3, 3, 3, 4), (2, 2, 2, 2, 2, 4)),
    'hourglass_100': _single(64, (2, 2, 3, 3, 3, 4), (4, 4, 4, 4, 4, 8)),
    'hourglass_104': Architecture(
        128, (256, 256, 384, 384, 384, 512), (2, 2, 2, 2, 2, 4), hourglasses=2
    ),
}


def hourglass_style(is_training: bool) -> layers.LayerStyle:
    """Build the published style: no biases, and a decay of moving statistics of 0.1."""
    return layers.LayerStyle(
        is_training=is_training,
        # 0.1 is PyTorch's default momentum, the weight of the new value. The published code passes
        # it to Keras as that of the old one, and its checkpoints have such statistics.
        batch_norm=layers.BatchNorm(decay=0.1, epsilon=1e-5, scale=True),
    )


def hourglass_features(
    images: tf.Tensor, architecture: Architecture, style: layers.LayerStyle
) -> List[tf.Tensor]:
    """Compute the output of each hourglass, in the current variable scope.

    Args:
        images: float32 [batch, height, width, channels], whose sides are multiples of the
            architecture's stride.
        architecture: architecture of the network.
        style: style of all layers.

    Returns:
        [batch, height / 4, width / 4, channels] for each hourglass.
    """
    channels, blocks = architecture.channels, architecture.blocks
    with tf1.variable_scope('downsample_input'):
        features = layers.conv2d(
            images, architecture.input_channels, 7, style, 'conv_block', stride=2, padding='FIXED'
        )
        features = _residual(features, channels[0], style, 'residual_block', stride=2)
    outputs = []
    for index in range(architecture.hourglasses):
        inner = _hourglass(features, channels, blocks, style, f'hourglass_network/{index}')
        outputs.append(layers.conv2d(inner, channels[0], 3, style, f'output_conv/{index}'))
        if index + 1 < architecture.hourglasses:
            features = _join_hourglasses(features, outputs[-1], channels[0], style, index)
    return outputs


def _join_hourglasses(
    inputs: tf.Tensor, outputs: tf.Tensor, channels: int, style: layers.LayerStyle, index: int
) -> tf.Tensor:
    """Combine input and output of an hourglass to the input of the next one."""
    linear = style.but(activation=None)
    first = layers.conv2d(inputs, channels, 1, linear, f'intermediate_conv1/{index}')
    second = layers.conv2d(outputs, channels, 1, linear, f'intermediate_conv2/{index}')
    both = layers.add(first, second, style, tf.nn.relu)
    return _residual(both, channels, style, f'intermediate_residual/{index}')


def _hourglass(
    inputs: tf.Tensor,
    channels: Tuple[int, ...],
    blocks: Tuple[int, ...],
    style: layers.LayerStyle,
    scope: str,
) -> tf.Tensor:
    """Build a stage with all its inner stages: [batch, height, width, channels[0]]."""
    with tf1.variable_scope(scope):
        shortcut = inputs
        for index in range(blocks[0]):
            shortcut = _residual(shortcut, channels[0], style, f'encoder_block1/{index}')
        features = inputs
        for index in range(blocks[0]):
            stride = 1 if index else 2
            name = f'encoder_block2/{index}'
            features = _residual(features, channels[1], style, name, stride=stride)
        if len(channels) > 2:
            features = _hourglass(features, channels[1:], blocks[1:], style, 'inner_block/0')
        else:
            for index in range(blocks[1]):
                features = _residual(features, channels[1], style, f'inner_block/{index}')
        for index in range(blocks[0]):
            # As published the last block changes the number of channels, not the first.
            depth = channels[0] if index + 1 == blocks[0] else channels[1]
            features = _residual(features, depth, style, f'decoder_block/{index}')
        return layers.add(shortcut, layers.enlarge(features), style)


def _residual(
    inputs: tf.Tensor, channels: int, style: layers.LayerStyle, scope: str, stride: int = 1
) -> tf.Tensor:
    """Build a residual block: two 3x3 convolutions plus the input or its projection."""
    linear = style.but(activation=None)
    with tf1.variable_scope(scope):
        # SAME would pad an even map with stride 2 at the bottom and right only.
        inner = layers.conv2d(
            inputs, channels, 3, style, 'conv_block', stride=stride, padding='FIXED'
        )
        inner = layers.conv2d(inner, channels, 3, linear, 'conv')
        if stride == 1 and inputs.shape[-1] == channels:
            shortcut = inputs
        else:
            shortcut = layers.conv2d(inputs, channels, 1, linear, 'skip', stride=stride)
        return layers.add(inner, shortcut, style, tf.nn.relu)
