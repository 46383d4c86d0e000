"""AdamW against its update rule, written out in NumPy."""

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib.optimization import optimizers
from protos import optimizer_pb2
from tests.estimator_lib.two_replicas import run_replicas

tf1 = tf.compat.v1

RATE = 0.1
KERNEL = np.array([[1.0, -2.0], [0.5, 4.0], [3.0, -1.0]])
GRADIENTS = [KERNEL * 0.3, KERNEL - 1.0, KERNEL**2 * 0.1]


def create(decay):
    text = f'adamw_optimizer {{ beta1: 0.5 beta2: 0.75 epsilon: 0.25 weight_decay: {decay} }}'
    config = text_format.Parse(text, optimizer_pb2.Optimizer())
    return optimizers.create_optimizer(config, tf.constant(RATE))


def by_hand(w, gradients, decay):
    first, second = np.zeros_like(w), np.zeros_like(w)
    for t, g in enumerate(gradients, 1):
        first = 0.5 * first + 0.5 * g
        second = 0.75 * second + 0.25 * g**2
        rate = RATE * np.sqrt(1 - 0.75**t) / (1 - 0.5**t)
        w = w - RATE * decay * w - rate * first / (np.sqrt(second) + 0.25)
    return w


def variable(name, value, use_resource=True):
    return tf1.get_variable(
        name, initializer=tf.constant(value, tf.float32), use_resource=use_resource
    )


@pytest.mark.parametrize('use_resource', [True, False])
def test_kernels_decay_and_biases_do_not(use_resource):
    with tf.Graph().as_default(), tf1.Session() as session:
        kernel = variable('layer/weights', KERNEL, use_resource)
        gamma = variable('layer/gamma', KERNEL[:, 0], use_resource)
        gradient = tf1.placeholder(tf.float32, KERNEL.shape)
        pairs = [(gradient, kernel), (gradient[:, 0], gamma)]
        step = create(0.5).apply_gradients(pairs)
        session.run(tf1.global_variables_initializer())
        for value in GRADIENTS:
            session.run(step, {gradient: value})
        values = session.run([kernel, gamma])
        names = {each.op.name for each in tf1.global_variables()}
    np.testing.assert_allclose(values[0], by_hand(KERNEL, GRADIENTS, 0.5), rtol=1e-5)
    columns = [gradient[:, 0] for gradient in GRADIENTS]
    np.testing.assert_allclose(values[1], by_hand(KERNEL[:, 0], columns, 0.0), rtol=1e-5)
    # The names of Adam, so that it can resume the run.
    assert {'layer/weights/Adam', 'layer/weights/Adam_1', 'beta1_power', 'beta2_power'} < names


def test_rows_without_a_gradient_decay_too():
    with tf.Graph().as_default(), tf1.Session() as session:
        kernel = variable('embedding', KERNEL)
        (gradient,) = tf.gradients(tf.reduce_sum(tf.gather(kernel, [1, 1])), [kernel])
        assert isinstance(gradient, tf.IndexedSlices)
        step = create(0.5).apply_gradients([(gradient, kernel)])
        session.run(tf1.global_variables_initializer())
        session.run(step)
        value = session.run(kernel)
    dense = np.array([[0.0, 0.0], [2.0, 2.0], [0.0, 0.0]])
    np.testing.assert_allclose(value, by_hand(KERNEL, [dense], 0.5), rtol=1e-5)


def test_the_gradient_is_that_of_the_weights_before_the_decay():
    with tf.Graph().as_default(), tf1.Session() as session:
        kernel = variable('layer/weights', KERNEL)
        (gradient,) = tf.gradients(tf.reduce_sum(kernel**2), [kernel])
        step = create(0.5).apply_gradients([(gradient, kernel)])
        session.run(tf1.global_variables_initializer())
        session.run(step)
        value = session.run(kernel)
    np.testing.assert_allclose(value, by_hand(KERNEL, [2 * KERNEL], 0.5), rtol=1e-5)


def test_replicas_decay_once():
    def replica():
        kernel = variable('layer/weights', KERNEL)
        scale = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)
        step = create(0.5).apply_gradients([(scale * tf.constant(KERNEL, tf.float32), kernel)])
        with tf.control_dependencies([step]):
            return {'kernel': kernel.read_value()}

    # Only the second replica has a gradient; the optimizer sums them.
    for value in run_replicas(replica)['kernel']:
        np.testing.assert_allclose(value, by_hand(KERNEL, [KERNEL], 0.5), rtol=1e-5)
