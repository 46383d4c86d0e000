"""Gradients multiplied and clipped, by hand."""

import logging
import math

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator_lib import errors
from estimator_lib.optimization import gradients
from estimator_lib.optimization.gradients import GradientPolicy
from protos import train_pb2


def variable(name, value):
    return tf.compat.v1.get_variable(name, initializer=tf.constant(value, tf.float32))


def evaluate(pairs):
    """Dense values of gradients, by variable name."""
    with tf.compat.v1.Session() as session:
        return {v.op.name: session.run(tf.convert_to_tensor(g)).tolist() for g, v in pairs}


def test_compute_gives_the_gradients_of_what_is_trained():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        a, b = variable('a', [1.0, 2.0]), variable('b', [3.0, 4.0])
        loss = tf.reduce_sum(a * b)
        before = len(tf.compat.v1.get_default_graph().get_operations())
        pairs = gradients.compute(loss, [a], tf.compat.v1.train.GradientDescentOptimizer(1.0))
        assert [v.op.name for _, v in pairs] == ['a']
        session.run(tf.compat.v1.global_variables_initializer())
        np.testing.assert_allclose(session.run(pairs[0][0]), [3.0, 4.0])
        assert len(tf.compat.v1.get_default_graph().get_operations()) > before


def test_regularization_waits_for_what_the_batch_gives():
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        a, alone = variable('a', [[1.0, 2.0]]), variable('alone', [3.0])
        batch = tf.constant([[4.0], [5.0]])
        loss = tf.reduce_sum(batch @ a, name='data')
        loss += 0.5 * tf.nn.l2_loss(a, name='of_a') + 0.25 * tf.nn.l2_loss(alone)
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
        pairs = gradients.compute(loss, [a, alone], optimizer)
        (penalty,) = (op for op in graph.get_operations() if op.name.endswith('of_a_grad/mul'))
        assert [op.type for op in penalty.control_inputs] == ['MatMul']
        session.run(tf.compat.v1.global_variables_initializer())
        values = session.run([gradient for gradient, _ in pairs])
        np.testing.assert_allclose(values[0], [[9.0 + 0.5, 9.0 + 1.0]])
        np.testing.assert_allclose(values[1], [0.75])


def test_compute_of_nothing_builds_nothing():
    with tf.Graph().as_default() as graph:
        assert gradients.compute(tf.constant(1.0), [], None) == []
        assert len(graph.get_operations()) == 1


def test_variables_without_gradient_are_dropped_and_named(caplog):
    with tf.Graph().as_default():
        used, dead = variable('used', 1.0), [variable(f'dead{i}', 1.0) for i in range(10)]
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
        with caplog.at_level(logging.WARNING, 'estimator_lib'):
            pairs = gradients.compute(used * 2.0, [*dead, used], optimizer)
    assert [v.op.name for _, v in pairs] == ['used']
    assert '10 of 11 trained variables' in caplog.text
    assert 'dead0, dead1, dead2 and 7 more' in caplog.text


def test_a_loss_that_depends_on_no_trained_variable():
    with tf.Graph().as_default():
        used, dead = variable('used', 1.0), variable('dead', 1.0)
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
        with pytest.raises(errors.ConfigError, match="none of the 1 trained variables.*'dead'"):
            gradients.compute(used * 2.0, [dead], optimizer)


def test_older_variables_get_barriers():
    gates = []

    class Optimizer(tf.compat.v1.train.GradientDescentOptimizer):
        def compute_gradients(self, loss, variables, gate_gradients):
            gates.append(gate_gradients)
            return super().compute_gradients(loss, variables, gate_gradients=gate_gradients)

    for use_resource in (True, False):
        with tf.Graph().as_default():
            a = tf.compat.v1.get_variable('a', [2], use_resource=use_resource)
            gradients.compute(tf.reduce_sum(a), [a], Optimizer(1.0))
    assert gates == [Optimizer.GATE_NONE, Optimizer.GATE_OP]


