import numpy as np
import tensorflow as tf

from estimator_lib.task import IMAGE
from model_fns.augmentation import pixels


def test_warp_reads_each_pixel_at_its_source():
    before = np.arange(12, dtype=np.uint8).reshape(1, 3, 4, 1)
    # Each pixel (y, x) is read at (y + 1, x - 2).
    moved = pixels.warp(tf.constant(before), tf.eye(2), tf.constant([1.0, -2.0]), 99.0)
    expected = [[99, 99, 4, 5], [99, 99, 8, 9], [99, 99, 99, 99]]
    assert moved.dtype == tf.uint8 and moved.numpy()[0, ..., 0].tolist() == expected
    # (y, x) is read at (x, y / 2), between two pixels in odd rows.
    back, origin = tf.constant([[0.0, 1.0], [0.5, 0.0]]), tf.zeros([2])
    turned = pixels.warp(tf.constant(before, tf.float32), back, origin, 99.0, 'BILINEAR')
    assert turned.numpy()[0, :, :3, 0].tolist() == [[0, 4, 8], [0.5, 4.5, 8.5], [1, 5, 9]]


def test_size_and_float_pixels():
    image = tf.constant([[[0], [7], [255]]], tf.uint8)
    assert pixels.image_size({IMAGE: image}).numpy().tolist() == [1, 3]
    numbers = pixels.to_float(image)
    assert numbers.dtype == tf.float32 and numbers.numpy().ravel().tolist() == [0, 7, 255]


def test_a_part_is_replaced():
    image = np.arange(4 * 5 * 2).reshape(4, 5, 2)
    for top, left, rows, columns in ((1, 2, 2, 3), (0, 0, 4, 5), (2, 1, 0, 0), (3, 4, 1, 1)):
        part = -np.ones([rows, columns, 2], np.int64)
        expected = image.copy()
        expected[top : top + rows, left : left + columns] = -1
        found = pixels.replace_part(tf.constant(image), tf.constant([top, left]), tf.constant(part))
        np.testing.assert_array_equal(found, expected)
