"""Parts of graphs that are built once for the batches of all replicas."""

import numpy as np
import tensorflow as tf

from estimator_lib import graph_state
from estimator_lib.distribution import replica_batches, strategies
from tests.estimator_lib.two_replicas import TWO

tf1 = tf.compat.v1


def create_sum(values):
    """A metric with a local variable, which could not be one of a strategy's replicas."""
    total = tf1.get_variable(
        'total', initializer=0.0, trainable=False, collections=[tf1.GraphKeys.LOCAL_VARIABLES]
    )
    return {'sum': (total.read_value(), total.assign_add(tf.reduce_sum(values['x']))), **values}


def test_without_a_strategy_it_is_built_as_it_is():
    with tf.Graph().as_default(), tf1.Session() as session:
        values = {'x': tf.constant([1.0, 2.0])}
        built = replica_batches.build_once(create_sum, [values])
        assert built['x'] is values['x']
        session.run(tf1.local_variables_initializer())
        assert session.run(built['sum'][1]) == 3.0


def test_batches_of_two_replicas_are_joined_and_padded():
    with tf.Graph().as_default():
        strategy = strategies.create_strategy(TWO)
        scalar = tf.constant(7.0)
        sizes = [tf1.placeholder(tf.int32, [], f'size{index}') for index in range(2)]

        def replica():
            index = graph_state.replica_index()
            values = tf.fill([1, sizes[index]], 1.0 + index)  # of a shape that is not known
            built = replica_batches.build_once(create_sum, [{'x': values, 'same': scalar}])
            return built['x'], built['sum'], built['same']

        with strategy.scope():
            joined, (value, update), same = strategy.extended.call_for_each_replica(replica)
        with tf1.Session(config=tf1.ConfigProto(device_count={'CPU': 2})) as session:
            session.run(tf1.local_variables_initializer())
            fed = dict(zip(sizes, (1, 3)))
            session.run(update, fed)
            # The same tensors for all replicas: so they can be fetched.
            found = session.run([joined, value, same], fed)
    np.testing.assert_array_equal(found[0], [[1, 0, 0], [2, 2, 2]])
    assert found[1:] == [7.0, 7.0]
