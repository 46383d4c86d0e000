"""The grid of cells that a CenterNet predicts on: places in it, and values at places.

B is the batch, H x W the grid of cells of `STRIDE` pixels. Places are rows and columns in cells; a
place's own cell is the one that it is in, its floor.
"""

from __future__ import annotations

from typing import Optional, Tuple

import numpy as np
import tensorflow as tf

STRIDE = 4


def spatial_size(maps: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
    """H and W of [B, H, W, channels], int32: numbers where they are static."""
    shape = tf.shape(maps)
    static = maps.shape[1:3]
    return tuple(shape[axis + 1] if one is None else one for axis, one in enumerate(static))


def sides_of(maps: tf.Tensor) -> tf.Tensor:
    """float32 [2]: H and W."""
    return tf.cast(tf.stack(spatial_size(maps)), tf.float32)


def image_weights(maps: tf.Tensor, true_shapes: Optional[tf.Tensor]) -> tf.Tensor:
    """1 for cells that are image, at least in part, and 0 for padding.

    Args:
        maps: [B, H, W, channels].
        true_shapes: int32 [B, 3], in pixels; None: there is no padding.

    Returns:
        float32 [B, H, W, 1], or what broadcasts to it.
    """
    if true_shapes is None:
        return tf.ones([1, 1, 1, 1])
    height, width = spatial_size(maps)
    true_cells = -(-true_shapes // STRIDE)
    rows = tf.range(height) < true_cells[:, 0:1]
    columns = tf.range(width) < true_cells[:, 1:2]
    inside = tf.logical_and(rows[:, :, tf.newaxis], columns[:, tf.newaxis, :])
    return tf.cast(inside, tf.float32)[..., tf.newaxis]


def at_cells(maps: tf.Tensor, cells: tf.Tensor) -> tf.Tensor:
    """The values of cells: [B, H, W, channels] at int32 [B, ..., 2] gives [B, ..., channels].

    As published cells are counted row by row: one beside the grid is of the next row. Below the
    grid is its last cell.
    """
    height, width = spatial_size(maps)
    flat = tf.reshape(maps, [-1, height * width, maps.shape[-1]])
    places = tf.clip_by_value(cells[..., 0] * width + cells[..., 1], 0, height * width - 1)
    return tf.gather(flat, places, batch_dims=1)


def disc(radius: int) -> np.ndarray:
    """float32 [n, 2]: the cells at most so far from a cell, as differences to it, row by row."""
    side = range(-radius, radius + 1)
    return np.array([(y, x) for y in side for x in side if y * y + x * x <= radius**2], np.float32)


def around(places: tf.Tensor, radius: int, maps: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
    """Return the cells around places.

    Args:
        places: float32 [..., 2].
        radius: see `disc`.
        maps: [B, H, W, channels], whose grid it is.

    Returns:
        Cells, float32 [..., n, 2], and whether they are in the grid, float32 [..., n]. What is not
        is the first cell.
    """
    cells = tf.floor(places)[..., tf.newaxis, :] + disc(radius)
    inside = tf.reduce_all(tf.logical_and(cells >= 0.0, cells < sides_of(maps)), axis=-1)
    return tf.where(inside[..., tf.newaxis], cells, 0.0), tf.cast(inside, tf.float32)


def sigmas(heights: tf.Tensor, widths: tf.Tensor, least_overlap: float) -> tf.Tensor:
    """Standard deviations of the Gaussians of boxes, in cells, at least 1/6.

    They follow from how far the corners of a box may be moved so that it still overlaps itself that
    much. As published the three equations for that (Law and Deng 2018) are not divided by their
    leading coefficients; checkpoints and their scores are of this.

    Args:
        heights: float32, any shape, in cells.
        widths: the same.
        least_overlap: intersection over union, in (0, 1).
    """
    total, area = heights + widths, heights * widths
    over = 1.0 - least_overlap

    def root(b: tf.Tensor, four_a_c: tf.Tensor) -> tf.Tensor:
        return (b + tf.sqrt(tf.maximum(tf.square(b) - four_a_c, 0.0))) / 2.0

    radius = tf.minimum(
        tf.minimum(
            root(total, 4.0 * area * over / (1.0 + least_overlap)),
            root(2.0 * total, 16.0 * over * area),
        ),
        root(-2.0 * least_overlap * total, -16.0 * least_overlap * over * area),
    )
    return (2.0 * tf.maximum(tf.floor(radius), 0.0) + 1.0) / 6.0
