"""Places on a grid of cells, by hand and against slow loops."""

import numpy as np
import pytest
import tensorflow as tf

from model_fns.detection.architectures.center_net import grid
from tests.model_fns.detection.architectures.center_net import oracles


def run(build):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        return session.run(build())


@pytest.mark.parametrize('overlap', [0.7, 0.3])
def test_spread_of_a_box(overlap):
    sizes = [(0, 0), (1, 1), (10, 20), (64, 3), (100.5, 90.25), (3, 0)]
    heights, widths = np.array(sizes, np.float32).T
    found = run(lambda: grid.sigmas(tf.constant(heights), tf.constant(widths), overlap))
    expected = [oracles.sigma(*size, overlap) for size in sizes]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_spread_is_not_that_of_the_divided_roots():
    # The least root is (sqrt(112,000) - 280) / 2 = 27.3 cells; divided by 4 * 0.7 it would be 9.8.
    found = run(lambda: grid.sigmas(tf.constant(100.0), tf.constant(100.0), 0.7))
    np.testing.assert_allclose(found, (2 * 27 + 1) / 6, rtol=1e-6)


def test_cells_are_counted_row_by_row():
    maps = np.arange(2 * 3 * 4 * 1, dtype=np.float32).reshape(2, 3, 4, 1)
    cells = [[[0, 0], [1, 2], [1, 4]], [[2, 3], [3, 0], [2, 9]]]
    found = run(lambda: grid.gather_cells(tf.constant(maps), tf.constant(cells)))
    # A cell beside the grid is of the next row; what is below the grid, its last cell.
    np.testing.assert_array_equal(found[..., 0], [[0, 6, 8], [23, 23, 23]])


def test_image_weights_count_cells_that_are_image_in_part():
    maps = tf.TensorSpec([2, 3, 4, 1])

    def build():
        image = tf.zeros(maps.shape)
        shapes = tf.constant([[9, 16, 3], [4, 5, 3]])
        return grid.image_weights(image, shapes), grid.image_weights(image, None)

    found, whole = run(build)
    expected = np.zeros([2, 3, 4])
    expected[0] = 1
    expected[1, :1, :2] = 1
    np.testing.assert_array_equal(found[..., 0], expected)
    np.testing.assert_array_equal(whole, np.ones([1, 1, 1, 1]))


def test_a_disc_has_29_cells_of_radius_3():
    found = grid.disc(3)
    assert len(found) == 29 and len(grid.disc(0)) == 1
    assert {tuple(one) for one in found} == {
        (row - 5, column - 5) for row, column in oracles.disc((5.5, 5.9), 3, (12, 12))
    }


def test_cells_around_a_place_are_those_in_the_grid():
    place = (0.5, 3.9)
    cells, inside = run(lambda: grid.around(tf.constant([place]), 2, tf.zeros([1, 4, 5, 1])))
    found = {tuple(one) for one, counts in zip(cells[0].astype(int), inside[0]) if counts}
    assert found == set(oracles.disc(place, 2, (4, 5)))
    np.testing.assert_array_equal(cells[0][inside[0] == 0], 0)
