"""Activations after a layer, rounded where its style is quantized."""

from __future__ import annotations

import math
from typing import Callable, Tuple

import tensorflow as tf

from model_fns.layers import quantization
from model_fns.layers.style import LayerStyle


def hard_swish(inputs: tf.Tensor) -> tf.Tensor:
    """Compute swish with a piecewise linear gate: x * relu6(x + 3) / 6 (Howard et al. 2019).

    Returns:
        A tensor of the shape of `inputs`.
    """
    return inputs * tf.nn.relu6(inputs + 3.0) * (1.0 / 6.0)


def hard_sigmoid(inputs: tf.Tensor) -> tf.Tensor:
    """Compute relu6(x + 3) / 6, with the rounded sixth that published weights expect.

    Returns:
        A tensor of the shape of `inputs`.
    """
    # TF-Slim's mobilenet_v3 has 0.16667 in its gates, and 1 / 6 in hard swish.
    return tf.nn.relu6(inputs + 3.0) * 0.16667


def gelu(inputs: tf.Tensor) -> tf.Tensor:
    """Compute x times the normal distribution's share below x (Hendrycks and Gimpel 2016).

    Returns:
        A tensor of the shape of `inputs`.
    """
    # timm's ConvNeXt has the exact form, not that with tanh.
    return tf.nn.gelu(inputs, approximate=False)


def _trained_gelu(inputs: tf.Tensor) -> tf.Tensor:
    """Compute `gelu` with a gradient that passes five times over the numbers.

    TensorFlow's own passes eight times. Exports have the other form, whose ops converters fuse.
    """

    @tf.custom_gradient
    def compute(values: tf.Tensor) -> Tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        scaled = values * math.sqrt(0.5)
        share = 0.5 + 0.5 * tf.math.erf(scaled)

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            density = tf.exp(-tf.square(scaled)) * (1.0 / math.sqrt(2.0 * math.pi))
            return upstream * (share + values * density)

        return values * share, gradient

    return compute(inputs)


def activate(outputs: tf.Tensor, style: LayerStyle) -> tf.Tensor:
    """Return the style's activation of what a layer computed, in the layer's variable scope.

    Where the style rounds, it rounds what follows a ReLU or ReLU6, each product in a hard swish or
    hard sigmoid, and otherwise what comes in: other activations are computed in float.

    Returns:
        A tensor of the shape of `outputs`.
    """
    activation, settings = style.activation, style.quantization
    if activation is gelu and style.is_training:
        activation = _trained_gelu
    if settings is None:
        return outputs if activation is None else activation(outputs)
    if activation in (tf.nn.relu, tf.nn.relu6):
        return rounded(activation(outputs), style, settings.output, at_least_0=True)
    if activation in (hard_swish, hard_sigmoid):
        return _rounded_gate(outputs, style)
    outputs = rounded(outputs, style, settings.output)
    return outputs if activation is None else activation(outputs)


def _rounded_gate(outputs: tf.Tensor, style: LayerStyle) -> tf.Tensor:
    """Compute hard swish or hard sigmoid, and round each step."""
    settings = style.quantization
    outputs = rounded(outputs, style, quantization.BEFORE_SUM)
    parent = settings.range_name('').rpartition('/')[0]
    gate = quantization.quantize_outputs(
        tf.nn.relu6(outputs + 3.0),
        settings,
        style.is_training,
        f'{parent}/{settings.gate}',
        at_least_0=True,
    )
    if style.activation is hard_sigmoid:
        return rounded(gate * 0.16667, style, f'mul/{quantization.PRODUCT}')
    product = rounded(outputs * gate, style, f'hard_swish/mul/{quantization.PRODUCT}')
    return rounded(product * (1.0 / 6.0), style, f'hard_swish/mul_1/{quantization.PRODUCT}')


def rounded(
    values: tf.Tensor, style: LayerStyle, range_name: str, at_least_0: bool = False
) -> tf.Tensor:
    """Return values rounded to a range of a layer in the current scope, where the style rounds.

    Args:
        values: of any shape; float32 where the style rounds.
        style: of the layer.
        range_name: the last part of the name of the range.
        at_least_0: whether no value is below 0, as after a ReLU.
    """
    settings = style.quantization
    if settings is None:
        return values
    return quantization.quantize_outputs(
        values, settings, style.is_training, settings.range_name(range_name), at_least_0
    )
