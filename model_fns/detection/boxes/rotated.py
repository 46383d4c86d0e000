"""Rotated boxes, `family.Boxes`: tensors [..., 5] of cy, cx, h, w, angle.

`model_fns.structures.rotated_rectangles` defines the values. A model has them in pixels of its
input, where lengths along y and x have the same unit. Normalized boxes are `quadrilaterals`.
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
    """Compute areas [...] of boxes [..., 5]."""
    return boxes[..., 2] * boxes[..., 3]


def has_area(boxes: tf.Tensor) -> tf.Tensor:
    """Check which boxes have two sides above 0: bool [...], of boxes [..., 5]."""
    return tf.reduce_all(boxes[..., 2:4] > 0, axis=-1)


def enclosing_boxes(boxes: tf.Tensor) -> tf.Tensor:
    """Compute the smallest enclosing axis-aligned boxes, [..., 4]: ymin, xmin, ymax, xmax."""
    return parallelograms.enclosing_boxes(to_parallelograms(boxes))


def corners(boxes: tf.Tensor) -> tf.Tensor:
    """Compute the corners [..., 4, 2], y and x, clockwise from the top left at an angle of 0."""
    return parallelograms.corners(to_parallelograms(boxes))


def to_rectangles(boxes: tf.Tensor) -> tf.Tensor:
    """Return the boxes [..., 5] themselves, which are rotated rectangles."""
    return boxes


def to_parallelograms(boxes: tf.Tensor) -> tf.Tensor:
    """Convert to [..., 6]: center, half the edge along the height, half that along the width."""
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
    """Compute the smallest rectangles around parallelograms [..., 6], in long edge form: [..., 5].

    One side of the rectangle lies along one of the two edges. The result for a rectangle is the
    rectangle itself.
    """
    center, first, second = tf.split(shapes, 3, axis=-1)
    downward = tf.broadcast_to(tf.constant([1.0, 0.0], shapes.dtype), tf.shape(first))
    # An edge without length is taken as perpendicular to the other. If both have no length any
    # direction will do.
    down = _direction(first, _turned(_direction(second, downward)))
    along = _direction(second, _turned(down))
    candidates = []
    for width_axis in (along, _turned(down)):
        axes = _turned(width_axis), width_axis
        height, width = (2.0 * (_reach(first, axis) + _reach(second, axis)) for axis in axes)
        angle = tf.atan2(width_axis[..., 0], width_axis[..., 1])
        candidates.append(tf.stack([height, width, angle], axis=-1))
    areas = [sides[..., 0] * sides[..., 1] for sides in candidates]
    # For a rectangle both are equal but for rounding, and either is right.
    smaller = areas[1] < areas[0]
    sides = tf.where(smaller[..., tf.newaxis], candidates[1], candidates[0])
    return le90(tf.concat([center, sides], axis=-1))


def le90(boxes: tf.Tensor) -> tf.Tensor:
    """Convert boxes [..., 5] to the same rectangles with w >= h and an angle in [-pi/2, pi/2)."""
    cy, cx, height, width, angle = tf.unstack(boxes, axis=-1)
    swap = width < height
    angle = wrap(angle + tf.where(swap, tf.constant(_QUARTER, angle.dtype), tf.zeros_like(angle)))
    sides = [tf.minimum(height, width), tf.maximum(height, width)]
    return tf.stack([cy, cx, *sides, angle], axis=-1)


def wrap(angles: tf.Tensor, period: float = math.pi) -> tf.Tensor:
    """Wrap angles to [-period/2, period/2) by adding whole periods.

    Returns:
        Radians, of the shape of `angles`.
    """
    wrapped = (
        tf.math.floormod(angles + 0.5 * period, tf.constant(period, angles.dtype)) - 0.5 * period
    )
    # Rounding may yield the end of the interval.
    return tf.where(wrapped >= 0.5 * period, wrapped - period, wrapped)


def pairwise_iou(first: tf.Tensor, second: tf.Tensor, at_once: bool = False) -> tf.Tensor:
    """Compute the IoU of [..., N, 5] and [..., P, 5]: [..., N, P]; no gradient.

    Args:
        first: boxes.
        second: boxes; leading dimensions broadcast.
        at_once: True: without blocks, so that there is no loop in the graph.
    """
    return _union_ratio(
        parallelograms.pairwise_intersection(
            to_parallelograms(first), to_parallelograms(second), at_once
        ),
        area(first)[..., :, tf.newaxis],
        area(second)[..., tf.newaxis, :],
    )


def pairwise_ioa(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Compute intersection over the area of the second box, [..., N, P]; no gradient."""
    common = parallelograms.pairwise_intersection(
        to_parallelograms(first), to_parallelograms(second)
    )
    return tf.math.divide_no_nan(common, area(second)[..., tf.newaxis, :])


