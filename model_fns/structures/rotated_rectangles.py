"""Rotated rectangles in NumPy, the one convention for them here, and those of others.

A rotated box is [cy, cx, h, w, angle]. Rows grow downwards. With an angle of 0 the width lies along
x and the height along y; a positive angle turns the box clockwise as it is seen, in radians: the
width then lies along (x, y) = (cos angle, sin angle), the height along (-sin angle, cos angle). Its
corners are those of the unturned box: top left, top right, bottom right, bottom left, in order.

Three things are the same rectangle: (h, w, angle), (h, w, angle + pi) and (w, h, angle + pi / 2).
Where one is to be chosen it is the long edge form, `le90`: w >= h, and an angle in [-pi/2, pi/2).
Lengths are pixels, or any unit that is the same along y and x: the numbers of a record, which are
fractions of the height (cy, h) and of the width (cx, w), are a form of storage, see `from_record`.

What others write, converted below:

| who | numbers | angle |
| --- | --- | --- |
| OpenCV from 4.5.1 | cx, cy, w, h | degrees, clockwise, in (0, 90], sides in any order |
| Detectron2 | cx, cy, w, h | degrees, counterclockwise |
| DOTA | x1, y1, ... x4, y4 | none: a quadrilateral, that is seldom an exact rectangle |
| MMRotate, HRSC2016 | cx, cy, w, h | radians, clockwise |
"""

from __future__ import annotations

import math

import numpy as np

SIZE = 5  # numbers of a box
# Signs of half the height and half the width at each corner.
CORNER_SIGNS = ((-1, -1), (-1, 1), (1, 1), (1, -1))


def corners(boxes: np.ndarray) -> np.ndarray:
    """Return the corners [..., 4, 2], y and x, of boxes [..., 5]."""
    boxes = np.asarray(boxes)
    cosine, sine = np.cos(boxes[..., 4]), np.sin(boxes[..., 4])
    down = np.stack([cosine, -sine], axis=-1) * (boxes[..., 2] / 2)[..., np.newaxis]
    along = np.stack([sine, cosine], axis=-1) * (boxes[..., 3] / 2)[..., np.newaxis]
    signs = np.array(CORNER_SIGNS, boxes.dtype if boxes.dtype.kind == 'f' else np.float64)
    return (
        boxes[..., np.newaxis, :2]
        + signs[:, :1] * down[..., np.newaxis, :]
        + signs[:, 1:] * along[..., np.newaxis, :]
    )


def le90(boxes: np.ndarray) -> np.ndarray:
    """Return the boxes [..., 5] with w >= h and an angle in [-pi/2, pi/2)."""
    return _long_edge_form(boxes, -math.pi / 2)


def le135(boxes: np.ndarray) -> np.ndarray:
    """Return the boxes [..., 5] with w >= h and an angle in [-pi/4, 3 pi/4)."""
    return _long_edge_form(boxes, -math.pi / 4)


def quarter_turn_form(boxes: np.ndarray) -> np.ndarray:
    """The boxes [..., 5] with an angle in (0, pi/2], as OpenCV has them; sides in any order."""
    boxes = np.array(boxes, np.float64)
    quarters = np.ceil(boxes[..., 4] / (math.pi / 2)) - 1
    boxes[..., 4] -= quarters * (math.pi / 2)
    return _exchanged(boxes, quarters % 2 == 1)


def to_opencv(boxes: np.ndarray) -> np.ndarray:
    """[..., 5]: cx, cy, w, h and degrees in (0, 90] of boxes [..., 5]."""
    boxes = quarter_turn_form(boxes)
    return np.concatenate([_reversed_pairs(boxes), np.degrees(boxes[..., 4:])], axis=-1)


def from_opencv(rectangles: np.ndarray) -> np.ndarray:
    """Return boxes [..., 5] of cx, cy, w, h and clockwise degrees of any range."""
    rectangles = np.asarray(rectangles, np.float64)
    angles = np.radians(rectangles[..., 4:])
    return le90(np.concatenate([_reversed_pairs(rectangles), angles], axis=-1))


def to_detectron2(boxes: np.ndarray) -> np.ndarray:
    """[..., 5]: cx, cy, w, h and counterclockwise degrees of boxes [..., 5]."""
    boxes = np.asarray(boxes, np.float64)
    return np.concatenate([_reversed_pairs(boxes), -np.degrees(boxes[..., 4:])], axis=-1)


def from_detectron2(rectangles: np.ndarray) -> np.ndarray:
    """Return boxes [..., 5] of cx, cy, w, h and counterclockwise degrees."""
    rectangles = np.asarray(rectangles, np.float64)
    angles = -np.radians(rectangles[..., 4:])
    return le90(np.concatenate([_reversed_pairs(rectangles), angles], axis=-1))


