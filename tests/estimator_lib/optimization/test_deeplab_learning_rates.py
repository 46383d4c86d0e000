"""DeepLab's policies at and around each boundary, by hand."""

import logging
import math

import numpy as np
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib.optimization import deeplab_learning_rates
from protos import optimizer_pb2


def check(text, expected, num_steps=0):
    """Compare a config's schedule with rates by step."""
    config = text_format.Parse(text, optimizer_pb2.DeepLabLearningRate())
    steps = sorted(expected)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        rate = deeplab_learning_rates.create(config, tf.constant(steps, tf.int64), num_steps)
        assert rate.dtype == tf.float32
        rates = np.broadcast_to(session.run(rate), [len(steps)])
    np.testing.assert_allclose(rates, [expected[step] for step in steps], rtol=1e-6)


def test_poly_after_a_constant_slow_start():
    check(
        'policy: POLY base_learning_rate: 1 training_number_of_steps: 14 learning_power: 2 '
        'slow_start_step: 4 slow_start_learning_rate: 0.5',
        {0: 0.5, 3: 0.5, 4: 1.0, 5: 0.81, 9: 0.25, 14: 0.0, 15: 0.0},
    )


def test_poly_with_its_own_decay_steps_and_end():
    check(
        'base_learning_rate: 1.1 end_learning_rate: 0.1 decay_steps: 4 learning_power: 1',
        {0: 1.1, 1: 0.85, 4: 0.1, 100: 0.1},
    )


def test_length_defaults_to_the_run():
    text = 'base_learning_rate: 1 learning_power: 1'
    check(text, {0: 1.0, 5: 0.5, 10: 0.0}, num_steps=10)


def test_step_policy():
    check(
        'policy: STEP base_learning_rate: 1 learning_rate_decay_factor: 0.5 '
        'learning_rate_decay_step: 10 slow_start_step: 3 slow_start_learning_rate: 0.25',
        {0: 0.25, 2: 0.25, 3: 1.0, 12: 1.0, 13: 0.5, 22: 0.5, 23: 0.25},
    )


def test_cosine_policy_after_a_linear_slow_start():
    check(
        'policy: COSINE base_learning_rate: 1 training_number_of_steps: 8 '
        'slow_start_step: 4 slow_start_learning_rate: 0.2 slow_start: LINEAR',
        {
            0: 0.2,
            1: 0.4,
            3: 0.8,
            4: 1.0,
            5: 0.5 * (1 + math.sqrt(0.5)),
            6: 0.5,
            8: 0.0,
            9: 0.0,
        },
    )


def test_multi_steps_change_after_the_boundary():
    check(
        'policy: MULTI_STEPS boundaries: 5 boundaries: 7 '
        'learning_rates: 0.1 learning_rates: 0.01 learning_rates: 0.001',
        {0: 0.1, 5: 0.1, 6: 0.01, 7: 0.01, 8: 0.001},
    )


def test_multi_steps_count_from_the_end_of_the_slow_start():
    check(
        'policy: MULTI_STEPS boundaries: 5 learning_rates: 0.1 learning_rates: 0.01 '
        'slow_start_step: 2 slow_start_learning_rate: 0.5',
        {0: 0.5, 1: 0.5, 2: 0.1, 7: 0.1, 8: 0.01},
    )


def test_fields_that_a_policy_does_not_use_are_named(caplog):
    with caplog.at_level(logging.WARNING, 'estimator_lib'):
        check('policy: STEP base_learning_rate: 1 decay_steps: 3 boundaries: 4', {0: 1.0})
    assert 'policy STEP does not use boundaries, decay_steps.' in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, 'estimator_lib'):
        check('policy: POLY base_learning_rate: 1 decay_steps: 3 slow_start_step: 0', {0: 1.0})
    assert not caplog.text
