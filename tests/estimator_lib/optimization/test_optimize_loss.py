"""One training step as a whole: order, global step, what runs when."""

import logging

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib.optimization import optimize_loss as optimize_loss_lib
from estimator_lib.optimization.gradients import GradientPolicy
from estimator_lib.optimization.moving_averages import MovingAverages
from estimator_lib.optimization.optimize_loss import optimize_loss


def variable(name, value):
    return tf.compat.v1.get_variable(name, initializer=tf.constant(value, tf.float32))


def train(build_loss, steps=1, **kwargs):
    """All variables by name after some steps of plain gradient descent with rate 1."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        loss = build_loss()
        train_op = optimize_loss(
            loss,
            global_step=tf.compat.v1.train.get_or_create_global_step(),
            optimizer=tf.compat.v1.train.GradientDescentOptimizer(1.0),
            **kwargs,
        )
        assert isinstance(train_op, tf.Operation)
        session.run(tf.compat.v1.global_variables_initializer())
        for _ in range(steps):
            session.run(train_op)
        return {v.op.name: session.run(v).tolist() for v in tf.compat.v1.global_variables()}


def linear():
    """A loss whose gradients are 3 by a/weights, 4 by a/biases and 12 by b/weights."""
    a, c, b = variable('a/weights', 0.0), variable('a/biases', 0.0), variable('b/weights', 0.0)
    return 3.0 * a + 4.0 * c + 12.0 * b


def test_plain_step():
    values = train(linear, steps=2)
    assert values == {'a/weights': -6.0, 'a/biases': -8.0, 'b/weights': -24.0, 'global_step': 2}


def test_multipliers_come_before_clipping():
    policy = GradientPolicy(
        bias_multiplier=2.0,
        pattern_multipliers=(('b/', 0.5),),
        last_layer_scopes=('b/w',),
        last_layer_multiplier=3.0,
        clip_norm=1.0,
    )
    values = train(linear, policy=policy)
    actual = [values[name] for name in ('a/weights', 'a/biases', 'b/weights')]
    multiplied = np.array([3.0, 2.0 * 4.0, 0.5 * 3.0 * 12.0])
    np.testing.assert_allclose(actual, -multiplied / np.linalg.norm(multiplied), rtol=1e-6)


def test_frozen_variables_have_no_share_in_the_norm():
    policy = GradientPolicy(freeze_patterns=('b/',), clip_norm=2.5)
    values = train(linear, policy=policy)
    np.testing.assert_allclose(values['a/weights'], -1.5, rtol=1e-6)
    np.testing.assert_allclose(values['a/biases'], -2.0, rtol=1e-6)
    assert values['b/weights'] == 0.0


def test_clip_each():
    values = train(linear, policy=GradientPolicy(clip_norm=3.5, clip_each=True))
    np.testing.assert_allclose(
        [values[name] for name in ('a/weights', 'a/biases', 'b/weights')], [-3, -3.5, -3.5]
    )


def test_nothing_is_built_for_frozen_variables():
    def ops(policy):
        with tf.Graph().as_default() as graph:
            loss = linear()
            optimize_loss(
                loss,
                global_step=tf.compat.v1.train.get_or_create_global_step(),
                optimizer=tf.compat.v1.train.MomentumOptimizer(1.0, 0.9),
                policy=policy,
            )
            names = [v.op.name for v in tf.compat.v1.global_variables()]
            return len(graph.get_operations()), names

    every, names = ops(GradientPolicy())
    assert 'b/weights/Momentum' in names
    fewer, names = ops(GradientPolicy(freeze_patterns=('b/',)))
    assert 'b/weights/Momentum' not in names
    assert fewer < every


def with_update_op():
    """A loss, and an update op that copies the weights before the step changes them."""
    weights = variable('weights', 1.0)
    seen = tf.compat.v1.get_variable('seen', initializer=0.0, trainable=False)
    tf.compat.v1.add_to_collection(
        tf.compat.v1.GraphKeys.UPDATE_OPS, seen.assign(weights.read_value())
    )
    return 3.0 * weights


def test_update_ops_run_before_the_variables_change():
    for _ in range(5):
        values = train(with_update_op)
        assert values == {'weights': -2.0, 'seen': 1.0, 'global_step': 1}


def test_update_ops_run_when_all_is_frozen():
    values = train(with_update_op, policy=GradientPolicy(freeze_patterns=('.*',)))
    assert values == {'weights': 1.0, 'seen': 1.0, 'global_step': 1}


def test_given_update_ops_take_the_place_of_the_collection():
    assert train(with_update_op, update_ops=[]) == {
        'weights': -2.0,
        'seen': 0.0,
        'global_step': 1,
    }


def test_moving_averages_follow_the_update():
    policy = GradientPolicy(freeze_patterns=('^b',))
    values = train(linear, averages=MovingAverages(0.75), policy=policy)
    assert values['a/weights/ExponentialMovingAverage'] == -0.75
    assert values['a/biases/ExponentialMovingAverage'] == -1.0
    assert 'b/weights/ExponentialMovingAverage' not in values


def with_statistics():
    """The linear loss, and a statistic of batch norm that a step sets to 11."""
    keys = tf.compat.v1.GraphKeys
    collections = [keys.GLOBAL_VARIABLES, keys.MODEL_VARIABLES]
    mean = tf.compat.v1.Variable(
        0.0, trainable=False, collections=collections, name='norm/moving_mean', use_resource=True
    )
    tf.compat.v1.add_to_collection(keys.UPDATE_OPS, mean.assign(11.0))
    return linear()


def test_averages_of_all_variables_of_the_model():
    """The decay of the first step is (1 + 1) / (10 + 1), in place of 0.9999."""
    values = train(with_statistics, averages=MovingAverages(0.9999, of_model=True))
    averages = {name: value for name, value in values.items() if 'ExponentialM' in name}
    assert averages == {
        'a/weights/ExponentialMovingAverage': pytest.approx(-3.0 * 9 / 11),
        'a/biases/ExponentialMovingAverage': pytest.approx(-4.0 * 9 / 11),
        'b/weights/ExponentialMovingAverage': pytest.approx(-12.0 * 9 / 11),
        'norm/moving_mean/ExponentialMovingAverage': pytest.approx(11.0 * 9 / 11),
    }


def test_averages_of_statistics_where_nothing_is_trained():
    policy = GradientPolicy(freeze_patterns=('.',))
    averages = MovingAverages(0.9999, of_model=True)
    values = train(with_statistics, steps=2, averages=averages, policy=policy)
    # 9, and then 9 + (11 - 9) * 9 / 12.
    assert values['norm/moving_mean/ExponentialMovingAverage'] == pytest.approx(10.5)
    assert values['global_step'] == 2
    values = train(with_statistics, averages=MovingAverages(0.5))
    assert 'norm/moving_mean/ExponentialMovingAverage' not in values


def test_only_given_variables_are_trained():
    def loss():
        value = linear()
        kept.extend(tf.compat.v1.trainable_variables()[:1])
        return value

    kept = []
    values = train(loss, variables=kept)
    assert values['a/weights'] == -3.0 and values['b/weights'] == 0.0


def summary_tags(summarize, policy=None):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        optimize_loss(
            linear(),
            global_step=tf.compat.v1.train.get_or_create_global_step(),
            optimizer=tf.compat.v1.train.GradientDescentOptimizer(1.0),
            policy=policy,
            summarize_gradients=summarize,
        )
        session.run(tf.compat.v1.global_variables_initializer())
        merged = tf.compat.v1.summary.merge_all()
        if merged is None:
            return {}
        text = session.run(merged)
        summary = tf.compat.v1.Summary.FromString(text)
        return {value.tag: value.simple_value for value in summary.value}


def test_summaries():
    assert summary_tags(False) == {}
    tags = summary_tags(True, GradientPolicy(clip_norm=6.5))
    assert tags['global_norm/gradient_norm'] == 13.0
    assert tags['global_norm/clipped_gradient_norm'] == pytest.approx(6.5)
    assert tags['gradient_norm/b/weights'] == 12.0
    assert 'gradients/b/weights' in tags
    assert 'global_norm/clipped_gradient_norm' not in summary_tags(True)


def test_global_norm_is_computed_only_when_asked():
    with tf.Graph().as_default() as graph:
        pairs = [(tf.constant(1.0), variable('a', 1.0))]
        optimize_loss_lib.process_gradients(pairs, GradientPolicy())
        assert not [op for op in graph.get_operations() if op.type == 'L2Loss']


def test_dead_variables_are_warned_of_and_stay(caplog):
    def loss():
        variable('dead', 7.0)
        return linear()

    with caplog.at_level(logging.WARNING, 'estimator_lib'):
        values = train(loss, averages=MovingAverages(0.5))
    assert values['dead'] == 7.0
    assert '1 of 4 trained variables' in caplog.text and 'dead' in caplog.text


def replicated_step(policy):
    """One step on two replicas with examples 1 and 3: variables after it, by name."""
    with tf.Graph().as_default():
        strategy = tf.distribute.MirroredStrategy(['/cpu:0', '/cpu:1'])

        def step():
            weights = tf.compat.v1.get_variable('weights', initializer=[0.0, 0.0])
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            example = 1.0 + 2.0 * tf.cast(replica, tf.float32)
            return optimize_loss(
                example * tf.reduce_sum([3.0, 4.0] * weights + weights**2),
                global_step=tf.compat.v1.train.get_or_create_global_step(),
                optimizer=tf.compat.v1.train.GradientDescentOptimizer(1.0),
                policy=policy,
                averages=MovingAverages(0.75),
            )

        with strategy.scope():
            train_ops = strategy.extended.call_for_each_replica(step)
            variables = tf.compat.v1.global_variables()
            config = tf.compat.v1.ConfigProto(device_count={'CPU': 2})
            with tf.compat.v1.Session(config=config) as session:
                session.run(tf.compat.v1.global_variables_initializer())
                session.run(strategy.group(train_ops))
                return {v.name: session.run(v).tolist() for v in variables}


def test_factors_are_computed_once(caplog):
    def weights():
        return 3.0 * variable('weights', 0.0)

    with caplog.at_level(logging.WARNING, 'estimator_lib'):
        train(weights, policy=GradientPolicy(bias_multiplier=2.0))
    assert caplog.text.count('no trained variable is named .../biases') == 1


def test_replicas_take_the_step_of_their_whole_batch(caplog):
    # Examples 1 and 3 sum to a gradient of (12, 16): outside of an Estimator nothing halves it.
    caplog.set_level(logging.INFO, 'estimator_lib')
    values = replicated_step(GradientPolicy())
    assert values['weights:0'] == [-12.0, -16.0]
    assert values['weights/ExponentialMovingAverage:0'] == [-3.0, -4.0]
    assert values['global_step:0'] == 1
    clipped = replicated_step(GradientPolicy(clip_norm=5.0, pattern_multipliers=(('wei', 2.0),)))
    np.testing.assert_allclose(clipped['weights:0'], [-3.0, -4.0], rtol=1e-6)
    # One table, not one for each replica.
    assert caplog.text.count('variables  parameters') == 1
