"""Parts of learning-rate schedules: curves over the global step."""

from __future__ import annotations

from typing import Sequence

import tensorflow as tf


def exponential(
    step: tf.Tensor, rate: float, decay_steps: int, factor: float, staircase: bool
) -> tf.Tensor:
    """Compute `rate * factor ** (step / decay_steps)`.

    The exponent is rounded down when `staircase`.

    Returns:
        float32 scalar.
    """
    if staircase:
        # A division of integers: float32 has no exact steps beyond 2**24, so the floor of a
        # quotient of floats may be one too low or high.
        exponent = tf.cast(step // decay_steps, tf.float32)
    else:
        exponent = tf.cast(step, tf.float32) / decay_steps
    return rate * tf.pow(factor, exponent)


def polynomial(
    step: tf.Tensor, rate: float, end_rate: float, decay_steps: int, power: float
) -> tf.Tensor:
    """Compute a curve from `rate` at step 0 to `end_rate` from `decay_steps` on: float32 scalar."""
    done = tf.cast(tf.minimum(step, decay_steps), tf.float32) / decay_steps
    # The order of `tf.compat.v1.train.polynomial_decay`.
    return (rate - end_rate) * tf.pow(1.0 - done, power) + end_rate


def line(step: tf.Tensor, start: float, end: float, steps: int) -> tf.Tensor:
    """Compute a line through `start` at step 0 and `end` at `steps`: float32 scalar."""
    # Python computes the slope in float64, as the published schedules do.
    return start + tf.cast(step, tf.float32) * ((end - start) / steps)


def warm_up(step: tf.Tensor, rate: tf.Tensor, start: float, end: float, steps: int) -> tf.Tensor:
    """Replace a rate, a float32 scalar, before `steps` by a line from `start` to `end`, if any."""
    return tf.where(step < steps, line(step, start, end, steps), rate) if steps else rate


def piecewise(step: tf.Tensor, boundaries: Sequence[int], rates: Sequence[float]) -> tf.Tensor:
    """Return `rates[i]`, with i the number of boundaries at or before the step."""
    boundaries = tf.constant(list(boundaries), step.dtype)
    # `tf.compat.v1.train.piecewise_constant` takes a scalar only; plots pass a vector of steps.
    passed = tf.reduce_sum(tf.cast(tf.expand_dims(step, -1) >= boundaries, tf.int32), axis=-1)
    return tf.gather(tf.constant(list(rates), tf.float32), passed)


def apply_minimum(rate: tf.Tensor, minimum: float) -> tf.Tensor:
    """Bound a rate, a float32 scalar, from below; a minimum of 0 adds no op."""
    return tf.maximum(rate, minimum) if minimum > 0 else rate
