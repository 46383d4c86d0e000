"""Defaults of a task, its types, and what the engine hands to it."""

import inspect
import re

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors, model_fn, tf_estimator, training
from estimator_lib.export import exported_model, exporting, saved_model
from estimator_lib.task import (
    IMAGE,
    SOURCE_ID,
    CheckpointMapping,
    DataChecks,
    Presentation,
    Task,
)
from protos import cluster_pb2, pipeline_pb2
from tests.estimator_lib import line_task
from tests.estimator_lib.line_task import Line
from tests.estimator_lib.tiny_task import TinyTask

tf1 = tf.compat.v1
ModeKeys = tf_estimator.ModeKeys


class Listening(TinyTask):
    """Keeps what its forward pass is given."""

    def predict(self, features, mode, labels=None):
        self.given = mode, labels
        return super().predict(features, mode, labels)


@pytest.mark.parametrize('mode', [ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT])
def test_the_forward_pass_is_given_the_labels_that_there_are(mode, tmp_path):
    task, config = Listening(), pipeline_pb2.TrainEvalPipelineConfig()
    config.train_config.optimizer.momentum_optimizer.learning_rate.constant_learning_rate.SetInParent()
    config.train_config.optimizer.use_moving_average = False
    run_config = tf_estimator.RunConfig(str(tmp_path))
    with tf.Graph().as_default():
        tf.compat.v1.train.create_global_step()
        features = {IMAGE: tf.zeros([2, 6, 6, 3]), SOURCE_ID: tf.constant(['a', 'b'])}
        labels = None if mode == ModeKeys.PREDICT else {'y': tf.zeros([2])}
        model_fn.create_model_fn(task, config)(features, labels, mode, config=run_config)
    given_mode, given_labels = task.given
    assert given_mode == mode
    assert given_labels == labels


def test_defaults_of_training():
    task = TinyTask()
    assert task.pads_batches() is False
    assert task.batches_by_size() is False
    assert task.augmentations() == ()
    assert task.as_tiled(8) is task
    assert task.largest_input() is None
    assert task.bias_gradient_multiplier() == 1.0
    assert task.averages_model_variables() is False
    assert task.across_replicas() == ()
    assert task.training_metrics({}, {}, {}) == {}
    assert task.split_sequence(b'record') == [b'record']
    assert task.finish_metrics({'a': 1, 'b': [1, 2]}) == {'a': 1.0}
    assert TinyTask.config_rules(pipeline_pb2.TrainEvalPipelineConfig()) is None
    with pytest.raises(NotImplementedError, match=r'TinyTask\.from_config'):
        TinyTask.from_config(pipeline_pb2.TrainEvalPipelineConfig())


def test_parts_of_a_task_have_defaults():
    assert TinyTask.analysis is None
    assert type(TinyTask.checks) is DataChecks
    assert type(TinyTask.checkpoints) is CheckpointMapping
    assert type(TinyTask.presentation) is Presentation


def test_seams_are_typed():
    untyped = {
        f'{name}({parameter})'
        for part in (Task, Presentation, DataChecks, CheckpointMapping)
        for name, method in inspect.getmembers(part, inspect.isroutine)
        if not name.startswith('_') and name != 'register'
        for parameter, kind in getattr(method, '__annotations__', {}).items()
        if 'Any' in re.split(r'Mapping|Sequence', kind)[0]
    }
    # Each task has its own type for what it keeps of a record.
    assert untyped == {'examine(return)'}


class Plain(Line):
    """y = a x with TensorFlow's own variables, in no collection of the model's; |a| is regularized.

    The slope begins at 1, so that an initial value cannot be taken for a trained one.
    """

    def predict(self, features, mode, labels=None):
        slope = tf1.get_variable('slope', initializer=1.0, regularizer=lambda one: 0.1 * one)
        return {'y': slope * tf.reshape(features[IMAGE], [-1])}


def trained_plainly(folder, clones=1):
    """Train 4 steps on the points 1, 2, 3 and 4; return the config and the folder of the run."""
    config = line_task.create_config(folder)
    config.train_config.num_steps = 4
    config.train_config.optimizer.use_moving_average = True
    config.train_config.optimizer.moving_average_decay = 0.5
    config.eval_config.use_moving_averages = True
    if clones > 1:
        config.train_config.cluster.mode = cluster_pb2.ClusterConfig.MIRRORED
        config.train_config.cluster.num_clones = clones
    training.train_and_evaluate(Plain(), config, str(folder / 'run'), evaluate=False)
    return config, folder / 'run'


def slopes(steps):
    """Compute by hand the slope after each step, and its average after the last one."""
    slope = average = 1.0
    for step in range(steps):
        batch = ((1.0, 2.0), (3.0, 4.0))[step % 2]
        gradient = sum(2 * (slope - 3.0) * x * x for x in batch) / 2 + 0.1
        slope -= 0.05 * gradient
        average += 0.5 * (slope - average)
    return slope, average


@pytest.mark.parametrize('clones', [1, 2])
def test_variables_and_losses_of_a_task_are_found(clones, tmp_path):
    config, run = trained_plainly(tmp_path, clones)
    slope, average = slopes(4)
    found = tf.train.load_checkpoint(str(run))
    assert found.get_tensor('slope') == pytest.approx(slope, rel=1e-4)
    assert found.get_tensor('slope/ExponentialMovingAverage') == pytest.approx(average, rel=1e-4)
    if clones > 1:
        return
    metrics = training.evaluate(Plain(), config, str(run))['0']
    assert metrics['error'] == pytest.approx(2.5 * abs(average - 3.0), rel=1e-4)
    path = exporting.export(
        Plain(), config, str(run), str(tmp_path / 'exported'), saved_model.SavedModelWriter()
    )
    images = np.full([1, 1, 1, 3], 2, np.uint8)
    served = exported_model.Predictor(path).predict(images)
    assert served['y'] == pytest.approx([2.0 * average], rel=1e-4)


def test_a_variable_that_training_did_not_have_is_an_error(tmp_path):
    config, run = trained_plainly(tmp_path)

    class Offset(Plain):
        def predict(self, features, mode, labels=None):
            found = super().predict(features, mode, labels)
            return {'y': found['y'] + tf1.get_variable('offset', initializer=1.0)}

    with pytest.raises(errors.CheckpointError, match=r'missing in the checkpoint(.|\n)*offset'):
        training.evaluate(Offset(), config, str(run))
    with pytest.raises(errors.CheckpointError, match=r'missing in the checkpoint(.|\n)*offset'):
        exporting.export(
            Offset(), config, str(run), str(tmp_path / 'exported'), saved_model.SavedModelWriter()
        )
