"""From served images to the network's input, and back to their size."""

import numpy as np
import pytest
import tensorflow as tf

from model_fns.segmentation import fields, serving
from model_fns.segmentation.data.preprocessing import ServedImages

tf1 = tf.compat.v1

SEMANTIC, OFFSETS = fields.SEMANTIC_PREDICTIONS, fields.CENTER_OFFSETS
PROBABILITIES = fields.SEMANTIC_PROBABILITIES


def sizes(original, resized, count=1):
    return {
        fields.ORIGINAL_SIZE: tf.constant([original] * count, tf.int32),
        fields.RESIZED_SIZE: tf.constant([resized] * count, tf.int32),
    }


def test_features_tell_both_sizes_of_each_image():
    with tf.Graph().as_default(), tf1.Session() as session:
        served = ServedImages(tf.zeros([2, 9, 9, 3]), tf.constant([5, 7]))
        features = serving.serving_features(tf.zeros([2, 10, 14, 3], tf.uint8), served)
        assert features[fields.IMAGE] is served.images
        original, resized = session.run(
            (features[fields.ORIGINAL_SIZE], features[fields.RESIZED_SIZE])
        )
    assert original.tolist() == [[10, 14]] * 2 and resized.tolist() == [[5, 7]] * 2


def test_padding_is_cut_off():
    classes = np.arange(12).reshape(1, 3, 4)
    with tf.Graph().as_default(), tf1.Session() as session:
        cut = serving.remove_padding({SEMANTIC: tf.constant(classes)}, sizes((4, 6), (2, 3)))
        np.testing.assert_array_equal(session.run(cut)[SEMANTIC], classes[:, :2, :3])


def test_outputs_at_the_size_that_was_sent():
    outputs = {
        SEMANTIC: [[[0, 4]]],
        PROBABILITIES: [[[[0.0], [1.0]]]],
        OFFSETS: [[[[1.0, 10.0], [1.0, 20.0]]]],
    }
    with tf.Graph().as_default(), tf1.Session() as session:
        tensors = {name: tf.constant(value) for name, value in outputs.items()}
        values = session.run(serving.restore_size(tensors, sizes((1, 3), (1, 2))))
    assert values[SEMANTIC].dtype == np.int32 and set(values[SEMANTIC].flat) == {0, 4}
    np.testing.assert_allclose(values[PROBABILITIES][0, 0, :, 0], [0, 0.5, 1])
    # One interval of columns became two; a single row has none.
    np.testing.assert_allclose(values[OFFSETS][0, 0, :, 1], [20, 30, 40])
    np.testing.assert_allclose(values[OFFSETS][0, 0, :, 0], 0)


def test_images_of_several_sizes_are_refused():
    with tf.Graph().as_default(), tf1.Session() as session:
        features = {fields.RESIZED_SIZE: tf.constant([[2, 3], [3, 2]])}
        cut = serving.remove_padding({SEMANTIC: tf.zeros([2, 3, 3], tf.int32)}, features)
        with pytest.raises(tf.errors.InvalidArgumentError, match='one request differ in size'):
            session.run(cut)
