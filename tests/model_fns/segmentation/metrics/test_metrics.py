"""Metrics of an evaluation and of training, against NumPy and by hand."""

import logging

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from model_fns.segmentation import fields, instances
from model_fns.segmentation.data import targets
from model_fns.segmentation.metrics import metrics
from protos import segmentation_pb2

tf1 = tf.compat.v1

IGNORE = 255
CLASSES = 3


def accumulate(made, batches):
    """The metrics of an evaluation over batches of (outputs, features, labels)."""
    with tf.Graph().as_default(), tf1.Session() as session:
        tensors = tf.nest.map_structure(
            lambda array: tf1.placeholder(array.dtype, [None] * array.ndim), batches[0]
        )
        created = made.create(*tensors)
        session.run(tf1.local_variables_initializer())
        for batch in batches:
            feed = dict(zip(tf.nest.flatten(tensors), tf.nest.flatten(batch)))
            session.run([update for _, update in created.values()], feed)
        values = session.run({name: value for name, (value, _) in created.items()})
    return made.finish(values)


def semantic_batch(predictions, labels):
    return (
        {fields.SEMANTIC_PREDICTIONS: np.asarray(predictions, np.int64)},
        {},
        {fields.SEMANTIC: np.asarray(labels, np.int32)},
    )


def test_semantic_by_hand():
    batches = [
        semantic_batch([[[0, 1, 1, 0]]], [[[0, 0, 1, IGNORE]]]),
        semantic_batch([[[1, 1]]], [[[1, 0]]]),
    ]
    found = accumulate(metrics.Metrics(CLASSES, IGNORE), batches)
    # Class 0: 1 of 3 labeled is right; class 1: 2 of 2 labeled, and 2 of 0 besides.
    assert found == pytest.approx(
        {
            'miou_1.0_overall': (1 / 3 + 2 / 4) / 2,
            'miou_1.0_class_0': 1 / 3,
            'miou_1.0_class_1': 2 / 4,
            'pixel_accuracy': 3 / 5,
            'mean_accuracy': (1 / 3 + 1) / 2,
        }
    )


def test_absent_classes_are_reported_in_one_line(caplog):
    made = metrics.Metrics(4, IGNORE, class_names=('sky', 'sea', 'cat'))
    with caplog.at_level(logging.WARNING, logger='model_fns'):
        found = accumulate(made, [semantic_batch([[[0, 1]]], [[[0, 0]]])])
    assert found['miou_1.0_overall'] == pytest.approx((0.5 + 0) / 2)
    assert found['miou_1.0_class_1'] == 0.0
    assert 'miou_1.0_class_2' not in found
    (line,) = [record.getMessage() for record in caplog.records]
    assert '3 of 4 classes' in line
    assert 'not predicted either: cat, class 3.' in line
    assert 'IoU of 0: sea.' in line


def test_nothing_labeled():
    made = metrics.Metrics(CLASSES, IGNORE)
    assert accumulate(made, [semantic_batch([[[0, 1]]], [[[IGNORE, IGNORE]]])]) == {}


def test_zeros_around_a_smaller_image_count_for_nothing():
    """As batches of several devices are joined: labels of class 0, and stuff of class 0."""
    made = metrics.Metrics(CLASSES, IGNORE)
    is_image = np.array([[[True, True, False], [False, False, False]]])
    outputs, labels = made.ignore_padding(
        tf.constant(is_image),
        {
            fields.SEMANTIC_PREDICTIONS: tf.constant([[[1, 0, 2], [2, 2, 2]]], tf.int64),
            fields.PANOPTIC_PREDICTIONS: tf.constant([[[1001, 7, 0], [0, 0, 0]]]),
        },
        {
            fields.SEMANTIC: tf.constant([[[1, 2, 0], [0, 0, 0]]]),
            fields.EDGE: tf.constant([[[0, 1, 0], [0, 0, 0]]]),
            fields.INSTANCES: tf.constant([[[1, 2, 0], [0, 0, 0]]]),
        },
    )
    assert labels[fields.SEMANTIC].numpy().tolist() == [[[1, 2, IGNORE], [IGNORE] * 3]]
    assert labels[fields.EDGE].numpy().tolist() == [[[0, 1, -1], [-1] * 3]]
    assert labels[fields.INSTANCES].numpy().tolist() == [[[1, 2, 0], [0] * 3]]
    assert outputs[fields.PANOPTIC_PREDICTIONS].numpy().tolist() == [[[1001, 7, -1], [-1] * 3]]
    assert outputs[fields.SEMANTIC_PREDICTIONS].numpy().tolist() == [[[1, 0, 2], [2, 2, 2]]]


