"""Axis-aligned boxes, a `family.BoxFamily`: tensors [..., 4] of ymin, xmin, ymax, xmax."""

from __future__ import annotations

import math
from typing import Optional, Sequence, Tuple

import tensorflow as tf

from model_fns.layers import crops as box_crops

SIZE = 4  # numbers of a box
SIDES = ('ymin', 'xmin', 'ymax', 'xmax')
RECORD_KEYS = tuple(f'image/object/bbox/{side}' for side in SIDES)
IS_ROTATED = False

# Keeps divisions and logarithms finite.
# The value of the published coders: with another one codes of tiny boxes differ.
EPSILON = 1e-8

# Coordinates of boxes in a flipped or rotated image: coordinates at these indices, times a sign,
# plus an offset.
_FLIPS = (
    ([2, 1, 0, 3], [-1.0, 1.0, -1.0, 1.0], [1.0, 0.0, 1.0, 0.0]),
    ([0, 3, 2, 1], [1.0, -1.0, 1.0, -1.0], [0.0, 1.0, 0.0, 1.0]),
)
_QUARTER_TURN = ([3, 0, 1, 2], [-1.0, 1.0, -1.0, 1.0], [1.0, 0.0, 1.0, 0.0])


def from_record(numbers: tf.Tensor, height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """Return the numbers of a record [n, 4]: they are the boxes, whatever the size of the image."""
    del height, width
    return numbers


def to_record(boxes: tf.Tensor, height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """Return the boxes themselves, which are the numbers of a record: float32 [..., 4]."""
    del height, width
    return boxes


def to_boxes(boxes: tf.Tensor, height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """Scale boxes [..., 4] that are normalized to an image to its pixels.

    Args:
        boxes: normalized to the image.
        height: of the image in pixels; a scalar, or of a shape that broadcasts against [...].
        width: likewise.
    """
    return scale(boxes, height, width)


def from_boxes(boxes: tf.Tensor, height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """Normalize boxes [..., 4] in pixels of an image to its size; the inverse of `to_boxes`."""
    return scale(boxes, 1.0 / height, 1.0 / width)


def crop(
    features: tf.Tensor,
    boxes: tf.Tensor,
    images: tf.Tensor,
    size: int,
    image_size: Tuple[tf.Tensor, tf.Tensor],
) -> tf.Tensor:
    """Crop the features inside of boxes by bilinear interpolation; see `family.ModelBoxes`.

    Returns:
        float32 [R, size, size, channels].
    """
    normalized = from_boxes(boxes, *image_size)
    return box_crops.crop_and_resize(features, normalized, images, [size, size])


def area(boxes: tf.Tensor) -> tf.Tensor:
    """Compute areas [...] of boxes [..., 4]; the sides of inverted boxes are negative."""
    ymin, xmin, ymax, xmax = tf.unstack(boxes, axis=-1)
    return (ymax - ymin) * (xmax - xmin)


def has_area(boxes: tf.Tensor) -> tf.Tensor:
    """Check which boxes have two sides above 0: bool [...], of boxes [..., 4]."""
    # No `reduce_all`, which interpreters of TFLite before 2022 do not know.
    is_above = boxes[..., 2:] > boxes[..., :2]
    return tf.logical_and(is_above[..., 0], is_above[..., 1])


def is_sound(boxes: tf.Tensor, overhang: float) -> tf.Tensor:
    """Check which normalized boxes are plausible: bool [...].

    Args:
        boxes: [..., 4]; a box with NaN passes, as it is neither outside of the image nor inverted.
        overhang: distance by which a box may extend beyond the image.
    """
    beyond = tf.reduce_any(tf.abs(boxes - 0.5) > 0.5 + overhang, axis=-1)
    inverted = tf.reduce_any(boxes[..., :2] > boxes[..., 2:], axis=-1)
    return tf.logical_not(tf.logical_or(beyond, inverted))


def find_problem(box: Sequence[float], overhang: float) -> str:
    """Describe why the normalized box of a record is implausible; empty if it is plausible.

    Args:
        box: in the order of `RECORD_KEYS`; NaN is not reported.
        overhang: distance by which the box may extend beyond the image.
    """
    ymin, xmin, ymax, xmax = box
    if any(abs(side - 0.5) > 0.5 + overhang for side in box):
        return 'reaches out of the image; expected normalized coordinates, from 0 to 1'
    if ymin > ymax or xmin > xmax:
        return 'is inverted; expected ymin < ymax and xmin < xmax'
    return ''


def clip_numbers(box: Sequence[float]) -> Optional[Sequence[float]]:
    """Return the normalized box of a record, clipped at the border of its image.

    `clip_numbers([0.5, 0.5, 0.75, 1.5])` is `[0.5, 0.5, 0.75, 1.0]`.

    Args:
        box: in the order of `RECORD_KEYS`.

    Returns:
        None: nothing is left, or a side is no number.
    """
    clipped = [min(max(side, 0.0), 1.0) for side in box]
    return clipped if has_sides(clipped) and all(map(math.isfinite, box)) else None


def has_sides(box: Sequence[float]) -> bool:
    """Check whether the box of a record has an area."""
    ymin, xmin, ymax, xmax = box
    return ymin < ymax and xmin < xmax


def enclosing_boxes(boxes: tf.Tensor) -> tf.Tensor:
    """Return the boxes [..., 4] themselves, which are axis-aligned already."""
    return boxes


def to_center_size(boxes: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Compute center y, center x, height and width, each [...], of boxes [..., 4]."""
    ymin, xmin, ymax, xmax = tf.unstack(boxes, axis=-1)
    height, width = ymax - ymin, xmax - xmin
    return ymin + 0.5 * height, xmin + 0.5 * width, height, width


def to_rectangles(boxes: tf.Tensor) -> tf.Tensor:
    """Convert boxes [..., 4] to rotated boxes [..., 5] with an angle of 0."""
    sides = to_center_size(boxes)
    return tf.stack([*sides, tf.zeros_like(sides[0])], axis=-1)


def from_center_size(
    ycenter: tf.Tensor, xcenter: tf.Tensor, height: tf.Tensor, width: tf.Tensor
) -> tf.Tensor:
    """Compute boxes [..., 4] from centers and sizes."""
    half_height, half_width = 0.5 * height, 0.5 * width
    return tf.stack(
        [ycenter - half_height, xcenter - half_width, ycenter + half_height, xcenter + half_width],
        axis=-1,
    )


def pairwise_intersection(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Compute the areas of the intersections of all boxes of one set with all of another.

    Args:
        first: [..., N, 4].
        second: [..., P, 4]; leading dimensions broadcast against those of `first`.

    Returns:
        [..., N, P].
    """
    ymin1, xmin1, ymax1, xmax1 = tf.split(first, SIZE, axis=-1)  # [..., N, 1]
    ymin2, xmin2, ymax2, xmax2 = tf.unstack(second[..., tf.newaxis, :, :], axis=-1)  # [..., 1, P]
    height = tf.maximum(0.0, tf.minimum(ymax1, ymax2) - tf.maximum(ymin1, ymin2))
    width = tf.maximum(0.0, tf.minimum(xmax1, xmax2) - tf.maximum(xmin1, xmin2))
    return height * width


def pairwise_iou(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Compute intersection over union, [..., N, P]; 0 for boxes without an intersection."""
    intersection = pairwise_intersection(first, second)
    union = area(first)[..., :, tf.newaxis] + area(second)[..., tf.newaxis, :] - intersection
    # Two boxes without area have a union of 0: NaN would take part in the maxima of matchers.
    return tf.math.divide_no_nan(intersection, union)


def pairwise_ioa(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Compute intersection over the area of the second box, [..., N, P]."""
    areas = area(second)[..., tf.newaxis, :]
    return tf.math.divide_no_nan(pairwise_intersection(first, second), areas)


def self_iou(boxes: tf.Tensor) -> tf.Tensor:
    """Compute intersection over union [N, N] of boxes [N, 4] with each other."""
    return pairwise_iou(boxes, boxes)


def elementwise_iou(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Compute intersection over union of boxes at the same index, [...], of boxes [..., 4]."""
    intersection = _elementwise_intersection(first, second)
    return tf.math.divide_no_nan(intersection, area(first) + area(second) - intersection)


def elementwise_giou(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Compute the generalized IoU of boxes at the same index, [...], in [-1, 1].

    The IoU minus the fraction of the smallest enclosing box that neither box covers (Rezatofighi et
    al. 2019).
    """
    intersection = _elementwise_intersection(first, second)
    union = area(first) + area(second) - intersection
    low = tf.minimum(first[..., :2], second[..., :2])
    high = tf.maximum(first[..., 2:], second[..., 2:])
    enclosing = tf.reduce_prod(high - low, axis=-1)
    iou = tf.math.divide_no_nan(intersection, union)
    return iou - tf.math.divide_no_nan(enclosing - union, enclosing)


def clip_to_window(boxes: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
    """Clip boxes to a window; a box outside of it ends up without area on its border.

    Args:
        boxes: [..., 4].
        window: [4], or of a shape that broadcasts against [..., 4].
    """
    low, high = tf.split(window, 2, axis=-1)
    low, high = tf.concat([low, low], -1), tf.concat([high, high], -1)
    # In this order, as published: where a window is inverted, its lower end wins.
    return tf.maximum(tf.minimum(boxes, high), low)


def area_inside(boxes: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
    """Compute the areas [...] of the parts of boxes [..., 4] inside of a window, as clipped."""
    return area(clip_to_window(boxes, window))


def scale(boxes: tf.Tensor, y_scale: tf.Tensor, x_scale: tf.Tensor) -> tf.Tensor:
    """Multiply coordinates; scales are scalars or broadcast against [...]."""
    factors = tf.stack([y_scale, x_scale, y_scale, x_scale], axis=-1)
    return boxes * tf.cast(factors, boxes.dtype)


def change_frame(boxes: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
    """Convert boxes to coordinates of a window: its corners become (0, 0) and (1, 1).

    Args:
        boxes: [..., 4].
        window: [4], or of a shape that broadcasts against [..., 4].
    """
    low, high = tf.split(window, 2, axis=-1)
    size = high - low
    return (boxes - tf.concat([low, low], -1)) / tf.concat([size, size], -1)


def flip(boxes: tf.Tensor, axis: int) -> tf.Tensor:
    """Mirror normalized boxes with their image.

    Args:
        boxes: [..., 4].
        axis: 0: mirrored top to bottom; 1: left to right.
    """
    return _rearranged(boxes, *_FLIPS[axis])


def rotate90(boxes: tf.Tensor) -> tf.Tensor:
    """Rotate normalized boxes with their image by 90 degrees, counterclockwise: [..., 4]."""
    return _rearranged(boxes, *_QUARTER_TURN)


def transform(boxes: tf.Tensor, matrix: tf.Tensor, shift: tf.Tensor) -> tf.Tensor:
    """Compute the boxes [n, 4] that enclose the transformed corners of boxes.

    Args:
        boxes: float32 [n, 4].
        matrix: float32 [2, 2]; a point p, (y, x), moves to matrix p + shift.
        shift: float32 [2].
    """
    # Not in the order of an outline: only the least and the largest of each axis are used.
    corners = tf.reshape(tf.gather(boxes, [0, 1, 0, 3, 2, 1, 2, 3], axis=1), [-1, 4, 2])
    moved = tf.linalg.matvec(matrix, corners) + shift
    return tf.concat([tf.reduce_min(moved, 1), tf.reduce_max(moved, 1)], 1)


def _rearranged(
    boxes: tf.Tensor, indices: Sequence[int], signs: Sequence[float], offsets: Sequence[float]
) -> tf.Tensor:
    return tf.gather(boxes, indices, axis=-1) * signs + offsets


def _elementwise_intersection(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    low = tf.maximum(first[..., :2], second[..., :2])
    high = tf.minimum(first[..., 2:], second[..., 2:])
    return tf.reduce_prod(tf.maximum(0.0, high - low), axis=-1)
