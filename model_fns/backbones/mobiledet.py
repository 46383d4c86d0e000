"""MobileDet (Xiong et al. 2020): backbones that were searched for detection on four devices.

Full convolutions where the device is fast at them: fused bottlenecks expand and filter in one
convolution, Tucker bottlenecks filter between two compressions. Features only: there are no
classifiers.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Dict, Protocol, Tuple

import tensorflow as tf

from model_fns import layers
from model_fns.backbones import registry

tf1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class Context:
    """Settings that the blocks of one network share.

    Attributes:
        style: of all layers, with the network's activation.
        squeeze_excite: whether the filtered channels of inverted bottlenecks are scaled by a gate
            each, which is computed from their means.
    """

    style: layers.LayerStyle
    squeeze_excite: bool

    @property
    def linear(self) -> layers.LayerStyle:
        """The style of the last layer of a block: without activation."""
        return self.style.but(activation=None)


class Block(Protocol):
    """A part of a network."""

    @property
    def scope(self) -> str:
        """Published name, without the number."""

    @property
    def channels(self) -> int:
        """Channels of the output, before the network's factor."""

    @property
    def residual(self) -> bool:
        """True where the input is added to the output."""

    def build(self, inputs: tf.Tensor, channels: int, context: Context) -> tf.Tensor:
        """Build the block in the current scope, without adding its input.

        Args:
            inputs: float32 [batch, height, width, channels].
            channels: of the output.
            context: of the network.
        """


@dataclasses.dataclass(frozen=True)
class Inverted:
    """Inverted bottleneck: expand, filter each channel, project; an expansion of 1 is left out.

    Attributes:
        channels: see `Block`.
        expansion: expanded channels over input channels.
        kernel_size: of the filter.
        stride: input size over output size.
        residual: see `Block`.
    """

    channels: int
    expansion: int = 8
    kernel_size: int = 3
    stride: int = 1
    residual: bool = True

    @property
    def scope(self) -> str:
        """The published name, without the number."""
        return 'IBN' if self.expansion > 1 else 'IBNNoExpansion'

    def build(self, inputs: tf.Tensor, channels: int, context: Context) -> tf.Tensor:
        """Build the expansion, the depthwise filter, the gate and the projection.

        Returns:
            [batch, height', width', channels].
        """
        # slim numbered the layers itself: what comes first in a block is `Conv`.
        names = ['Conv_1', 'Conv'] if self.expansion > 1 else ['Conv']
        outputs = inputs
        if self.expansion > 1:
            expanded = inputs.shape[-1] * self.expansion
            outputs = layers.conv2d(inputs, expanded, 1, context.style, names.pop())
        outputs = layers.depthwise_conv2d(
            outputs,
            self.kernel_size,
            context.style.but(depthwise_initializer=_he_normal_depthwise(self.kernel_size)),
            'SeparableConv2d',
            stride=self.stride,
        )
        if context.squeeze_excite:
            outputs = layers.multiply(outputs, _gate(outputs, context), context.style, layers.GATED)
        return layers.conv2d(outputs, channels, 1, context.linear, names.pop())


@dataclasses.dataclass(frozen=True)
class Fused:
    """Fused bottleneck: expand by a full convolution, project. Attributes: see `Inverted`."""

    channels: int
    expansion: int = 8
    kernel_size: int = 3
    stride: int = 1
    residual: bool = True
    scope: str = 'FusedConv'

    def build(self, inputs: tf.Tensor, channels: int, context: Context) -> tf.Tensor:
        """Build the expanding convolution and the projection.

        Returns:
            [batch, height', width', channels].
        """
        expanded = inputs.shape[-1] * self.expansion
        outputs = layers.conv2d(
            inputs, expanded, self.kernel_size, context.style, 'Conv', stride=self.stride
        )
        return layers.conv2d(outputs, channels, 1, context.linear, 'Conv_1')


