"""Parts of the MobileNets: inverted residuals (Sandler et al. 2018) and the classifier.

MobileNet V2, V3 and EdgeTPU are lists of `Convolution` and `InvertedResidual`, which
`mobilenet_features` builds, named as the published networks name them.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Mapping, Sequence, Tuple, Union

import tensorflow as tf

from model_fns import layers
from model_fns.backbones import output_strides, registry

tf1 = tf.compat.v1

# The options that every MobileNet uses.
HONORS = (
    'depth_multiplier',
    'min_depth',
    'output_stride',
    'dropout_keep_prob',
    'weight_decay',
    'batch_norm_decay',
    'batch_norm_epsilon',
)


@dataclasses.dataclass(frozen=True)
class Channels:
    """Channel counts of a network's layers under a depth multiplier.

    Attributes:
        depth_multiplier: factor on all of them.
        min_depth: least count that the factor leaves.
        divisor: counts are rounded to a multiple of it.
    """

    depth_multiplier: float = 1.0
    min_depth: int = 8
    divisor: int = 8

    @classmethod
    def from_options(cls, options: registry.Options) -> Channels:
        """Return the channel counts under the options of a network."""
        # Both are 8 in slim's `depth_multiplier`.
        least, divisor = (int(options.get(name, 8)) for name in ('min_depth', 'channel_divisor'))
        return cls(options.depth_multiplier, least, divisor)

    def __call__(self, channels: float) -> int:
        """Return the channel count of a layer that has `channels` at a factor of one."""
        return layers.divisible_channels(
            channels * self.depth_multiplier, self.divisor, self.min_depth
        )


@dataclasses.dataclass(frozen=True)
class Convolution:
    """A plain convolution: the first or the last layer.

    Attributes:
        channels: output channels.
        kernel_size: height and width.
        stride: input size over output size.
        activation: after batch norm.
    """

    channels: float
    kernel_size: int
    stride: int
    activation: layers.Activation


@dataclasses.dataclass(frozen=True)
class InvertedResidual:
    """Inverted residual: expand, filter each channel, project; add the input if shapes agree.

    Attributes:
        expansion: expanded channels over input channels, before rounding to a multiple of 8; 1: no
            expansion.
        channels: output channels.
        kernel_size: height and width of the filter.
        stride: input size over output size.
        activation: of the expanded channels; the output has none.
        squeeze_excite: whether the expanded channels are scaled by a gate each, which is computed
            from their means.
        fused: whether expansion and filter are one full convolution.
        residual: whether the input is added where the shapes agree.
    """

    expansion: float
    channels: float
    kernel_size: int = 3
    stride: int = 1
    activation: layers.Activation = tf.nn.relu
    squeeze_excite: bool = False
    fused: bool = False
    residual: bool = True


Layer = Union[Convolution, InvertedResidual]


def mobilenet_style(is_training: bool, options: registry.Options) -> layers.LayerStyle:
    """Return the published style of V2 and later: depthwise weights are not regularized."""
    return layers.LayerStyle(
        is_training=is_training,
        # slim's `training_scope`: stddev 0.09, weight decay 4e-5, batch norm decay 0.997.
        initializer=layers.truncated_normal(0.09),
        regularizer=layers.l2(options.get('weight_decay', 4e-5)),
        batch_norm=layers.BatchNorm(
            decay=options.get('batch_norm_decay', 0.997),
            epsilon=options.get('batch_norm_epsilon', 0.001),
            scale=True,
        ),
    )


def detection_style(is_training: bool, options: registry.Options) -> layers.LayerStyle:
    """Return the style for detection, which is published with a slower decay of batch norm."""
    # Feature extractors of the Object Detection API pass bn_decay=0.9997 to `training_scope`.
    return mobilenet_style(
        is_training, options.but(batch_norm_decay=options.get('batch_norm_decay', 0.9997))
    )


def mobilenet_features(
    images: tf.Tensor,
    network: Sequence[Layer],
    style: layers.LayerStyle,
    options: registry.Options,
    scope: str,
) -> registry.EndPoints:
    """Return the feature maps of a list of layers.

    Args:
        images: float32 [batch, height, width, channels].
        network: the layers, from the image on; they say their own activations.
        style: of all layers, but for the activation. Batch norm has a scale and an offset whatever
            it says, as in every published MobileNet.
        options: factors and rounding of channels, `output_stride`, `padding` (`FIXED` is what the
            published networks call explicit padding) and `final_endpoint` count.
        scope: variable scope of the network.

    Returns:
        Float32 [batch, height', width', channels'] by name: `layer_<i>` for i from 1, and, where
        layer i has them, `layer_<i>/expansion_output`, `layer_<i>/depthwise_output` (before the
        gate, if any), `layer_<i>/output` (the same as `layer_<i>`).

    Raises:
        ValueError: there is no such final end point.
    """
    names, last = _names(network), options.final_endpoint
    if last is not None:
        if last not in names:
            raise ValueError(f'{scope} has no layer {last!r}; it has {", ".join(names)}.')
        names = names[: names.index(last) + 1]
    channels, padding = Channels.from_options(options), options.padding
    style = style.with_batch_norm(center=True, scale=True)
    strides = [layer.stride for layer in network]
    steps = output_strides.atrous_strides(strides, options.output_stride)
    end_points: registry.EndPoints = {}
    outputs, plain = images, 0
    with tf1.variable_scope(scope):
        for name, layer, layer_scope, step in zip(names, network, _scopes(network), steps):
            if isinstance(layer, Convolution):
                numbered = style.gate_number(plain)
                plain += 1
                outputs = _convolution(
                    outputs, layer, numbered, channels, layer_scope, step, padding
                )
            else:
                with tf1.variable_scope(layer_scope):
                    parts = _inverted_residual(outputs, layer, style, channels, step, padding)
                end_points.update({f'{name}/{part}': value for part, value in parts.items()})
                outputs = parts['output']
            end_points[name] = outputs
    return end_points


def add_logits(
    end_points: registry.EndPoints,
    features: tf.Tensor,
    num_classes: int,
    style: layers.LayerStyle,
    keep_prob: float,
    *,
    scope: str,
    pool_name: str = 'global_pool',
) -> None:
    """Add the classifier's end points: mean over the image, dropout, a linear layer.

    Args:
        end_points: gets `pool_name`, `Logits` and `Predictions`.
        features: float32 [batch, height, width, channels].
        num_classes: how many logits.
        style: of the linear layer.
        keep_prob: of dropout.
        scope: variable scope of the network.
        pool_name: the end point of the mean.
    """
    with tf1.variable_scope(f'{scope}/Logits'):
        pooled = layers.global_mean(features)
        dropped = layers.dropout(pooled, keep_prob, style.is_training, 'Dropout')
        logits = layers.conv2d(dropped, num_classes, 1, style.linear(), 'Conv2d_1c_1x1')
        logits = tf.squeeze(logits, [1, 2])
        end_points[pool_name] = pooled
        end_points[registry.LOGITS] = logits
        end_points['Predictions'] = tf.nn.softmax(logits)


def feature_maps(network: Sequence[Layer]) -> Mapping[int, str]:
    """Return the name of the last layer of each stride, by stride."""
    maps, stride = {}, 1
    for name, layer in zip(_names(network), network):
        stride *= layer.stride
        maps[stride] = name
    return maps


def segmentation(network: Sequence[Layer], final_endpoint: str) -> registry.Segmentation:
    """Describe a list of layers for DeepLab.

    Args:
        network: the layers.
        final_endpoint: the last end point that is built, and the input of the heads.
    """
    maps = feature_maps(network)
    return registry.Segmentation(
        last_end_point=final_endpoint,
        # Where the features are widest: before they are projected. At stride 2 some networks only
        # have a convolution.
        decoder_taps={
            2: maps[2],
            **{stride: f'{maps[stride]}/depthwise_output' for stride in (4, 8, 16)},
        },
        honors=(*(name for name in HONORS if name != 'dropout_keep_prob'), 'channel_divisor'),
        options=registry.Segmentation.options.but(final_endpoint=final_endpoint),
    )


def keras_layers(network: Sequence[Layer]) -> Tuple[str, ...]:
    """Return the scopes of the layers in Keras' order, each followed by its batch norm."""
    scopes = []
    for layer, scope in zip(network, _scopes(network)):
        if isinstance(layer, Convolution):
            scopes.append(scope)
        else:
            parts = ('expand', 'depthwise', 'project')[int(layer.expansion == 1) :]
            scopes += [f'{scope}/{part}' for part in parts]
    return tuple(f'{scope}{part}' for scope in scopes for part in ('', '/BatchNorm'))


def _names(network: Sequence[Layer]) -> Sequence[str]:
    return [f'layer_{index + 1}' for index in range(len(network))]


def _scopes(network: Sequence[Layer]) -> Tuple[str, ...]:
    """Return the variable scopes of the layers: `Conv`, `expanded_conv`, `expanded_conv_1`..."""
    counts: Dict[str, int] = {}
    scopes = []
    for layer in network:
        base = 'Conv' if isinstance(layer, Convolution) else 'expanded_conv'
        count = counts.get(base, 0)
        scopes.append(f'{base}_{count}' if count else base)
        counts[base] = count + 1
    return tuple(scopes)


def _convolution(
    inputs: tf.Tensor,
    layer: Convolution,
    style: layers.LayerStyle,
    channels: Channels,
    scope: str,
    step: Tuple[int, int],
    padding: layers.Padding,
) -> tf.Tensor:
    stride, rate = step
    return layers.conv2d(
        inputs,
        channels(layer.channels),
        layer.kernel_size,
        style.but(activation=layer.activation),
        scope,
        stride=stride,
        # slim inserts no rate for 1x1 kernels either.
        rate=rate if layer.kernel_size > 1 else 1,
        padding=padding,
    )


def _inverted_residual(
    inputs: tf.Tensor,
    block: InvertedResidual,
    style: layers.LayerStyle,
    channels: Channels,
    step: Tuple[int, int],
    padding: layers.Padding,
) -> Dict[str, tf.Tensor]:
    """Return the outputs of a block's parts by name, in the current variable scope."""
    stride, rate = step
    parts: Dict[str, tf.Tensor] = {}
    active = style.but(activation=block.activation)
    filtered: Dict[str, Any] = {'stride': stride, 'rate': rate, 'padding': padding}
    outputs = inputs
    # Always rounded to 8, whatever the divisor of outputs is: `expand_input_by_factor` of slim.
    expanded = layers.divisible_channels(inputs.shape[-1] * block.expansion)
    if block.expansion > 1:
        kernel_size, how = (block.kernel_size, filtered) if block.fused else (1, {})
        outputs = layers.conv2d(inputs, expanded, kernel_size, active, 'expand', **how)
        parts['expansion_output'] = outputs
    if not block.fused:
        outputs = layers.depthwise_conv2d(
            outputs, block.kernel_size, active.gate_number(1), 'depthwise', **filtered
        )
        parts['depthwise_output'] = outputs
    if block.squeeze_excite:
        # Howard et al. 2019, section 5.3: a quarter of the expanded channels. EfficientNets take a
        # quarter of the block's input.
        hidden = layers.divisible_channels(outputs.shape[-1] / 4)
        # Behind the filter's activation, as in slim; `depthwise_output` is before the gate.
        outputs = gated(outputs, hidden, style, tf.nn.relu, layers.hard_sigmoid)
    linear = style.but(activation=None)
    outputs = layers.conv2d(outputs, channels(block.channels), 1, linear, 'project')
    if block.residual and stride == 1 and outputs.shape[-1] == inputs.shape[-1]:
        outputs = layers.add(outputs, inputs, style)
    parts['output'] = outputs
    return parts


def gated(
    inputs: tf.Tensor,
    hidden: int,
    style: layers.LayerStyle,
    squeeze: layers.Activation,
    excite: layers.Activation,
) -> tf.Tensor:
    """Squeeze and excite (Hu et al. 2018): each channel of an image times a gate in [0, 1].

    The gates are computed from the means of the channels by two layers without batch norm, in the
    scope `squeeze_excite` of the current one.

    Args:
        inputs: [batch, height, width, channels].
        hidden: channels between the two layers.
        style: of these, but for normalization and activation.
        squeeze: activation of the first.
        excite: of the second.
    """
    linear = style.linear()
    with tf1.variable_scope('squeeze_excite'):
        means = layers.global_mean(inputs)
        squeezed = layers.conv2d(means, hidden, 1, linear.but(activation=squeeze), 'Conv')
        gates = layers.conv2d(
            squeezed, inputs.shape[-1], 1, linear.but(activation=excite), 'Conv_1'
        )
    return layers.multiply(inputs, gates, style, f'squeeze_excite/{layers.GATED}')
