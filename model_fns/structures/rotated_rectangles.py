"""Rotated rectangles in NumPy, and the convention for them in this project.

A rotated box is [cy, cx, h, w, angle]. Rows grow downwards. With an angle of 0 the width lies along
x and the height along y. A positive angle, in radians, rotates the box clockwise as it is seen: the
width then lies along (x, y) = (cos angle, sin angle), the height along (-sin angle, cos angle). The
order of the corners is that of the box before its rotation: top left, top right, bottom right,
bottom left.

(h, w, angle), (h, w, angle + pi) and (w, h, angle + pi / 2) are the same rectangle. The canonical
one is the long edge form, `le90`: w >= h, and an angle in [-pi/2, pi/2). Lengths are pixels, or any
unit that is the same along y and x. Records store fractions of the height (cy, h) and of the width
(cx, w), see `from_record`.

Conventions of other systems:

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
    boxes = np.array(boxes, np.float64)
    is_high = boxes[..., 3] < boxes[..., 2]
    sides = np.where(is_high[..., np.newaxis], boxes[..., 3:1:-1], boxes[..., 2:4])
    angles = boxes[..., 4] + np.where(is_high, math.pi / 2, 0.0)
    turns = np.mod(angles + math.pi / 2, math.pi)
    # Rounding may give the period itself.
    angles = np.where(turns >= math.pi, 0.0, turns) - math.pi / 2
    return np.concatenate([boxes[..., :2], sides, angles[..., np.newaxis]], axis=-1)


def smallest_around(points: np.ndarray) -> np.ndarray:
    """Return the rectangle of the least area around points.

    It has a side along an edge of their convex hull (Freeman and Shapira 1975).

    Args:
        points: [n, 2], y and x; at least one.

    Returns:
        The box [5], in its long edge form. Points on a line give a box without height.
    """
    # As `cv2.minAreaRect` computes; OpenCV is only needed for videos.
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
    """Return the least convex polygon [m, 2] around points [n, 2], in order (Andrew 1979)."""
    points = np.unique(np.asarray(points, np.float64), axis=0)
    if len(points) < 3:
        return points

    def chain(ordered: np.ndarray) -> list:
        kept: list = []
        for point in ordered:
            # With equality: a point on an edge is no corner, and its edge would be searched twice.
            while len(kept) > 1 and cross(kept[-1] - kept[-2], point - kept[-2]) <= 0:
                kept.pop()
            kept.append(point)
        return kept[:-1]

    return np.array(chain(points) + chain(points[::-1]))


def crosses_itself(points: np.ndarray) -> bool:
    """Return whether two opposite edges of a quadrilateral [4, 2] cross, as in a bow tie."""

    def parts(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> bool:
        """Return whether c and d are strictly on different sides of the line through a and b."""
        return cross(b - a, c - a) * cross(b - a, d - a) < 0

    a, b, c, d = np.asarray(points, np.float64)
    first = parts(a, b, c, d) and parts(c, d, a, b)
    return bool(first or (parts(b, c, d, a) and parts(d, a, b, c)))


def cross(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return cross products [...] of vectors [..., 2]: positive where the second is right."""
    return first[..., 1] * second[..., 0] - first[..., 0] * second[..., 1]


def to_record(boxes: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return the numbers of a record [..., 5] of boxes in pixels of an image."""
    return np.asarray(boxes, np.float64) / [height, width, height, width, 1]


def from_record(numbers: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return boxes in pixels of an image [..., 5] of the numbers of a record."""
    return np.asarray(numbers, np.float64) * [height, width, height, width, 1]
