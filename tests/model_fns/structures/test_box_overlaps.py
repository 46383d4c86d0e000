import numpy as np

from model_fns.structures import box_overlaps

FIRST = np.array([[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 1.0, 4.0]])
SECOND = np.array([[1.0, 1.0, 3.0, 3.0], [0.0, 0.0, 2.0, 2.0], [5.0, 5.0, 5.0, 5.0]])


def test_areas():
    np.testing.assert_array_equal(box_overlaps.areas(FIRST), [4, 4])


def test_intersections():
    np.testing.assert_array_equal(box_overlaps.intersections(FIRST, SECOND), [[1, 4, 0], [0, 2, 0]])


def test_iou():
    np.testing.assert_allclose(box_overlaps.iou(FIRST, SECOND), [[1 / 7, 1, 0], [0, 2 / 6, 0]])


def test_ioa_is_a_share_of_the_first_box():
    np.testing.assert_allclose(box_overlaps.ioa(SECOND, FIRST), [[1 / 4, 0], [1, 1 / 2], [0, 0]])


def test_no_boxes():
    none = np.zeros([0, 4])
    assert box_overlaps.iou(none, SECOND).shape == (0, 3)
    assert box_overlaps.ioa(FIRST, none).shape == (2, 0)


def test_outlines_of_rotated_boxes():
    # A square of 4 x 4 on its corner, and the axis-aligned one of the same size and center.
    reach = np.sqrt(8)
    turned = [[5 - reach, 5], [5, 5 + reach], [5 + reach, 5], [5, 5 - reach]]
    axis_aligned = [[3.0, 3], [3, 7], [7, 7], [7, 3]]
    outlines = np.array([turned, axis_aligned, [[1.0, 1], [1, 3], [1, 3], [1, 1]]])
    # What both have is a regular octagon: 16 less four corners with legs of 4 - sqrt(8).
    common = 16 - 4 * (4 - reach) ** 2 / 2
    expected = common / (32 - common)
    np.testing.assert_allclose(
        box_overlaps.iou(outlines[:1], outlines[1:]), [[expected, 0]], rtol=1e-6
    )
    np.testing.assert_array_equal(box_overlaps.has_area(outlines), [True, True, False])
