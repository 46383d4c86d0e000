"""Geometry of boxes: functions on tensors [..., 4] of ymin, xmin, ymax, xmax."""

from __future__ import annotations

from typing import Tuple

import tensorflow as tf

# Keeps divisions and logarithms finite.
EPSILON = 1e-8


def area(boxes: tf.Tensor) -> tf.Tensor:
    """Areas [...] of boxes [..., 4]; an inverted box has a negative side, not a clipped one."""
    ymin, xmin, ymax, xmax = tf.unstack(boxes, axis=-1)
    return (ymax - ymin) * (xmax - xmin)


def height_width(boxes: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
    """Heights [...] and widths [...]."""
    ymin, xmin, ymax, xmax = tf.unstack(boxes, axis=-1)
    return ymax - ymin, xmax - xmin


def to_center_size(boxes: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Centre y, centre x, height and width, each [...]."""
    ymin, xmin, ymax, xmax = tf.unstack(boxes, axis=-1)
    height, width = ymax - ymin, xmax - xmin
    return ymin + 0.5 * height, xmin + 0.5 * width, height, width


def from_center_size(
    ycenter: tf.Tensor, xcenter: tf.Tensor, height: tf.Tensor, width: tf.Tensor
) -> tf.Tensor:
    """Boxes [..., 4] from centres and sizes."""
    half_height, half_width = 0.5 * height, 0.5 * width
    return tf.stack(
        [ycenter - half_height, xcenter - half_width, ycenter + half_height, xcenter + half_width],
        axis=-1,
    )


def pairwise_intersection(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Areas of the intersections of every box of one set with every box of another.

    Args:
        first: [..., N, 4].
        second: [..., P, 4]; leading dimensions broadcast against those of `first`.

    Returns:
        [..., N, P].
    """
    ymin1, xmin1, ymax1, xmax1 = tf.split(first, 4, axis=-1)  # [..., N, 1]
    ymin2, xmin2, ymax2, xmax2 = tf.unstack(second[..., tf.newaxis, :, :], axis=-1)  # [..., 1, P]
    height = tf.maximum(0.0, tf.minimum(ymax1, ymax2) - tf.maximum(ymin1, ymin2))
    width = tf.maximum(0.0, tf.minimum(xmax1, xmax2) - tf.maximum(xmin1, xmin2))
    return height * width


def pairwise_iou(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Intersection over union, [..., N, P]; 0 where there is no intersection."""
    intersection = pairwise_intersection(first, second)
    union = area(first)[..., :, tf.newaxis] + area(second)[..., tf.newaxis, :] - intersection
    return tf.math.divide_no_nan(intersection, union)


def pairwise_ioa(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Intersection over the area of the second box, [..., N, P]."""
    areas = area(second)[..., tf.newaxis, :]
    return tf.math.divide_no_nan(pairwise_intersection(first, second), areas)


def elementwise_iou(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Intersection over union of the boxes at the same place, [...]."""
    intersection = _elementwise_intersection(first, second)
    return tf.math.divide_no_nan(intersection, area(first) + area(second) - intersection)


def elementwise_giou(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Generalised IoU of the boxes at the same place, [...], in [-1, 1].

    IoU less the share of the smallest enclosing box that neither covers (Rezatofighi et al. 2019).
    """
    intersection = _elementwise_intersection(first, second)
    union = area(first) + area(second) - intersection
    low = tf.minimum(first[..., :2], second[..., :2])
    high = tf.maximum(first[..., 2:], second[..., 2:])
    enclosing = tf.reduce_prod(high - low, axis=-1)
    iou = tf.math.divide_no_nan(intersection, union)
    return iou - tf.math.divide_no_nan(enclosing - union, enclosing)


def clip_to_window(boxes: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
    """Boxes cut off at a window; one outside of it ends up without area on its border.

    Args:
        boxes: [..., 4].
        window: [4], or of a shape that broadcasts against [..., 4].
    """
    low, high = tf.split(window, 2, axis=-1)
    low, high = tf.concat([low, low], -1), tf.concat([high, high], -1)
    return tf.maximum(tf.minimum(boxes, high), low)


def scale(boxes: tf.Tensor, y_scale: tf.Tensor, x_scale: tf.Tensor) -> tf.Tensor:
    """Coordinates multiplied; scales are scalars or broadcast against [...]."""
    factors = tf.stack([y_scale, x_scale, y_scale, x_scale], axis=-1)
    return boxes * tf.cast(factors, boxes.dtype)


def change_frame(boxes: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
    """Boxes as coordinates of a window: its corners become (0, 0) and (1, 1).

    Args:
        boxes: [..., 4].
        window: [4], or of a shape that broadcasts against [..., 4].
    """
    low, high = tf.split(window, 2, axis=-1)
    size = high - low
    return (boxes - tf.concat([low, low], -1)) / tf.concat([size, size], -1)


def _elementwise_intersection(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    low = tf.maximum(first[..., :2], second[..., :2])
    high = tf.minimum(first[..., 2:], second[..., 2:])
    return tf.reduce_prod(tf.maximum(0.0, high - low), axis=-1)
