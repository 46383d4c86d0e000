"""Layer-wise decay of the learning rate: layers of a graph, factors, and each optimizer's steps."""

import logging

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.optimization import layer_rates, optimize_loss, optimizers
from estimator_lib.optimization.gradients import GradientPolicy
from protos import optimizer_pb2
from tests.estimator_lib.two_replicas import run_replicas

tf1 = tf.compat.v1


def variable(name, shape, value=1.0):
    return tf1.get_variable(name, shape, initializer=tf1.constant_initializer(value))


def convolution(images, name):
    outputs = tf.nn.conv2d(images, variable(f'{name}/weights', [1, 1, 1, 1]), 1, 'SAME')
    return tf.nn.relu(variable(f'{name}/gamma', [1]) * outputs + variable(f'{name}/beta', [1]))


def detector_loss():
    """A chain of three convolutions, the last two with a head each, of different depth."""
    first = convolution(tf.ones([1, 2, 2, 1]), 'first')
    second = convolution(first, 'second')
    third = convolution(second, 'third')
    early, late = convolution(second, 'early_head'), convolution(third, 'late_head')
    # A path without a gradient does not make the early head an early layer.
    late += convolution(tf.stop_gradient(early), 'late_head_of_early') * 0.0
    regularization = sum(tf.nn.l2_loss(each) for each in tf1.trainable_variables())
    return tf.reduce_sum(early) + tf.reduce_sum(late) + 1e-3 * regularization


def test_factors_of_a_network_with_two_heads(caplog):
    caplog.set_level(logging.INFO, 'estimator_lib')
    with tf.Graph().as_default():
        loss = detector_loss()
        factors = layer_rates.compute_factors(loss, tf1.trainable_variables(), 0.125)
    expected = {'first': 0.125, 'second': 0.25, 'third': 0.5}
    assert {name.split('/')[0] for name in factors} > set(expected)
    for name, factor in factors.items():
        assert factor == pytest.approx(expected.get(name.split('/')[0], 1.0)), name
    assert '4 layers, from 0.125 of the rate' in caplog.text


def test_layers_without_trained_variables_do_not_count():
    with tf.Graph().as_default():
        loss = detector_loss()
        trained = [each for each in tf1.trainable_variables() if 'second' not in each.name]
        factors = layer_rates.compute_factors(loss, trained, 0.25)
        one = layer_rates.compute_factors(loss, trained[-3:], 0.25)
    assert factors['first/weights'] == 0.25
    assert factors['third/gamma'] == 0.5
    assert set(one.values()) == {1.0}


OPTIMIZERS = [
    'sgd_optimizer { }',
    'momentum_optimizer { use_nesterov: true }',
    'rms_prop_optimizer { }',
    'adam_optimizer { }',
    'adamw_optimizer { weight_decay: 0.5 }',
    'adagrad_optimizer { }',
    'adadelta_optimizer { }',
    'ftrl_optimizer { }',
]


def steps(text, rate, build, policy=None):
    """Variables after three steps."""
    config = text_format.Parse(text, optimizer_pb2.Optimizer())
    with tf.Graph().as_default(), tf1.Session() as session:
        step = optimize_loss.optimize_loss(
            build(),
            global_step=tf1.train.get_or_create_global_step(),
            optimizer=optimizers.create_optimizer(config, tf.constant(rate)),
            policy=policy,
        )
        session.run(tf1.global_variables_initializer())
        for _ in range(3):
            session.run(step)
        return {each.op.name: session.run(each) for each in tf1.global_variables()}


def two_layers():
    """The gradient of each layer depends on its own weights only: 2 w."""
    first, second = variable('a/weights', [1, 1], 3.0), variable('b/weights', [1, 1], 3.0)
    hidden = tf.matmul(tf.ones([1, 1]), first)
    through = tf.matmul(hidden, second)
    other = tf.stop_gradient(hidden)[0, 0]
    return first[0, 0] ** 2 + (through - hidden * second)[0, 0] + second[0, 0] ** 2 + 0.0 * other


@pytest.mark.parametrize('text', OPTIMIZERS)
def test_each_optimizer_has_the_rate_of_the_layer(text):
    values = steps(f'{text} layer_decay: 0.25', 0.1, two_layers, GradientPolicy(layer_decay=0.25))
    fast, slow = steps(text, 0.1, two_layers), steps(text, 0.025, two_layers)
    assert values.keys() == fast.keys()
    np.testing.assert_allclose(values['b/weights'], fast['b/weights'], rtol=1e-6)
    np.testing.assert_allclose(values['a/weights'], slow['a/weights'], rtol=1e-6)
    assert abs(values['a/weights'] - values['b/weights']) > 1e-3


def test_rows_of_a_gradient_have_the_rate_of_the_layer():
    def build():
        first, second = variable('a/weights', [2, 1]), variable('b/weights', [1, 1])
        return tf.nn.l2_loss(tf.matmul(tf.gather(first, [1]), second))

    policy = GradientPolicy(layer_decay=0.25)
    values = steps('sgd_optimizer { } layer_decay: 0.25', 0.1, build, policy)
    a, b = 1.0, 1.0
    for _ in range(3):
        a, b = a - 0.025 * a * b * b, b - 0.1 * a * a * b
    np.testing.assert_allclose(values['a/weights'][:, 0], [1.0, a], rtol=1e-6)
    np.testing.assert_allclose(values['b/weights'], [[b]], rtol=1e-6)


def test_replicas_have_the_rates_of_one_device():
    def replica():
        config = text_format.Parse('sgd_optimizer {} layer_decay: 0.25', optimizer_pb2.Optimizer())
        step = optimize_loss.optimize_loss(
            two_layers(),
            global_step=tf1.train.get_or_create_global_step(),
            optimizer=optimizers.create_optimizer(config, tf.constant(0.1)),
            policy=GradientPolicy(layer_decay=0.25),
        )
        with tf.control_dependencies([step]):
            names = {each.op.name: each for each in tf1.trainable_variables()}
            return {name[0]: each.read_value() for name, each in names.items()}

    values = run_replicas(replica)
    # The sum of the replicas' gradients.
    assert np.ravel(values['a']) == pytest.approx([3.0 - 0.025 * 12.0] * 2)
    assert np.ravel(values['b']) == pytest.approx([3.0 - 0.1 * 12.0] * 2)


def test_a_decay_out_of_range_is_refused():
    config = text_format.Parse('sgd_optimizer { } layer_decay: 0', optimizer_pb2.Optimizer())
    with pytest.raises(errors.ConfigError, match='layer_decay: 0; expected more than 0'):
        optimizers.create_optimizer(config, 0.1)
