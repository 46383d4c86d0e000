"""Learning-rate schedules: pure functions of the global step, and their choice by config.

Every schedule takes the global step, an integer tensor, and returns float32 of the same shape, or a
scalar. (A vector of steps gives a vector of rates, to plot a schedule in one run.) The arithmetic
is float32 in the order of the published formulas, so that values near zero agree too.
"""

from __future__ import annotations

import math
from typing import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib.config import schedule_checks, schema
from estimator_lib.optimization import deeplab_learning_rates
from estimator_lib.optimization import schedule_parts as parts
from protos import optimizer_pb2


def constant(step: tf.Tensor, *, learning_rate: float) -> tf.Tensor:
    """Return the same rate at each step: float32 scalar."""
    del step
    return tf.constant(learning_rate, tf.float32)


def exponential_decay(
    step: tf.Tensor,
    *,
    initial_learning_rate: float,
    decay_steps: int,
    decay_factor: float,
    staircase: bool = True,
    burnin_learning_rate: float = 0.0,
    burnin_steps: int = 0,
    min_learning_rate: float = 0.0,
) -> tf.Tensor:
    """Compute exponential decay after a constant burn-in.

    The rate is `initial * factor ** ((step - burnin_steps) / decay_steps)`, with the exponent
    rounded down when `staircase`. Before `burnin_steps` it is the burn-in rate (0 stands for the
    initial rate). The minimum bounds the burn-in too. Example: initial 0.1, factor 0.5, decay steps
    10, burn-in 0.01 for 5 steps: 0.01 at step 4, 0.1 at steps 5 to 14, 0.05 at step 15.

    Returns:
        float32 scalar.
    """
    rate = parts.exponential(
        step - burnin_steps, initial_learning_rate, decay_steps, decay_factor, staircase
    )
    if burnin_steps > 0:
        # A rate of 0 stands for the initial one in `exponential_decay_with_burnin` of the Object
        # Detection API too.
        burnin = burnin_learning_rate or initial_learning_rate
        rate = tf.where(step < burnin_steps, tf.constant(burnin, tf.float32), rate)
    # After the burn-in, as published: the minimum also raises a lower burn-in rate.
    return parts.apply_minimum(rate, min_learning_rate)


def exponential_decay_with_warmup(
    step: tf.Tensor,
    *,
    learning_rate_base: float,
    decay_steps: int,
    decay_factor: float,
    staircase: bool = True,
    warmup_learning_rate: float = 0.0,
    warmup_steps: int = 0,
    min_learning_rate: float = 0.0,
) -> tf.Tensor:
    """Compute exponential decay after a linear warm-up to the base rate.

    The rate is linear from the warm-up rate at step 0 to the base rate at `warmup_steps`, and then
    `base * factor ** ((step - warmup_steps) / decay_steps)`; it is never below the minimum.

    Returns:
        float32 scalar.
    """
    rate = parts.exponential(
        step - warmup_steps, learning_rate_base, decay_steps, decay_factor, staircase
    )
    rate = parts.warm_up(step, rate, warmup_learning_rate, learning_rate_base, warmup_steps)
    return parts.apply_minimum(rate, min_learning_rate)


def manual_step(
    step: tf.Tensor, *, boundaries: Sequence[int], rates: Sequence[float], warmup: bool = False
) -> tf.Tensor:
    """Compute constant rates between given steps.

    `rates[i]` holds from `boundaries[i - 1]` (that step included) to before `boundaries[i]`. With
    `warmup` the rate goes linearly from `rates[0]` to `rates[1]` before `boundaries[0]`. Example:
    boundaries (5, 10), rates (0.1, 0.01, 0.001): 0.1 at step 4, 0.01 at step 5. Without boundaries
    the one rate holds forever.
    """
    piecewise = parts.piecewise(step, boundaries, rates)
    if not (warmup and boundaries):
        return piecewise
    # The published `manual_stepping` makes a boundary of each warm-up step: the same rates by a
    # list as long as the warm-up.
    return parts.warm_up(step, piecewise, rates[0], rates[1], boundaries[0])


