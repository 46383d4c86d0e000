"""What replicas of a strategy have in common, and Estimators that lack the strategy."""

import json
import os

import pytest
import tensorflow as tf

from estimator_lib import distribution, errors
from estimator_lib.distribution import (
    Cluster,
    Mode,
    Plan,
    run_configs,
    startup,
    strategies,
    tf_config,
)
from model_fns import weights

tf1 = tf.compat.v1

TWO = Plan(Mode.MIRRORED, devices=('/device:CPU:0', '/device:CPU:1'))
SERVERS = {'chief': ('a:1',), 'worker': ('b:1',), 'ps': ('d:1',), 'evaluator': ('f:1',)}


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


def create(plan):
    return run_configs.create(plan, tf1.ConfigProto(), model_dir='unused')


def test_a_run_config_of_mirrored_devices():
    config = create(TWO)
    assert config.session_config.device_count['CPU'] == 2  # without, the first step hangs
    assert config.train_distribute.num_replicas_in_sync == 2


@pytest.mark.parametrize('role', ['chief', 'worker'])
def test_a_run_config_of_a_worker_with_servers(role):
    config = create(Plan(Mode.ASYNC_PARAMETER_SERVERS, Cluster(SERVERS, role, 0)))
    assert (config.task_type, config.task_id, config.num_ps_replicas) == (role, 0, 1)
    assert '/job:ps' in config.session_config.device_filters
    assert config.device_fn is not None
    found = tf_config.cluster_of(config)
    assert found.role == role and found.addresses['worker'] == ('b:1',)


@pytest.mark.parametrize(
    'plan',
    [
        Plan(Mode.ASYNC_PARAMETER_SERVERS, Cluster(SERVERS, 'evaluator', 0)),
        Plan(Mode.ONE_DEVICE, Cluster({'chief': ('a:1',)}, 'chief', 0)),
    ],
)
def test_who_trains_alone_or_not_at_all_has_a_run_config_of_one_machine(plan, monkeypatch):
    monkeypatch.setenv('TF_CONFIG', 'is not looked at')
    config = create(plan)
    assert not config.cluster_spec and config.is_chief
    assert not config.session_config.device_filters
    assert tf_config.cluster_of(config) is None
    assert os.environ['TF_CONFIG'] == 'is not looked at'


def test_the_environment_is_as_before():
    os.environ.pop('TF_CONFIG', None)
    with tf_config.environment(Cluster(SERVERS, 'worker', 0)):
        described = json.loads(os.environ['TF_CONFIG'])
        assert described['task'] == {'type': 'worker', 'index': 0}
        assert distribution.read_tf_config() == Cluster(SERVERS, 'worker', 0)
    assert 'TF_CONFIG' not in os.environ


class Coordinator:
    def should_stop(self):
        return False


def test_a_worker_begins_when_the_others_have_come_to_its_step():
    plan = Plan(
        Mode.ASYNC_PARAMETER_SERVERS, Cluster(SERVERS, 'worker', 0), startup_delay_steps=7.5
    )
    assert startup.hooks(Plan(Mode.ONE_DEVICE), None, 100) == []
    (hook,) = startup.hooks(plan, None, num_steps=100)
    with tf.Graph().as_default():
        step = tf1.train.get_or_create_global_step()
        advance = step.assign_add(1)
        hook.begin()
        seen = []

        class Session:
            def run(self, fetch):
                seen.append(session.run(advance) - 1)
                return seen[-1]

        with tf1.Session() as session:
            session.run(step.initializer)
            hook._poll_seconds = 0.0
            hook.after_create_session(Session(), Coordinator())
    assert seen == list(range(8))


@pytest.mark.parametrize(('delay', 'steps', 'first'), [(15.0, 0, 15), (15.0, 4, 4), (0.0, 9, 0)])
def test_the_first_step_is_not_behind_the_last(delay, steps, first):
    assert startup.startup_step(delay, steps) == first
