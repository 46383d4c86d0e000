"""Batches of an input_fn: what may be left out, and what is missing."""

import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.data import batches


def test_source_ids_may_be_left_out():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        image = tf.compat.v1.placeholder(tf.float32, [None, 2, 2, 3])
        named = batches.named_features({'image': image})
        found = session.run(named['source_id'], {image: [[[[0.0] * 3] * 2] * 2] * 4})
        given = {'image': image, 'source_id': tf.constant(['a'])}
        assert batches.named_features(given) == given
    assert found.tolist() == [b''] * 4


def test_what_is_missing_is_named_with_what_is_like_it():
    features = {'images': tf.zeros([1, 2, 2, 3])}
    with pytest.raises(errors.DataError, match="the features .* no 'image'; did you mean 'images'"):
        batches.named_features(features)
    labels = batches.named_labels({'labels': tf.zeros([1])})
    with pytest.raises(errors.DataError, match="the labels .* no 'label'; did you mean 'labels'"):
        labels['label']
    assert batches.named_labels(None) is None


def test_what_is_no_mapping_is_refused():
    with pytest.raises(errors.DataError, match='features of type EagerTensor; expected a dict'):
        batches.named_features(tf.zeros([1, 2, 2, 3]))
    with pytest.raises(errors.DataError, match='labels of type list'):
        batches.named_labels([1])


def test_names_survive_what_tensorflow_does_to_structures():
    labels = batches.named_labels({'y': tf.constant([1.0, 2.0])})
    doubled = tf.nest.map_structure(lambda one: 2.0 * one, labels)
    assert doubled['y'].numpy().tolist() == [2.0, 4.0]