@pytest.fixture(scope='module')
def confusion():
    with tf.Graph().as_default(), tf1.Session() as session:
        maps = [tf1.placeholder(dtype, [None, None, None]) for dtype in (tf.int64, tf.int32)]
        made = metrics.confusion_matrix(*maps, CLASSES, ignore_label=1)
        yield lambda *arrays: session.run(made, dict(zip(maps, arrays)))


shapes = st.tuples(st.integers(1, 2), st.integers(1, 4), st.integers(1, 4))


@settings(max_examples=50, deadline=None)
@given(
    pair=shapes.flatmap(
        lambda shape: st.tuples(
            *[hnp.arrays(np.int32, shape, elements=st.integers(0, CLASSES - 1))] * 2
        )
    )
)
def test_confusion_where_the_ignore_label_is_a_class(confusion, pair):
    expected = np.zeros([CLASSES, CLASSES], int)
    for predicted, label in zip(pair[0].ravel(), pair[1].ravel()):
        expected[label, predicted] += label != 1
    np.testing.assert_array_equal(confusion(*pair), expected)


def test_names():
    model = segmentation_pb2.Segmentation()
    model.evaluation.scales.extend([0.1, 1.0, 1.75])
    model.evaluation.add_flipped_images = True
    made = metrics.Metrics.from_config(model, 2, IGNORE)
    assert made.names() == [
        'miou_0.1_1.0_1.75_flipped_overall',
        'pixel_accuracy',
        'mean_accuracy',
        'miou_0.1_1.0_1.75_flipped_class_0',
        'miou_0.1_1.0_1.75_flipped_class_1',
    ]


def model_of_all_heads():
    model = segmentation_pb2.Segmentation()
    model.instance_center.sigma = 2.0
    model.offset.SetInParent()
    model.edge.tolerance = 0.1
    return model


def scene():
    """Two squares of class 1 on class 0, and right predictions of them."""
    ids = np.zeros([20, 24], np.int32)
    ids[3:9, 3:9], ids[10:17, 12:20] = 7, 9
    labels = (ids > 0).astype(np.int32)
    labels[:, 22:] = IGNORE
    with tf.Graph().as_default(), tf1.Session() as session:
        counted = tf.constant(labels != IGNORE)
        made = session.run(
            {
                **targets.instance_targets(tf.constant(ids), 2.0),
                fields.EDGE: targets.edge_targets(tf.constant(labels), counted, 2),
            }
        )
        outputs = {
            fields.SEMANTIC_PREDICTIONS: np.where(labels == IGNORE, 0, labels).astype(np.int64),
            fields.INSTANCE_CENTERS: made[fields.CENTER],
            fields.CENTER_OFFSETS: made[fields.OFFSET],
            fields.EDGE_PREDICTIONS: np.maximum(made[fields.EDGE], 0).astype(np.int64),
        }
        outputs.update(group(session, outputs))
    truth = {**made, fields.SEMANTIC: labels, fields.INSTANCES: ids}
    return outputs, {fields.TRUE_IMAGE_SHAPE: np.array([20, 22, 3], np.int32)}, truth


def group(session, outputs):
    grouping = instances.InstanceGrouping(2, (1,))
    grouped = grouping.group(
        *(
            tf.constant(outputs[name][np.newaxis])
            for name in (
                fields.SEMANTIC_PREDICTIONS,
                fields.INSTANCE_CENTERS,
                fields.CENTER_OFFSETS,
            )
        )
    )
    return {name: array[0] for name, array in session.run(grouped).items()}


def as_batch(example):
    return tf.nest.map_structure(lambda array: array[np.newaxis], example)


def test_all_heads_when_everything_is_right():
    made = metrics.Metrics.from_config(model_of_all_heads(), 2, IGNORE)
    found = accumulate(made, [as_batch(scene())] * 2)
    assert found.pop('offset_error') == 0.0
    assert set(found.values()) == {1.0}
    assert sorted([*found, 'offset_error']) == sorted(made.names())


