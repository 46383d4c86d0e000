"""Which of many boxes may overlap another one almost entirely, without comparing all pairs.

A pair whose IoU is above t has sides whose ratio is above t, and corners that are apart by less
than (1 - t) / t of the shorter side. So both are in one cell of a grid over sizes, and of a grid
over corners as large as that cell says, unless a border happens to lie between them. Cells are a
little more than three times as wide as the pair can be apart, and there are three grids, shifted by
a third of a cell each: along each coordinate only one of the three can have its border there, and
with two coordinates one grid is left that has none.
"""

from __future__ import annotations

import math
from typing import Tuple

import tensorflow as tf

# Below it cells are so large that most boxes share one.
LEAST_THRESHOLD = 0.9

# Cells are three times as wide as two boxes that overlap so can be apart, and a little more for the
# rounding of their borders.
_SHIFTS = 3
_WIDENING = 1.05 * _SHIFTS
# Odd numbers without structure: a key is a sum of numbers times these, modulo 2^64.
_SIZE_FACTORS = (0x1E3779B97F4A7C15, 0x3F58476D1CE4E5B9)
_PLACE_FACTORS = (0x14D049BB133111EB, 0x2545F4914F6CDD1D)
_IMAGE_FACTOR = 0x6C62272E07BB0143
_GRID_FACTOR = 0x07D4EB2F165667C5
# Numbers of cells are kept inside it: boxes may be infinite.
_FARTHEST = 2.0**40


def may_overlap(boxes: tf.Tensor, iou_threshold: float) -> tf.Tensor:
    """Return whether a box may have another one of its image with an IoU above a threshold.

    Time and memory grow with the number of boxes, not with that of pairs.

    Args:
        boxes: float32 [B, A, 4]; corners may be swapped.
        iou_threshold: at least `LEAST_THRESHOLD`, less than 1.

    Returns:
        bool [B, A]: True wherever there is such a box, and where there is one that is a few times
        less alike.
    """
    sizes, places = _cells(boxes[..., :2], boxes[..., 2:], iou_threshold)
    images = tf.range(tf.shape(boxes)[0], dtype=tf.int64)[:, tf.newaxis]
    grids = tf.constant(
        [k * _GRID_FACTOR for k in range(_SHIFTS**2)], tf.int64, [_SHIFTS, _SHIFTS, 1, 1]
    )
    keys = tf.reduce_sum(places * _PLACE_FACTORS, axis=-1) + (
        tf.reduce_sum(sizes * _SIZE_FACTORS, axis=-1) + (images * _IMAGE_FACTOR + grids)
    )
    _, first, counts = tf.unique_with_counts(tf.reshape(keys, [-1]))
    shared = tf.reshape(tf.gather(counts, first) > 1, tf.shape(keys))
    return tf.reduce_any(shared, axis=[0, 1])


def _cells(
    first: tf.Tensor, second: tf.Tensor, iou_threshold: float
) -> Tuple[tf.Tensor, tf.Tensor]:
    """Return the cells of boxes along both axes of the image, in each grid.

    Args:
        first: float32 [B, A, 2], a corner of each box.
        second: float32 [B, A, 2], the opposite corner.
        iou_threshold: as above.

    Returns:
        int64 [grids, 1, B, A, 2], cells of sizes; int64 [grids, grids, B, A, 2], for each grid of
        sizes the cells of places.
    """
    width = _WIDENING * math.log(1.0 / iou_threshold)
    shifts = tf.constant([k / _SHIFTS for k in range(_SHIFTS)], shape=[_SHIFTS, 1, 1, 1])
    sides = tf.maximum(tf.abs(second - first), 1e-12)
    sizes = tf.floor(tf.math.log(sides) * (1.0 / width) + shifts)
    # As long as the longest side in the cell allows.
    tolerance = _WIDENING * (1.0 - iou_threshold) / iou_threshold
    units = tf.exp((sizes - shifts) * width + (width + math.log(tolerance)))
    places = tf.floor((tf.minimum(first, second) / units)[:, tf.newaxis] + shifts)
    return _as_integers(sizes)[:, tf.newaxis], _as_integers(places)


def _as_integers(cells: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.clip_by_value(cells, -_FARTHEST, _FARTHEST), tf.int64)