@dataclasses.dataclass(frozen=True)
class Tucker:
    """Tucker convolution: compress, filter by a full 3x3 convolution, expand.

    Attributes:
        channels: see `Block`.
        ranks: channels of the filter's input and output, as shares of the block's.
        residual: see `Block`.
    """

    channels: int
    ranks: Tuple[float, float] = (0.25, 0.25)
    residual: bool = True
    scope: str = 'TuckerConv'

    def build(self, inputs: tf.Tensor, channels: int, context: Context) -> tf.Tensor:
        """Build the compression, the filter and the expansion.

        Returns:
            [batch, height', width', channels].
        """
        rank_in = _scaled(inputs.shape[-1], self.ranks[0])
        rank_out = _scaled(channels, self.ranks[1])
        outputs = layers.conv2d(inputs, rank_in, 1, context.style, 'Conv')
        outputs = layers.conv2d(outputs, rank_out, 3, context.style, 'Conv_1')
        return layers.conv2d(outputs, channels, 1, context.linear, 'Conv_2')


@dataclasses.dataclass(frozen=True)
class Architecture:
    """One network.

    Attributes:
        scope: the published variable scope.
        first_channels: of the 3x3 convolution on the image.
        stages: blocks by the resolution that they end in, from half the image's size on: their
            outputs are `C1` to `C5`.
        activation: of all layers but those that end a block.
        squeeze_excite: see `Context`.
    """

    scope: str
    first_channels: int
    stages: Tuple[Tuple[Block, ...], ...]
    activation: layers.Activation = tf.nn.relu6
    squeeze_excite: bool = False


CPU = Architecture(
    scope='MobileDetCPU',
    first_channels=16,
    stages=(
        (Inverted(8, 1, residual=False),),
        (Inverted(16, 4, stride=2, residual=False),),
        (
            Inverted(32, stride=2, residual=False),
            *[Inverted(32, 4)] * 3,
        ),
        (
            Inverted(72, kernel_size=5, stride=2, residual=False),
            Inverted(72),
            Inverted(72, 4, kernel_size=5),
            Inverted(72, 4),
            Inverted(72, residual=False),
            *[Inverted(72)] * 3,
        ),
        (
            Inverted(104, kernel_size=5, stride=2, residual=False),
            *[Inverted(104, 4, kernel_size=5)] * 2,
            Inverted(104, 4),
            Inverted(144, residual=False),
        ),
    ),
    activation=layers.hard_swish,
    squeeze_excite=True,
)

DSP = Architecture(
    scope='MobileDetDSP',
    first_channels=32,
    stages=(
        (Inverted(24, 1, residual=False),),
        (
            Fused(32, 4, stride=2, residual=False),
            Fused(32, 4),
            Inverted(32, 4),
            Tucker(32, (0.25, 0.75)),
        ),
        (
            Fused(64, stride=2, residual=False),
            Inverted(64, 4),
            *[Fused(64, 4)] * 2,
        ),
        (
            Fused(120, stride=2, residual=False),
            Inverted(120, 4),
            *[Inverted(120)] * 2,
            Fused(144, residual=False),
            *[Inverted(144)] * 3,
        ),
        (
            Inverted(160, 4, stride=2, residual=False),
            Inverted(160, 4),
            Fused(160, 4),
            Tucker(160, (0.75, 0.75)),
            Inverted(240, residual=False),
        ),
    ),
)

EDGETPU = Architecture(
    scope='MobileDetEdgeTPU',
    first_channels=32,
    stages=(
        (Tucker(16, (0.25, 0.75), residual=False),),
        (
            Fused(16, stride=2, residual=False),
            Fused(16, 4),
            Fused(16),
            Fused(16, 4),
        ),
        (
            Fused(40, kernel_size=5, stride=2, residual=False),
            *[Fused(40, 4)] * 3,
        ),
        (
            Inverted(72, stride=2, residual=False),
            Inverted(72),
            *[Fused(72, 4)] * 2,
            Inverted(96, kernel_size=5, residual=False),
            Inverted(96, kernel_size=5),
            *[Inverted(96)] * 2,
        ),
        (
            Inverted(120, kernel_size=5, stride=2, residual=False),
            Inverted(120),
            Inverted(120, 4, kernel_size=5),
            Inverted(120),
            Inverted(384, kernel_size=5, residual=False),
        ),
    ),
)

