"""Outlines of masks: polygons that give the mask back exactly."""

from __future__ import annotations

from typing import Dict, List, Tuple

import numpy as np

_Point = Tuple[int, int]  # y and x of a corner of pixels

# For each side of a pixel: the slices of the neighbor beyond it in an image with a border of one
# pixel, and the ends of the side in clockwise order, from the pixel's upper left corner.
_SIDES = (
    (slice(None, -2), slice(1, -1), (0, 0), (0, 1)),
    (slice(1, -1), slice(2, None), (0, 1), (1, 1)),
    (slice(2, None), slice(1, -1), (1, 1), (1, 0)),
    (slice(1, -1), slice(None, -2), (1, 0), (0, 0)),
)


def polygon(mask: np.ndarray) -> np.ndarray:
    """Return one polygon around the pixels of a mask.

    It follows the sides of pixels. Holes and separate parts are joined by cuts: a line there and
    the same line back. So the points that it encloses by the even-odd rule are those of the mask.

    Args:
        mask: bool [height, width].

    Returns:
        int64 [n, 2], y and x of each point; pixel (0, 0) is between the points (0, 0) and (1, 1).
        Empty for an empty mask.

    Example:
        The mask [[0, 1, 1]] becomes [[0, 1], [0, 3], [1, 3], [1, 1]].
    """
    first, *others = _rings(np.asarray(mask, bool)) or [[]]
    points = list(first)
    for ring in others:
        # From the first point to the ring, around it, and back.
        points += [first[0], *ring, ring[0]]
    if others:
        points.append(first[0])
    return np.array(points, np.int64).reshape(-1, 2)


def _rings(mask: np.ndarray) -> List[List[_Point]]:
    """Return the corners of each closed line between pixels of the mask and others."""
    sides = _sides(mask)
    rings = []
    while sides:
        ring = np.array(_walk(sides))
        steps = np.roll(ring, -1, axis=0) - ring
        is_corner = (steps != np.roll(steps, 1, axis=0)).any(axis=1)
        rings.append([(int(y), int(x)) for y, x in ring[is_corner]])
    return rings


def _sides(mask: np.ndarray) -> Dict[_Point, List[_Point]]:
    """Return the ends of the sides at the border of the mask, by their starts."""
    padded = np.pad(mask, 1)
    sides: Dict[_Point, List[_Point]] = {}
    for rows, columns, start, end in _SIDES:
        for y, x in np.argwhere(mask & ~padded[rows, columns]).tolist():
            sides.setdefault((y + start[0], x + start[1]), []).append((y + end[0], x + end[1]))
    return sides


def _walk(sides: Dict[_Point, List[_Point]]) -> List[_Point]:
    """Follow sides from one point until it comes again; remove them from `sides`.

    Where two pixels touch at a corner, the walk stays at the same pixel.
    """
    start = point = next(iter(sides))
    step = (0, 1)
    points: List[_Point] = []
    while not points or point != start:
        ends = sides[point]
        # Sides run clockwise, so the turn to the right is the side of the same pixel.
        to_the_right = (point[0] + step[1], point[1] - step[0])
        following = to_the_right if to_the_right in ends else ends[0]
        ends.remove(following)
        if not ends:
            del sides[point]
        points.append(point)
        step = (following[0] - point[0], following[1] - point[1])
        point = following
    return points
