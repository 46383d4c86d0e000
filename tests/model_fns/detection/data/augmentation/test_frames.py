import numpy as np
import tensorflow as tf

from model_fns.detection import fields
from model_fns.detection.data.augmentation import frames

# Numbers of pixels, row by row, of 4 x 6; a mask of the box; one keypoint a box.
IMAGE = np.arange(24, dtype=np.uint8).reshape(4, 6, 1)
BOXES = np.float32([[0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0]])


def example():
    masks = np.zeros([2, 4, 6], np.uint8)
    masks[0, :2, :3] = masks[1, 2:, 3:] = 1
    return {
        fields.IMAGE: tf.constant(IMAGE),
        fields.BOXES: tf.constant(BOXES),
        fields.AREA: tf.constant([6.0, 6.0]),
        fields.MASKS: tf.constant(masks),
        fields.KEYPOINTS: tf.constant([[[0.25, 0.25]], [[0.75, 0.75]]]),
        fields.KEYPOINT_VISIBILITIES: tf.constant([[True], [True]]),
    }


def test_a_window_by_its_pixels():
    begin, size, share = frames.pixel_window(
        tf.constant([1, 3]), tf.constant([2, 3]), tf.constant([4, 6])
    )
    assert begin.numpy().tolist() == [1, 3, 0]
    assert size.numpy().tolist() == [2, 3, -1]
    np.testing.assert_allclose(share, [0.25, 0.5, 0.75, 1.0])


def test_a_crop_takes_everything_with_it():
    window = frames.pixel_window(tf.constant([1, 0]), tf.constant([3, 3]), tf.constant([4, 6]))
    found = frames.crop(example(), window, 0.1, True)
    np.testing.assert_array_equal(found[fields.IMAGE], IMAGE[1:, :3])
    # Of the first box the lower half is left; the second is outside.
    np.testing.assert_allclose(found[fields.BOXES], [[0.0, 0.0, 1 / 3, 1.0]], atol=1e-6)
    np.testing.assert_allclose(found[fields.AREA], [3.0])
    np.testing.assert_array_equal(found[fields.MASKS][0], [[1] * 3, [0] * 3, [0] * 3])
    np.testing.assert_allclose(found[fields.KEYPOINTS], [[[0.0, 0.5]]], atol=1e-6)
    assert found[fields.KEYPOINT_VISIBILITIES].numpy().tolist() == [[True]]


def test_boxes_of_which_too_little_is_left_go():
    window = frames.pixel_window(tf.constant([1, 0]), tf.constant([3, 3]), tf.constant([4, 6]))
    assert frames.crop(example(), window, 0.6, True)[fields.BOXES].shape == (0, 4)


def test_boxes_need_not_be_cut():
    window = frames.pixel_window(tf.constant([1, 0]), tf.constant([3, 3]), tf.constant([4, 6]))
    found = frames.crop(example(), window, 0.1, False)
    np.testing.assert_allclose(found[fields.BOXES], [[-1 / 3, 0.0, 1 / 3, 1.0]], atol=1e-6)
    np.testing.assert_allclose(found[fields.AREA], [6.0])


def test_a_larger_canvas():
    found = frames.pad(example(), tf.constant([2, 0]), tf.constant([8, 12]))
    np.testing.assert_array_equal(found[fields.IMAGE][2:6, :6], IMAGE)
    assert int(tf.reduce_sum(tf.cast(found[fields.IMAGE], tf.int32))) == IMAGE.sum()
    np.testing.assert_allclose(found[fields.BOXES][0], [0.25, 0.0, 0.5, 0.25])
    np.testing.assert_array_equal(found[fields.MASKS][1, 4:6, 3:6], np.ones([2, 3]))
    np.testing.assert_allclose(found[fields.KEYPOINTS][0], [[0.375, 0.125]])


def test_another_size_leaves_boxes_as_they_are():
    found = frames.resize(example(), (8, 12), 'nearest')
    assert found[fields.IMAGE].shape == (8, 12, 1)
    assert found[fields.MASKS].shape == (2, 8, 12)
    np.testing.assert_array_equal(found[fields.BOXES], BOXES)


def test_scaled_sizes_are_whole_and_at_least_one():
    assert frames.scaled_size(tf.constant([3, 100]), 0.29).numpy().tolist() == [1, 29]
