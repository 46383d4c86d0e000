"""Features of other images in records: what is read of them, and which are refused."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import tf_estimator
from model_fns.detection import fields
from model_fns.detection.data import context_features, image_resizers, inputs, record_checks
from protos import pipeline_pb2
from tests.model_fns.detection.records import record

CONTEXT = context_features.ContextFeatures(most=3, length=2)
READER = inputs.Reader(num_classes=2, max_boxes=4, context=CONTEXT)
MODES = tf_estimator.ModeKeys


def with_context(numbers, length=2):
    message = tf.train.Example.FromString(record())
    feature = message.features.feature
    if numbers:
        feature['image/context_features'].float_list.value.extend(numbers)
    if length is not None:
        feature['image/context_feature_length'].int64_list.value.append(length)
    return message.SerializeToString()


@pytest.mark.parametrize(
    ('numbers', 'rows', 'count'),
    [
        ([1.0, 2.0], [[1, 2], [0, 0], [0, 0]], 1),
        ([], [[0, 0]] * 3, 0),
        ([float(one) for one in range(10)], [[0, 1], [2, 3], [4, 5]], 3),
    ],
)
def test_features_are_padded_or_cut_off(numbers, rows, count):
    example = READER.decode(tf.constant(with_context(numbers)))
    features, _ = READER.prepare(example, image_resizers.FixedShapeResizer(8, 8), MODES.EVAL)
    np.testing.assert_array_equal(features[fields.CONTEXT_FEATURES], rows)
    assert features[fields.NUM_CONTEXT_FEATURES].numpy() == count


def test_records_need_not_tell_the_length():
    example = READER.decode(tf.constant(with_context([1.0, 2.0], length=None)))
    np.testing.assert_array_equal(example[fields.CONTEXT_FEATURES], [[1, 2]])


def test_a_batch_of_records():
    serialized = [with_context([1.0, 2.0]), with_context([])]
    features = CONTEXT.parse_examples(tf.constant(serialized))
    assert features[fields.CONTEXT_FEATURES].shape == [2, 3, 2]
    assert features[fields.NUM_CONTEXT_FEATURES].numpy().tolist() == [1, 0]


@pytest.mark.parametrize(
    ('numbers', 'length', 'problem'),
    [
        (
            [1.0, 2.0, 3.0],
            3,
            'image/context_feature_length is 3; expected 2, '
            'model.faster_rcnn.context_config.context_feature_length',
        ),
        (
            [1.0, 2.0, 3.0],
            2,
            'image/context_features has 3 numbers; expected a multiple of 2',
        ),
    ],
)
def test_another_length_is_refused(numbers, length, problem):
    serialized = with_context(numbers, length)
    assert record_checks.find_problem(serialized, context=CONTEXT) == problem
    assert record_checks.find_problem(serialized) is None
    with pytest.raises(tf.errors.InvalidArgumentError, match='of another length'):
        READER.decode(tf.constant(serialized))


def test_another_kind_of_values_is_refused():
    message = tf.train.Example.FromString(record())
    message.features.feature['image/context_features'].int64_list.value.append(1)
    problem = record_checks.find_problem(message.SerializeToString(), context=CONTEXT)
    assert problem == 'image/context_features is a int64_list; expected a float_list'


def test_what_a_server_may_leave_out():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        batch = tf.compat.v1.placeholder(tf.int32, [])
        received = CONTEXT.received(batch)
        assert set(received) == {fields.CONTEXT_FEATURES, fields.NUM_CONTEXT_FEATURES}
        left_out = session.run(received, {batch: 4})
        sent = {received[fields.CONTEXT_FEATURES]: np.ones([1, 7, 2])}
        given = session.run(received, {batch: 1, **sent})
    assert left_out[fields.CONTEXT_FEATURES].shape == (4, 1, 2)
    assert left_out[fields.NUM_CONTEXT_FEATURES].tolist() == [0] * 4
    assert given[fields.CONTEXT_FEATURES].shape == (1, 7, 2)


def test_a_config_tells_the_sizes():
    config = pipeline_pb2.TrainEvalPipelineConfig()
    assert context_features.build(config) is None
    config.model.faster_rcnn.context_config.context_feature_length = 5
    assert context_features.build(config) == context_features.ContextFeatures(2000, 5)
