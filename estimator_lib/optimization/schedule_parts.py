"""Parts of learning-rate schedules: curves over the global step, and checks of values."""

from __future__ import annotations

import math
from typing import Sequence

import tensorflow as tf

from estimator_lib import errors


def exponential(
    step: tf.Tensor, rate: float, decay_steps: int, factor: float, staircase: bool
) -> tf.Tensor:
    """Compute `rate * factor ** (step / decay_steps)`.

    The exponent is rounded down when `staircase`.

    Returns:
        float32 scalar.
    """
    if staircase:
        exponent = tf.cast(step // decay_steps, tf.float32)
    else:
        exponent = tf.cast(step, tf.float32) / decay_steps
    return rate * tf.pow(factor, exponent)


def polynomial(
    step: tf.Tensor, rate: float, end_rate: float, decay_steps: int, power: float
) -> tf.Tensor:
    """Compute a curve from `rate` at step 0 to `end_rate` from `decay_steps` on: float32 scalar."""
    done = tf.cast(tf.minimum(step, decay_steps), tf.float32) / decay_steps
    return (rate - end_rate) * tf.pow(1.0 - done, power) + end_rate


def line(step: tf.Tensor, start: float, end: float, steps: int) -> tf.Tensor:
    """Compute a line through `start` at step 0 and `end` at `steps`: float32 scalar."""
    return start + tf.cast(step, tf.float32) * ((end - start) / steps)


def piecewise(step: tf.Tensor, boundaries: Sequence[int], rates: Sequence[float]) -> tf.Tensor:
    """Return `rates[i]`, with i the number of boundaries at or before the step."""
    boundaries = tf.constant(list(boundaries), step.dtype)
    passed = tf.reduce_sum(tf.cast(tf.expand_dims(step, -1) >= boundaries, tf.int32), axis=-1)
    return tf.gather(tf.constant(list(rates), tf.float32), passed)


def apply_minimum(rate: tf.Tensor, minimum: float) -> tf.Tensor:
    """Bound a rate, a float32 scalar, from below; a minimum of 0 adds no op."""
    return tf.maximum(rate, minimum) if minimum > 0 else rate


def length(field: str, steps: int, num_steps: int) -> int:
    """Return the number of steps of a schedule: its own number, else that of the run.

    Raises:
        errors.ConfigError: both are 0.
    """
    if steps or num_steps:
        return steps or num_steps
    raise errors.ConfigError(
        f'{field} is 0, which stands for train_config.num_steps, and that is 0 (no end) as well; '
        'expected one of the two to be set.'
    )


def require(valid: bool, field: str, value: object, expected: str) -> None:
    """Check a value of a schedule.

    Raises:
        errors.ConfigError: `valid` is False; the message has the field, its value and the
            expectation.
    """
    if not valid:
        raise errors.ConfigError(f'{field} is {value}; expected {expected}.')


def require_rate(field: str, rate: float) -> None:
    """Check one learning rate."""
    valid = math.isfinite(rate) and rate >= 0
    require(valid, field, rate, 'a finite number of at least 0')


def require_decay(schedule: str, decay_steps: int, decay_factor: float) -> None:
    """Check the two fields of an exponential decay."""
    require(decay_steps > 0, f'{schedule}.decay_steps', decay_steps, 'at least 1')
    valid = math.isfinite(decay_factor) and decay_factor > 0
    require(valid, f'{schedule}.decay_factor', decay_factor, 'more than 0')


def require_warmup(schedule: str, warmup: float, base: float) -> None:
    """Check that a warm-up does not go down."""
    expected = f'at least warmup_learning_rate, {warmup}'
    require(base >= warmup, f'{schedule}.learning_rate_base', base, expected)


def require_end_rate(schedule: str, end: float, base: float) -> None:
    """Check that a rate does not rise to its end."""
    require_rate(f'{schedule}.end_learning_rate', end)
    require(end <= base, f'{schedule}.end_learning_rate', end, f'at most the base rate, {base}')


def require_boundaries(field: str, boundaries: Sequence[int]) -> None:
    """Check the steps at which a rate changes."""
    require(len(boundaries) > 0, field, 'empty', 'at least one step at which the rate changes')
    require(boundaries[0] > 0, field, f'at step {boundaries[0]} first', 'a first step above 0')
    for earlier, later in zip(boundaries, boundaries[1:]):
        require(later > earlier, field, f'at step {later} after {earlier}', 'growing steps')


def require_piecewise_rates(field: str, boundaries: Sequence[int], rates: Sequence[float]) -> None:
    """Check the rates between boundaries."""
    expected = f'{len(boundaries) + 1}, one more than the steps at which the rate changes'
    require(len(rates) == len(boundaries) + 1, field, f'{len(rates)} rates', expected)
    for rate in rates:
        require_rate(field, rate)
