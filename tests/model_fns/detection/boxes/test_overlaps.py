import numpy as np

from model_fns.detection.boxes import overlaps

FIRST = np.array([[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 1.0, 4.0]])
SECOND = np.array([[1.0, 1.0, 3.0, 3.0], [0.0, 0.0, 2.0, 2.0], [5.0, 5.0, 5.0, 5.0]])


def test_areas():
    np.testing.assert_array_equal(overlaps.areas(FIRST), [4, 4])


def test_intersections():
    np.testing.assert_array_equal(overlaps.intersections(FIRST, SECOND), [[1, 4, 0], [0, 2, 0]])


def test_iou():
    np.testing.assert_allclose(overlaps.iou(FIRST, SECOND), [[1 / 7, 1, 0], [0, 2 / 6, 0]])


def test_ioa_is_a_share_of_the_first_box():
    np.testing.assert_allclose(overlaps.ioa(SECOND, FIRST), [[1 / 4, 0], [1, 1 / 2], [0, 0]])


def test_no_boxes():
    none = np.zeros([0, 4])
    assert overlaps.iou(none, SECOND).shape == (0, 3)
    assert overlaps.ioa(FIRST, none).shape == (2, 0)
