"""Parts of the Inception networks: descriptions of layers, and functions that build them.

A network is a tuple of layers. Each layer is a small frozen object with its own parameters:

    Conv('Conv2d_0b_1x7', 160)          7 taps across, 160 channels, stride 1
    MaxPool('MaxPool_1a_3x3', stride=2)
    Mixed('Mixed_4a', (branch, ...))    branches side by side, joined along the channels

A published scope ends in its layer's kernel size, height first, so a table repeats the size only
where the name is missing or wrong.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Callable, Dict, List, Optional, Protocol, Sequence, Tuple

import tensorflow as tf

from model_fns import layers
from model_fns.backbones import registry

tf1 = tf.compat.v1

Depth = Callable[[int], int]
Branch = Tuple['Layer', ...]

# Defaults of the published networks in TF-Slim: their checkpoints were trained with these.
BATCH_NORM_DECAY = 0.9997
BATCH_NORM_EPSILON = 0.001
WEIGHT_DECAY = 4e-5
KEEP_PROB = 0.8
MIN_DEPTH = 16

# The options that every Inception network uses, and those whose channels have a factor.
HONORS = ('dropout_keep_prob', 'weight_decay', 'batch_norm_decay', 'batch_norm_epsilon')
SCALED = ('depth_multiplier', 'min_depth', *HONORS)


class Layer(Protocol):
    """A part of a network."""

    @property
    def end_point(self) -> Optional[str]:
        """Name under which the output is given out; None: it is not."""

    def build(self, inputs: tf.Tensor, style: layers.LayerStyle, depth: Depth) -> tf.Tensor:
        """Add the layer to the graph, in the current variable scope.

        Args:
            inputs: float32 [batch, height, width, channels].
            style: of all layers; a layer changes what it states itself.
            depth: published channel count -> channel count.

        Returns:
            float32 [batch, height', width', channels'].
        """


@dataclasses.dataclass(frozen=True)
class Conv:
    """A convolution.

    Attributes:
        scope: its name.
        channels: output channels.
        kernel: height and width; None: those that the scope ends in.
        stride: in both directions.
        padding: `SAME` or `VALID`.
        rate: atrous rate.
        stddev: of the initial weights, a truncated normal; None: as the style says.
    """

    scope: str
    channels: int
    kernel: Optional[layers.Size] = None
    stride: int = 1
    padding: layers.Padding = 'SAME'
    rate: int = 1
    stddev: Optional[float] = None

    @property
    def end_point(self) -> str:
        """Its scope."""
        return self.scope

    def build(self, inputs: tf.Tensor, style: layers.LayerStyle, depth: Depth) -> tf.Tensor:
        """Build the convolution, with batch norm and activation.

        Returns:
            [batch, height', width', channels'].
        """
        if self.stddev is not None:
            style = style.but(initializer=layers.truncated_normal(self.stddev))
        return layers.conv2d(
            inputs,
            depth(self.channels),
            self.kernel or kernel_size(self.scope),
            style,
            self.scope,
            stride=self.stride,
            rate=self.rate,
            padding=self.padding,
        )


@dataclasses.dataclass(frozen=True)
class MaxPool:
    """Max pooling; the scope ends in the window's size."""

    scope: str
    stride: int = 1
    padding: layers.Padding = 'SAME'

    @property
    def end_point(self) -> str:
        """Its scope."""
        return self.scope

    def build(self, inputs: tf.Tensor, style: layers.LayerStyle, depth: Depth) -> tf.Tensor:
        """Build the max pooling: [batch, height', width', channels']."""
        del style, depth
        size = kernel_size(self.scope)
        return tf.nn.max_pool2d(inputs, size, self.stride, self.padding, name=self.scope)


@dataclasses.dataclass(frozen=True)
class AvgPool:
    """Average pooling at stride 1, of pixels but not of padding; the scope as in `MaxPool`."""

    scope: str

    @property
    def end_point(self) -> str:
        """Its scope."""
        return self.scope

    def build(self, inputs: tf.Tensor, style: layers.LayerStyle, depth: Depth) -> tf.Tensor:
        """Build the average pooling: [batch, height', width', channels']."""
        del style, depth
        # TensorFlow's SAME leaves padding out of a mean. Ports of the weights to PyTorch count it,
        # which moves logits of Inception V3 by up to 1.29 where they reach 10.
        return tf.nn.avg_pool2d(inputs, kernel_size(self.scope), 1, 'SAME', name=self.scope)


@dataclasses.dataclass(frozen=True)
class Fork:
    """Convolutions of the same input, joined along the channels, within a branch."""

    parts: Tuple[Conv, ...]
    end_point: Optional[str] = None

    def build(self, inputs: tf.Tensor, style: layers.LayerStyle, depth: Depth) -> tf.Tensor:
        """Build all parts on the same input, and join them along the channels.

        Returns:
            [batch, height', width', channels'].
        """
        return layers.concat([part.build(inputs, style, depth) for part in self.parts], style)


@dataclasses.dataclass(frozen=True)
class Mixed:
    """An Inception module: branches of the same input, joined along the channels in their order.

    Branch i has the scope `Branch_<i>` in that of the module.
    """

    scope: str
    branches: Tuple[Branch, ...]

    @property
    def end_point(self) -> str:
        """Its scope."""
        return self.scope

    def build(self, inputs: tf.Tensor, style: layers.LayerStyle, depth: Depth) -> tf.Tensor:
        """Build the branches, and join them along the channels.

        Returns:
            [batch, height', width', channels'].
        """
        with tf1.variable_scope(self.scope):
            return join(self.branches, inputs, style, depth)


def join(
    branches: Sequence[Branch], inputs: tf.Tensor, style: layers.LayerStyle, depth: Depth
) -> tf.Tensor:
    """Build the branches in the current variable scope and join them along the channels.

    Returns:
        [batch, height, width, sum of channels].
    """
    outputs = []
    for index, branch in enumerate(branches):
        with tf1.variable_scope(f'Branch_{index}'):
            value = inputs
            for layer in branch:
                value = layer.build(value, style, depth)
            outputs.append(value)
    return layers.concat(outputs, style)


def run(
    network: Sequence[Layer],
    inputs: tf.Tensor,
    style: layers.LayerStyle,
    depth: Depth = int,
) -> registry.EndPoints:
    """Build one layer after the other in the current variable scope.

    Returns:
        The outputs of the layers that have an end point, in order.
    """
    end_points: Dict[str, tf.Tensor] = {}
    outputs = inputs
    for layer in network:
        outputs = layer.build(outputs, style, depth)
        if layer.end_point is not None:
            end_points[layer.end_point] = outputs
    return end_points


def section(network: Sequence[Layer], first: Optional[str], last: str) -> List[Layer]:
    """Return the layers from one end point to another, both included.

    Args:
        network: all layers.
        first: the end point to begin with; None: at the beginning.
        last: the end point to stop at.

    Raises:
        ValueError: there are no such end points, in that order.
    """
    names = [layer.end_point for layer in network]
    if last not in names or (first is not None and first not in names[: names.index(last) + 1]):
        known = ', '.join(name for name in names if name is not None)
        raise ValueError(f'There is no way from {first!r} to {last!r}; end points: {known}.')
    begin = 0 if first is None else names.index(first)
    return list(network[begin : names.index(last) + 1])


def scaled_depth(options: registry.Options) -> Depth:
    """Return the function of channel counts of the options: rounded down, and not too small."""
    # Cut to an integer, not rounded to a multiple of 8 as in MobileNet V2: slim's `depth` function.
    least = int(options.get('min_depth', MIN_DEPTH))
    return lambda channels: max(int(channels * options.depth_multiplier), least)


def kernel_size(scope: str) -> Tuple[int, int]:
    """Return height and width of the kernel that a scope ends in: (1, 7) of `Conv2d_0b_1x7`.

    Raises:
        ValueError: the scope ends in no kernel size.
    """
    size = re.search(r'(\d+)x(\d+)$', scope)
    if size is None:
        raise ValueError(f'No kernel size at the end of {scope!r}.')
    return int(size[1]), int(size[2])


def inception_style(is_training: bool, options: registry.Options) -> layers.LayerStyle:
    """Return the published style of Inception V1 to V4: batch norm without gamma, He weights."""
    return layers.LayerStyle(
        is_training=is_training,
        initializer=layers.Initializer('truncated_normal', 2.0, fan='in'),
        regularizer=layers.l2(options.get('weight_decay', WEIGHT_DECAY)),
        # No scale: a factor before a ReLU is absorbed by the next layer. Published checkpoints have
        # no gamma, so one here would be missing in each of them.
        batch_norm=layers.BatchNorm(
            decay=options.get('batch_norm_decay', BATCH_NORM_DECAY),
            epsilon=options.get('batch_norm_epsilon', BATCH_NORM_EPSILON),
        ),
    )


def dense_logits(
    features: tf.Tensor, num_classes: int, style: layers.LayerStyle, scope: str
) -> tf.Tensor:
    """Build a fully connected layer on [batch, channels]; Xavier initial weights, as published."""
    # slim's arg scope sets the initializer of convolutions only; fully connected layers keep
    # slim's default, which is Xavier.
    return layers.fully_connected(
        features, num_classes, style.linear().but(initializer=layers.XAVIER), scope
    )


@dataclasses.dataclass(frozen=True)
class Auxiliary:
    """Second head of a classifier, on an earlier map.

    Attributes:
        end_point: its input.
        scope: name of its last convolution; braces in it take the kernel's size.
        logits: scope of the linear layer.
        stddevs: of the initial weights of the last convolution and of a linear layer that is a 1x1
            convolution; None: as the style says, and a fully connected layer.
    """

    end_point: str
    scope: str
    logits: str
    stddevs: Optional[Tuple[float, float]] = None

    def features(self, inputs: tf.Tensor, style: layers.LayerStyle, depth: Depth) -> tf.Tensor:
        """Build the layers before the logits.

        A 17x17 map, that of a 299x299 image, becomes 5x5, then 1x1. Smaller maps get smaller
        kernels, as published; what a larger map leaves over is averaged.

        Args:
            inputs: float32 [batch, height, width, channels].
            style: of all layers.
            depth: published channel count -> channel count.

        Returns:
            float32 [batch, 1, 1, 768].
        """
        # slim's `_reduced_kernel_size_for_small_input`.
        size = _limited_size(inputs, 5)
        pooled = tf.nn.avg_pool2d(inputs, size, 3, 'VALID', name='AvgPool_1a_5x5')
        reduced = Conv('Conv2d_1b_1x1', 128).build(pooled, style, depth)
        kernel = _limited_size(reduced, 5)
        stddev = self.stddevs[0] if self.stddevs else None
        last = Conv(self.scope.format(*kernel), 768, kernel, padding='VALID', stddev=stddev)
        outputs = last.build(reduced, style, depth)
        if outputs.shape[1:3] == [1, 1]:
            return outputs
        return layers.global_mean(outputs)

    def build(
        self, inputs: tf.Tensor, num_classes: int, style: layers.LayerStyle, depth: Depth
    ) -> tf.Tensor:
        """Build the logits [batch, num_classes] of a map [batch, height, width, channels]."""
        features = self.features(inputs, style, depth)
        if self.stddevs is None:
            return dense_logits(tf.squeeze(features, [1, 2]), num_classes, style, self.logits)
        linear = style.linear().but(initializer=layers.truncated_normal(self.stddevs[1]))
        return tf.squeeze(layers.conv2d(features, num_classes, 1, linear, self.logits), [1, 2])


@dataclasses.dataclass(frozen=True)
class Inception:
    """Inception network with its classifier: mean over the image, dropout, a linear layer.

    The published networks pool over the feature map's size at the published image size, or over
    the whole of a smaller map: both are the mean. It is the mean of a larger map here as well.

    Attributes:
        scope: the variable scope of all of it.
        layers: from the image on.
        pooled: name of the mean over the image, float32 [batch, 1, 1, channels].
        dropped: name of the same after dropout; empty: it is no end point.
        convolution: scope of the linear layer, a 1x1 convolution; empty: a fully connected one,
            `Logits`, for which what was dropped has rank 2.
        auxiliary: the second head; None: there is none.
        adapt: style of the network -> style of the layers.
    """

    scope: str
    layers: Tuple[Layer, ...]
    pooled: str
    dropped: str = ''
    convolution: str = ''
    auxiliary: Optional[Auxiliary] = None
    adapt: Callable[[layers.LayerStyle], layers.LayerStyle] = lambda style: style

    @property
    def last_end_point(self) -> str:
        """Name of the last feature map."""
        return self.layers[-1].end_point

    def features(
        self,
        images: tf.Tensor,
        style: layers.LayerStyle,
        options: registry.Options = registry.PUBLISHED,
        first_endpoint: Optional[str] = None,
    ) -> registry.EndPoints:
        """Return the feature maps.

        Args:
            images: float32 [batch, height, width, channels], in [-1, 1]; or, with `first_endpoint`,
                the features that it takes.
            style: of all layers; some have initial weights of their own.
            options: the channel factor and `final_endpoint` count.
            first_endpoint: where to begin; None: at the image.

        Returns:
            Float32 [batch, height', width', channels'] by name, from the first on.

        Raises:
            ValueError: there are no such end points.
        """
        last = options.final_endpoint or self.last_end_point
        network = section(self.layers, first_endpoint, last)
        with tf1.variable_scope(self.scope):
            return run(network, images, self.adapt(style), scaled_depth(options))

    def build(
        self,
        images: tf.Tensor,
        num_classes: int,
        style: layers.LayerStyle,
        options: registry.Options,
    ) -> registry.EndPoints:
        """Return the classifier.

        Args:
            images: float32 [batch, height, width, channels], in [-1, 1].
            num_classes: how many logits.
            style: of all layers.
            options: the channel factor and `dropout_keep_prob` count.

        Returns:
            The feature maps and, by the names of the attributes, what follows them; `AuxLogits`,
            where there are such, and `Logits` [batch, num_classes]; `Predictions`.
        """
        end_points = self.features(images, style, options)
        if self.auxiliary is not None:
            inputs = end_points[self.auxiliary.end_point]
            with tf1.variable_scope(f'{self.scope}/AuxLogits'):
                end_points[registry.AUXILIARY_LOGITS] = self.auxiliary.build(
                    inputs, num_classes, style, scaled_depth(options)
                )
        features = end_points[self.last_end_point]
        return {**end_points, **self.classify(features, num_classes, style, options)}

    def classify(
        self,
        features: tf.Tensor,
        num_classes: int,
        style: layers.LayerStyle,
        options: registry.Options,
    ) -> registry.EndPoints:
        """Build the end of the classifier on its last map [batch, height, width, channels]."""
        with tf1.variable_scope(f'{self.scope}/Logits'):
            mean = layers.global_mean(features)
            keep_prob = options.get('dropout_keep_prob', KEEP_PROB)
            kept = layers.dropout(mean, keep_prob, style.is_training, 'Dropout')
            if self.convolution:
                logits = layers.conv2d(kept, num_classes, 1, style.linear(), self.convolution)
                logits = tf.squeeze(logits, [1, 2])
            else:
                kept = tf.squeeze(kept, [1, 2])
                logits = dense_logits(kept, num_classes, style, 'Logits')
        return {
            self.pooled: mean,
            **({self.dropped: kept} if self.dropped else {}),
            registry.LOGITS: logits,
            'Predictions': tf.nn.softmax(logits),
        }

    def describe(
        self,
        network: str,
        feature_maps: Sequence[str],
        style: registry.Style = inception_style,
        **fields: Any,
    ) -> registry.Network:
        """Describe the network for all tasks.

        Args:
            network: its name in a config.
            feature_maps: the last end points of the strides before 32, each half of the next.
            style: the published style.
            **fields: further fields of the description.
        """
        auxiliary = [f'AuxLogits/{self.auxiliary.logits}'] if self.auxiliary else []
        maps = (*feature_maps, self.last_end_point)
        return registry.Network(
            name=network,
            scope=self.scope,
            features=self.features,
            style=style,
            # The last map has stride 32. `-` binds before `>>`.
            feature_maps={64 >> len(maps) - index: name for index, name in enumerate(maps)},
            logits_scopes=tuple(f'{self.scope}/{part}' for part in ('Logits', *auxiliary)),
            **{'build': self.build, 'image_size': 299, 'honors': HONORS, **fields},
        )


def _limited_size(inputs: tf.Tensor, size: int) -> Tuple[int, int]:
    """Return height and width of a map, or that size where it is larger or not known."""
    height, width = inputs.shape[1:3].as_list()
    return min(height or size, size), min(width or size, size)
