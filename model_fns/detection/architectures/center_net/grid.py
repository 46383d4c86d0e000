"""Grid of cells of a CenterNet: positions in it, and values at cells.

B is the batch, H x W the grid of cells of `STRIDE` pixels. Places are rows and columns in units of
cells. The cell of a place is its floor.
"""

from __future__ import annotations

from typing import Optional, Tuple

import numpy as np
import tensorflow as tf

# Zhou et al. 2019, section 3: R = 4.
STRIDE = 4


def spatial_size(maps: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
    """Return H and W of [B, H, W, channels]: ints if static, else int32 scalars."""
    shape = tf.shape(maps)
    static = maps.shape[1:3]
    return tuple(shape[axis + 1] if side is None else side for axis, side in enumerate(static))


def float_sides(maps: tf.Tensor) -> tf.Tensor:
    """Return H and W, float32 [2]."""
    return tf.cast(tf.stack(spatial_size(maps)), tf.float32)


def image_weights(maps: tf.Tensor, true_shapes: Optional[tf.Tensor]) -> tf.Tensor:
    """Compute 1 for cells that contain a part of the image, and 0 for padding.

    Args:
        maps: [B, H, W, channels].
        true_shapes: int32 [B, 3], in pixels; None: there is no padding.

    Returns:
        float32 [B, H, W, 1], or a shape that broadcasts to it.
    """
    if true_shapes is None:
        return tf.ones([1, 1, 1, 1])
    height, width = spatial_size(maps)
    true_cells = -(-true_shapes // STRIDE)
    rows = tf.range(height) < true_cells[:, 0:1]
    columns = tf.range(width) < true_cells[:, 1:2]
    inside = tf.logical_and(rows[:, :, tf.newaxis], columns[:, tf.newaxis, :])
    return tf.cast(inside, tf.float32)[..., tf.newaxis]


def gather_cells(maps: tf.Tensor, cells: tf.Tensor) -> tf.Tensor:
    """Gather values of [B, H, W, channels] at cells int32 [B, ..., 2]: [B, ..., channels].

    As published cells are numbered row by row: a cell right of the grid is in the next row. A cell
    below the grid is replaced by the last cell.
    """
    height, width = spatial_size(maps)
    flat = tf.reshape(maps, [-1, height * width, maps.shape[-1]])
    indices = tf.clip_by_value(cells[..., 0] * width + cells[..., 1], 0, height * width - 1)
    return tf.gather(flat, indices, batch_dims=1)


def disc(radius: int) -> np.ndarray:
    """List the offsets of cells within a radius, float32 [n, 2], row by row."""
    # The published offset_peak_radius of 3 has 29 cells.
    side = range(-radius, radius + 1)
    return np.array([(y, x) for y in side for x in side if y * y + x * x <= radius**2], np.float32)


def around(places: tf.Tensor, radius: int, maps: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
    """Find the cells around places.

    Args:
        places: float32 [..., 2].
        radius: of the disc around a place, in cells; its n cells are those of `disc`.
        maps: [B, H, W, channels], with the grid.

    Returns:
        Cells, float32 [..., n, 2], and 1 for those inside the grid, float32 [..., n]. Cells outside
        are replaced by the first cell.
    """
    cells = tf.floor(places)[..., tf.newaxis, :] + disc(radius)
    inside = tf.reduce_all(tf.logical_and(cells >= 0.0, cells < float_sides(maps)), axis=-1)
    return tf.where(inside[..., tf.newaxis], cells, 0.0), tf.cast(inside, tf.float32)


def sigmas(heights: tf.Tensor, widths: tf.Tensor, least_overlap: float) -> tf.Tensor:
    """Compute standard deviations of the Gaussians of boxes, in cells, at least 1/6.

    They follow from the distance by which the corners of a box may move before its overlap with the
    original box falls below a bound. As published the solutions of the three equations (Law and
    Deng 2018) are not divided by their leading coefficients, and checkpoints were trained with
    that.

    Args:
        heights: float32, any shape, in cells.
        widths: the same.
        least_overlap: intersection over union, in (0, 1).
    """
    total, area = heights + widths, heights * widths
    over = 1.0 - least_overlap

    def root(b: tf.Tensor, four_a_c: tf.Tensor) -> tf.Tensor:
        return (b + tf.sqrt(tf.maximum(tf.square(b) - four_a_c, 0.0))) / 2.0

    # In practice the last root is the smallest.
    radius = tf.minimum(
        tf.minimum(
            root(total, 4.0 * area * over / (1.0 + least_overlap)),
            root(2.0 * total, 16.0 * over * area),
        ),
        root(-2.0 * least_overlap * total, -16.0 * least_overlap * over * area),
    )
    # A diameter of six standard deviations (Law and Deng 2018: a third of the radius).
    return (2.0 * tf.maximum(tf.floor(radius), 0.0) + 1.0) / 6.0
