"""Values of layers: random inputs, and what a graph of its own computes."""

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1


def random(*shape, seed=0):
    return np.random.RandomState(seed).normal(size=shape).astype(np.float32)


def evaluate(build, graph_seed=3):
    """Return what `build()` computes in a graph of its own; variables by name, after one update."""
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.set_random_seed(graph_seed)
        tensors = build()
        session.run(tf1.global_variables_initializer())
        values = session.run(tensors)
        session.run(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS))
        return values, session.run({v.op.name: v for v in tf1.global_variables()})
