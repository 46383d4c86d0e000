import math

import numpy as np
import pytest
import tensorflow as tf

from model_fns.detection.boxes import rotated_crops
from tests.model_fns import edge_cases
from tests.model_fns.detection import rotated_cases

IMAGE = tf.constant([96.0, 128.0])


def crops(features, boxes, images=None, size=4):
    images = np.zeros(len(boxes), np.int32) if images is None else images
    return rotated_crops.crop(
        tf.constant(features, tf.float32),
        tf.constant(boxes, tf.float32),
        tf.constant(images, tf.int32),
        size,
        IMAGE,
    )


def test_recorded():
    case = rotated_cases.recorded()['rotated_crop']
    found = crops(np.array(case['map'])[np.newaxis, ..., np.newaxis], case['boxes'])
    np.testing.assert_allclose(found[..., 0], case['crops'], atol=1e-5)


def test_boxes_at_angle_zero_are_cropped_like_axis_aligned_boxes():
    features = np.random.RandomState(1).rand(2, 6, 8, 3)
    boxes = rotated_cases.boxes(7) * [0.9, 1.2, 1, 1, 0]
    images = np.arange(7) % 2
    half = boxes[:, 2:4] / 2
    unrotated = np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], 1) / [96, 128, 96, 128]
    expected = tf.image.crop_and_resize(features.astype(np.float32), unrotated, images, [4, 4])
    found = crops(features, boxes, images)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_another_name_of_the_box_turns_the_crop():
    features = np.random.RandomState(1).rand(1, 6, 8, 1)
    box = np.array([48.0, 64, 20, 60, 0.4])
    exchanged = [48.0, 64, 60, 20, 0.4 + math.pi / 2]
    one, other = crops(features, [box, exchanged])[..., 0].numpy()
    # Rows of the other go along the width of the first, from its right end to its left.
    np.testing.assert_allclose(other, np.rot90(one, 1), atol=1e-5)


def test_slopes_reach_the_features():
    features = tf.ones([1, 6, 8, 1])
    with tf.GradientTape() as tape:
        tape.watch(features)
        cropped = rotated_crops.crop(
            features, tf.constant([[48.0, 64, 20, 60, 0.4]]), tf.zeros([1], tf.int32), 4, IMAGE
        )
    # Each of the 16 places shares its 1 among cells.
    np.testing.assert_allclose(np.sum(tape.gradient(cropped, features)), 16, rtol=1e-5)
    assert crops(np.ones([1, 6, 8, 1]), np.zeros([0, 5])).shape == [0, 4, 4, 1]


@pytest.mark.parametrize('angle', [0.0, math.pi / 2, math.pi, -math.pi / 2])
def test_a_crop_does_not_depend_on_the_last_bit_of_a_box_on_the_images_edge(angle):
    """Of ones, all samples are 1: none is outside of the map, where it would be 0."""
    across = abs(round(math.sin(angle)))
    boxes = []
    for far in edge_cases.neighbors(96.0):
        for near in np.linspace(0, 80, 20):
            sides = [far - near, 128.0]
            boxes.append([(near + far) / 2, 64.0, sides[across], sides[1 - across], angle])
    found = crops(np.ones([1, 6, 8, 1]), boxes, size=7)
    np.testing.assert_allclose(found, np.ones(found.shape), rtol=1e-5)


def test_what_is_truly_outside_is_0():
    found = crops(np.ones([1, 6, 8, 1]), [[96.0, 64.0, 96.0, 64.0, 0.0]], size=3)
    expected = np.repeat([[1.0], [1.0], [0.0]], 3, axis=1)
    np.testing.assert_allclose(found[0, ..., 0], expected, rtol=1e-5)