def cosine_decay(
    step: tf.Tensor,
    *,
    learning_rate_base: float,
    total_steps: int,
    warmup_learning_rate: float = 0.0,
    warmup_steps: int = 0,
    hold_base_rate_steps: int = 0,
    end_learning_rate: float = 0.0,
) -> tf.Tensor:
    """Compute half a cosine down to the end rate, after a linear warm-up and a constant stretch.

    With w and h the steps of warm-up and hold: `warmup + step * (base - warmup) / w` before w; the
    base rate from w to w + h; `end + (base - end) / 2 * (1 + cos(pi * (step - w - h) / (total - w -
    h)))` after that (Loshchilov and Hutter 2017, arXiv 1608.03983, eq. 5); the end rate after
    `total_steps`. Where nothing is left for the cosine (total = w + h), the base rate
    holds up to `total_steps`.

    Returns:
        float32 scalar.
    """
    held = warmup_steps + hold_base_rate_steps
    # The maximum avoids a division by 0 where warm-up and hold take the whole run: at its last step
    # the angle is 0.
    angle = math.pi * tf.cast(step - held, tf.float32) / max(total_steps - held, 1)
    rate = 0.5 * (learning_rate_base - end_learning_rate) * (1.0 + tf.cos(angle))
    # Without an end rate, the ops are those of the published schedule, bit by bit.
    if end_learning_rate > 0:
        rate += end_learning_rate
    if hold_base_rate_steps > 0:
        # Both comparisons are strict, as in `cosine_decay_with_warmup` of the Object Detection API:
        # the base rate holds at step `held`, the cosine at `total_steps`.
        rate = tf.where(step > held, rate, tf.constant(learning_rate_base, tf.float32))
    rate = parts.warm_up(step, rate, warmup_learning_rate, learning_rate_base, warmup_steps)
    return tf.where(step > total_steps, tf.constant(end_learning_rate, tf.float32), rate)


def warmup_stable_decay(
    step: tf.Tensor,
    *,
    learning_rate_base: float,
    total_steps: int,
    warmup_learning_rate: float = 0.0,
    warmup_steps: int = 0,
    cool_down_steps: int = 0,
    end_learning_rate: float = 0.0,
) -> tf.Tensor:
    """Compute a constant rate between a linear warm-up and a cool-down: float32 scalar.

    The cool-down is `end + (base - end) * (1 - sqrt(x))`, with x from 0 to 1 in the last
    `cool_down_steps` before `total_steps` (Haegele et al. 2024, arXiv 2405.18392, section 4), and
    the end rate after them. Example: base 0.1, total 10, cool-down 4: 0.1 at step 6, 0.05 at step 7
    (x = 1 / 4), 0 at step 10.
    """
    rate = tf.constant(learning_rate_base, tf.float32)
    if cool_down_steps > 0:
        # Negative before the cool-down: the clipping makes 0 of it, and so the base rate.
        done = tf.cast(step - (total_steps - cool_down_steps), tf.float32) / cool_down_steps
        root = tf.sqrt(tf.clip_by_value(done, 0.0, 1.0))
        rate = learning_rate_base - (learning_rate_base - end_learning_rate) * root
    rate = parts.warm_up(step, rate, warmup_learning_rate, learning_rate_base, warmup_steps)
    return rate


def warmup_stable_decay_length(
    config: optimizer_pb2.WarmupStableDecayLearningRate, num_steps: int
) -> int:
    """Return the step at which the cool-down ends: that of the run by default; 0 without an end.

    A run that is too short for warm-up and cool-down is no error: it ends within them.

    Args:
        config: the schedule.
        num_steps: `train_config.num_steps`.
    """
    if config.total_steps or not num_steps:
        return config.total_steps
    return max(num_steps, config.warmup_steps + config.cool_down_steps)


