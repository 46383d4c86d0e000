"""DeepLab's learning-rate policies, each after an optional slow start.

A policy is a function of the steps after the slow start: max(step - slow_start_step, 0).
"""

from __future__ import annotations

import logging
import math
from typing import Callable, Mapping, Sequence, Tuple

import tensorflow as tf

from estimator_lib.optimization import schedule_parts as parts
from protos import optimizer_pb2

log = logging.getLogger('estimator_lib')
_NAME = 'deeplab_learning_rate'


def poly(
    step: tf.Tensor,
    *,
    base_learning_rate: float,
    decay_steps: int,
    learning_power: float = 0.9,
    end_learning_rate: float = 0.0,
) -> tf.Tensor:
    """Compute polynomial decay.

    The rate is `(base - end) * (1 - min(step, decay_steps) / decay_steps) ** power + end`.

    Args:
        step: integer, the steps after the slow start.
        base_learning_rate: the rate at step 0.
        decay_steps: number of steps after which the end is reached.
        learning_power: the exponent.
        end_learning_rate: the rate from `decay_steps` on.

    Raises:
        errors.ConfigError: a value is out of its range.
    """
    parts.require_rate(f'{_NAME}.base_learning_rate', base_learning_rate)
    parts.require_rate(f'{_NAME}.end_learning_rate', end_learning_rate)
    parts.require(decay_steps > 0, f'{_NAME}.decay_steps', decay_steps, 'at least 1')
    parts.require(learning_power > 0, f'{_NAME}.learning_power', learning_power, 'more than 0')
    return parts.polynomial(
        step, base_learning_rate, end_learning_rate, decay_steps, learning_power
    )


def step_decay(
    step: tf.Tensor,
    *,
    base_learning_rate: float,
    learning_rate_decay_step: int,
    learning_rate_decay_factor: float,
) -> tf.Tensor:
    """Compute a rate that falls in steps: `base * factor ** floor(step / decay_step)`.

    Returns:
        float32 scalar.

    Raises:
        errors.ConfigError: a value is out of its range.
    """
    parts.require_rate(f'{_NAME}.base_learning_rate', base_learning_rate)
    field = f'{_NAME}.learning_rate_decay_step'
    parts.require(learning_rate_decay_step > 0, field, learning_rate_decay_step, 'at least 1')
    field = f'{_NAME}.learning_rate_decay_factor'
    parts.require(learning_rate_decay_factor > 0, field, learning_rate_decay_factor, 'more than 0')
    return parts.exponential(
        step,
        base_learning_rate,
        learning_rate_decay_step,
        learning_rate_decay_factor,
        staircase=True,
    )


def cosine(step: tf.Tensor, *, base_learning_rate: float, decay_steps: int) -> tf.Tensor:
    """Compute half a cosine down to 0.

    The rate is `base / 2 * (1 + cos(pi * min(step, decay_steps) / decay_steps))`.

    Raises:
        errors.ConfigError: a value is out of its range.
    """
    parts.require_rate(f'{_NAME}.base_learning_rate', base_learning_rate)
    parts.require(decay_steps > 0, f'{_NAME}.decay_steps', decay_steps, 'at least 1')
    fraction = tf.cast(tf.minimum(step, decay_steps), tf.float32) / decay_steps
    return base_learning_rate * (0.5 * (1.0 + tf.cos(math.pi * fraction)))


def multi_steps(
    step: tf.Tensor, *, boundaries: Sequence[int], learning_rates: Sequence[float]
) -> tf.Tensor:
    """Compute constant rates between given steps.

    Unlike a manual-step schedule, a boundary's own step still has the earlier rate. Example:
    boundaries (100,), rates (0.1, 0.01): 0.1 at step 100, 0.01 at step 101.

    Raises:
        errors.ConfigError: the boundaries are not positive and growing, or there is not one rate
            more than boundaries.
    """
    parts.require_boundaries(f'{_NAME}.boundaries', boundaries)
    parts.require_piecewise_rates(f'{_NAME}.learning_rates', boundaries, learning_rates)
    # Steps are integers, so "after b" means from b + 1 on.
    return parts.piecewise(step, [boundary + 1 for boundary in boundaries], learning_rates)


