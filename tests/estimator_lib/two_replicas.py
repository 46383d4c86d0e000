"""A function of a graph, built and run as the two replicas of a strategy."""

import tensorflow as tf

from estimator_lib.distribution import Mode, Plan, strategies

tf1 = tf.compat.v1

TWO = Plan(Mode.MIRRORED, devices=('/device:CPU:0', '/device:CPU:1'))


def run_replicas(replica):
    """Return what a function returns in each of two replicas, by name."""
    with tf.Graph().as_default():
        strategy = strategies.create_strategy(TWO)
        with strategy.scope():
            found = strategy.extended.call_for_each_replica(replica)
            fetches = {
                name: strategy.experimental_local_results(one) for name, one in found.items()
            }
            with tf1.Session(config=tf1.ConfigProto(device_count={'CPU': 2})) as session:
                session.run(tf1.global_variables_initializer())
                return session.run(fetches)
