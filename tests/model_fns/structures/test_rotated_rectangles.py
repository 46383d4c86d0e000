import math

import numpy as np
import pytest

from model_fns.structures import rotated_rectangles
from tests.model_fns.detection import rotated_cases

QUARTER = math.pi / 2


def test_corners_by_hand():
    # Without a turn, and with a quarter turn clockwise: what was top left is top right.
    boxes = np.array([[10.0, 20, 4, 8, 0], [10, 20, 4, 8, QUARTER]])
    top_left, top_right, bottom_right, bottom_left = [8, 16], [8, 24], [12, 24], [12, 16]
    found = rotated_rectangles.corners(boxes)
    np.testing.assert_allclose(found[0], [top_left, top_right, bottom_right, bottom_left])
    np.testing.assert_allclose(found[1], [[6, 22], [14, 22], [14, 18], [6, 18]], atol=1e-9)


def test_recorded_corners():
    for case in rotated_cases.recorded()['corner_examples']:
        found = rotated_rectangles.corners(np.array(case['box'], float))
        np.testing.assert_allclose(
            found[:, ::-1], np.reshape(case['corners_xy'], [4, 2]), atol=1e-6
        )


def test_recorded_normal_forms():
    for row in rotated_cases.recorded()['normal_forms']['rows']:
        box = np.array([1, 2, *row['in']], float)
        np.testing.assert_allclose(rotated_rectangles.le90(box), [1, 2, *row['le90']], atol=1e-6)


def test_half_a_turn_from_the_end_is_the_beginning():
    box = np.array([0.0, 0, 1, 2, math.pi / 2])
    assert rotated_rectangles.le90(box)[4] == pytest.approx(-math.pi / 2)


def test_smallest_around_corners_is_the_box():
    boxes = rotated_cases.boxes(50)
    found = [
        rotated_rectangles.smallest_around(points) for points in rotated_rectangles.corners(boxes)
    ]
    np.testing.assert_allclose(found, rotated_rectangles.le90(boxes), atol=1e-9)


def test_smallest_around_points():
    # A 3-4-5 triangle: the rectangle on its longest side is as large as the one on the others.
    triangle = rotated_rectangles.smallest_around(np.array([[0.0, 0], [3, 0], [0, 4]]))
    assert triangle[2] * triangle[3] == pytest.approx(12)
    # A square on its corner, with points inside.
    square = rotated_rectangles.smallest_around(
        np.array([[0.0, 1], [1, 2], [2, 1], [1, 0], [1, 1], [1, 1.5]])
    )
    np.testing.assert_allclose(square[:4], [1, 1, math.sqrt(2), math.sqrt(2)])
    assert abs(square[4]) == pytest.approx(math.pi / 4)


def test_points_without_area():
    line = rotated_rectangles.smallest_around(np.array([[1.0, 1], [3, 3], [2, 2]]))
    np.testing.assert_allclose(line, [2, 2, 0, math.sqrt(8), math.pi / 4], atol=1e-9)
    point = rotated_rectangles.smallest_around(np.array([[1.0, 2], [1, 2]]))
    np.testing.assert_allclose(point[:4], [1, 2, 0, 0])


def test_bow_ties_cross_themselves():
    square = np.array([[0, 0], [0, 1], [1, 1], [1, 0]])
    assert not rotated_rectangles.crosses_itself(square)
    assert rotated_rectangles.crosses_itself(square[[0, 1, 3, 2]])
    assert rotated_rectangles.crosses_itself(square[[0, 2, 1, 3]])


def test_numbers_of_records():
    box = np.array([10.0, 20, 4, 8, 0.3])
    numbers = rotated_rectangles.to_record(box, 100, 200)
    np.testing.assert_allclose(numbers, [0.1, 0.1, 0.04, 0.04, 0.3])
    np.testing.assert_allclose(rotated_rectangles.from_record(numbers, 100, 200), box)


def test_a_vector_down_is_right_of_one_that_points_right():
    right, down = np.array([0.0, 2.0]), np.array([3.0, 0.0])
    assert rotated_rectangles.cross(right, down) == 6
    np.testing.assert_array_equal(rotated_rectangles.cross(np.array([down, right]), right), [-6, 0])
