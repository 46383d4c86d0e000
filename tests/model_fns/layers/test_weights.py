from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from model_fns.layers import weights
from model_fns.layers.weights import Initializer, truncated_normal

tf1 = tf.compat.v1


def _initial_values(*names, graph_seed=3):
    """Return the initial values of variables of one graph, by name."""
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.set_random_seed(graph_seed)
        variables = {name: weights.variable(name, [5, 5], weights.XAVIER) for name in names}
        session.run(tf1.global_variables_initializer())
        return session.run(variables)


@pytest.mark.parametrize(
    'initializer, deviation, limit',
    [
        (truncated_normal(0.1), 0.088, 0.2),
        (Initializer('normal', 0.1, fan=None), 0.1, None),
        (Initializer('uniform', 0.3, fan=None), 0.3 / 3**0.5, 0.3),
        # A 3x3 kernel from 20 to 60 channels: 180 inputs, 540 outputs.
        (weights.XAVIER, (1 / 360) ** 0.5, (3 / 360) ** 0.5),
        (Initializer('normal', 2.0, fan='in'), (2 / 180) ** 0.5, None),
        (Initializer('normal', 1.0, fan='out'), (1 / 540) ** 0.5, None),
        (
            Initializer('truncated_normal', 2.0, fan='in'),
            0.88 * (2.6 / 180) ** 0.5,
            2 * (2.6 / 180) ** 0.5,
        ),
    ],
    ids=str,
)
def test_distribution(initializer, deviation, limit):
    with tf.Graph().as_default(), tf1.Session() as session:
        value = session.run(initializer([3, 3, 20, 60], (1, 2)))
    assert value.shape == (3, 3, 20, 60) and value.dtype == np.float32
    assert abs(value.mean()) < 0.05 * deviation
    assert value.std() == pytest.approx(deviation, rel=0.03)
    if limit:
        assert 0.95 * limit < np.abs(value).max() <= limit * 1.0001


def test_mean_and_constant():
    with tf.Graph().as_default(), tf1.Session() as session:
        shifted, constant = session.run(
            [
                truncated_normal(0.1, mean=5.0)([100], (1, 2)),
                Initializer('constant', 7.0, fan=None)([2, 1], (1, 2)),
            ]
        )
    assert shifted.mean() == pytest.approx(5.0, abs=0.1)
    np.testing.assert_array_equal(constant, [[7.0], [7.0]])


def test_first_values_depend_on_name_and_graph_seed_only():
    first = _initial_values('a', 'b')
    second = _initial_values('b', 'c', 'a')
    np.testing.assert_array_equal(first['a'], second['a'])
    np.testing.assert_array_equal(first['b'], second['b'])
    assert not np.array_equal(first['a'], first['b'])
    assert not np.array_equal(first['a'], _initial_values('a', graph_seed=4)['a'])


def test_penalties_by_hand_and_once_when_reused():
    with tf.Graph().as_default(), tf1.Session() as session:
        for _ in range(2):
            with tf1.variable_scope('same', reuse=tf1.AUTO_REUSE):
                twos = Initializer('constant', 2.0, fan=None)
                weights.variable('a', [3, 2], twos, weights.l2(0.5))
                minus = Initializer('constant', -3.0, fan=None)
                weights.variable('b', [2], minus, weights.Regularizer('l1', 0.1))
        session.run(tf1.global_variables_initializer())
        penalties = session.run(tf1.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES))
    # Six weights of 2: 0.5 * 24 / 2; two of -3: 0.1 * 6.
    assert penalties == pytest.approx([6.0, 0.6])
    assert weights.l2(0.0) is None


def test_collections():
    with tf.Graph().as_default():
        weights.variable('a', [1], weights.ZEROS)
        weights.variable('b', [1], weights.ZEROS, trainable=False)
        assert [v.op.name for v in tf1.global_variables()] == ['a', 'b']
        assert tf1.model_variables() == tf1.global_variables()
        assert [v.op.name for v in tf1.trainable_variables()] == ['a']
