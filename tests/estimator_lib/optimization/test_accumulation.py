"""Accumulated gradients: equal to those of the whole batch, by one copy of the network."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib.optimization import optimize_loss
from estimator_lib.optimization.accumulation import Accumulation
from estimator_lib.optimization.finite_updates import FiniteUpdates
from estimator_lib.optimization.gradients import GradientPolicy
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


def without_regularization(features, labels):
    return build_losses(features, labels, layers.LayerStyle(is_training=True))


def batch():
    features = {'x': tf.constant(FEATURES), 'row': tf.constant(ROWS)}
    return features, {'y': tf.constant(LABELS)}


def build_step(count, build_one=build_losses, whole=None, optimizer=None, **options):
    """The losses, their sum with the regularization loss, and the train op."""
    whole = whole or batch()
    micro_batches = Accumulation(count, whole) if count > 1 else None
    losses = build_one(*(micro_batches.first if micro_batches else whole))
    regularization = tf1.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)
    losses = {**losses, 'total': tf.add_n([*losses.values(), *regularization])}
    if micro_batches:
        losses = micro_batches.mean_losses(losses)
    step = optimize_loss.optimize_loss(
        losses['total'],
        global_step=tf1.train.get_or_create_global_step(),
        optimizer=optimizer or tf1.train.AdamOptimizer(0.1),
        micro_batches=micro_batches,
        **options,
    )
    return losses, step


def train(count, steps=2, build_one=build_losses, **options):
    """The losses of the last of some steps, and all variables."""
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.set_random_seed(1)
        losses, step = build_step(count, build_one, **options)
        session.run(tf1.global_variables_initializer())
        for _ in range(steps):
            values, _ = session.run([losses, step])
        return values, {each.op.name: session.run(each) for each in tf1.global_variables()}


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


def count_ops(count):
    with tf.Graph().as_default() as graph:
        build_step(count)
        functions = graph.as_graph_def().library.function
        names = [each.op.name for each in tf1.global_variables()]
        return len(graph.get_operations()), sum(len(each.node_def) for each in functions), names


def test_graph_does_not_grow_with_the_number_of_micro_batches():
    assert count_ops(6) == count_ops(3)
    assert count_ops(3)[2] == count_ops(1)[2]  # the same variables


def test_micro_batches_run_one_after_the_other():
    running, most = [0], []

    def enter(values):
        running[0] += 1
        most.append(running[0])
        return values

    def leave(gradient):
        running[0] -= 1
        return gradient

    @tf.custom_gradient
    def observed(values):
        entered = tf.numpy_function(enter, [values], values.dtype)
        entered.set_shape(values.shape)

        def gradient(upstream):
            # The input of the network, whose gradient is computed last.
            left = tf.numpy_function(leave, [upstream], values.dtype)
            left.set_shape(values.shape)
            return left

        return entered, gradient

    def build(features, labels):
        shift = tf1.get_variable('shift', [3], initializer=tf1.zeros_initializer())
        return build_losses({**features, 'x': observed(features['x'] + shift)}, labels)

    train(4, steps=2, build_one=build)
    assert most == [1] * 8


def test_random_numbers_differ_between_micro_batches_and_steps():
    """Whether they follow the step (layers) or are drawn one after the other."""
    values = []

    def build(features, labels):
        tf1.train.get_or_create_global_step()
        ones = tf.ones([64])
        both = layers.dropout(ones, 0.5, True, 'drop') + 3.0 * tf.nn.dropout(ones, 0.5)
        kept = tf.numpy_function(
            lambda value: values.append(value.tolist()) or value, [both], tf.float32
        )
        kept.set_shape([64])
        losses = build_losses(features, labels)
        return {**losses, 'drawn': tf.reduce_mean(kept) + 0.0 * losses['squared']}

    train(3, steps=2, build_one=build)
    own = [[each % 3 for each in value] for value in values]
    others = [[each // 3 for each in value] for value in values]
    for draws in (own, others):
        assert len({tuple(draw) for draw in draws}) == 6


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
        # The optimizer sums the gradients of the replicas.
        optimizer = tf1.train.GradientDescentOptimizer(0.05)
        _, step = build_step(3, without_regularization, own, optimizer)
        with tf.control_dependencies([step]):
            variables = tf1.trainable_variables()
            names = ('table', 'first/weights', 'first/biases', 'second/weights', 'second/biases')
            return {name: each.read_value() for name, each in zip(names, variables)}

    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.set_random_seed(1)
        optimizer = tf1.train.GradientDescentOptimizer(0.1)
        _, step = build_step(1, without_regularization, optimizer=optimizer)
        session.run(tf1.global_variables_initializer())
        session.run(step)
        expected = {each.op.name: session.run(each) for each in tf1.trainable_variables()}
    values = run_replicas(replica)
    for name, value in expected.items():
        for own in values[name]:
            np.testing.assert_allclose(own, value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_replicas_share_the_statistics_of_a_micro_batch():
    norm = layers.BatchNorm(decay=0.75, synchronized=True)

    def build(features, labels):
        return build_losses(features, labels, layers.LayerStyle(is_training=True, batch_norm=norm))

    def results(whole):
        tf1.set_random_seed(1)
        losses, step = build_step(3, build, whole, tf1.train.GradientDescentOptimizer(0.0))
        with tf.control_dependencies([step]):
            moved = [each for each in tf1.global_variables() if 'moving_' in each.name]
            return {'loss': losses['total'], 'mean': tf.convert_to_tensor(moved[0])}

    def replica():
        index = int(
            tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group)
        )
        return results(tf.nest.map_structure(lambda values: tf.split(values, 2)[index], batch()))

    # On one device the micro-batches are those of both replicas together: 2 rows of each.
    rows = np.arange(12).reshape(2, 3, 2).transpose(1, 0, 2).ravel()
    with tf.Graph().as_default(), tf1.Session() as session:
        whole = tf.nest.map_structure(lambda values: tf.gather(values, rows), batch())
        fetches = results(whole)
        session.run(tf1.global_variables_initializer())
        expected = session.run(fetches)
    values = run_replicas(replica)
    np.testing.assert_allclose(np.mean(values['loss']), expected['loss'], rtol=1e-5)
    for own in values['mean']:
        np.testing.assert_allclose(own, expected['mean'], rtol=1e-4, atol=1e-6)