GPU = Architecture(
    scope='MobileDetGPU',
    first_channels=32,
    stages=(
        (Tucker(16, residual=False),),
        (
            Fused(32, stride=2, residual=False),
            *[Tucker(32)] * 3,
        ),
        (
            Fused(64, stride=2, residual=False),
            *[Fused(64)] * 2,
            Fused(64, 4),
        ),
        (
            Fused(128, stride=2, residual=False),
            *[Fused(128, 4)] * 3,
            Fused(128, residual=False),
            *[Fused(128)] * 3,
        ),
        (
            Fused(128, 4, stride=2, residual=False),
            *[Fused(128, 4)] * 3,
            Inverted(384, residual=False),
        ),
    ),
)


def mobiledet_style(is_training: bool, options: registry.Options) -> layers.LayerStyle:
    """Return the style as published: He initialization, depthwise weights are regularized too."""
    return layers.LayerStyle(
        is_training=is_training,
        initializer=layers.HE_NORMAL,
        regularizer=layers.l2(options.get('weight_decay', 4e-5)),
        regularize_depthwise=True,
        batch_norm=layers.BatchNorm(
            decay=options.get('batch_norm_decay', 0.99),
            epsilon=options.get('batch_norm_epsilon', 0.01),
            scale=True,
        ),
    )


def mobiledet_features(
    images: tf.Tensor,
    style: layers.LayerStyle,
    options: registry.Options,
    architecture: Architecture,
) -> registry.EndPoints:
    """Return the feature maps of a MobileDet.

    Args:
        images: float32 [batch, height, width, channels], in [-1, 1].
        style: of all layers, but for the activation.
        options: `depth_multiplier` counts.
        architecture: `CPU`, `DSP`, `EDGETPU` or `GPU`.

    Returns:
        float32 [batch, height', width', channels'] by name: `C1` to `C5`, where `C<i>` is 2^i
        times smaller than the image.
    """
    style = style.but(activation=architecture.activation)
    context = Context(style, architecture.squeeze_excite)
    end_points: registry.EndPoints = {}
    counts: Dict[str, int] = {}
    with tf1.variable_scope(architecture.scope):
        first = _scaled(architecture.first_channels, options.depth_multiplier)
        outputs = layers.conv2d(images, first, 3, style, 'Conv', stride=2)
        for index, blocks in enumerate(architecture.stages, start=1):
            for block in blocks:
                number = counts.get(block.scope, 0)
                counts[block.scope] = number + 1
                inputs, channels = outputs, _scaled(block.channels, options.depth_multiplier)
                with tf1.variable_scope(f'{block.scope}_{number}' if number else block.scope):
                    outputs = block.build(inputs, channels, context)
                    if block.residual:
                        outputs = layers.add(outputs, inputs, style)
            end_points[f'C{index}'] = outputs
    return end_points


def _scaled(channels: float, factor: float) -> int:
    """Return channels times a factor, to the nearest multiple of 8, a half up, and at least 8."""
    # The published `_scale_filters`: without slim's rule that no more than a tenth is lost.
    return max(8, int(channels * factor / 8 + 0.5) * 8)


def _he_normal_depthwise(kernel_size: int) -> layers.Initializer:
    """Return the initializer of He et al. 2015 for filters on one channel."""
    return layers.truncated_normal(math.sqrt(2.0) / kernel_size / layers.TRUNCATED_STDDEV)


def _gate(inputs: tf.Tensor, context: Context) -> tf.Tensor:
    """Squeeze and excite (Hu et al. 2018): a factor in [0, 1] for each channel of each image.

    Returns:
        float32 [batch, 1, 1, channels].
    """
    channels = inputs.shape[-1]
    squeeze = context.style.but(batch_norm=None)
    excite = squeeze.but(activation=tf.sigmoid)
    with tf1.variable_scope('SqueezeExcite'):
        means = layers.global_mean(inputs)
        hidden = layers.conv2d(means, _scaled(channels, 0.25), 1, squeeze, 'Conv')
        return layers.conv2d(hidden, channels, 1, excite, 'Conv_1')


for _name, _architecture in (('cpu', CPU), ('dsp', DSP), ('edgetpu', EDGETPU), ('gpu', GPU)):
    registry.add(
        registry.Network(
            name=f'mobiledet_{_name}',
            scope=_architecture.scope,
            features=functools.partial(mobiledet_features, architecture=_architecture),
            style=mobiledet_style,
            feature_maps={2**level: f'C{level}' for level in range(1, 6)},
        )
    )
