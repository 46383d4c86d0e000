"""Search of boxes that may almost coincide with another one, without comparing all pairs.

If the IoU of two boxes is above t, the ratio of their sides is above t, and the distance of their
corners is less than (1 - t) / t of the shorter side. So both boxes lie in the same cell of a grid
over sizes, and in the same cell of a grid over corners whose cell size depends on the size, unless
a border of a cell lies between them. Cells are slightly more than three times as wide as the
largest distance of such a pair. There are three grids, each shifted by a third of a cell. Along
each coordinate only one of the three can have a border between the boxes. With two coordinates at
least one grid has none.
"""

from __future__ import annotations

import math
from typing import Tuple

import tensorflow as tf

# With lower thresholds cells would be so large that most boxes share one.
LEAST_THRESHOLD = 0.9

# Cells are three times as wide as the distance of two such boxes, and slightly wider because
# borders are rounded.
_SHIFTS = 3
_WIDENING = 1.05 * _SHIFTS
# Odd pseudorandom factors: a key is the sum of cell numbers times these, modulo 2^64.
_SIZE_FACTORS = (0x1E3779B97F4A7C15, 0x3F58476D1CE4E5B9)
_POSITION_FACTORS = (0x14D049BB133111EB, 0x2545F4914F6CDD1D)
_IMAGE_FACTOR = 0x6C62272E07BB0143
_GRID_FACTOR = 0x07D4EB2F165667C5
# Bound of cell numbers, because boxes may be infinite.
_FARTHEST = 2.0**40


def may_overlap(boxes: tf.Tensor, iou_threshold: float) -> tf.Tensor:
    """Check which boxes may have an IoU above a threshold with another box of their image.

    Time and memory grow with the number of boxes, not with that of pairs.

    Args:
        boxes: float32 [B, A, 4]; corners may be swapped.
        iou_threshold: at least `LEAST_THRESHOLD`, less than 1.

    Returns:
        bool [B, A]: True for all boxes with such a partner, and for some with a partner that is a
        few times less similar.
    """
    sizes, positions = _cells(boxes[..., :2], boxes[..., 2:], iou_threshold)
    images = tf.range(tf.shape(boxes)[0], dtype=tf.int64)[:, tf.newaxis]
    grids = tf.constant(
        [k * _GRID_FACTOR for k in range(_SHIFTS**2)], tf.int64, [_SHIFTS, _SHIFTS, 1, 1]
    )
    # int64 wraps around in TensorFlow's kernels. Equal cells have equal keys, and a rare collision
    # of others only adds a candidate.
    keys = tf.reduce_sum(positions * _POSITION_FACTORS, axis=-1) + (
        tf.reduce_sum(sizes * _SIZE_FACTORS, axis=-1) + (images * _IMAGE_FACTOR + grids)
    )
    _, first, counts = tf.unique_with_counts(tf.reshape(keys, [-1]))
    shared = tf.reshape(tf.gather(counts, first) > 1, tf.shape(keys))
    return tf.reduce_any(shared, axis=[0, 1])


def _cells(
    first: tf.Tensor, second: tf.Tensor, iou_threshold: float
) -> Tuple[tf.Tensor, tf.Tensor]:
    """Compute the cells of boxes along both axes of the image, in each grid.

    Args:
        first: float32 [B, A, 2], a corner of each box.
        second: float32 [B, A, 2], the opposite corner.
        iou_threshold: at least `LEAST_THRESHOLD`, less than 1.

    Returns:
        int64 [grids, 1, B, A, 2], cells of sizes; int64 [grids, grids, B, A, 2], cells of positions
        for each grid of sizes.
    """
    width = _WIDENING * math.log(1.0 / iou_threshold)
    shifts = tf.constant([k / _SHIFTS for k in range(_SHIFTS)], shape=[_SHIFTS, 1, 1, 1])
    # Absolute, because the kernel that compares the candidates accepts swapped corners. The bound
    # keeps the logarithm of an empty box finite.
    sides = tf.maximum(tf.abs(second - first), 1e-12)
    sizes = tf.floor(tf.math.log(sides) * (1.0 / width) + shifts)
    # The unit depends on the longest side in the cell.
    tolerance = _WIDENING * (1.0 - iou_threshold) / iou_threshold
    units = tf.exp((sizes - shifts) * width + (width + math.log(tolerance)))
    # A box of a larger size cell has larger units, so keys of positions are compared within one
    # size only: the size is part of the key.
    positions = tf.floor((tf.minimum(first, second) / units)[:, tf.newaxis] + shifts)
    return _as_integers(sizes)[:, tf.newaxis], _as_integers(positions)


def _as_integers(cells: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.clip_by_value(cells, -_FARTHEST, _FARTHEST), tf.int64)
