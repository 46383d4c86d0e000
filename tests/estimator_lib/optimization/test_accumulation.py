"""Accumulated gradients: equal to those of the whole batch, one micro-batch at a time."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib.optimization import accumulation, optimize_loss
from estimator_lib.optimization.finite_updates import FiniteUpdates
from estimator_lib.optimization.gradients import GradientPolicy, ancestors
from estimator_lib.optimization.loss_scale import LossScale
from estimator_lib.optimization.moving_averages import MovingAverages
from model_fns import layers
from tests.estimator_lib.two_replicas import run_replicas

tf1 = tf.compat.v1

RANDOM = np.random.RandomState(0)
FEATURES = RANDOM.uniform(-1, 1, [12, 3]).astype(np.float32)
LABELS = RANDOM.uniform(-1, 1, [12]).astype(np.float32)
ROWS = RANDOM.randint(0, 5, [12])


def build_losses(features, labels, style=None):
    """Two layers, and rows of a table, whose gradient is sparse."""
    style = style or layers.LayerStyle(is_training=True, regularizer=layers.l2(0.25))
    table = tf1.get_variable('table', initializer=tf.ones([5]))
    hidden = tf.tanh(layers.fully_connected(features['x'], 4, style, 'first'))
    outputs = layers.fully_connected(hidden, 1, style.linear(), 'second')[:, 0]
    outputs += tf.gather(table, features['row'])
    error = outputs - labels['y']
    return {'squared': tf.reduce_mean(error**2), 'absolute': tf.reduce_mean(tf.abs(error))}


def batch():
    features = {'x': tf.constant(FEATURES), 'row': tf.constant(ROWS)}
    return features, {'y': tf.constant(LABELS)}


def train(count, steps=2, build_one=build_losses, **options):
    """The losses of the last of some steps, and all variables."""
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.set_random_seed(1)
        losses, parts = accumulation.build(count, build_one, batch())
        regularization = sum(tf1.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES))
        total = sum(losses.values()) + regularization
        step = optimize_loss.optimize_loss(
            total,
            global_step=tf1.train.get_or_create_global_step(),
            optimizer=tf1.train.AdamOptimizer(0.1),
            parts=accumulation.add_to_first(parts, regularization),
            **options,
        )
        session.run(tf1.global_variables_initializer())
        for _ in range(steps):
            values, total_value, _ = session.run([losses, total, step])
        variables = {each.op.name: session.run(each) for each in tf1.global_variables()}
        return {**values, 'total': total_value}, variables


def assert_same(results, expected):
    for actual, wanted in zip(results, expected):
        assert actual.keys() == wanted.keys()
        for name, value in wanted.items():
            np.testing.assert_allclose(actual[name], value, rtol=1e-6, atol=1e-6, err_msg=name)


OPTIONS = {
    'plain': dict,
    'clipped': lambda: {'policy': GradientPolicy(clip_norm=0.125)},
    'averaged': lambda: {'averages': MovingAverages(0.5)},
    'scaled': lambda: {'finite': FiniteUpdates(), 'loss_scale': LossScale()},
}


@pytest.mark.parametrize('name', OPTIONS)
def test_equal_to_one_large_batch(name):
    expected = train(1, **OPTIONS[name]())
    assert_same(train(3, **OPTIONS[name]()), expected)
    assert expected[1]['global_step'] == 2
    # The second layer has moved, and rows of the table that no example reads have not.
    assert set(np.flatnonzero(expected[1]['table'] != 1.0)) <= set(ROWS)


def test_a_step_with_one_broken_micro_batch_changes_nothing():
    def build(features, labels):
        is_broken = tf.reduce_all(tf.equal(features['x'], FEATURES[7]), axis=1)
        broken = tf.where(is_broken[:, None], np.inf, features['x'])
        return build_losses({**features, 'x': broken}, labels)

    losses, variables = train(3, steps=1, build_one=build, finite=FiniteUpdates())
    assert not np.isfinite(losses['total'])
    assert variables['global_step'] == 1
    assert np.all(variables['table'] == 1.0)


def test_a_micro_batch_waits_for_the_gradients_of_the_one_before():
    with tf.Graph().as_default() as graph:
        losses, parts = accumulation.build(3, build_losses, batch())
        pairs = accumulation.compute_gradients(
            parts, tf1.trainable_variables(), tf1.train.GradientDescentOptimizer(0.1)
        )
        assert len(losses) == 2 and len(pairs) == 5
        for index in (1, 2):
            gate = graph.get_operation_by_name(f'gate_{index}')
            before = ancestors([op.outputs[0] for op in gate.control_inputs])
            names = {op.name.split('/')[0] for op in before}
            assert f'micro_batch_{index - 1}' in names
            # What a micro-batch computes of its examples begins with ops that wait for the gate.
            waiting = [op for op in graph.get_operations() if gate in op.control_inputs]
            assert {op.type for op in waiting} == {'Identity'} and len(waiting) == 3
            assert all(op.name.startswith(f'micro_batch_{index}/') for op in waiting)


def test_variables_and_their_names_are_those_of_one_batch():
    def names(count):
        with tf.Graph().as_default():
            accumulation.build(count, build_losses, batch())
            return [each.op.name for each in tf1.global_variables()]

    assert names(3) == names(1)


def test_moving_statistics_move_once_by_the_mean():
    style = layers.LayerStyle(is_training=True, batch_norm=layers.BatchNorm(decay=0.75))

    def build(features, labels):
        return build_losses(features, labels, style)

    _, variables = train(3, steps=1, build_one=build)
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.set_random_seed(1)
        build(*batch())
        weights = tf1.global_variables()[1]
        assert weights.op.name == 'first/weights'
        session.run(tf1.global_variables_initializer())
        outputs = (FEATURES @ session.run(weights)).reshape([3, 4, -1])
    np.testing.assert_allclose(
        variables['first/BatchNorm/moving_mean'], 0.25 * outputs.mean((0, 1)), rtol=1e-5, atol=1e-7
    )
    np.testing.assert_allclose(
        variables['first/BatchNorm/moving_variance'],
        0.75 + 0.25 * outputs.var(1, ddof=1).mean(0),
        rtol=1e-5,
    )


def test_replicas_accumulate_before_they_share_gradients():
    def replica():
        tf1.set_random_seed(1)
        index = tf.distribute.get_replica_context().replica_id_in_sync_group
        own = tf.nest.map_structure(
            lambda values: tf.split(values, 2)[int(tf.get_static_value(index))], batch()
        )
        losses, parts = accumulation.build(3, build_losses, own)
        step = optimize_loss.optimize_loss(
            sum(losses.values()),
            global_step=tf1.train.get_or_create_global_step(),
            # The optimizer sums the gradients of the replicas.
            optimizer=tf1.train.GradientDescentOptimizer(0.05),
            parts=parts,
        )
        with tf.control_dependencies([step]):
            variables = tf1.trainable_variables()
            names = ('table', 'first/weights', 'first/biases', 'second/weights', 'second/biases')
            return {name: each.read_value() for name, each in zip(names, variables)}

    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.set_random_seed(1)
        losses, _ = accumulation.build(1, build_losses, batch())
        optimizer = tf1.train.GradientDescentOptimizer(0.1)
        step = optimizer.minimize(sum(losses.values()))
        session.run(tf1.global_variables_initializer())
        session.run(step)
        expected = {each.op.name: session.run(each) for each in tf1.trainable_variables()}
    values = run_replicas(replica)
    for name, value in expected.items():
        for own in values[name]:
            np.testing.assert_allclose(own, value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_parts_without_accumulation():
    with tf.Graph().as_default():
        losses, parts = accumulation.build(1, build_losses, batch())
        assert not parts and set(losses) == {'squared', 'absolute'}
        assert accumulation.add_to_first(parts, tf.constant(2.0)) == []
