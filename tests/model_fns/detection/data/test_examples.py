import tensorflow as tf

from model_fns.detection import fields
from model_fns.detection.data import examples

EXAMPLE = {
    fields.IMAGE: tf.zeros([2, 2, 3]),
    fields.BOXES: tf.constant([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0]]),
    fields.CLASSES: tf.constant([5, 6, 7]),
}


def test_boxes_go_with_all_that_is_theirs():
    kept = examples.keep_boxes(EXAMPLE, tf.constant([True, False, True]))
    assert kept[fields.CLASSES].numpy().tolist() == [5, 7]
    assert kept[fields.BOXES].numpy().tolist() == [[0.0, 0.0, 1.0, 1.0], [0.5, 0.5, 1.0, 1.0]]
    assert kept[fields.IMAGE] is EXAMPLE[fields.IMAGE]


def test_boxes_may_be_taken_in_any_order_and_twice():
    taken = examples.take_boxes(EXAMPLE, tf.constant([2, 0, 2]))
    assert taken[fields.CLASSES].numpy().tolist() == [7, 5, 7]
    assert examples.keep_boxes(EXAMPLE, tf.zeros([3], tf.bool))[fields.BOXES].shape == (0, 4)


def test_missing_values_are_filled():
    filled = examples.fill_missing(tf.constant([2.0, 3.0]), tf.constant(2), 1.0)
    assert filled.numpy().tolist() == [2.0, 3.0]
    filled = examples.fill_missing(tf.constant([], tf.bool), tf.constant(3), True)
    assert filled.numpy().tolist() == [True, True, True]
