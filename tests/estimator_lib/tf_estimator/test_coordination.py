import copy
import json

import pytest
import tensorflow as tf

from estimator_lib import tf_estimator
from estimator_lib.tf_estimator import coordination

CLUSTER = {
    'chief': ['one:1'],
    'evaluator': ['two:1'],
    'ps': ['three:1', 'four:1'],
    'worker': ['five:1', 'six:1'],
}


@pytest.fixture
def coordinated(monkeypatch):
    """The Estimator with this module also where TensorFlow has its own."""
    assert tf_estimator.Estimator
    from tensorflow_estimator.python.estimator import estimator, run_config, training

    for module in (estimator, run_config, training):
        monkeypatch.setattr(module, 'distribute_coordinator_training', coordination)


@pytest.fixture
def strategy():
    return tf.distribute.MirroredStrategy(['/cpu:0'])


def set_task(monkeypatch, role, index=0, cluster=CLUSTER):
    task = {'type': role, 'index': index}
    monkeypatch.setenv('TF_CONFIG', json.dumps({'cluster': cluster, 'task': task}))


def test_one_machine(coordinated, strategy):
    config = tf_estimator.RunConfig(train_distribute=strategy)
    assert config.train_distribute is strategy
    assert (config.task_type, config.task_id, config.is_chief) == ('worker', 0, True)
    assert (config.num_worker_replicas, config.global_id_in_cluster) == (1, 0)
    assert not coordination.should_run_distribute_coordinator(config)


def test_a_cluster_without_a_strategy_for_training(coordinated, strategy, monkeypatch):
    set_task(monkeypatch, 'worker', 1)
    config = tf_estimator.RunConfig(eval_distribute=strategy)
    assert (config.task_type, config.task_id, config.is_chief) == ('worker', 1, False)
    assert (config.num_worker_replicas, config.num_ps_replicas) == (3, 2)
    assert not coordination.should_run_distribute_coordinator(config)


def context_of(role, index, cluster):
    """Return what TensorFlow's coordinator tells a task."""

    class Context:
        task_type, task_id = role, index
        cluster_spec = tf.train.ClusterSpec(cluster)
        master_target, is_chief = 'grpc://here', role == 'chief'

    return Context


@pytest.fixture
def run_task(coordinated, strategy, monkeypatch, tmp_path):
    """A function that runs `train_and_evaluate` as a task, and what that is given."""

    def run(role, index, cluster=CLUSTER):
        ran = []

        class Estimator:
            def __init__(self, config):
                self._config = config

            @property
            def config(self):
                return copy.deepcopy(self._config)  # as the original

            def train(self, input_fn, hooks, max_steps, saving_listeners):
                parts = (input_fn, tuple(hooks), max_steps, tuple(saving_listeners))
                ran.append((self.config, *parts))

        class Executor:
            def __init__(self, estimator, train_spec, eval_spec):
                self.parts = (estimator.config, train_spec, eval_spec)

            def _start_continuous_evaluation(self):
                ran.append(self.parts)

        def coordinate(train, train_strategy, evaluate, eval_strategy, **options):
            assert isinstance(train_strategy, type(strategy)) and eval_strategy is None
            assert options['mode'] == 'independent_worker'
            evaluate(None) if role == 'evaluator' else train(train_strategy)

        contexts = coordination.distribute_coordinator_context
        context = context_of(role, index, cluster)
        monkeypatch.setattr(contexts, 'get_current_worker_context', context)
        coordinator = coordination.distribute_coordinator
        monkeypatch.setattr(coordinator, 'run_distribute_coordinator', coordinate)
        set_task(monkeypatch, role, index, cluster)
        config = tf_estimator.RunConfig(str(tmp_path), train_distribute=strategy)
        assert config.cluster_spec.as_dict() == cluster
        coordination.train_and_evaluate(Estimator(config), TRAIN, EVAL, Executor)
        assert coordination.should_run_distribute_coordinator(config)
        (parts,) = ran
        return parts

    return run


HOOK, LISTENER = tf_estimator.SessionRunHook(), tf_estimator.CheckpointSaverListener()
TRAIN = tf_estimator.TrainSpec(len, 7, [HOOK], [LISTENER])
EVAL = tf_estimator.EvalSpec(len)


@pytest.mark.parametrize(('role', 'index', 'global_id'), [('chief', 0, 0), ('worker', 1, 3)])
def test_a_task_that_trains(run_task, role, index, global_id):
    config, *given = run_task(role, index)
    assert given == [len, (HOOK,), 7, (LISTENER,)]
    assert (config.task_type, config.task_id, config.is_chief) == (role, index, role == 'chief')
    assert config.master == config.evaluation_master == 'grpc://here'
    assert (config.num_worker_replicas, config.num_ps_replicas) == (3, 2)
    assert config.global_id_in_cluster == global_id
    assert not coordination.should_run_distribute_coordinator(config)


def test_a_worker_of_a_cluster_without_a_chief(run_task):
    """Ids follow the names of the roles; see `RunConfig.global_id_in_cluster`."""
    cluster = {'evaluator': ['two:1'], 'worker': ['five:1', 'six:1']}
    config, *_ = run_task('worker', 1, cluster)
    assert (config.num_worker_replicas, config.num_ps_replicas) == (2, 0)
    assert config.global_id_in_cluster == 2


def test_an_evaluator_is_alone(run_task):
    config, *given = run_task('evaluator', 0)
    assert given == [TRAIN, EVAL]
    assert (config.task_type, config.is_chief) == ('evaluator', False)
    assert (config.num_worker_replicas, config.num_ps_replicas) == (0, 0)
    assert not config.cluster_spec and config.global_id_in_cluster is None


def test_single_calls_are_refused_in_a_cluster(coordinated, strategy, monkeypatch, tmp_path):
    set_task(monkeypatch, 'worker')
    strategies = {'train_distribute': strategy, 'eval_distribute': strategy}
    config = tf_estimator.RunConfig(str(tmp_path), **strategies)
    estimator = tf_estimator.Estimator(lambda features: None, config=config)
    with pytest.raises(ValueError, match='call train_and_evaluate'):
        estimator.train(len, steps=1)
    with pytest.raises(ValueError, match='call train_and_evaluate'):
        estimator.evaluate(len)


class Experimental:
    """The fields of TensorFlow's `DistributeConfig`."""

    def __init__(self, train_distribute=None, eval_distribute=None, remote_cluster=None):
        self.train_distribute = train_distribute
        self.eval_distribute = eval_distribute
        self.remote_cluster = remote_cluster


def test_strategies_of_the_older_argument(coordinated, strategy):
    config = tf_estimator.RunConfig(experimental_distribute=Experimental(strategy, strategy))
    assert config.train_distribute is config.eval_distribute is strategy


def test_a_strategy_is_given_once(coordinated, strategy):
    with pytest.raises(ValueError, match='train_distribute is given to RunConfig and in'):
        tf_estimator.RunConfig(
            train_distribute=strategy, experimental_distribute=Experimental(strategy)
        )


def test_one_client_for_all_tasks_is_refused(coordinated, strategy):
    with pytest.raises(ValueError, match=r'remote_cluster is .* works with TensorFlow 2\.15 only'):
        tf_estimator.RunConfig(
            train_distribute=strategy,
            experimental_distribute=Experimental(remote_cluster=CLUSTER),
        )
