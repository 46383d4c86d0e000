"""How the logits and statistics of several scales become one."""

import numpy as np
import pytest
import tensorflow as tf

from model_fns.segmentation.networks import heads, image_pyramid

tf1 = tf.compat.v1

SEMANTIC, OFFSET = heads.Head('semantic', 2), heads.Head('offset', 2)
SMALL = np.array([[[[1.0, 8.0]]]], np.float32)
LARGE = np.array([[[[3.0, 2.0]]]], np.float32)


def merged(head, by_scale, average):
    with tf.Graph().as_default(), tf1.Session() as session:
        tensors = {scale: tf.constant(value) for scale, value in by_scale.items()}
        return session.run(image_pyramid.merge(head, tensors, average))


@pytest.mark.parametrize(
    'head, average, expected',
    [(SEMANTIC, False, [3, 8]), (SEMANTIC, True, [2, 5]), (OFFSET, False, [2, 5])],
)
def test_classes_get_the_largest_and_values_the_mean(head, average, expected):
    values = merged(head, {0.5: SMALL, 1.0: LARGE}, average)
    assert list(values) == ['logits_0.50', 'logits_1.00', 'merged_logits']
    np.testing.assert_array_equal(values['logits_0.50'], SMALL)
    np.testing.assert_allclose(values['merged_logits'][0, 0, 0], expected)


def test_one_scale_is_only_merged():
    assert list(merged(SEMANTIC, {0.5: SMALL}, False)) == ['merged_logits']


@pytest.mark.parametrize(
    'head, scale, factor', [(OFFSET, 0.5, 2), (OFFSET, 1, 1), (SEMANTIC, 2, 1)]
)
def test_offsets_are_those_of_the_whole_image(head, scale, factor):
    with tf.Graph().as_default(), tf1.Session() as session:
        value = session.run(image_pyramid.unscale_logits(head, tf.constant(SMALL), scale))
    np.testing.assert_allclose(value, factor * SMALL)


def test_updates_of_one_variable_are_summed():
    with tf.Graph().as_default(), tf1.Session() as session:
        one, other = tf1.Variable(10.0, use_resource=True), tf1.Variable(1.0, use_resource=True)
        tf1.add_to_collection(tf1.GraphKeys.UPDATE_OPS, before := tf.no_op())
        with image_pyramid.sum_updates():
            for value in (12.0, 15.0):
                update = one.assign(value, read_value=False)
                tf1.add_to_collection(tf1.GraphKeys.UPDATE_OPS, update)
            tf1.add_to_collection(tf1.GraphKeys.UPDATE_OPS, other.assign(4.0, read_value=False))
        updates = tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)
        assert len(updates) == 3 and updates[0] is before
        session.run(tf1.global_variables_initializer())
        session.run(updates)
        assert session.run((one, other)) == (10 + 2 + 5, 4)


def test_variables_without_a_resource_are_refused():
    with tf.Graph().as_default():
        variable = tf1.Variable(1.0, use_resource=False)
        updates = [tf1.assign(variable, value).op for value in (1.0, 2.0)]
        with (
            pytest.raises(ValueError, match='not a resource variable'),
            image_pyramid.sum_updates(),
        ):
            for update in updates:
                tf1.add_to_collection(tf1.GraphKeys.UPDATE_OPS, update)
