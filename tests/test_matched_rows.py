import numpy as np

from tests import matched_rows


def test_rows_in_another_order_are_found():
    expected = np.array([[0.0, 0.9], [5.0, 0.8], [0.0, 0.8], [7.0, 0.1]])
    moved = [2, 0, 3, 1]
    order = matched_rows.nearest_rows(expected[moved] + 1e-4, expected)
    np.testing.assert_array_equal(order, [1, 3, 0, 2])
    np.testing.assert_array_equal(np.array(moved)[order], range(4))


def test_each_row_is_taken_once():
    order = matched_rows.nearest_rows(np.zeros([3, 1]), [[0.0], [0.0], [1.0]])
    np.testing.assert_array_equal(order, [0, 1, 2])


def test_the_nearest_pair_comes_first():
    """A row that is nothing's own does not take one that is another's."""
    order = matched_rows.nearest_rows([[1.0], [9.0]], [[1.3], [1.0]])
    np.testing.assert_array_equal(order, [1, 0])


def test_columns_count_by_their_size():
    """Boxes in pixels do not hide scores."""
    expected = [[300.0, 0.2], [300.0, 0.9]]
    order = matched_rows.nearest_rows([[300.0, 0.9], [300.1, 0.2]], expected)
    np.testing.assert_array_equal(order, [1, 0])


def test_no_rows():
    assert matched_rows.nearest_rows(np.zeros([0, 4]), np.zeros([0, 4])).shape == (0,)
