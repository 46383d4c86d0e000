"""The factory of tasks."""

import pytest
import tensorflow as tf
from google.protobuf import text_format

import model_fns
from estimator_lib import errors, tf_estimator
from estimator_lib.task import IMAGE
from protos import pipeline_pb2

CLASSIFICATION = (
    'model { classification { num_classes: 2 image_height: 32 image_width: 32 '
    "backbone { name: 'mobilenet_v1' depth_multiplier: 0.1 } } }"
)


def parse(text):
    return text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig())


def test_the_task_is_the_models():
    task = model_fns.build_task(parse(CLASSIFICATION))
    assert type(task).__name__ == 'ClassificationTask'


def test_no_model_is_a_sentence():
    kinds = 'expected one of: center_net, classification, external, faster_rcnn, segmentation, ssd'
    with pytest.raises(errors.ConfigError, match=kinds):
        model_fns.build_task(parse(''))


def test_a_model_fn_is_for_any_estimator():
    model_fn = model_fns.create_model_fn(parse(CLASSIFICATION))
    with tf.Graph().as_default():
        tf.compat.v1.train.create_global_step()
        features = {IMAGE: tf.zeros([1, 32, 32, 3])}
        spec = model_fn(features, None, tf_estimator.ModeKeys.PREDICT)
    assert spec.predictions['probabilities'].shape == [1, 2]
