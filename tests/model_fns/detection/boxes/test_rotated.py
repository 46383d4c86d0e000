import math

import numpy as np
import pytest
import tensorflow as tf

from model_fns.detection.boxes import axis_aligned, family, rotated
from model_fns.structures import rotated_rectangles
from tests.model_fns.detection import rotated_cases

QUARTER = math.pi / 2


def test_has_all_that_models_ask():
    asked = {*family.Boxes.__annotations__, *vars(family.Boxes)}
    assert [name for name in asked if name[0] != '_' and not hasattr(rotated, name)] == []


@pytest.mark.parametrize('dtype, near, far', [(tf.float64, 1e-9, 1e-9), (tf.float32, 1e-4, 1e-3)])
def test_recorded_pairs(dtype, near, far):
    pairs = rotated_cases.recorded()['pairs']
    first, second = (tf.constant([pair[name] for pair in pairs], dtype) for name in 'ab')
    ious, ioas = ([pair[name] for pair in pairs] for name in ('iou', 'ioa_b'))
    bounds = np.where([pair['kind'] == 'near_offset_20000px' for pair in pairs], far, near)
    assert len(pairs) == 200
    iou = rotated.pairwise_iou(first, second)
    assert np.all(np.abs(np.diag(iou) - ious) <= bounds)
    assert np.all(np.abs(rotated.elementwise_iou(first, second) - ious) <= bounds)
    ioa = rotated.pairwise_ioa(first, second)
    assert np.all(np.abs(np.diag(ioa) - ioas) <= bounds)


def test_iou_does_not_depend_on_names_places_and_units():
    first, second = (tf.constant(rotated_cases.boxes(30, seed), tf.float64) for seed in (1, 2))
    expected = rotated.pairwise_iou(first, second)
    assert np.count_nonzero(expected) > 100

    def check(one, other):
        np.testing.assert_allclose(rotated.pairwise_iou(one, other), expected, atol=1e-9)

    np.testing.assert_allclose(
        rotated.pairwise_iou(second, first), tf.transpose(expected), atol=1e-9
    )
    check(first + [3.0, 5, 0, 0, 0], second + [3.0, 5, 0, 0, 0])
    check(first * [1e-3, 1e-3, 1e-3, 1e-3, 1], second * [1e-3, 1e-3, 1e-3, 1e-3, 1])
    exchanged = tf.gather(first, [0, 1, 3, 2, 4], axis=1) + [0, 0, 0, 0, QUARTER]
    check(exchanged, second)
    check(rotated.le90(first), second + [0, 0, 0, 0, math.pi])


def test_boxes_at_angle_zero_match_axis_aligned_boxes():
    boxes = rotated_cases.boxes(20).astype(np.float32) * [1, 1, 1, 1, 0]
    unrotated = axis_aligned.from_center_size(*(tf.constant(boxes[:, k]) for k in range(4)))
    expected = axis_aligned.pairwise_iou(unrotated, unrotated)
    boxes = tf.constant(boxes, tf.float32)
    np.testing.assert_allclose(rotated.pairwise_iou(boxes, boxes), expected, atol=1e-5)
    np.testing.assert_allclose(rotated.enclosing_boxes(boxes), unrotated, atol=1e-4)


def test_long_edge_form_is_that_of_arrays():
    boxes = rotated_cases.boxes(50)
    np.testing.assert_allclose(
        rotated.le90(tf.constant(boxes)), rotated_rectangles.le90(boxes), atol=1e-12
    )
    np.testing.assert_allclose(
        rotated.corners(tf.constant(boxes)), rotated_rectangles.corners(boxes), atol=1e-9
    )


def test_differences_of_angles_are_wrapped():
    angles = tf.constant([0.0, 1.0, QUARTER, -QUARTER, 2.0, -4.0])
    expected = [0.0, 1.0, -QUARTER, -QUARTER, 2.0 - math.pi, math.pi - 4.0]
    np.testing.assert_allclose(rotated.wrap(angles), expected, atol=1e-6)
    wrapped = rotated.wrap(tf.constant([0.7, 0.9]), QUARTER)
    np.testing.assert_allclose(wrapped, [0.7, 0.9 - QUARTER], atol=1e-6)


def test_scaling_by_one_factor_is_exact():
    boxes = rotated_cases.boxes(20)
    expected = rotated_rectangles.le90(boxes * [3, 3, 3, 3, 1])
    found = rotated.scale(tf.constant(boxes), 3.0, 3.0)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_scaling_by_two_factors_fits_anew():
    boxes = rotated_cases.boxes(20, 5)
    corners = rotated_rectangles.corners(boxes) * [2.0, 1.0]
    expected = np.array([rotated_rectangles.smallest_around(one) for one in corners])
    found = rotated.scale(tf.constant(boxes), 2.0, 1.0).numpy()
    np.testing.assert_allclose(rotated.area(found), rotated.area(expected), rtol=1e-9)
    np.testing.assert_allclose(rotated.elementwise_iou(found, expected), np.ones(20), atol=1e-9)


def test_boxes_without_a_side():
    boxes = tf.constant([[5.0, 5, 0, 4, 0.3], [5, 5, 0, 0, 0], [5, 5, 2, 2, 0]])
    np.testing.assert_array_equal(rotated.pairwise_iou(boxes, boxes)[:2], np.zeros([2, 3]))
    np.testing.assert_array_equal(rotated.has_area(boxes), [False, False, True])
    found = rotated.from_parallelograms(rotated.to_parallelograms(boxes))
    np.testing.assert_allclose(found[0], boxes[0], atol=1e-5)
    np.testing.assert_allclose(found[1, :4], boxes[1, :4], atol=1e-5)


def test_boxes_are_not_cut_at_a_window():
    window = tf.constant([0.0, 0, 10, 10])
    boxes = tf.constant([[5.0, 5, 6, 6, 0], [5, 5, 6, 6, math.pi / 4], [5, 5, 8, 8, math.pi / 4]])
    np.testing.assert_array_equal(rotated.clip_to_window(boxes, window), boxes)
