"""DeepLab's learning-rate policies, each after an optional slow start.

A policy is a function of the steps after the slow start, max(step - slow_start_step, 0):

    POLY         (base - end) * (1 - min(step, decay_steps) / decay_steps) ** power + end
    STEP         base * factor ** floor(step / decay_step)
    COSINE       base / 2 * (1 + cos(pi * min(step, decay_steps) / decay_steps))
    MULTI_STEPS  rates between boundaries: boundaries 100, rates 0.1 and 0.01: 0.1 at step 100, 0.01
                 at step 101. (A boundary of a manual-step schedule has the later rate.)
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
_Config = optimizer_pb2.DeepLabLearningRate


def create(config: optimizer_pb2.DeepLabLearningRate, step: tf.Tensor, num_steps: int) -> tf.Tensor:
    """Create the policy and the slow start that a config asks for.

    Args:
        config: the policy and its parameters, which are checked.
        step: the global step, an integer tensor.
        num_steps: `train_config.num_steps`, used when the config sets no length.

    Returns:
        float32 of the step's shape.
    """
    policy = _Config.Policy.Name(config.policy)
    create_policy, used = _POLICIES[policy]
    _warn_of_unused(config, policy, used)
    start, base = config.slow_start_step, config.base_learning_rate
    # `get_model_learning_rate` of DeepLab's train_utils subtracts the slow start from the length,
    # but not from a `decay_steps` that is set.
    length = (config.training_number_of_steps or num_steps) - start
    # DeepLab's cosine reads only the length of the training, so COSINE does not list `decay_steps`.
    if 'decay_steps' in used and config.decay_steps:
        length = config.decay_steps
    rate = create_policy(config, tf.maximum(step - start, 0) if start else step, length)
    slow = config.slow_start_learning_rate
    # Without LINEAR, the slow start is constant: a line between equal rates.
    end = base if config.slow_start == _Config.LINEAR else slow
    return parts.warm_up(step, rate, slow, end, start)


def _poly(config: _Config, step: tf.Tensor, length: int) -> tf.Tensor:
    rates = config.base_learning_rate, config.end_learning_rate
    return parts.polynomial(step, *rates, length, config.learning_power)


def _step(config: _Config, step: tf.Tensor, length: int) -> tf.Tensor:
    del length
    decay = config.learning_rate_decay_step, config.learning_rate_decay_factor
    # DeepLab has no flag for this: its policy `step` is always a staircase.
    return parts.exponential(step, config.base_learning_rate, *decay, staircase=True)


def _cosine(config: _Config, step: tf.Tensor, length: int) -> tf.Tensor:
    fraction = tf.cast(tf.minimum(step, length), tf.float32) / length
    # The order of the products is that of `tf.compat.v1.train.cosine_decay`: another one differs in
    # the last bit.
    return config.base_learning_rate * (0.5 * (1.0 + tf.cos(math.pi * fraction)))


def _multi_steps(config: _Config, step: tf.Tensor, length: int) -> tf.Tensor:
    del length
    # Steps are integers, so "after b" means from b + 1 on.
    # `tf.compat.v1.train.piecewise_constant`, which DeepLab calls, keeps a rate at its boundary.
    boundaries = [boundary + 1 for boundary in config.boundaries]
    return parts.piecewise(step, boundaries, config.learning_rates)


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


# The policies, each with the fields that are its own.
_POLICIES: Mapping[str, Tuple[Callable[..., tf.Tensor], Sequence[str]]] = {
    'POLY': (_poly, ('decay_steps', 'learning_power', 'end_learning_rate')),
    'STEP': (_step, ('learning_rate_decay_step', 'learning_rate_decay_factor')),
    'COSINE': (_cosine, ()),
    'MULTI_STEPS': (_multi_steps, ('boundaries', 'learning_rates')),
}
# The policies that end with the training.
_OF_LIMITED_LENGTH = ('POLY', 'COSINE')
