"""Moments of batches, of one and of all replicas."""

import numpy as np
import tensorflow as tf

from estimator_lib.distribution import Mode, Plan, strategies
from model_fns import layers
from model_fns.layers import statistics

tf1 = tf.compat.v1

DECAY, EPSILON = 0.9, 0.01


def test_gradients_of_moments():
    """That of sum(p u + q v) with respect to each value x is p / n + q 2 (x - u) / n."""
    random = np.random.RandomState(0)
    values = random.normal(2.0, 3.0, [2, 3, 2]).astype(np.float32)[:, :, np.newaxis]
    p, q = np.array([1.0, -2.0], np.float32), np.array([0.5, 3.0], np.float32)
    with tf.Graph().as_default(), tf1.Session() as session:
        tensor = tf.constant(values)
        found = statistics.batch_moments(tensor, True, tf.zeros([2]))  # one replica: its own
        total = tf.reduce_sum(p * found.mean + q * found.variance + 7.0 * found.unbiased)
        found, gradient = session.run((found, tf.gradients(total, tensor)[0]))
    flat = values.reshape([-1, 2])
    np.testing.assert_allclose(found.mean, flat.mean(0), rtol=1e-5)
    np.testing.assert_allclose(found.variance, flat.var(0), rtol=1e-5)
    np.testing.assert_allclose(found.unbiased, flat.var(0, ddof=1), rtol=1e-5)
    expected = p / 6 + q * 2 * (values - flat.mean(0)) / 6
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-5)


def parts():
    """Values, and the factors of their sum that is minimised, of two replicas: [n, h, w, 3]."""
    random = np.random.RandomState(0)
    shapes = [2, 3, 4, 3], [2, 5, 4, 3]
    return [(random.normal(5.0, 2.0, one), random.normal(size=one)) for one in shapes]


def expected():
    """Outputs and their gradients, of both replicas; and the moving statistics."""
    values, factors = ([one.reshape([-1, 3]) for one in of_all] for of_all in zip(*parts()))
    places = [len(values[0])]
    values, factors = np.concatenate(values), np.concatenate(factors)
    count, mean, variance = len(values), values.mean(0), values.var(0)
    hats = (values - mean) / np.sqrt(variance + EPSILON)
    # Ioffe and Szegedy 2015, section 3.
    back = factors - factors.mean(0) - hats * (factors * hats).mean(0)
    gradients = back / np.sqrt(variance + EPSILON)
    moving = (1 - DECAY) * mean, DECAY + (1 - DECAY) * variance * count / (count - 1)
    return [np.split(hats, places), np.split(gradients, places)], moving


def test_statistics_are_those_of_all_replicas():
    norm = layers.BatchNorm(DECAY, EPSILON, synchronized=True)

    def replica():
        context = tf.distribute.get_replica_context()
        index = int(tf.get_static_value(context.replica_id_in_sync_group))
        values, factors = (tf.constant(one, tf.float32) for one in parts()[index])
        outputs = layers.batch_norm(values, norm, is_training=True, scope='x')
        return [outputs, tf.gradients(tf.reduce_sum(outputs * factors), values)[0]]

    plan = Plan(Mode.MIRRORED, devices=('/device:CPU:0', '/device:CPU:1'))
    with tf.Graph().as_default():
        strategy = strategies.create_strategy(plan)
        with strategy.scope():
            found = strategy.extended.call_for_each_replica(replica)
            found = [strategy.experimental_local_results(one) for one in found]
            with tf1.Session(config=tf1.ConfigProto(device_count={'CPU': 2})) as session:
                session.run(tf1.global_variables_initializer())
                found = session.run(found)
                session.run(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS))
                moving = session.run({one.op.name: one for one in tf1.global_variables()})
    of_replicas, of_all = expected()
    for ours, theirs in zip(found, of_replicas):
        for one, other in zip(ours, theirs):
            np.testing.assert_allclose(one.reshape([-1, 3]), other, rtol=1e-4, atol=1e-4)
    for name, one in zip(('moving_mean', 'moving_variance'), of_all):
        np.testing.assert_allclose(moving[f'x/{name}'], one, rtol=1e-4)
