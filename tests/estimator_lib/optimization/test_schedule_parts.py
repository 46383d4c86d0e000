"""The curves that schedules are made of, by hand."""

import numpy as np
import pytest
import tensorflow as tf

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
        (lambda step: parts.warm_up(step, 9.0, 1.0, 3.0, 2), [1, 2, 9, 9, 9, 9]),
        (lambda step: parts.warm_up(step, tf.fill([6], 9.0), 1.0, 3.0, 0), [9] * 6),
        (
            lambda step: parts.apply_minimum(parts.line(step, 3.0, 1.0, 2), 2.5),
            [3, 2.5] + [2.5] * 4,
        ),
    ],
    ids=[
        'staircase',
        'exponential',
        'polynomial',
        'line',
        'piecewise',
        'warm-up',
        'none',
        'minimum',
    ],
)
def test_curves(curve, expected):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        rates = session.run(curve(tf.constant(STEPS, tf.int64)))
    np.testing.assert_allclose(rates, expected, rtol=1e-6)


def test_a_minimum_of_0_adds_nothing():
    rate = tf.constant(1.0)
    assert parts.apply_minimum(rate, 0.0) is rate
