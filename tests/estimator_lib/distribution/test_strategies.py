"""What replicas of a strategy have in common, and Estimators that lack the strategy."""

import dataclasses

import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.distribution import Mode, Plan, strategies
from model_fns import weights

tf1 = tf.compat.v1

TWO = Plan(Mode.MIRRORED, devices=('/device:CPU:0', '/device:CPU:1'))


def test_only_strategies_are_made():
    assert strategies.create_strategy(Plan(Mode.CLONES)) is None
    assert strategies.create_strategy(TWO).num_replicas_in_sync == 2


def test_replicas_see_the_means_and_their_own_regularization_losses():
    with tf.Graph().as_default():
        strategy = strategies.create_strategy(TWO)

        def replica():
            for _ in range(2):  # a layer that is used twice is penalised once
                with tf1.variable_scope('layer', reuse=tf1.AUTO_REUSE):
                    weight = weights.variable('weights', [2], weights.ONES, weights.l2(1.0))
            index = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.int32)
            losses = strategies.mean_over_replicas({'x': 1.0 + 2.0 * tf.cast(index, tf.float32)})
            names = strategies.all_of_this_process(tf.strings.as_string(index)[tf.newaxis])
            penalties = tf1.get_collection(strategies.regularization_collection())
            gradient = tf.gradients(tf.add_n(penalties), weight)[0]
            return {'x': losses['x'], 'names': names, 'gradient': gradient}

        with strategy.scope():
            found = strategy.extended.call_for_each_replica(replica)
            fetches = [strategy.experimental_local_results(found[name]) for name in found]
            with tf1.Session(config=tf1.ConfigProto(device_count={'CPU': 2})) as session:
                session.run(tf1.global_variables_initializer())
                means, names, gradients = session.run(fetches)
    assert set(means) == {2.0}
    assert all(one.tolist() == [b'0', b'1'] for one in names)
    assert [one.tolist() for one in gradients] == [[1.0, 1.0], [1.0, 1.0]]


def test_without_a_strategy_all_is_as_it_is():
    with tf.Graph().as_default():
        losses, names = {'x': tf.constant(1.0)}, tf.constant(['a'])
        assert strategies.mean_over_replicas(losses) is losses
        assert strategies.all_of_this_process(names) is names
        assert strategies.regularization_collection() == tf1.GraphKeys.REGULARIZATION_LOSSES


def test_an_estimator_without_the_strategy_is_refused():
    strategies.require(Plan(Mode.CLONES))
    with pytest.raises(errors.ConfigError, match='mode is MIRRORED, but the Estimator has no'):
        strategies.require(TWO)


def test_a_program_that_works_already_cannot_divide_its_processor():
    tf.constant(1.0).numpy()
    plan = dataclasses.replace(TWO, without_sessions=True)
    with pytest.raises(errors.ConfigError, match='TensorFlow has begun to work'):
        strategies.create_strategy(plan)