def self_iou(boxes: tf.Tensor) -> tf.Tensor:
    """Compute the IoU [N, N] of boxes [N, 5] with each other; the diagonal is 0."""
    areas = area(boxes)
    return _union_ratio(
        parallelograms.self_intersection(to_parallelograms(boxes)), areas[:, tf.newaxis], areas
    )


def elementwise_iou(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Compute intersection over union of boxes at the same index, [...], of boxes [..., 5]."""
    common = parallelograms.elementwise_intersection(
        to_parallelograms(first), to_parallelograms(second)
    )
    return _union_ratio(common, area(first), area(second))


def clip_to_window(boxes: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
    """Return the boxes [..., 5] unchanged: a clipped rotated rectangle is seldom one."""
    del window
    return boxes


def scale(boxes: tf.Tensor, y_scale: tf.Tensor, x_scale: tf.Tensor) -> tf.Tensor:
    """Compute the smallest boxes around the scaled boxes of a resized image.

    Factors are scalars or broadcast against [...]. If they differ, a rotated rectangle becomes a
    parallelogram.
    """
    # By points: sides and angle cannot express a scaling by two factors.
    factors = tf.cast(tf.stack([y_scale, x_scale] * 3, axis=-1), boxes.dtype)
    return from_parallelograms(to_parallelograms(boxes) * factors)


def crop(
    features: tf.Tensor,
    boxes: tf.Tensor,
    images: tf.Tensor,
    size: int,
    image_size: Tuple[tf.Tensor, tf.Tensor],
) -> tf.Tensor:
    """Crop features inside boxes on grids that rotate with the boxes; see `family.ModelBoxes`.

    Returns:
        float32 [R, size, size, channels].
    """
    return rotated_crops.crop(features, tf.stop_gradient(boxes), images, size, image_size)


def _union_ratio(common: tf.Tensor, first_area: tf.Tensor, second_area: tf.Tensor) -> tf.Tensor:
    # Rounding may make the product of the sides less than the area that bounds the intersection.
    return tf.minimum(tf.math.divide_no_nan(common, first_area + second_area - common), 1.0)


def _direction(edge: tf.Tensor, otherwise: tf.Tensor) -> tf.Tensor:
    """Compute the unit vector along an edge [..., 2]; `otherwise` for an edge without length."""
    length = tf.norm(edge, axis=-1, keepdims=True)
    has_length = length > 0
    return tf.where(has_length, edge / tf.where(has_length, length, 1.0), otherwise)


def _turned(vectors: tf.Tensor) -> tf.Tensor:
    """Rotate vectors [..., 2], y and x, by 90 degrees."""
    return tf.stack([vectors[..., 1], -vectors[..., 0]], axis=-1)


def _reach(edge: tf.Tensor, axis: tf.Tensor) -> tf.Tensor:
    """Compute the extent of half edges [..., 2] along unit vectors [..., 2]."""
    return tf.abs(tf.reduce_sum(edge * axis, axis=-1))
