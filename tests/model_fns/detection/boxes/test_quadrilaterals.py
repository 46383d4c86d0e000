import math

import numpy as np
import pytest
import tensorflow as tf

from model_fns.detection.boxes import quadrilaterals, rotated
from model_fns.structures import rotated_rectangles
from tests.model_fns.detection import rotated_cases

HEIGHT, WIDTH = 80.0, 200.0
NAN = float('nan')


@pytest.fixture(scope='module')
def boxes():
    """Return random boxes in pixels."""
    return rotated_rectangles.le90(rotated_cases.boxes(25, 7, 80))


@pytest.fixture(scope='module')
def corners(boxes):
    """Return the normalized corners of the boxes."""
    numbers = rotated_rectangles.to_record(boxes, HEIGHT, WIDTH)
    return quadrilaterals.from_record(tf.constant(numbers), HEIGHT, WIDTH)


def check(corners, boxes, height=HEIGHT, width=WIDTH):
    found = quadrilaterals.to_boxes(corners, height, width)
    np.testing.assert_allclose(
        rotated.elementwise_iou(found, boxes), np.ones(len(boxes)), atol=1e-6
    )


def test_records_there_and_back(boxes, corners):
    expected = rotated_rectangles.corners(boxes) / [HEIGHT, WIDTH]
    np.testing.assert_allclose(tf.reshape(corners, [-1, 4, 2]), expected, atol=1e-9)
    numbers = quadrilaterals.to_record(corners, HEIGHT, WIDTH)
    np.testing.assert_allclose(
        numbers, rotated_rectangles.to_record(boxes, HEIGHT, WIDTH), atol=1e-9
    )


def test_mirrored(boxes, corners):
    cy, cx, height, width, angle = boxes.T
    check(quadrilaterals.flip(corners, 0), np.stack([HEIGHT - cy, cx, height, width, -angle], 1))
    check(quadrilaterals.flip(corners, 1), np.stack([cy, WIDTH - cx, height, width, -angle], 1))


def test_turned_by_a_quarter(boxes, corners):
    cy, cx, height, width, angle = boxes.T
    # Counterclockwise: what was at the right edge is at the top.
    expected = np.stack([WIDTH - cx, cy, height, width, angle - math.pi / 2], 1)
    check(quadrilaterals.rotate90(corners), expected, WIDTH, HEIGHT)


def test_in_the_frame_of_a_window(boxes, corners):
    window = tf.constant([0.25, 0.5, 0.75, 1.0], tf.float64)  # 40 x 100 pixels
    expected = boxes - [20, 100, 0, 0, 0]
    check(quadrilaterals.change_frame(corners, window), expected, 40.0, 100.0)


def test_other_factors_along_the_axes(boxes, corners):
    # What an image of other proportions shows: the corners say it, the sides do not.
    points = rotated_rectangles.corners(boxes) * [2, 0.5]
    expected = np.array([rotated_rectangles.smallest_around(one) for one in points])
    check(corners, expected, 2 * HEIGHT, 0.5 * WIDTH)


def test_areas_inside_of_a_window(boxes, corners):
    window = [0.1, 0.2, 0.6, 0.9]
    middle = [0.35 * HEIGHT, 0.55 * WIDTH, 0.5 * HEIGHT, 0.7 * WIDTH, 0]
    expected = [rotated_cases.slow_area(box, np.array(middle)) for box in boxes]
    found = quadrilaterals.area_inside(corners, tf.constant(window, tf.float64))
    assert np.any(np.array(expected) < 0.99 * boxes[:, 2] * boxes[:, 3])
    np.testing.assert_allclose(found * HEIGHT * WIDTH, expected, atol=0.5)


def test_overlaps_do_not_depend_on_the_normalization(boxes, corners):
    expected = rotated.pairwise_iou(boxes, boxes)
    found = quadrilaterals.pairwise_iou(corners, corners)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    np.testing.assert_allclose(
        quadrilaterals.pairwise_ioa(corners, corners), rotated.pairwise_ioa(boxes, boxes), atol=1e-9
    )
    own = np.array(expected)
    np.fill_diagonal(own, 0.0)
    np.testing.assert_allclose(quadrilaterals.self_iou(corners), own, atol=1e-9)
    np.testing.assert_allclose(quadrilaterals.elementwise_iou(corners, corners), np.ones(25))


def test_moved_by_a_matrix(boxes, corners):
    # In pixels: a turn by 0.3 clockwise about the origin.
    in_pixels = quadrilaterals.scale(corners, HEIGHT, WIDTH)
    cosine, sine = math.cos(0.3), math.sin(0.3)
    matrix = tf.constant([[cosine, sine], [-sine, cosine]], tf.float64)
    moved = quadrilaterals.transform(in_pixels, matrix, tf.constant([1.0, 2.0], tf.float64))
    expected = boxes + [0, 0, 0, 0, 0.3]
    expected[:, :2] = boxes[:, :2] @ matrix.numpy().T + [1, 2]
    check(moved, expected, 1.0, 1.0)


def test_enclosing_boxes_and_areas(boxes, corners):
    points = rotated_rectangles.corners(boxes) / [HEIGHT, WIDTH]
    expected = np.concatenate([points.min(1), points.max(1)], axis=1)
    np.testing.assert_allclose(quadrilaterals.enclosing_boxes(corners), expected, atol=1e-9)
    expected = boxes[:, 2] * boxes[:, 3] / (HEIGHT * WIDTH)
    np.testing.assert_allclose(quadrilaterals.area(corners), expected, atol=1e-9)
    window = tf.constant([0.0, 0, 1, 1], tf.float64)
    inside = quadrilaterals.is_inside(corners, window)
    np.testing.assert_array_equal(inside, np.all((points >= 0) & (points <= 1), axis=(1, 2)))


@pytest.mark.parametrize(
    'box, problem',
    [
        ([0.5, 0.5, 0.1, 4.0, 1.0], ''),
        ([0.5, NAN, 0.1, 0.1, 1.0], ''),
        ([0.5, 20, 0.1, 0.1, 1.0], 'has its center out of the image'),
        ([0.5, 0.5, 0.0, 0.1, 1.0], ''),
        ([0.5, 0.5, 0.1, -0.1, 1.0], 'has a negative side; expected h and w above 0'),
        ([0.5, 0.5, 0.1, 0.1, 45.0], 'has an angle beyond 2 pi: degrees, it seems'),
    ],
)
def test_numbers_that_cannot_be_meant(box, problem):
    assert quadrilaterals.find_problem(box, 1e-4).startswith(problem)
    assert bool(quadrilaterals.find_problem(box, 1e-4)) == bool(problem)
    sound = quadrilaterals.is_sound(tf.constant([box]), 1e-4)
    assert bool(sound[0]) == (not problem)
    assert quadrilaterals.has_sides(box) == (min(box[2:4]) > 0)
