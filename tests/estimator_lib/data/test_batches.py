"""Batches of an input_fn, beside what a task has declared of them."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors, tf_estimator
from estimator_lib.data import batches
from estimator_lib.task_interfaces.batch_specs import (
    ALWAYS,
    LEARNING,
    TRAINING,
    BatchSpec,
    BatchTensor,
)

TRAIN, EVAL, PREDICT = (
    getattr(tf_estimator.ModeKeys, mode) for mode in ('TRAIN', 'EVAL', 'PREDICT')
)
ANY = BatchSpec()
SPEC = BatchSpec(
    (
        BatchTensor('image', tf.float32, ('batch', 'height', 2, 3), 'in [0, 1]', ALWAYS),
        BatchTensor('size', tf.int32, ('batch', 2), needed=TRAINING),
    ),
    (
        BatchTensor('label', tf.int64, ('batch',), 'from 0', LEARNING),
        BatchTensor('mask', tf.float32, ('batch', 'height'), converted=(tf.bool,)),
    ),
)
IMAGE = np.zeros([4, 5, 2, 3], np.float32)
FEATURES = {'image': IMAGE, 'size': np.zeros([4, 2], np.int32)}
LABELS = {'label': np.arange(4)}


def test_source_ids_may_be_left_out():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        image = tf.compat.v1.placeholder(tf.float32, [None, 2, 2, 3])
        named = batches.receive(ANY, {'image': image}, None, PREDICT).features
        found = session.run(named['source_id'], {image: [[[[0.0] * 3] * 2] * 2] * 4})
        given = {'image': image, 'source_id': tf.constant(['a'])}
        assert batches.receive(ANY, given, None, PREDICT).features == given
    assert found.tolist() == [b''] * 4


def test_what_is_missing_and_not_declared_is_named_when_it_is_read():
    features = {'images': tf.zeros([1, 2, 2, 3])}
    with pytest.raises(errors.DataError, match="the features .* no 'image'; did you mean 'images'"):
        batches.receive(ANY, features, None, PREDICT)
    labels = batches.receive(ANY, {'image': IMAGE}, {'labels': tf.zeros([1])}, EVAL).labels
    with pytest.raises(errors.DataError, match="the labels .* no 'label'; did you mean 'labels'"):
        labels['label']


def test_names_survive_what_tensorflow_does_to_structures():
    labels = batches.receive(ANY, {'image': IMAGE}, {'y': tf.constant([1.0, 2.0])}, EVAL).labels
    doubled = tf.nest.map_structure(lambda one: 2.0 * one, labels)
    assert doubled['y'].numpy().tolist() == [2.0, 4.0]


def test_a_batch_as_declared_stays_as_it_is():
    image, label = tf.constant(IMAGE), tf.constant([1, 2, 3, 4], tf.int64)
    features = {'image': image, 'size': tf.zeros([4, 2], tf.int32), 'own': 'anything'}
    batch = batches.receive(SPEC, features, {'label': label, 'more': label}, TRAIN)
    assert batch.features['image'] is image and batch.labels['label'] is label
    assert batch.features['own'] == 'anything' and batch.labels['more'] is label
    assert batch.reader_state is None


def test_types_are_converted_where_values_stay():
    labels = {'label': np.array([3, 0, 1, 2], np.uint8), 'mask': np.ones([4, 5], bool)}
    batch = batches.receive(SPEC, FEATURES, labels, TRAIN)
    assert batch.labels['label'].dtype == tf.int64
    assert batch.labels['label'].numpy().tolist() == [3, 0, 1, 2]
    assert batch.labels['mask'].dtype == tf.float32


def test_modes_need_what_is_declared_for_them():
    features = {'image': IMAGE}
    assert batches.receive(SPEC, features, LABELS, EVAL).labels['label'].shape == [4]
    assert batches.receive(SPEC, features, None, PREDICT).labels is None
    assert batches.receive(SPEC, features, 'whatever', PREDICT).labels is None
    with pytest.raises(errors.DataError, match=r"no 'size'; expected int32 \[batch, 2\]; they"):
        batches.receive(SPEC, features, LABELS, TRAIN)


def test_sizes_that_are_not_known_are_not_compared():
    with tf.Graph().as_default():
        placeholder = tf.compat.v1.placeholder
        features = {'image': placeholder(tf.float32), 'size': placeholder(tf.int32, [None, None])}
        labels = {'label': placeholder(tf.int64, [7])}
        assert batches.receive(SPEC, features, labels, TRAIN).labels == labels


@pytest.mark.parametrize(
    ('features', 'labels', 'message'),
    [
        # Structure.
        (
            IMAGE,
            LABELS,
            r"features of type ndarray; expected a dict of tensors by name, 'image': float32 "
            r"\[batch, height, 2, 3\], 'size': int32",
        ),
        (tf.constant(IMAGE), LABELS, r'features that are one tensor, float32 \[4, 5, 2, 3\]; exp'),
        (None, LABELS, "returned no features; expected a dict of tensors by name, 'image'"),
        (FEATURES, None, r"returned no labels; expected a dict .* 'label': int64 \[batch\]\.$"),
        (FEATURES, [1], 'returned labels of type list; expected a dict'),
        # Names come before ranks, types and sizes, whatever else is wrong.
        (
            {**FEATURES, 'image': IMAGE[0]},
            {'labels': 1},
            r"the labels of the input_fn have no 'label'; did you mean 'labels'\?; expected int64 "
            r'\[batch\] \(from 0\); they have labels\.$',
        ),
        (
            {**FEATURES, 'image': tf.sparse.from_dense(IMAGE)},
            LABELS,
            "'image' is of type SparseTensor; expected float32",
        ),
        # Ranks, before types.
        (
            {**FEATURES, 'image': IMAGE.astype(np.uint8)},
            {'label': np.zeros([4, 1])},
            r"the labels of the input_fn: 'label' is float64 \[4, 1\]; expected int64 \[batch\] \(",
        ),
        # Types, before sizes.
        (
            {**FEATURES, 'image': np.zeros([4, 5, 2, 1], np.uint8)},
            LABELS,
            r"the features of the input_fn: 'image' is uint8 \[4, 5, 2, 1\]; expected float32 "
            r'\[batch, height, 2, 3\] \(in \[0, 1\]\)\.$',
        ),
        (FEATURES, {'label': np.zeros(4, np.float32)}, r"'label' is float32 \[4\]; expected int64"),
        # Sizes: those declared, and those of other tensors.
        ({**FEATURES, 'image': IMAGE[..., :1]}, LABELS, r"'image' is float32 \[4, 5, 2, 1\]; exp"),
        (
            FEATURES,
            {'label': np.arange(3)},
            r"'label' is int64 \[3\]; expected .*, where batch is 4 as in 'image'\.$",
        ),
        (
            FEATURES,
            {**LABELS, 'mask': np.zeros([4, 6], np.float32)},
            "'mask' is .* where height is 5 as in 'image'",
        ),
    ],
)
def test_other_batches_are_refused_with_the_cause(features, labels, message):
    with pytest.raises(errors.DataError, match=message):
        batches.receive(SPEC, features, labels, TRAIN)
