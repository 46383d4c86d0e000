"""Operations between layers with weights: sums, products, gates, resizing, dropout.

Networks call these instead of plain operators, so that the style of the layers applies here too.
"""

from __future__ import annotations

from typing import Optional, Sequence, Union

import tensorflow as tf

from model_fns.layers import forward_pass, quantization
from model_fns.layers.activations import rounded
from model_fns.layers.style import Activation, LayerStyle, Size
from model_fns.structures import images as image_ops

tf1 = tf.compat.v1

Side = Union[int, tf.Tensor]


def add(
    first: tf.Tensor,
    second: tf.Tensor,
    style: LayerStyle,
    activation: Optional[Activation] = None,
    range_name: str = '',
) -> tf.Tensor:
    """Add two branches in the current scope, as of a residual unit or of a pyramid's levels.

    Args:
        first: [batch, height, width, channels], or what broadcasts to it.
        second: the same.
        style: of the layers around it; its own activation does not hold for sums.
        activation: of the sum; None: none.
        range_name: of the range that a style rounds it to, in the current scope; where there is
            more than one sum in that. Empty: as published for a residual unit.
    """
    total = style.cast(first) + style.cast(second)
    total = total if activation is None else activation(total)
    default = quantization.SUM if activation is None else quantization.OUTPUTS
    return rounded(total, style, range_name or default)


def multiply(
    values: tf.Tensor,
    factor: Union[tf.Tensor, float],
    style: LayerStyle,
    range_name: str = '',
) -> tf.Tensor:
    """Return features times a gate that broadcasts to them, or times a number.

    Args:
        values: [batch, height, width, channels].
        factor: the gate, or the number.
        style: of the layers around it.
        range_name: of the range that a style rounds it to, in the current scope; empty: it is not
            rounded.
    """
    product = style.cast(values) * (style.cast(factor) if tf.is_tensor(factor) else factor)
    return rounded(product, style, range_name) if range_name else product


def concat(values: Sequence[tf.Tensor], style: LayerStyle) -> tf.Tensor:
    """Concatenate branches [batch, height, width, channels] along the channels."""
    values = [style.cast(value) for value in values]
    return tf.concat(values, 3) if len(values) > 1 else values[0]


def global_mean(features: tf.Tensor) -> tf.Tensor:
    """Average [batch, height, width, channels] over the image: [batch, 1, 1, channels]."""
    return tf.reduce_mean(features, [1, 2], keepdims=True)


def resize(features: tf.Tensor, height: Side, width: Side, method: str = 'bilinear') -> tf.Tensor:
    """Return features [batch, height, width, channels] at another size, corners on corners.

    Args:
        features: of any type of the layers.
        height: of the result, an int or an int32 scalar.
        width: of the result.
        method: `bilinear` or `nearest`.

    Returns:
        The type of the features, but float32 where integers are resized bilinearly.
    """
    # As `resize_bilinear` of DeepLab and the mask head of the Object Detection API.
    resized = image_ops.resize(features, height, width, method, align_corners=True)
    return tf.cast(resized, features.dtype) if features.dtype.is_floating else resized


def enlarge(features: tf.Tensor, factor: Size = 2, method: str = 'nearest') -> tf.Tensor:
    """Return a larger map that covers the same part of the image.

    Args:
        features: [batch, height, width, channels], of any type of the layers.
        factor: one for both directions, or (vertical, horizontal).
        method: `nearest`, which repeats values, or `bilinear`.
    """
    rows, columns = (factor, factor) if isinstance(factor, int) else factor
    size = tf.shape(features)[1:3] * [rows, columns]
    if features.shape[1:3].is_fully_defined():
        size = [rows * features.shape[1], columns * features.shape[2]]
    if method == 'bilinear':
        # Between the centers of cells, half a cell from the map's border.
        return tf.cast(tf.image.resize(features, size, 'bilinear'), features.dtype)
    # One kernel for both directions; repeats by nearest neighbor without half-pixel centers.
    return tf.raw_ops.ResizeNearestNeighbor(images=features, size=size)


def dropout(
    inputs: tf.Tensor,
    keep_prob: float,
    is_training: bool,
    scope: str,
    whole_examples: bool = False,
) -> tf.Tensor:
    """Keep each value with a probability, and divide it by that; in training only.

    What is dropped depends on the seed, the layer's name and the global step.

    Args:
        inputs: [batch, ...], of any type of the layers.
        keep_prob: the probability.
        is_training: whether anything is dropped.
        scope: name of the layer.
        whole_examples: all values of an example are kept or none, as branches of residual units
            are dropped (Huang et al. 2016, "Deep Networks with Stochastic Depth").
    """
    if not is_training or keep_prob >= 1.0:
        return inputs
    with tf1.name_scope(scope):
        shape = tf.shape(inputs)
        if whole_examples:
            shape = tf.concat([shape[:1], tf.ones([inputs.shape.rank - 1], tf.int32)], 0)
        # Stateless: a resumed or repeated step drops the same values, which replays rely on.
        uniform = tf.random.stateless_uniform(shape, forward_pass.step_seed(scope))
        return tf.where(uniform < keep_prob, inputs * (1.0 / keep_prob), tf.zeros_like(inputs))


def to_float32(outputs: tf.Tensor) -> tf.Tensor:
    """Cast outputs for losses and post-processing; no op where they are float32 already.

    Returns:
        A tensor of the same shape.
    """
    return outputs if outputs.dtype == tf.float32 else tf.cast(outputs, tf.float32)


def divisible_channels(
    channels: float,
    divisor: int = 8,
    at_least: Optional[int] = None,
    least_share: float = 0.9,
) -> int:
    """Return channels rounded to a multiple of the divisor.

    The rounding rule of the MobileNets (V2 and later).

    Args:
        channels: to round.
        divisor: what the result is a multiple of.
        at_least: the least result; None: the divisor.
        least_share: rounding down leaves this share of the channels, else they are rounded up.
    """
    at_least = divisor if at_least is None else at_least
    rounded = max(at_least, int(channels + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < least_share * channels else rounded
