"""Normalized rotated boxes, a `family.BoxFamily`: tensors [..., 8] of the corners' y and x.

Augmentation and resizing transform the corners as they transform the image. Points may be scaled by
different factors along y and x, which sides and angle of a rotated rectangle cannot express. The
corners are those of `rotated_rectangles.corners`, or a mirror image of them. After a scaling by
different factors they are those of a parallelogram. A model converts them with `to_boxes` to boxes
in pixels of its input, and its own boxes back with `from_boxes`.
"""

from __future__ import annotations

import math
from typing import Sequence

import tensorflow as tf

from model_fns.detection.boxes import parallelograms, rotated

SIZE = 8  # numbers of a box
RECORD_KEYS = tuple(f'image/object/rbbox/{name}' for name in ('cy', 'cx', 'h', 'w', 'ang'))
IS_ROTATED = True

# No convention goes beyond a whole turn, and most angles in degrees do.
_MOST_ANGLE = 2.0 * math.pi


def from_record(numbers: tf.Tensor, height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """Convert the values of a record [n, 5] to boxes [n, 8].

    Args:
        numbers: cy, cx, h, w, angle; lengths as fractions of the image's height (cy, h) and width.
        height: of the image in pixels; any number type.
        width: of the image in pixels.
    """
    height, width = (tf.cast(side, numbers.dtype) for side in (height, width))
    ones = tf.ones_like(height)
    # Pixels first: fractions of height and width are different units, in which an angle has no
    # meaning. The published branch scales h and w by factors of y and x whatever the angle.
    return from_boxes(numbers * tf.stack([height, width, height, width, ones]), height, width)


def from_boxes(boxes: tf.Tensor, height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """Convert rotated boxes [..., 5] in pixels of an image to normalized corners [..., 8].

    Args:
        boxes: float32: center y and x, height, width in pixels, angle in radians; see `rotated`.
        height: of the image in pixels; a scalar, or of a shape that broadcasts against [...].
        width: likewise.
    """
    points = rotated.corners(boxes)
    shape = tf.concat([tf.shape(points)[:-2], [SIZE]], axis=0)
    flat = tf.ensure_shape(tf.reshape(points, shape), [*boxes.shape[:-1], SIZE])
    return scale(flat, 1.0 / height, 1.0 / width)


def to_boxes(boxes: tf.Tensor, height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """Compute the smallest rotated boxes [..., 5], in pixels, around boxes [..., 8].

    See `from_boxes` for the arguments.
    """
    return rotated.from_parallelograms(_parallelograms(scale(boxes, height, width)))


def to_record(boxes: tf.Tensor, height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """Convert boxes [..., 8] to the values of a record [..., 5], in the long edge form.

    See `from_boxes` for the arguments.
    """
    rectangles = to_boxes(boxes, height, width)
    height, width = (tf.cast(side, rectangles.dtype) for side in (height, width))
    ones = tf.ones_like(height)
    return rectangles / tf.stack([height, width, height, width, ones], axis=-1)


def is_sound(numbers: tf.Tensor, overhang: float) -> tf.Tensor:
    """Check which values of a record are plausible: bool [...].

    Args:
        numbers: [..., 5]; NaN passes, as it exceeds no bound.
        overhang: distance by which a center may be outside of the image.
    """
    beyond = tf.reduce_any(tf.abs(numbers[..., :2] - 0.5) > 0.5 + overhang, axis=-1)
    inverted = tf.reduce_any(numbers[..., 2:4] < 0.0, axis=-1)
    turned = tf.abs(numbers[..., 4]) > _MOST_ANGLE
    return tf.logical_not(tf.logical_or(tf.logical_or(beyond, inverted), turned))


def find_problem(box: Sequence[float], overhang: float) -> str:
    """Describe why the rotated box of a record is implausible; empty if it is plausible.

    Args:
        box: in the order of `RECORD_KEYS`; NaN is not reported.
        overhang: distance by which the center may be outside of the image.
    """
    cy, cx, height, width, angle = box
    if any(abs(side - 0.5) > 0.5 + overhang for side in (cy, cx)):
        return 'has its center out of the image; expected normalized coordinates, from 0 to 1'
    if height < 0 or width < 0:
        return 'has a negative side; expected h and w above 0'
    if abs(angle) > _MOST_ANGLE:
        return 'has an angle beyond 2 pi: degrees, it seems; expected radians'
    return ''


def clip_numbers(box: Sequence[float]) -> None:
    """Return None: the part of a rotated box inside of an image is no rotated box."""
    del box


def has_sides(box: Sequence[float]) -> bool:
    """Check whether the rotated box of a record has an area."""
    return box[2] > 0 and box[3] > 0


def area(boxes: tf.Tensor) -> tf.Tensor:
    """Compute areas [...] of boxes [..., 8]."""
    return parallelograms.area(_parallelograms(boxes))


def has_area(boxes: tf.Tensor) -> tf.Tensor:
    """Check which boxes have an area: bool [...], of boxes [..., 8]."""
    return area(boxes) > 0.0


def enclosing_boxes(boxes: tf.Tensor) -> tf.Tensor:
    """Compute the smallest enclosing axis-aligned boxes, [..., 4]: ymin, xmin, ymax, xmax."""
    points = _points(boxes)
    return tf.concat([tf.reduce_min(points, -2), tf.reduce_max(points, -2)], axis=-1)


def pairwise_iou(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Compute the IoU of [..., N, 8] and [..., P, 8]: [..., N, P]; no gradient."""
    common = parallelograms.pairwise_intersection(_parallelograms(first), _parallelograms(second))
    union = area(first)[..., :, tf.newaxis] + area(second)[..., tf.newaxis, :] - common
    return tf.math.divide_no_nan(common, union)


def pairwise_ioa(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Compute intersection over the area of the second box, [..., N, P]; no gradient."""
    common = parallelograms.pairwise_intersection(_parallelograms(first), _parallelograms(second))
    return tf.math.divide_no_nan(common, area(second)[..., tf.newaxis, :])


def self_iou(boxes: tf.Tensor) -> tf.Tensor:
    """Compute the IoU [N, N] of boxes [N, 8] with each other; the diagonal is 0."""
    common = parallelograms.self_intersection(_parallelograms(boxes))
    areas = area(boxes)
    return tf.math.divide_no_nan(common, areas[:, tf.newaxis] + areas - common)


def elementwise_iou(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Compute intersection over union of boxes at the same index, [...], of boxes [..., 8]."""
    common = parallelograms.elementwise_intersection(
        _parallelograms(first), _parallelograms(second)
    )
    return tf.math.divide_no_nan(common, area(first) + area(second) - common)


def area_inside(boxes: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
    """Compute the areas [n] of the parts of boxes [n, 8] inside of a window [4]."""
    low, high = tf.split(window, 2, axis=-1)
    half = 0.5 * (high - low)
    zero = tf.zeros_like(half[..., :1])
    shape = tf.concat([low + half, half[..., :1], zero, zero, half[..., 1:]], axis=-1)
    shapes = _parallelograms(boxes)
    window_shapes = tf.broadcast_to(shape, tf.shape(shapes))
    common = parallelograms.elementwise_intersection(shapes, window_shapes)
    # A box that is completely inside keeps its exact area, free of rounding.
    return tf.where(is_inside(boxes, window), area(boxes), common)


def clip_to_window(boxes: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
    """Return the boxes [..., 8] unchanged: a clipped rotated rectangle is seldom one."""
    del window
    return boxes


def is_inside(boxes: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
    """Check which boxes have no corner outside of a window [..., 4]: bool [...]."""
    low, high = tf.split(window, 2, axis=-1)
    bounds = enclosing_boxes(boxes)
    inside = tf.concat([bounds[..., :2] >= low, bounds[..., 2:] <= high], axis=-1)
    return tf.reduce_all(inside, axis=-1)


def change_frame(boxes: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
    """Convert boxes to coordinates of a window: its corners become (0, 0) and (1, 1).

    Args:
        boxes: [..., 8].
        window: [4], or of a shape that broadcasts against [..., 4].
    """
    low, high = tf.split(window, 2, axis=-1)
    size = high - low
    return (boxes - tf.concat([low] * 4, axis=-1)) / tf.concat([size] * 4, axis=-1)


def scale(boxes: tf.Tensor, y_scale: tf.Tensor, x_scale: tf.Tensor) -> tf.Tensor:
    """Multiply coordinates; scales are scalars or broadcast against [...]."""
    factors = tf.stack([y_scale, x_scale] * 4, axis=-1)
    return boxes * tf.cast(factors, boxes.dtype)


def flip(boxes: tf.Tensor, axis: int) -> tf.Tensor:
    """Mirror normalized boxes with their image.

    Args:
        boxes: [..., 8].
        axis: 0: mirrored top to bottom; 1: left to right.
    """
    signs, offsets = [1.0, 1.0] * 4, [0.0, 0.0] * 4
    signs[axis::2], offsets[axis::2] = [-1.0] * 4, [1.0] * 4
    return boxes * signs + offsets


def rotate90(boxes: tf.Tensor) -> tf.Tensor:
    """Rotate normalized boxes with their image by 90 degrees, counterclockwise: [..., 8]."""
    exchanged = tf.gather(boxes, [1, 0, 3, 2, 5, 4, 7, 6], axis=-1)
    return exchanged * ([-1.0, 1.0] * 4) + [1.0, 0.0] * 4


def transform(boxes: tf.Tensor, matrix: tf.Tensor, shift: tf.Tensor) -> tf.Tensor:
    """Transform the corners of boxes: [n, 8].

    Args:
        boxes: float32 [n, 8].
        matrix: float32 [2, 2]; a point p, (y, x), moves to matrix p + shift.
        shift: float32 [2].
    """
    moved = tf.linalg.matvec(matrix, _points(boxes)) + shift
    return tf.reshape(moved, [-1, SIZE])


def _points(boxes: tf.Tensor) -> tf.Tensor:
    """Reshape boxes to corners [..., 4, 2]."""
    return tf.stack([boxes[..., place : place + 2] for place in range(0, SIZE, 2)], axis=-2)


def _parallelograms(boxes: tf.Tensor) -> tf.Tensor:
    """Compute parallelograms [..., 6]: center, half the edge downwards, half that to the right."""
    corners = [boxes[..., place : place + 2] for place in range(0, SIZE, 2)]
    # Means of opposite edges: after rounding, corners are those of a parallelogram only nearly.
    center = 0.25 * tf.add_n(corners)
    down = 0.25 * (corners[3] - corners[0] + corners[2] - corners[1])
    along = 0.25 * (corners[1] - corners[0] + corners[2] - corners[3])
    return tf.concat([center, down, along], axis=-1)
