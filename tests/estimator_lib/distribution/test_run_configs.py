"""The `RunConfig` of each role in each mode."""

import os

import pytest
import tensorflow as tf

from estimator_lib import model_fn, tf_estimator
from estimator_lib.distribution import Cluster, Mode, Plan, run_configs, tf_config
from tests.estimator_lib import line_task
from tests.estimator_lib.line_task import Line

tf1 = tf.compat.v1

TWO = Plan(Mode.MIRRORED, devices=('/device:CPU:0', '/device:CPU:1'))
SERVERS = {'chief': ('a:1',), 'worker': ('b:1',), 'ps': ('d:1',), 'evaluator': ('f:1',)}


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
    found = tf_config.cluster_from_run_config(config)
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
    assert tf_config.cluster_from_run_config(config) is None
    assert os.environ['TF_CONFIG'] == 'is not looked at'


def test_a_run_config_of_a_worker_without_sessions(monkeypatch):
    one = tf.distribute.OneDeviceStrategy('/cpu:0')
    monkeypatch.setattr(run_configs.strategies, 'create_strategy', lambda plan: one)
    for index, is_chief in enumerate([True, False]):
        cluster = Cluster({'worker': ('a:1', 'b:1')}, 'worker', index)
        config = create(Plan(Mode.MULTI_WORKER_MIRRORED, cluster, without_sessions=True))
        assert (config.task_type, config.task_id) == ('worker', index)
        assert (config.is_chief, config.num_worker_replicas) == (is_chief, 2)
        assert tf_config.cluster_from_run_config(config) == cluster
        assert config.train_distribute is one


def test_options_and_the_session_config_are_kept():
    session_config = tf1.ConfigProto(allow_soft_placement=True)
    config = run_configs.create(
        Plan(Mode.ONE_DEVICE), session_config, model_dir='unused', keep_checkpoint_max=7
    )
    assert config.keep_checkpoint_max == 7 and config.session_config.allow_soft_placement
    assert config.train_distribute is None


@pytest.mark.parametrize('role', ['chief', 'worker'])
@pytest.mark.parametrize('given', [(), ('/job:ps', '/job:worker')])
def test_sessions_of_programs_get_device_filters(role, given, tmp_path):
    """Without filters a worker waits for ever for a chief that has ended."""
    model_fn_of_line = model_fn.create_model_fn(Line(), line_task.create_config(tmp_path))
    session_config = tf1.ConfigProto(allow_soft_placement=True, device_filters=given)
    with tf_config.environment(Cluster(SERVERS, role, 0)):
        program = tf_estimator.RunConfig(str(tmp_path), session_config=session_config)
    estimator = tf_estimator.Estimator(
        # A program may wrap the model_fn.
        lambda features, labels, mode, config: model_fn_of_line(
            features, labels, mode, config=config
        ),
        config=program,
    )
    with tf.Graph().as_default():
        tf1.train.create_global_step()
        estimator._call_model_fn(*line_task.batch(), 'train', program)
    own = {'chief': '/job:chief', 'worker': '/job:worker/task:0'}[role]
    assert list(estimator._session_config.device_filters) == list(given or ['/job:ps', own])
    assert estimator._session_config.allow_soft_placement
    assert list(session_config.device_filters) == list(given)  # it is the program's