def polynomial_decay(
    step: tf.Tensor,
    *,
    initial_learning_rate: float,
    end_learning_rate: float,
    decay_steps: int,
    power: float = 1.0,
) -> tf.Tensor:
    """Compute polynomial decay.

    The rate is `(initial - end) * (1 - min(step, decay_steps) / decay_steps) ** power + end`.
    """
    return parts.polynomial(step, initial_learning_rate, end_learning_rate, decay_steps, power)


def create_learning_rate(
    config: optimizer_pb2.LearningRate, global_step: tf.Tensor, num_steps: int
) -> tf.Tensor:
    """Create the schedule that a config asks for.

    Args:
        config: the schedule and its parameters.
        global_step: int64 scalar, a tensor or variable.
        num_steps: `train_config.num_steps`, the default length of schedules; 0: no end.

    Returns:
        float32 scalar, named `learning_rate`.

    Raises:
        errors.ConfigError: no schedule is chosen, or a value is out of its range.
    """
    schedule_checks.require_rate(config, num_steps)
    chosen = config.WhichOneof('learning_rate')
    with tf.name_scope('learning_rate_schedule'):
        step = tf.convert_to_tensor(global_step)
        rate = _SCHEDULES[chosen](getattr(config, chosen), step, num_steps)
    return tf.identity(rate, name='learning_rate')


def compute_rates(
    config: optimizer_pb2.LearningRate, steps: Sequence[int], num_steps: int
) -> np.ndarray:
    """Compute the rates at some steps.

    Args:
        config: the schedule and its parameters.
        steps: global steps.
        num_steps: `train_config.num_steps`.

    Returns:
        float32 of the length of `steps`.

    Raises:
        errors.ConfigError: no schedule is chosen, or a value is out of its range.
    """
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        rates = create_learning_rate(config, tf.constant(list(steps), tf.int64), num_steps)
        # The rate of a constant schedule is a scalar whatever the step is.
        return np.broadcast_to(session.run(rates), [len(steps)])


def _from_fields(schedule: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """Return a schedule whose arguments are the fields of its message."""
    return lambda config, step, num_steps: schedule(step, **schema.scalar_fields(config))


def _create_manual_step(config, step, num_steps):
    del num_steps
    return manual_step(
        step,
        boundaries=[change.step for change in config.schedule],
        rates=[config.initial_learning_rate] + [change.learning_rate for change in config.schedule],
        warmup=config.warmup,
    )


def _create_cosine_decay(config, step, num_steps):
    fields = schema.scalar_fields(config)
    # The field's published default of 4,000,000 steps would leave a shorter run at the base rate.
    if num_steps and not config.HasField('total_steps'):
        # A run that is shorter than the warm-up is no error; it consists of warm-up only.
        fields['total_steps'] = max(num_steps, config.warmup_steps + config.hold_base_rate_steps)
    return cosine_decay(step, **fields)


def _create_warmup_stable_decay(config, step, num_steps):
    fields = schema.scalar_fields(config)
    fields['total_steps'] = warmup_stable_decay_length(config, num_steps)
    if not fields['total_steps']:
        # A run without an end has no cool-down.
        fields.update(total_steps=config.warmup_steps, cool_down_steps=0)
    return warmup_stable_decay(step, **fields)


def _create_polynomial_decay(config, step, num_steps):
    fields = schema.scalar_fields(config)
    fields['decay_steps'] = config.decay_steps or num_steps
    return polynomial_decay(step, **fields)


_SCHEDULES: Mapping[str, Callable[..., tf.Tensor]] = {
    'constant_learning_rate': _from_fields(constant),
    'exponential_decay_learning_rate': _from_fields(exponential_decay),
    'manual_step_learning_rate': _create_manual_step,
    'cosine_decay_learning_rate': _create_cosine_decay,
    'polynomial_decay_learning_rate': _create_polynomial_decay,
    'deeplab_learning_rate': deeplab_learning_rates.create,
    'exponential_decay_with_warmup_learning_rate': _from_fields(exponential_decay_with_warmup),
    'warmup_stable_decay_learning_rate': _create_warmup_stable_decay,
}
