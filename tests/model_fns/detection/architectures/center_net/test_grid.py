"""Places on a grid of cells, by hand and against slow loops."""

import numpy as np
import tensorflow as tf

from model_fns.detection.architectures.center_net import grid


def run(build):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        return session.run(build())


def test_cells_are_counted_row_by_row():
    maps = np.arange(2 * 3 * 4 * 1, dtype=np.float32).reshape(2, 3, 4, 1)
    cells = [[[0, 0], [1, 2], [1, 4]], [[2, 3], [3, 0], [2, 9]]]
    found = run(lambda: grid.gather_cells(tf.constant(maps), tf.constant(cells)))
    # A cell beside the grid is of the next row; what is below the grid, its last cell.
    np.testing.assert_array_equal(found[..., 0], [[0, 6, 8], [23, 23, 23]])
