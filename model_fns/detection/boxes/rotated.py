"""Rotated boxes, `family.Boxes`: tensors [..., 5] of cy, cx, h, w, angle.

`model_fns.structures.rotated_rectangles` defines the numbers. A model has them in pixels of its
input, where lengths along y and x are the same: nothing here is about normalized boxes, which are
`quadrilaterals`.
"""

from __future__ import annotations

import math
from typing import Tuple

import tensorflow as tf

from model_fns.detection.boxes import parallelograms, rotated_crops
from model_fns.structures import rotated_rectangles

SIZE = rotated_rectangles.SIZE
_QUARTER = math.pi / 2


def area(boxes: tf.Tensor) -> tf.Tensor:
    """Return areas [...] of boxes [..., 5]."""
    return boxes[..., 2] * boxes[..., 3]


def has_area(boxes: tf.Tensor) -> tf.Tensor:
    """Return bool [...]: whether both sides are above 0."""
    return tf.reduce_all(boxes[..., 2:4] > 0, axis=-1)


def hull(boxes: tf.Tensor) -> tf.Tensor:
    """Return the smallest upright boxes around, [..., 4]: ymin, xmin, ymax, xmax."""
    return parallelograms.hull(to_parallelograms(boxes))


def corners(boxes: tf.Tensor) -> tf.Tensor:
    """The corners [..., 4, 2], y and x: those of the unturned box from its top left, clockwise."""
    return parallelograms.corners(to_parallelograms(boxes))


def to_parallelograms(boxes: tf.Tensor) -> tf.Tensor:
    """[..., 6]: the center, half of the edge along the height, half of that along the width."""
    cosine, sine = tf.cos(boxes[..., 4]), tf.sin(boxes[..., 4])
    half_height, half_width = 0.5 * boxes[..., 2], 0.5 * boxes[..., 3]
    return tf.stack(
        [
            boxes[..., 0],
            boxes[..., 1],
            half_height * cosine,
            -half_height * sine,
            half_width * sine,
            half_width * cosine,
        ],
        axis=-1,
    )


def from_parallelograms(shapes: tf.Tensor) -> tf.Tensor:
    """The smallest rectangles around parallelograms [..., 6], in their long edge form: [..., 5].

    One of their sides lies along one of the two edges; a rectangle is its own.
    """
    center, first, second = tf.split(shapes, 3, axis=-1)
    downward = tf.broadcast_to(tf.constant([1.0, 0.0], shapes.dtype), tf.shape(first))
    # An edge without length lies across the other one; without both any direction will do.
    down = _direction(first, _turned(_direction(second, downward)))
    along = _direction(second, _turned(down))
    found = []
    for width_axis in (along, _turned(down)):
        axes = _turned(width_axis), width_axis
        height, width = (2.0 * (_reach(first, axis) + _reach(second, axis)) for axis in axes)
        angle = tf.atan2(width_axis[..., 0], width_axis[..., 1])
        found.append(tf.stack([height, width, angle], axis=-1))
    smaller = found[1][..., 0] * found[1][..., 1] < found[0][..., 0] * found[0][..., 1]
    sides = tf.where(smaller[..., tf.newaxis], found[1], found[0])
    return le90(tf.concat([center, sides], axis=-1))


def le90(boxes: tf.Tensor) -> tf.Tensor:
    """Return the same rectangles [..., 5] with w >= h and an angle in [-pi/2, pi/2)."""
    cy, cx, height, width, angle = tf.unstack(boxes, axis=-1)
    swap = width < height
    angle = wrap(angle + tf.where(swap, tf.constant(_QUARTER, angle.dtype), tf.zeros_like(angle)))
    sides = [tf.minimum(height, width), tf.maximum(height, width)]
    return tf.stack([cy, cx, *sides, angle], axis=-1)


def wrap(angles: tf.Tensor, period: float = math.pi) -> tf.Tensor:
    """Return angles in [-period/2, period/2) that differ from the given ones by whole periods."""
    wrapped = (
        tf.math.floormod(angles + 0.5 * period, tf.constant(period, angles.dtype)) - 0.5 * period
    )
    # Rounding may give the end of the interval.
    return tf.where(wrapped >= 0.5 * period, wrapped - period, wrapped)


def pairwise_iou(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Return intersection over union of [..., N, 5] and [..., P, 5]: [..., N, P]; no gradient."""
    return _over_union(
        parallelograms.pairwise_intersection(to_parallelograms(first), to_parallelograms(second)),
        area(first)[..., :, tf.newaxis],
        area(second)[..., tf.newaxis, :],
    )


def pairwise_ioa(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Return intersection over the area of the second box, [..., N, P]; no gradient."""
    common = parallelograms.pairwise_intersection(
        to_parallelograms(first), to_parallelograms(second)
    )
    return tf.math.divide_no_nan(common, area(second)[..., tf.newaxis, :])


def self_iou(boxes: tf.Tensor) -> tf.Tensor:
    """Return intersection over union [N, N] of boxes [N, 5] with each other, 0 with themselves."""
    areas = area(boxes)
    return _over_union(
        parallelograms.self_intersection(to_parallelograms(boxes)), areas[:, tf.newaxis], areas
    )


def elementwise_iou(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Return intersection over union of the boxes at the same place, [...]."""
    common = parallelograms.elementwise_intersection(
        to_parallelograms(first), to_parallelograms(second)
    )
    return _over_union(common, area(first), area(second))


def clip_to_window(boxes: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
    """Return the boxes themselves: what is left of one that is cut off is seldom a rectangle."""
    del window
    return boxes


def scale(boxes: tf.Tensor, y_scale: tf.Tensor, x_scale: tf.Tensor) -> tf.Tensor:
    """Return the smallest boxes around what the boxes of a resized image become.

    Factors are scalars or broadcast against [...]. Where they differ a turned rectangle becomes a
    parallelogram.
    """
    factors = tf.cast(tf.stack([y_scale, x_scale] * 3, axis=-1), boxes.dtype)
    return from_parallelograms(to_parallelograms(boxes) * factors)


def crop(
    features: tf.Tensor,
    boxes: tf.Tensor,
    images: tf.Tensor,
    size: int,
    image_size: Tuple[tf.Tensor, tf.Tensor],
) -> tf.Tensor:
    """Features inside of boxes, on a grid that is turned with each; see `family.ModelBoxes`."""
    return rotated_crops.crop(features, tf.stop_gradient(boxes), images, size, image_size)


def _over_union(common: tf.Tensor, first_area: tf.Tensor, second_area: tf.Tensor) -> tf.Tensor:
    # The sides' product may be a rounding below the area that the intersection is held to.
    return tf.minimum(tf.math.divide_no_nan(common, first_area + second_area - common), 1.0)


def _direction(edge: tf.Tensor, otherwise: tf.Tensor) -> tf.Tensor:
    """Return the unit vector along an edge [..., 2]; another one where it has no length."""
    length = tf.norm(edge, axis=-1, keepdims=True)
    has_length = length > 0
    return tf.where(has_length, edge / tf.where(has_length, length, 1.0), otherwise)


def _turned(vectors: tf.Tensor) -> tf.Tensor:
    """Vectors [..., 2], y and x, turned by a quarter."""
    return tf.stack([vectors[..., 1], -vectors[..., 0]], axis=-1)


def _reach(edge: tf.Tensor, axis: tf.Tensor) -> tf.Tensor:
    """How far half edges [..., 2] go along unit vectors [..., 2]."""
    return tf.abs(tf.reduce_sum(edge * axis, axis=-1))
