"""The model_fn of a toy task, without an Estimator around it."""

import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import distribution, errors, graph_state, model_fn, tf_estimator
from estimator_lib.distribution import tf_config
from estimator_lib.graphs import losses
from estimator_lib.hooks import non_finite
from protos import cluster_pb2
from tests.estimator_lib import line_task
from tests.estimator_lib.line_task import Line, batch

tf1 = tf.compat.v1


@pytest.fixture
def config(tmp_path):
    return line_task.create_config(tmp_path)


def test_without_a_run_config_a_step_is_that_of_one_machine(config, monkeypatch):
    monkeypatch.setenv('TF_CONFIG', '{"cluster": {"chief": ["h:1"]}, "task": {"type": "worker"}}')
    config.train_config.progress.profile_step = 1
    with tf.Graph().as_default():
        spec = model_fn.create_model_fn(Line(), config)(*batch(), 'train')
        assert not spec.training_chief_hooks
        (slope,) = tf1.trainable_variables()
        with tf1.train.MonitoredSession(hooks=list(spec.training_hooks)) as session:
            session.run(spec.train_op)
            found = session.run(slope)
    # The slope is 0: the gradient of the mean of (s - 3)^2 x^2 is -6 (1 + 4) / 2; times 0.05.
    assert found == pytest.approx(0.75)


def test_clones_do_not_compute_over_all_batches(config):
    config.train_config.batch_size = 2
    config.train_config.cluster.mode = cluster_pb2.ClusterConfig.CLONES
    config.train_config.cluster.num_clones = 2

    class Joint(Line):
        def across_replicas(self):
            return ['model.line']

    with tf.Graph().as_default(), pytest.raises(errors.ConfigError, match=r'^model\.line: comp'):
        model_fn.create_model_fn(Joint(), config)(*batch(), 'train')


@pytest.mark.parametrize('role, expected', [('chief', 0), ('worker', 1)])
def test_a_worker_of_parameter_servers_knows_its_number_in_the_step(config, role, expected):
    plan = distribution.Plan(
        distribution.Mode.ASYNC_PARAMETER_SERVERS,
        tf_config.Cluster({'chief': ('a:1',), 'worker': ('b:1',), 'ps': ('d:1',)}, role, 0),
    )
    numbers = []

    class Noting(Line):
        def predict(self, features, mode, labels=None):
            numbers.append(graph_state.index_in_step())
            return super().predict(features, mode, labels)

    with tf.Graph().as_default():
        losses.compute_training_losses(Noting(), config, plan, *batch())
    assert numbers == [expected]


def test_what_writes_is_there_when_there_is_a_folder(config, tmp_path):
    with tf.Graph().as_default():
        run_config = tf_estimator.RunConfig(str(tmp_path), save_checkpoints_steps=1)
        spec = model_fn.create_model_fn(Line(), config)(*batch(), 'train', config=run_config)
    kinds = [type(hook) for hook in spec.training_chief_hooks]
    assert non_finite.FiniteCheckpointSaverHook in kinds and len(kinds) == 2


def test_graphs_with_training_metrics_are_given_back(config):
    def build():
        graph = tf.Graph()
        with graph.as_default():
            model_fn.create_model_fn(Line(), config)(*batch(), 'train')
        return weakref.ref(graph)

    build()  # what TensorFlow itself keeps of the first graph of a process
    graphs = [build() for _ in range(3)]
    gc.collect()
    assert [graph() for graph in graphs] == [None, None, None]


def test_training_metrics_are_updated_by_each_step(config):
    with tf.Graph().as_default():
        features, labels = batch()
        spec = model_fn.create_model_fn(Line(), config)(features, labels, 'train')
        variables = [one for one in tf1.local_variables() if 'mean' in one.op.name]
        with tf1.train.MonitoredSession() as session:
            session.run(spec.train_op)
            total, count = sorted(session.run(variables), reverse=True)
    # |0 - 3| + |0 - 6|, or with the slope after the step, 0.75: 2.25 + 4.5
    assert count == 2 and total in (9.0, pytest.approx(6.75))


def test_a_prediction_has_the_outputs_of_the_signature(config):
    with tf.Graph().as_default():
        tf1.train.create_global_step()
        spec = model_fn.create_model_fn(Line(), config)(batch()[0], None, 'infer')
        # Clients of published Estimator exports ask for the second name.
        assert list(spec.export_outputs) == ['serving_default', 'tensorflow/serving/predict']
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            found = session.run(spec.predictions)
    np.testing.assert_array_equal(found['y'], [0.0, 0.0])


@pytest.mark.parametrize('mode', ['train', 'eval', 'infer'])
def test_the_graph_hook_comes_after_the_losses_and_before_gradients(config, mode):
    seen = []

    def hook():
        names = {operation.name for operation in tf1.get_default_graph().get_operations()}
        seen.append((any('gradients/' in one for one in names), 'total_loss' in names))

    with tf.Graph().as_default():
        tf1.train.create_global_step()
        model_fn.create_model_fn(Line(), config, hook)(*batch(), mode)
    assert seen == [(False, mode != 'infer')]


def test_params_are_for_the_input_fn_of_a_program(config):
    made = model_fn.create_model_fn(Line(), config)
    with tf.Graph().as_default():
        tf1.train.create_global_step()
        assert made(*batch(), 'train', params={'learning_rate': 1, 'batch_size': 9}).train_op
