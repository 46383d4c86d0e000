"""Variables of graphs without initial values, beside those of users."""

import numpy as np
import pytest
import tensorflow as tf

from model_fns.layers import weights
from tests import initial_values

tf1 = tf.compat.v1

COLLECTIONS = (
    tf1.GraphKeys.GLOBAL_VARIABLES,
    tf1.GraphKeys.MODEL_VARIABLES,
    tf1.GraphKeys.TRAINABLE_VARIABLES,
)


def build():
    """Build a graph with a weight that is used twice, a statistic and a companion."""
    with tf.Graph().as_default() as graph:
        for reuse in (False, True):
            with tf1.variable_scope('layer', reuse=reuse):
                created = weights.variable('weights', [2, 3], weights.XAVIER)
        with tf1.variable_scope('layer'):
            weights.variable('moving_mean', [3], weights.ZEROS, trainable=False)
        weights.companion('layer/max', 6.0, 'range')
    return graph, created


def about(graph):
    return {
        name: [(v.op.name, v.name, tuple(v.shape), v.dtype) for v in graph.get_collection(name)]
        for name in COLLECTIONS
    }


def test_variables_have_the_names_shapes_and_collections_of_users():
    with initial_values.left_out():
        graph, _ = build()
        with initial_values.drawn():
            of_users, _ = build()
    assert about(graph) == about(of_users)
    assert [len(graph.get_collection(name)) for name in COLLECTIONS] == [3, 2, 1]
    assert len(graph.get_operations()) == 3 < len(of_users.get_operations())  # the handles


def test_a_variable_that_is_not_there_cannot_be_used_again():
    with (
        initial_values.left_out(),
        tf.Graph().as_default(),
        tf1.variable_scope('layer', reuse=True),
        pytest.raises(ValueError, match='not exist'),
    ):
        weights.variable('weights', [2, 3], weights.XAVIER)


def test_variables_have_no_values_until_they_are_set():
    with initial_values.left_out():
        graph, created = build()
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    with graph.as_default(), tf1.Session() as session:
        doubled = 2.0 * created
        with pytest.raises(tf.errors.InvalidArgumentError, match='must feed a value'):
            session.run(tf1.global_variables_initializer())
        with pytest.raises(tf.errors.FailedPreconditionError):
            session.run(doubled)
        session.run(created.initializer, {created.initializer.inputs[1]: value})
        np.testing.assert_array_equal(session.run(doubled), 2.0 * value)
        np.testing.assert_array_equal(session.run(created), value)