def to_quadrilaterals(boxes: np.ndarray) -> np.ndarray:
    """[..., 8]: x and y of the four corners of boxes [..., 5], as DOTA writes them."""
    points = corners(boxes)[..., ::-1]
    return points.reshape([*points.shape[:-2], 8])


def from_quadrilaterals(quadrilaterals: np.ndarray) -> np.ndarray:
    """Return the smallest boxes [n, 5] around quadrilaterals [n, 8] of x1, y1, ... x4, y4."""
    points = np.asarray(quadrilaterals, np.float64).reshape([-1, 4, 2])[..., ::-1]
    return np.array([smallest_around(one) for one in points]).reshape([-1, SIZE])


def smallest_around(points: np.ndarray) -> np.ndarray:
    """Return the rectangle of the least area around points.

    It has a side along an edge of their convex hull (Freeman and Shapira 1975).

    Args:
        points: [n, 2], y and x; at least one.

    Returns:
        The box [5], in its long edge form. Points on a line give a box without height.
    """
    hull = convex_hull(points)
    edges = np.roll(hull, -1, axis=0) - hull
    lengths = np.hypot(edges[:, 0], edges[:, 1])
    angles = np.arctan2(edges[:, 0], edges[:, 1]) if lengths.max() > 0 else np.zeros([1])
    cosine, sine = np.cos(angles), np.sin(angles)
    # The axes of each candidate: along its width and along its height.
    axes = np.stack([np.stack([sine, cosine], -1), np.stack([cosine, -sine], -1)])
    places = axes @ hull.T  # [2, candidates, points]
    low, high = places.min(axis=-1), places.max(axis=-1)
    best = int(np.argmin(np.prod(high - low, axis=0)))
    middle = (low[:, best] + high[:, best]) / 2
    center = middle[0] * axes[0, best] + middle[1] * axes[1, best]
    width, height = (high - low)[:, best]
    return le90(np.array([*center, height, width, angles[best]]))


def convex_hull(points: np.ndarray) -> np.ndarray:
    """Return the corners of the convex hull [m, 2] of points [n, 2], in order (Andrew 1979)."""
    points = np.unique(np.asarray(points, np.float64), axis=0)
    if len(points) < 3:
        return points

    def chain(ordered: np.ndarray) -> list:
        kept: list = []
        for point in ordered:
            while len(kept) > 1 and _cross(kept[-1] - kept[-2], point - kept[-2]) <= 0:
                kept.pop()
            kept.append(point)
        return kept[:-1]

    return np.array(chain(points) + chain(points[::-1]))


def crosses_itself(points: np.ndarray) -> bool:
    """Return whether two opposite edges of a quadrilateral [4, 2] cross, as in a bow tie."""

    def parts(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> bool:
        """Return whether c and d are strictly on different sides of the line through a and b."""
        return _cross(b - a, c - a) * _cross(b - a, d - a) < 0

    a, b, c, d = np.asarray(points, np.float64)
    first = parts(a, b, c, d) and parts(c, d, a, b)
    return bool(first or (parts(b, c, d, a) and parts(d, a, b, c)))


def to_record(boxes: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return the numbers of a record [..., 5] of boxes in pixels of an image."""
    return np.asarray(boxes, np.float64) / [height, width, height, width, 1]


def from_record(numbers: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return boxes in pixels of an image [..., 5] of the numbers of a record."""
    return np.asarray(numbers, np.float64) * [height, width, height, width, 1]


def _long_edge_form(boxes: np.ndarray, least: float) -> np.ndarray:
    boxes = np.array(boxes, np.float64)
    swap = boxes[..., 3] < boxes[..., 2]
    boxes = _exchanged(boxes, swap)
    angles = boxes[..., 4] + np.where(swap, math.pi / 2, 0.0)
    turned = np.mod(angles - least, math.pi)
    # Rounding may give the period itself.
    boxes[..., 4] = least + np.where(turned >= math.pi, 0.0, turned)
    return boxes


def _exchanged(boxes: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Return boxes whose sides are exchanged where `which` is true."""
    sides = np.where(which[..., np.newaxis], boxes[..., 3:1:-1], boxes[..., 2:4])
    return np.concatenate([boxes[..., :2], sides, boxes[..., 4:]], axis=-1)


def _reversed_pairs(boxes: np.ndarray) -> np.ndarray:
    """Return center and size [..., 4], each with its two numbers exchanged."""
    return boxes[..., [1, 0, 3, 2]]


def _cross(first: np.ndarray, second: np.ndarray) -> float:
    return float(first[1] * second[0] - first[0] * second[1])
