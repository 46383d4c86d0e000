"""Overlaps of rotated boxes, for metrics: NumPy, float64, outlines [n, 4, 2] of y and x.

One outline is clipped at the four edges of the other, one after the other (Sutherland and Hodgman
1974). No comparison has a tolerance: a point that rounding puts on the wrong side of an edge
changes an area by as little as its distance to the edge. Graphs compute overlaps in another way
(`boxes.parallelograms`), and the benchmark `rotated` compares both.
"""

from __future__ import annotations

from typing import Tuple

import numpy as np

from model_fns.structures import rotated_rectangles

# Pairs that are computed at once, which bounds the memory.
_BLOCK = 1 << 15


def outlines(boxes: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return the corners [n, 4, 2] of boxes in pixels of an image of a size (height, width).

    Args:
        boxes: [n, 4] axis-aligned, [n, 5] rotated or [n, 8] the corners themselves; normalized.
        size: of the image.
    """
    boxes = np.asarray(boxes, np.float64)
    if boxes.shape[1] == rotated_rectangles.SIZE:
        return rotated_rectangles.corners(rotated_rectangles.from_record(boxes, *size))
    if boxes.shape[1] == 4:
        boxes = boxes[:, [0, 1, 0, 3, 2, 3, 2, 1]]
    return boxes.reshape([-1, 4, 2]) * np.asarray(size, np.float64)


def corners(boxes: np.ndarray) -> np.ndarray:
    """Return outlines [n, 4, 2] of boxes in pixels: as they are, or of axis-aligned ones [n, 4]."""
    return boxes if boxes.ndim == 3 else outlines(boxes, (1, 1))


def areas(polygons: np.ndarray) -> np.ndarray:
    """Return areas [n] of convex polygons [n, k, 2], by the shoelace formula."""
    # The products of large coordinates would lose digits when they are subtracted.
    relative = polygons - polygons[:, :1]
    following = np.roll(relative, -1, axis=1)
    return np.abs(np.sum(rotated_rectangles.cross(relative, following), axis=1)) / 2


def intersections(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the areas [n, m] of the intersections of convex outlines [n, 4, 2] and [m, 4, 2]."""
    # Clipping is the costly part, and in most images few pairs have bounds that touch.
    low = np.maximum(first.min(1)[:, np.newaxis], second.min(1))
    high = np.minimum(first.max(1)[:, np.newaxis], second.max(1))
    rows, columns = np.nonzero(np.all(low <= high, axis=-1))
    common = np.zeros([len(first), len(second)])
    for start in range(0, len(rows), _BLOCK):
        some = slice(start, start + _BLOCK)
        pairs = rows[some], columns[some]
        common[pairs] = clipped_areas(first[pairs[0]], second[pairs[1]])
    return common


def iou(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return intersection over union [n, m]; 0 where there is no intersection."""
    common = intersections(first, second)
    union = areas(first)[:, np.newaxis] + areas(second) - common
    return np.divide(common, union, out=np.zeros_like(common), where=common > 0)


def clipped_areas(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the areas [n] of the intersections of convex outlines [n, 4, 2], row by row."""
    if not len(first):
        return np.zeros(0)
    # So that rounding does not depend on where in the image a pair is.
    middle = (first.mean(1) + second.mean(1))[:, np.newaxis] / 2
    first, second = first - middle, second - middle
    limits = np.minimum(areas(first), areas(second))
    polygons, counts = _intersected(first, second)
    common = np.where(counts > 2, areas(polygons), 0.0)
    # Edges without length clip nothing: the limit is 0 where an outline has no area.
    return np.minimum(common, limits)


def intersection(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the corners [k, 2] of the intersection of two convex outlines [4, 2]."""
    polygons, counts = _intersected(first[np.newaxis], second[np.newaxis])
    return polygons[0, : counts[0]]


def _intersected(first: np.ndarray, second: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Return intersections [n, k, 2] of convex outlines [n, 4, 2], and their numbers of corners."""
    second = _clockwise(second)
    polygons, counts = first, np.full(len(first), 4)
    for edge in range(4):
        start, end = second[:, edge], second[:, (edge + 1) % 4]
        polygons, counts = _clipped(polygons, counts, start, end - start)
    return polygons, counts


def _clipped(
    polygons: np.ndarray, counts: np.ndarray, start: np.ndarray, edge: np.ndarray
) -> tuple:
    """Clip polygons [n, k, 2] of `counts` corners at one edge each: the left side is cut off."""
    size = polygons.shape[1]
    valid = np.arange(size) < counts[:, np.newaxis]
    following = (np.arange(size) + 1) % np.maximum(counts, 1)[:, np.newaxis]
    ends = np.take_along_axis(polygons, following[..., np.newaxis], axis=1)
    side = rotated_rectangles.cross(edge[:, np.newaxis], polygons - start[:, np.newaxis])
    end_side = np.take_along_axis(side, following, axis=1)
    inside, end_inside = side >= 0, end_side >= 0
    change = side - end_side
    along = np.divide(side, change, out=np.zeros_like(side), where=inside != end_inside)
    crossings = polygons + along[..., np.newaxis] * (ends - polygons)
    # Each corner inside is followed by the crossing of the edge after it, where there is one.
    points = np.stack([polygons, crossings], axis=2).reshape([len(polygons), 2 * size, 2])
    kept = np.stack([valid & inside, valid & (inside != end_inside)], axis=2)
    kept = kept.reshape([len(polygons), 2 * size])
    # A clipped quadrilateral has at most 8 corners. It has more where rounding puts points along
    # the edge on alternating sides of it.
    counts = kept.sum(axis=1)
    order = np.argsort(~kept, axis=1, kind='stable')[:, : max(counts.max(), 1)]
    points = np.take_along_axis(points, order[..., np.newaxis], axis=1)
    behind = np.arange(points.shape[1]) >= counts[:, np.newaxis]
    # Corners behind the last are the first again: they have no area.
    return np.where(behind[..., np.newaxis], points[:, :1], points), counts


def _clockwise(polygons: np.ndarray) -> np.ndarray:
    """Return polygons [n, k, 2] with their corners in clockwise order."""
    following = np.roll(polygons, -1, axis=1)
    turns = np.sum(rotated_rectangles.cross(polygons, following), axis=1) < 0
    return np.where(turns[:, np.newaxis, np.newaxis], polygons[:, ::-1], polygons)