def slow_start(
    step: tf.Tensor,
    rate: tf.Tensor,
    *,
    base_learning_rate: float,
    slow_start_step: int,
    slow_start_learning_rate: float,
    linear: bool = False,
) -> tf.Tensor:
    """Replace a policy's rate during the slow start.

    Args:
        step: integer scalar, the global step.
        rate: the rate of the policy.
        base_learning_rate: the rate at the end of a linear start.
        slow_start_step: number of steps of the slow start; 0: none.
        slow_start_learning_rate: the constant rate, or the first rate of a linear start.
        linear: True for a linear start from the slow to the base rate, False for the slow rate.
    """
    parts.require_rate(f'{_NAME}.slow_start_learning_rate', slow_start_learning_rate)
    if not slow_start_step:
        return rate
    if linear:
        slow = parts.line(step, slow_start_learning_rate, base_learning_rate, slow_start_step)
    else:
        slow = tf.constant(slow_start_learning_rate, tf.float32)
    return tf.where(step < slow_start_step, slow, rate)


def create(config: optimizer_pb2.DeepLabLearningRate, step: tf.Tensor, num_steps: int) -> tf.Tensor:
    """Create the policy and the slow start that a config asks for.

    Args:
        config: the policy and its parameters.
        step: the global step, an integer tensor.
        num_steps: `train_config.num_steps`, used when the config sets no length.

    Returns:
        float32 of the step's shape.

    Raises:
        errors.ConfigError: a value is out of its range.
    """
    policy = optimizer_pb2.DeepLabLearningRate.Policy.Name(config.policy)
    create_policy, used = _POLICIES[policy]
    _warn_of_unused(config, policy, used)
    arguments = {name: getattr(config, name) for name in used}
    if policy in _OF_LIMITED_LENGTH:
        arguments['decay_steps'] = arguments.get('decay_steps') or _steps_after_slow_start(
            config, num_steps
        )
    start = config.slow_start_step
    after = tf.maximum(step - start, 0) if start else step
    return slow_start(
        step,
        create_policy(after, **arguments),
        base_learning_rate=config.base_learning_rate,
        slow_start_step=start,
        slow_start_learning_rate=config.slow_start_learning_rate,
        linear=config.slow_start == optimizer_pb2.DeepLabLearningRate.LINEAR,
    )


def _steps_after_slow_start(config: optimizer_pb2.DeepLabLearningRate, num_steps: int) -> int:
    field = f'{_NAME}.training_number_of_steps'
    steps = parts.length(field, config.training_number_of_steps, num_steps)
    expected = f'more than slow_start_step, {config.slow_start_step}'
    parts.require(steps > config.slow_start_step, field, steps, expected)
    return steps - config.slow_start_step


def _warn_of_unused(
    config: optimizer_pb2.DeepLabLearningRate, policy: str, used: Sequence[str]
) -> None:
    """Warn about fields that are set but not used by the chosen policy."""
    common = {'policy', 'base_learning_rate'}
    common |= {'slow_start', 'slow_start_step', 'slow_start_learning_rate'}
    if policy in _OF_LIMITED_LENGTH:
        common.add('training_number_of_steps')
    unused = sorted({field.name for field, _ in config.ListFields()} - common - set(used))
    if unused:
        log.warning('%s: the policy %s does not use %s.', _NAME, policy, ', '.join(unused))


# The policies, and the fields that are their arguments.
_POLICIES: Mapping[str, Tuple[Callable[..., tf.Tensor], Sequence[str]]] = {
    'POLY': (poly, ('base_learning_rate', 'decay_steps', 'learning_power', 'end_learning_rate')),
    'STEP': (
        step_decay,
        ('base_learning_rate', 'learning_rate_decay_step', 'learning_rate_decay_factor'),
    ),
    'COSINE': (cosine, ('base_learning_rate',)),
    'MULTI_STEPS': (multi_steps, ('boundaries', 'learning_rates')),
}
# The policies that end with the training.
_OF_LIMITED_LENGTH = ('POLY', 'COSINE')
