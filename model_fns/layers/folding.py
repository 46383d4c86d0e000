"""Batch norm folded into the weights of the layer before it, so that the weights can be rounded.

A device runs the network without batch norm: its weights are w m and its biases b - u m, with
m = gamma / sqrt(variance + epsilon) and the mean u (Jacob et al. 2018, 3.2; Krishnamoorthi 2018,
3.2.2). Training rounds w m of the moving variance, whose range does not jump from batch to batch,
and scales the outputs to the batch's variance. The batch's statistics need the product with w
itself, so that a training step computes two products.
"""

from __future__ import annotations

from typing import Callable, Optional, Sequence, Tuple

import tensorflow as tf

from model_fns.layers import forward_pass, quantization
from model_fns.layers.normalization import NormVariables, norm_variables
from model_fns.layers.statistics import affine, batch_moments
from model_fns.layers.style import BatchNorm, LayerStyle

tf1 = tf.compat.v1

# (inputs, weights) -> outputs.
Compute = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def folded(
    inputs: tf.Tensor,
    weights: tf.Tensor,
    biases: Optional[tf.Tensor],
    compute: Compute,
    scale_shape: Sequence[int],
    style: LayerStyle,
    norm_scope: str,
) -> tf.Tensor:
    """Return a product with rounded weights, biases and batch norm.

    Args:
        inputs: of the product.
        weights: of the product.
        biases: [channels], added before batch norm; None: none.
        compute: the product.
        scale_shape: the shape in which a number for each channel of the outputs multiplies weights.
        style: has batch norm, and a quantization.
        norm_scope: name of batch norm.

    Returns:
        Outputs of batch norm.
    """
    settings, norm = style.quantization, style.batch_norm
    channels = int(tf.TensorShape(scale_shape).num_elements())
    with tf1.variable_scope(norm_scope):
        variables = norm_variables(channels, norm)
    # Read once: a second read may see the statistics before or after their update.
    kept = variables._replace(
        mean=tf.convert_to_tensor(variables.mean), variance=tf.convert_to_tensor(variables.variance)
    )
    slow = tf.math.rsqrt(kept.variance + norm.epsilon) * kept.gamma
    fitted = quantization.quantize_weights(
        weights * tf.reshape(slow, scale_shape), settings, style.is_training
    )
    outputs = compute(inputs, fitted)
    if not (style.is_training and norm.train):
        bias = kept.beta - kept.mean * slow
        return _biased(outputs, bias if biases is None else bias + biases * slow)
    # With this second product and the ranges, a step took 2.3 to 3 times as long (MobileNet V1 0.25
    # at 96 pixels).
    raw = compute(inputs, weights)
    if biases is not None:
        raw = tf.nn.bias_add(raw, biases)
    mean, variance, unbiased = batch_moments(raw, norm.synchronized, kept.mean)
    factor, bias = _correction(kept, norm, mean, variance, settings.freezes_batch_norm())
    if biases is not None:
        bias += biases * slow * factor
    updates = _moved(variables, kept, norm, mean, unbiased, settings.freezes_batch_norm())
    with tf.control_dependencies(updates):
        return affine(outputs, factor, bias)


def _correction(
    kept: NormVariables,
    norm: BatchNorm,
    mean: tf.Tensor,
    variance: tf.Tensor,
    frozen: Optional[tf.Tensor],
) -> Tuple[tf.Tensor, tf.Tensor]:
    """Compute the change from outputs by the moving variance to those by the batch's statistics.

    Returns:
        A factor and an offset, [channels] each.
    """
    inverse = tf.math.rsqrt(variance + norm.epsilon)
    factor = inverse * tf.sqrt(kept.variance + norm.epsilon)
    bias = kept.beta - mean * inverse * kept.gamma
    if frozen is None:
        return factor, bias
    slow = tf.math.rsqrt(kept.variance + norm.epsilon) * kept.gamma
    return (
        tf.where(frozen, tf.ones_like(factor), factor),
        tf.where(frozen, kept.beta - kept.mean * slow, bias),
    )


def _moved(
    variables: NormVariables,
    kept: NormVariables,
    norm: BatchNorm,
    mean: tf.Tensor,
    unbiased: tf.Tensor,
    frozen: Optional[tf.Tensor],
) -> Sequence[tf.Operation]:
    """Update the moving statistics, and return the ops that do, unless others run them."""
    step = tf.constant(1.0 - norm.decay)
    if frozen is not None:
        step = tf.where(frozen, 0.0, step)
    updates = []
    moved = (
        (variables.mean, kept.mean, mean),
        (variables.variance, kept.variance, unbiased),
    )
    for moving, old, batch in moved:
        new = old - (old - tf.stop_gradient(batch)) * step
        if norm.inplace_update:
            updates.append(moving.assign(new, read_value=False))
        else:
            forward_pass.add_update(moving, new)
    return updates


def _biased(values: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    return tf.nn.bias_add(values, bias)