@pytest.mark.parametrize('same', [tf.identity, lambda values: tf.reshape(values, [2, 2])])
def test_a_gradient_is_there_when_the_backward_pass_needs_its_variable_no_more(same):
    """What multiplies by weights again, on the way down, holds them; an update would copy them."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        first, second, last = (
            tf.compat.v1.get_variable(name, initializer=[[2.0, 1.0], [0.5, 3.0]])
            for name in ('first', 'second', 'last')
        )
        hidden = tf.constant([[1.0, 2.0]]) @ first
        loss = tf.reduce_sum(hidden @ second @ same(last)) + tf.reduce_sum(last**2.0)
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
        pairs = gradients.compute(loss, [first, second, last], optimizer)
        waits = [[op.type for op in gradient.op.control_inputs] for gradient, _ in pairs]
        assert pairs[0][0].op.type == 'MatMul' and waits[0] == []
        assert pairs[1][0].op.type == pairs[2][0].op.type == 'Identity'
        assert waits[1] == ['MatMul']
        (by_inputs,) = pairs[1][0].op.control_inputs
        (by_weights,) = [one.op for one in pairs[1][0].op.inputs]
        assert by_inputs.inputs[0].op is by_weights.inputs[1].op and by_inputs is not by_weights
        assert 'MatMul' in waits[2]
        session.run(tf.compat.v1.global_variables_initializer())
        # hidden = (3, 7); the gradient of (hidden @ second) is the sum of each row of `last`.
        np.testing.assert_allclose(session.run(pairs[1][0]), [[9.0, 10.5], [21.0, 24.5]])


LAYERS = [
    'net/conv/weights',
    'net/conv/biases',
    'net/conv/BatchNorm/beta',
    'logits/semantic/weights',
    'logits/semantic/biases',
]


@pytest.fixture(scope='module')
def layers():
    with tf.Graph().as_default():
        return [tf.compat.v1.get_variable(name, [1]) for name in LAYERS]


def test_no_multipliers(layers):
    assert gradients.multipliers(layers) == {}


def test_deeplab_multipliers(layers):
    factors = gradients.multipliers(
        layers,
        bias_multiplier=2.0,
        last_layer_scopes=['logits', 'decoder'],
        last_layer_multiplier=10.0,
    )
    assert factors == {
        'net/conv/biases': 2.0,
        'logits/semantic/weights': 10.0,
        'logits/semantic/biases': 20.0,
    }


def test_pattern_multipliers_multiply_each_other(layers):
    factors = gradients.multipliers(
        layers,
        bias_multiplier=2.0,
        pattern_multipliers=[('net/', 0.5), ('.*beta', 4.0), ('logits/.*/weights', 0.0)],
    )
    assert factors == {
        'net/conv/weights': 0.5,
        'net/conv/BatchNorm/beta': 2.0,
        'logits/semantic/weights': 0.0,
        'logits/semantic/biases': 2.0,
    }


def test_multipliers_that_match_nothing(layers, caplog):
    with pytest.raises(errors.ConfigError, match="gradient_multipliers: 'nte/' matches none of 5"):
        gradients.multipliers(layers, pattern_multipliers=[('nte/', 2.0)])
    with pytest.raises(errors.ConfigError, match=r'last_layer_gradient_multiplier is 3.0.*decoder'):
        gradients.multipliers(layers, last_layer_scopes=['decoder'], last_layer_multiplier=3.0)
    assert gradients.multipliers(layers[:1], bias_multiplier=2.0) == {}
    assert 'bias_grad_multiplier' in caplog.text


def test_multiply_dense_and_sparse():
    with tf.Graph().as_default():
        sparse = tf.IndexedSlices(tf.constant([[1.0], [2.0]]), tf.constant([2, 0]), [3, 1])
        table, weights, rest = (tf.compat.v1.get_variable(n, [1]) for n in 'twr')
        pairs = [(sparse, table), (tf.constant([1.0]), weights), (tf.constant([5.0]), rest)]
        multiplied = gradients.multiply(pairs, {'t': 3.0, 'w': 0.5})
        assert isinstance(multiplied[0][0], tf.IndexedSlices)
        assert multiplied[2][0] is pairs[2][0]
        assert evaluate(multiplied) == {'t': [[6.0], [0.0], [3.0]], 'w': [0.5], 'r': [5.0]}


def three_four_twelve():
    """Gradients of norms 5 (sparse) and 12: 13 together."""
    sparse = tf.IndexedSlices(tf.constant([3.0, 4.0]), tf.constant([2, 0]), [3])
    return [
        (sparse, tf.compat.v1.get_variable('s', [3])),
        (tf.constant([12.0]), tf.compat.v1.get_variable('d', [1])),
    ]


def test_clip_by_global_norm():
    with tf.Graph().as_default():
        pairs = three_four_twelve()
        clipped = evaluate(gradients.clip_by_global_norm(pairs, 6.5))
        assert clipped == {'s': [2.0, 0.0, 1.5], 'd': [6.0]}
        assert evaluate(gradients.clip_by_global_norm(pairs, 13.5)) == evaluate(pairs)
        known = evaluate(gradients.clip_by_global_norm(pairs, 6.5, tf.constant(130.0)))
        np.testing.assert_allclose(known['d'], [0.6], rtol=1e-6)
        assert gradients.clip_by_global_norm([], 1.0) == []


def test_clip_each():
    with tf.Graph().as_default():
        clipped = evaluate(gradients.clip_each(three_four_twelve(), 10.0))
        np.testing.assert_allclose(clipped['s'], [4.0, 0.0, 3.0])
        np.testing.assert_allclose(clipped['d'], [10.0])


def test_global_norm():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        pairs = three_four_twelve()
        assert session.run(gradients.global_norm(pairs)) == 13.0


@settings(max_examples=25, deadline=None)
@given(
    values=st.lists(st.lists(st.floats(-100, 100, width=32), min_size=1), min_size=1, max_size=4),
    bound=st.floats(0.01, 100),
)
def test_clipped_gradients_keep_their_direction_and_the_bound(values, bound):
    with tf.Graph().as_default():
        pairs = [
            (tf.constant(value, tf.float32), tf.compat.v1.get_variable(f'v{i}', [1]))
            for i, value in enumerate(values)
        ]
        clipped = evaluate(gradients.clip_by_global_norm(pairs, bound))
    before = np.concatenate(values)
    after = np.concatenate([clipped[f'v{i}'] for i in range(len(values))])
    norm = math.sqrt(float(np.sum(before**2)))
    expected = before * min(1.0, bound / norm if norm else 1.0)
    np.testing.assert_allclose(after, expected, rtol=1e-4, atol=1e-6)


def policy_of(text, scopes=()):
    config = text_format.Parse(text, train_pb2.TrainConfig())
    return GradientPolicy.from_config(config, scopes)


def test_policy_defaults_do_nothing():
    assert policy_of('') == GradientPolicy()


def test_policy_from_config():
    policy = policy_of(
        """
        update_trainable_variables: 'a' freeze_variables: 'b' freeze_variables: 'c'
        trainable_scopes: 'd' bias_grad_multiplier: 2 last_layer_gradient_multiplier: 10
        gradient_multipliers { variable_pattern: 'e' multiplier: 0.5 }
        gradient_clipping_by_norm: 4 gradient_clipping: NORM_PER_VARIABLE
        """,
        ['logits'],
    )
    assert policy == GradientPolicy(
        update_patterns=('a',),
        freeze_patterns=('b', 'c'),
        trainable_scopes=('d',),
        bias_multiplier=2.0,
        pattern_multipliers=(('e', 0.5),),
        last_layer_scopes=('logits',),
        last_layer_multiplier=10.0,
        clip_norm=4.0,
        clip_each=True,
    )


BAD = [
    ('bias_grad_multiplier: -1', 'train_config.bias_grad_multiplier is -1.0'),
    ('last_layer_gradient_multiplier: nan', 'last_layer_gradient_multiplier is nan'),
    ('gradient_clipping_by_norm: -3', 'gradient_clipping_by_norm is -3.0'),
    (
        "gradient_multipliers { variable_pattern: 'x' multiplier: inf }",
        "gradient_multipliers 'x' is inf; expected a finite number of at least 0",
    ),
]


@pytest.mark.parametrize('text,message', BAD)
def test_bad_values_are_named(text, message):
    with pytest.raises(errors.ConfigError, match=message):
        policy_of(text)
