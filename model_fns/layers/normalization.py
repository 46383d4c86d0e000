"""Batch norm and layer norm, their statistics in float32 whatever they are applied to."""

from __future__ import annotations

from typing import Any, NamedTuple, Tuple, Union

import tensorflow as tf

from estimator_lib import graph_state
from model_fns.layers import forward_pass, statistics
from model_fns.layers.style import BatchNorm
from model_fns.layers.weights import ONES, ZEROS, variable

tf1 = tf.compat.v1


def batch_norm(
    inputs: tf.Tensor, settings: BatchNorm, is_training: bool, scope: str = 'BatchNorm'
) -> tf.Tensor:
    """Apply batch norm over all axes but the last.

    In training the moving statistics follow as moving <- decay * moving + (1 - decay) * batch,
    with the unbiased variance (N / (N - 1)), through the graph's `UPDATE_OPS` or the updates of the
    forward pass.

    Args:
        inputs: [batch, height, width, channels] or [batch, channels]; float32, bfloat16 or float16.
        settings: decay, epsilon, and which variables there are.
        is_training: whether the batch's statistics are used, where `settings.train` agrees.
        scope: name of the layer.

    Returns:
        The same shape and type.
    """
    with tf1.variable_scope(scope):
        gamma, beta, mean, variance = norm_variables(inputs.shape[-1], settings)
        image = inputs if inputs.shape.rank == 4 else inputs[:, tf.newaxis, tf.newaxis, :]
        if not (is_training and settings.train):
            outputs = _fused(image, gamma, beta, mean, variance, settings, False).y
        else:
            if settings.synchronized and graph_state.num_replicas() > 1:
                outputs, *moved = _synchronized(image, gamma, beta, mean, variance, settings)
            else:
                fused = _fused(image, gamma, beta, mean, variance, settings, True)
                outputs, *moved = fused.y, fused.batch_mean, fused.batch_variance
            moved = tuple(zip((mean, variance), moved))
            if settings.inplace_update:
                # `updates_collections=None` of TF-Slim: outputs wait for the updates.
                updates = [moving.assign(value, read_value=False) for moving, value in moved]
                with tf.control_dependencies(updates):
                    outputs = tf.identity(outputs)
            else:
                for moving, value in moved:
                    forward_pass.add_update(moving, value)
        return outputs if inputs.shape.rank == 4 else tf.squeeze(outputs, [1, 2])


def layer_norm(inputs: tf.Tensor, epsilon: float, scope: str = 'LayerNorm') -> tf.Tensor:
    """Apply layer norm over the channels of each pixel (Ba et al. 2016).

    Args:
        inputs: [..., channels]; float32, bfloat16 or float16.
        epsilon: added to the variance.
        scope: name of the layer.

    Returns:
        The same shape and type.
    """
    with tf1.variable_scope(scope):
        gamma = variable('gamma', inputs.shape[-1:], ONES)
        beta = variable('beta', inputs.shape[-1:], ZEROS)
    values = tf.cast(inputs, tf.float32)
    outputs = _normalize_channels(
        values, tf.convert_to_tensor(gamma), tf.convert_to_tensor(beta), epsilon
    )
    return tf.cast(outputs, inputs.dtype)


class NormVariables(NamedTuple):
    """Parameters and statistics of batch norm, [channels] each; constants where there is none.

    Attributes:
        gamma: the scale.
        beta: the offset.
        mean: the moving mean.
        variance: the moving variance.
    """

    gamma: Union[tf.Variable, tf.Tensor]
    beta: Union[tf.Variable, tf.Tensor]
    mean: tf.Variable
    variance: tf.Variable


def norm_variables(channels: int, settings: BatchNorm) -> NormVariables:
    """Return the variables of batch norm, in the current variable scope."""
    # The names are those of TF-Slim, which published checkpoints have.
    shape = [channels]
    return NormVariables(
        # Constants where there is no variable: the fused kernel takes both in any case.
        variable('gamma', shape, ONES) if settings.scale else tf.ones(shape),
        variable('beta', shape, ZEROS) if settings.center else tf.zeros(shape),
        variable('moving_mean', shape, ZEROS, trainable=False),
        variable('moving_variance', shape, ONES, trainable=False),
    )


def _normalize_channels(
    inputs: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float
) -> tf.Tensor:
    """Normalize the last axis; its gradient is written out, which saves half of the time."""

    @tf.custom_gradient
    def normalize(values: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor) -> Any:
        # Two passes: the mean of squares minus the squared mean loses digits where the mean is
        # large.
        centered = values - tf.reduce_mean(values, -1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centered), -1, keepdims=True)
        factor = tf.math.rsqrt(variance + epsilon)
        normal = centered * factor

        def gradient(upstream: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            scaled = upstream * scale
            mean = tf.reduce_mean(scaled, -1, keepdims=True)
            along = normal * tf.reduce_mean(scaled * normal, -1, keepdims=True)
            others = list(range(inputs.shape.rank - 1))
            return (
                (scaled - mean - along) * factor,
                tf.reduce_sum(upstream * normal, others),
                tf.reduce_sum(upstream, others),
            )

        return normal * scale + offset, gradient

    return normalize(inputs, gamma, beta)


def _synchronized(
    image: tf.Tensor,
    gamma: tf.Tensor,
    beta: tf.Tensor,
    mean: tf.Variable,
    variance: tf.Variable,
    settings: BatchNorm,
) -> Tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return outputs and the new moving statistics, by the batches of all replicas."""
    # Read once: a second read could come after the update.
    old = tf.convert_to_tensor(mean), tf.convert_to_tensor(variance)
    moments = statistics.batch_moments(image, True, old[0])
    factor = tf.math.rsqrt(moments.variance + settings.epsilon) * gamma
    outputs = statistics.affine(image, factor, beta - moments.mean * factor)
    batch = tf.stop_gradient(moments.mean), moments.unbiased
    moved = [one - (one - new) * (1.0 - settings.decay) for one, new in zip(old, batch)]
    return outputs, moved[0], moved[1]


def _fused(
    image: tf.Tensor,
    gamma: tf.Tensor,
    beta: tf.Tensor,
    mean: tf.Variable,
    variance: tf.Variable,
    settings: BatchNorm,
    is_training: bool,
) -> Any:
    # The kernel computes the new moving statistics from the old ones and the weight of the new. It
    # refuses old ones with a weight of 1, which would discard them.
    factor = 1.0 - settings.decay if is_training else 1.0
    forget = is_training and factor == 1.0
    return tf.raw_ops.FusedBatchNormV3(
        x=image,
        scale=gamma,
        offset=beta,
        mean=tf.zeros([0]) if forget else mean,
        variance=tf.zeros([0]) if forget else variance,
        epsilon=settings.epsilon,
        exponential_avg_factor=factor,
        is_training=is_training,
    )
