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
# Odd numbers without structure: a key is a sum of cell numbers times these, modulo 2^64.
_FACTORS = (
    0x1E3779B97F4A7C15,
    0x3F58476D1CE4E5B9,
    0x14D049BB133111EB,
    0x2545F4914F6CDD1D,
    0x6C62272E07BB0143,
    0x27D4EB2F165667C5,
)
# Numbers of cells are kept inside it: boxes may be infinite.
_FARTHEST = 2.0**40


def may_overlap(boxes: tf.Tensor, iou_threshold: float) -> tf.Tensor:
    """Whether a box may have another one of its image with an IoU above a threshold.

    Time and memory grow with the number of boxes, not with that of pairs.

    Args:
        boxes: float32 [B, A, 4]; corners may be swapped.
        iou_threshold: at least `LEAST_THRESHOLD`, less than 1.

    Returns:
        bool [B, A]: True wherever there is such a box, and where there is one that is a few times
        less alike.
    """
    first_y, first_x, second_y, second_x = tf.unstack(boxes, axis=-1)
    heights, tops = _cells(first_y, second_y, iou_threshold)
    widths, lefts = _cells(first_x, second_x, iou_threshold)
    images = tf.range(tf.shape(boxes)[0], dtype=tf.int64)[:, tf.newaxis]
    grids = tf.reshape(tf.range(_SHIFTS**2, dtype=tf.int64), [_SHIFTS, _SHIFTS, 1, 1])
    numbers = (heights, widths, images, grids, tops, lefts)
    keys = sum(number * factor for number, factor in zip(numbers, _FACTORS))
    _, places, counts = tf.unique_with_counts(tf.reshape(keys, [-1]))
    shared = tf.reshape(tf.gather(counts, places) > 1, tf.shape(keys))
    return tf.reduce_any(shared, axis=[0, 1])


def _cells(first: tf.Tensor, second: tf.Tensor, iou_threshold: float) -> Tuple[tf.Tensor, ...]:
    """The cells of boxes along one axis of the image, in each grid.

    Args:
        first: float32 [B, A], one end of the boxes along the axis.
        second: float32 [B, A], the other end.
        iou_threshold: as above.

    Returns:
        int64 [grids, 1, B, A], cells of sizes; int64 [grids, grids, B, A], for each grid of sizes
        the cells of corners.
    """
    width = _WIDENING * math.log(1.0 / iou_threshold)
    shifts = tf.constant([k / _SHIFTS for k in range(_SHIFTS)], shape=[_SHIFTS, 1, 1])
    sides = tf.maximum(tf.abs(second - first), 1e-12)
    sizes = tf.floor(tf.math.log(sides) / width + shifts)
    longest = tf.exp((sizes + 1.0 - shifts) * width)
    units = longest * (_WIDENING * (1.0 - iou_threshold) / iou_threshold)
    places = tf.floor((tf.minimum(first, second) / units)[:, tf.newaxis] + shifts)
    return _as_integers(sizes)[:, tf.newaxis], _as_integers(places)


def _as_integers(cells: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.clip_by_value(cells, -_FARTHEST, _FARTHEST), tf.int64)
