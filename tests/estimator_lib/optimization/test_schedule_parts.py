"""The curves that schedules are made of, by hand, and the sentences about wrong values."""

import math

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.optimization import schedule_parts as parts

STEPS = [0, 1, 2, 3, 4, 8]


@pytest.mark.parametrize(
    'curve, expected',
    [
        (lambda step: parts.exponential(step, 8.0, 2, 0.25, True), [8, 8, 2, 2, 0.5, 0.03125]),
        (lambda step: parts.exponential(step, 8.0, 2, 0.25, False), [8, 4, 2, 1, 0.5, 0.03125]),
        (lambda step: parts.polynomial(step, 5.0, 1.0, 4, 2.0), [5, 3.25, 2, 1.25, 1, 1]),
        (lambda step: parts.line(step, 1.0, 3.0, 4), [1, 1.5, 2, 2.5, 3, 5]),
        (lambda step: parts.piecewise(step, [2, 4], [7.0, 6.0, 5.0]), [7, 7, 6, 6, 5, 5]),
        (
            lambda step: parts.apply_minimum(parts.line(step, 3.0, 1.0, 2), 2.5),
            [3, 2.5] + [2.5] * 4,
        ),
    ],
    ids=['staircase', 'exponential', 'polynomial', 'line', 'piecewise', 'minimum'],
)
def test_curves(curve, expected):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        rates = session.run(curve(tf.constant(STEPS, tf.int64)))
    np.testing.assert_allclose(rates, expected, rtol=1e-6)


def test_a_minimum_of_0_adds_nothing():
    rate = tf.constant(1.0)
    assert parts.apply_minimum(rate, 0.0) is rate


def test_the_length_of_a_schedule():
    assert parts.length('f', 5, 9) == 5
    assert parts.length('f', 0, 9) == 9
    with pytest.raises(errors.ConfigError, match='f is 0, which stands for train_config.num_st'):
        parts.length('f', 0, 0)


@pytest.mark.parametrize(
    'check, message',
    [
        (lambda: parts.require_rate('r', -0.1), 'r is -0.1; expected a finite number of at least'),
        (lambda: parts.require_rate('r', math.nan), 'r is nan; expected a finite number'),
        (lambda: parts.require_decay('s', 0, 0.5), 's.decay_steps is 0; expected at least 1.'),
        (lambda: parts.require_decay('s', 1, 0.0), 's.decay_factor is 0.0; expected more than 0.'),
        (
            lambda: parts.require_warmup('s', 0.2, 0.1),
            's.learning_rate_base is 0.1; expected at least warmup_learning_rate, 0.2.',
        ),
        (lambda: parts.require_boundaries('b', []), 'b is empty; expected at least one step'),
        (lambda: parts.require_boundaries('b', [0, 1]), 'b is at step 0 first; expected a first'),
        (lambda: parts.require_boundaries('b', [3, 3]), 'b is at step 3 after 3; expected growing'),
        (
            lambda: parts.require_piecewise_rates('r', [1, 2], [0.1]),
            'r is 1 rates; expected 3, one more than the steps at which the rate changes.',
        ),
    ],
)
def test_wrong_values(check, message):
    with pytest.raises(errors.ConfigError) as caught:
        check()
    assert message in str(caught.value)


def test_right_values():
    parts.require_rate('r', 0.0)
    parts.require_decay('s', 1, 2.0)
    parts.require_warmup('s', 0.1, 0.1)
    parts.require_boundaries('b', [1, 2])
    parts.require_piecewise_rates('r', [1, 2], [0.1, 0.2, 0.3])
