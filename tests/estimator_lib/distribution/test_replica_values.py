"""Values that the replicas of a strategy compute together."""

import pytest
import tensorflow as tf

from estimator_lib.distribution import replica_values
from model_fns.layers import weights
from tests.estimator_lib.two_replicas import run_replicas

tf1 = tf.compat.v1


def test_replicas_see_the_means_over_all():
    def replica():
        index = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.int32)
        return {
            **replica_values.mean_over_replicas({'x': 1.0 + 2.0 * tf.cast(index, tf.float32)}),
            'names': replica_values.gather_in_process(tf.strings.as_string(index)[tf.newaxis]),
        }

    found = run_replicas(replica)
    assert found['x'] == (2.0, 2.0)
    assert all(one.tolist() == [b'0', b'1'] for one in found['names'])


def create_twice():
    """Weights of a layer that is used twice, and regularized once."""
    for _ in range(2):
        with tf1.variable_scope('layer', reuse=tf1.AUTO_REUSE):
            weight = weights.variable('weights', [2], weights.ONES, weights.l2(1.0))
    return weight


def create_with_tensorflow():
    """Weights whose loss TensorFlow adds where it creates them."""
    return tf1.get_variable(
        'weights',
        initializer=tf.ones([2]),
        regularizer=lambda one: 0.5 * tf.reduce_sum(tf.square(one)),
    )


def create_and_add():
    """Weights whose loss each replica adds to TensorFlow's collection."""
    weight = tf1.get_variable('weights', initializer=tf.ones([2]))
    tf1.add_to_collection(
        tf1.GraphKeys.REGULARIZATION_LOSSES, 0.5 * tf.reduce_sum(tf.square(weight))
    )
    return weight


def create_and_add_once():
    """Weights whose loss is added by the first replica alone."""
    if not tf1.get_variable_scope().reuse:
        return create_and_add()
    return tf1.get_variable('weights')


@pytest.mark.parametrize(
    'create', [create_and_add_once, create_twice, create_with_tensorflow, create_and_add]
)
def test_regularization_over_all_replicas_is_that_of_one_device(create):
    def replica():
        weight = create()
        # Replicas take turns from here on, as they do in layers that exchange statistics.
        replica_values.mean_over_replicas({'x': tf.constant(1.0)})
        loss = replica_values.regularization_loss()
        return {
            'mean': replica_values.mean_over_replicas({'loss': loss})['loss'],
            'gradient': _mean(tf.gradients(loss, weight)),
        }

    found = run_replicas(replica)
    assert found['mean'] == (1.0, 1.0)  # (1 + 1) / 2
    assert [one.tolist() for one in found['gradient']] == [[1.0, 1.0]] * 2


def _mean(gradients):
    """The mean of a gradient over the replicas; one that there is none of is 0."""
    gradient = tf.zeros([2]) if gradients[0] is None else gradients[0]
    return replica_values.mean_over_replicas({'gradient': gradient})['gradient']


def test_replicas_without_regularization_agree_on_it():
    def replica():
        tf1.get_variable('weights', initializer=1.0)
        assert replica_values.regularization_loss() is None
        return {'x': tf.constant(1.0)}

    run_replicas(replica)


def test_without_a_strategy_all_is_as_it_is():
    with tf.Graph().as_default():
        losses, names = {'x': tf.constant(1.0)}, tf.constant(['a'])
        assert replica_values.mean_over_replicas(losses) is losses
        assert replica_values.gather_in_process(names) is names
        assert replica_values.regularization_loss() is None
        tf1.add_to_collection(tf1.GraphKeys.REGULARIZATION_LOSSES, tf.constant(2.0))
        with tf1.Session() as session:
            assert session.run(replica_values.regularization_loss()) == 2.0