def test_all_heads_when_something_is_wrong():
    outputs, features, labels = scene()
    outputs[fields.CENTER_OFFSETS] = outputs[fields.CENTER_OFFSETS] + np.float32([3.0, 4.0])
    heat = np.where(labels[fields.INSTANCES] == 9, outputs[fields.INSTANCE_CENTERS], 0)
    heat[0, 20] = 1.0
    outputs[fields.INSTANCE_CENTERS] = heat
    outputs[fields.EDGE_PREDICTIONS] = np.zeros_like(outputs[fields.EDGE_PREDICTIONS])
    outputs[fields.PANOPTIC_PREDICTIONS] = np.where(
        labels[fields.INSTANCES] == 7, -1, outputs[fields.PANOPTIC_PREDICTIONS]
    )
    made = metrics.Metrics.from_config(model_of_all_heads(), 2, IGNORE)
    found = accumulate(made, [as_batch((outputs, features, labels))])
    assert found['offset_error'] == pytest.approx(5.0)
    assert (found['center_precision'], found['center_recall']) == (0.5, 0.5)
    assert found['boundary_recall'] == found['boundary_f_score'] == 0.0
    assert 'boundary_precision' not in found
    # One of two things is found: 1 / (1 + 1 / 2).
    assert found['panoptic_quality_things'] == pytest.approx(2 / 3)
    assert found['panoptic_quality'] == pytest.approx((2 / 3 + 1) / 2)


def test_no_instances_in_the_data():
    outputs, features, labels = scene()
    for name in (fields.CENTER, fields.OFFSET_WEIGHTS, fields.INSTANCES):
        labels[name] = np.zeros_like(labels[name])
    made = metrics.Metrics.from_config(model_of_all_heads(), 2, IGNORE)
    found = accumulate(made, [as_batch((outputs, features, labels))])
    assert 'offset_error' not in found
    assert 'center_recall' not in found
    assert 'panoptic_quality_things' not in found


def test_window_of_training():
    steps = [
        ([[[0, 0, 0, 0]]], [[[0, 0, 0, 0]]]),
        ([[[1, 1, 0, 0]]], [[[0, 1, 0, IGNORE]]]),
        ([[[1, 1, 1, 1]]], [[[1, 0, 1, 0]]]),
    ]
    with tf.Graph().as_default(), tf1.Session() as session:
        predictions = tf1.placeholder(tf.int64, [None, None, None])
        labels = tf1.placeholder(tf.int32, [None, None, None])
        scalars, update = metrics.training_metrics(predictions, labels, CLASSES, IGNORE, window=2)
        assert not tf1.global_variables()
        session.run(tf1.local_variables_initializer())
        found = []
        for predicted, true in steps:
            session.run(update, {predictions: predicted, labels: true})
            found.append(session.run(scalars))
    assert found[0] == {'miou': 1.0, 'pixel_accuracy': 1.0}
    assert found[1]['pixel_accuracy'] == pytest.approx(6 / 7)
    # The last two: of class 0 one of four is right, of class 1 three of three and three besides.
    assert found[2] == pytest.approx({'miou': (1 / 4 + 3 / 6) / 2, 'pixel_accuracy': 4 / 7})


def test_graph_does_not_grow():
    def size(batch, classes):
        with tf.Graph().as_default() as graph:
            model = model_of_all_heads()
            model.instance_grouping.thing_classes.append(1)
            shape = [batch, 5, 6]
            metrics.Metrics.from_config(model, classes, IGNORE).create(
                {
                    fields.SEMANTIC_PREDICTIONS: tf1.placeholder(tf.int64, shape),
                    fields.EDGE_PREDICTIONS: tf1.placeholder(tf.int64, shape),
                    fields.INSTANCE_CENTERS: tf1.placeholder(tf.float32, shape),
                    fields.CENTER_OFFSETS: tf1.placeholder(tf.float32, [*shape, 2]),
                    fields.PANOPTIC_PREDICTIONS: tf1.placeholder(tf.int32, shape),
                },
                {fields.TRUE_IMAGE_SHAPE: tf1.placeholder(tf.int32, [batch, 3])},
                {
                    fields.SEMANTIC: tf1.placeholder(tf.int32, shape),
                    fields.INSTANCES: tf1.placeholder(tf.int32, shape),
                    fields.EDGE: tf1.placeholder(tf.int32, shape),
                    fields.CENTER: tf1.placeholder(tf.float32, shape),
                    fields.OFFSET: tf1.placeholder(tf.float32, [*shape, 2]),
                    fields.OFFSET_WEIGHTS: tf1.placeholder(tf.float32, shape),
                },
            )
            return len(graph.get_operations())

    assert size(1, 2) == size(7, 20)
