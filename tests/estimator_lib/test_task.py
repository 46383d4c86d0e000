"""What every task gets without saying so, and what the engine hands to it."""

import pytest
import tensorflow as tf

from estimator_lib import model_fn
from estimator_lib.task import AS_CONFIGURED, IMAGE, SOURCE_ID, Description, Shown
from protos import pipeline_pb2
from tests.estimator_lib.tiny_task import TinyTask

ModeKeys = tf.estimator.ModeKeys


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
    run_config = tf.estimator.RunConfig(str(tmp_path))
    with tf.Graph().as_default():
        tf.compat.v1.train.create_global_step()
        features = {IMAGE: tf.zeros([2, 6, 6, 3]), SOURCE_ID: tf.constant(['a', 'b'])}
        labels = None if mode == ModeKeys.PREDICT else {'y': tf.zeros([2])}
        model_fn.create_model_fn(task, config)(features, labels, mode, config=run_config)
    given_mode, given_labels = task.given
    assert given_mode == mode
    assert given_labels is labels


def test_what_a_task_need_not_say(tmp_path):
    task = TinyTask()
    assert task.pads_batches() is False
    assert task.largest_input() is None
    assert task.serving_side_inputs(tf.constant(1), None) == ({}, {})
    assert task.last_layer_scopes() == ()
    assert task.bias_gradient_multiplier() == 1.0
    assert task.draw({}, {}) is None
    assert task.worth_showing({'accuracy': 1.0}) == AS_CONFIGURED
    assert task.files({}, {}) == {}
    assert task.check_example(b'') is None
    assert task.describe({}, {'logits': 1}) == Description({'logits': 1})
    assert task.coco_results({}, {'logits': 1}) is None
    assert task.asset_files() == {}
    assert task.finish_metrics({'a': 1, 'b': [1, 2]}) == {'a': 1.0}


def test_what_is_asked_for_comes_first():
    assert Shown(0.5).or_else(Shown(0.3, 4)) == Shown(0.5, 4)
    assert Shown(0.0).or_else(Shown(0.3)) == Shown(0.0)
    assert AS_CONFIGURED.or_else(Shown(0.3)) == Shown(0.3)
