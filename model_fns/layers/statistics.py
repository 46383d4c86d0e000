"""Mean and variance of each channel, of a batch or of those of all replicas; in float32."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from estimator_lib import graph_state

_EPSILON = 1e-3  # what the kernel adds to a variance


class Moments(NamedTuple):
    """Statistics of a batch for batch norm, [channels] each.

    Attributes:
        mean: of the values.
        variance: the mean of the squared distances from the mean.
        unbiased: the variance times N / (N - 1) for N values; it has no gradient.
    """

    mean: tf.Tensor
    variance: tf.Tensor
    unbiased: tf.Tensor


def batch_moments(values: tf.Tensor, synchronized: bool, shift: tf.Tensor) -> Moments:
    """Return the moments of a batch, over all axes but the last.

    Over replicas, with counts n, means u and variances v of each, the mean is sum(n u) / sum(n),
    and the variance sum(n (v + (u - s)^2)) / sum(n) - (sum(n (u - s)) / sum(n))^2, whatever s is:
    near the mean it leaves the most digits.

    Args:
        values: [batch, ..., channels].
        synchronized: whether the batch is that of all replicas of a distribution strategy.
        shift: float32 [channels]: s, a number near the mean, the same in all replicas.
    """
    own = Moments(*_moments(values))
    if not synchronized or graph_state.num_replicas() == 1:
        return own
    channels = values.shape[-1]
    shift = tf.stop_gradient(shift)
    count = _count(values)
    distance = own.mean - shift
    # Sums of squares about the shift, not about 0: they would lose the variance of large means.
    sums = tf.concat(
        [distance * count, (own.variance + tf.square(distance)) * count, count[tf.newaxis]], axis=0
    )
    # One tensor, so that there is one message.
    distance, square, count = tf.split(graph_state.sum_over_replicas(sums), [channels, channels, 1])
    distance, square = distance / count, square / count
    # A difference of nearly equal numbers may be negative, and its root NaN.
    variance = tf.maximum(square - tf.square(distance), 0.0)
    unbiased = tf.stop_gradient(variance * (count / tf.maximum(count - 1.0, 1.0)))
    return Moments(shift + distance, variance, unbiased)


def _count(values: tf.Tensor) -> tf.Tensor:
    """Return the number of values of a channel, float32 scalar."""
    return tf.cast(tf.size(values) / values.shape[-1], tf.float32)


@tf.custom_gradient
def _moments(values: tf.Tensor) -> Any:
    """Return mean, variance, and the unbiased variance, over all axes but the last.

    The gradient with respect to values x is that of the first two, u and v, alone:
    u' / n + v' 2 (x - u) / n.
    """
    channels = values.shape[-1]
    count = _count(values)
    # The kernel of batch norm finds both in fewer passes over memory than reductions.
    # Its mean and variance have no gradient of their own: it is written out below.
    outputs = tf.raw_ops.FusedBatchNormV3(
        x=_image(values),
        scale=tf.ones([channels]),
        offset=tf.zeros([channels]),
        mean=tf.zeros([0]),
        variance=tf.zeros([0]),
        is_training=True,
    )
    mean, unbiased = outputs.batch_mean, outputs.batch_variance
    variance = unbiased * ((count - 1.0) / count)

    def gradient(of_mean: tf.Tensor, of_variance: tf.Tensor, of_unbiased: tf.Tensor) -> tf.Tensor:
        del of_unbiased
        factor = of_variance * (2.0 / count)
        return affine(values, factor, of_mean / count - mean * factor)

    return (mean, variance, unbiased), gradient


def affine(values: tf.Tensor, factor: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """Multiply values by a factor for each channel, and add a bias.

    It is batch norm with a mean of 0 and a deviation of 1: one kernel, and one for all gradients.

    Args:
        values: [..., channels].
        factor: [channels].
        bias: [channels].
    """
    scaled = tf.raw_ops.FusedBatchNormV3(
        x=_image(values),
        scale=factor,
        offset=bias,
        mean=tf.zeros_like(factor),
        variance=tf.fill(tf.shape(factor), 1.0 - _EPSILON),
        epsilon=_EPSILON,
        is_training=False,
    ).y
    return scaled if values.shape.rank == 4 else tf.squeeze(scaled, [1, 2])


def _image(values: tf.Tensor) -> tf.Tensor:
    return values if values.shape.rank == 4 else values[:, tf.newaxis, tf.newaxis, :]
