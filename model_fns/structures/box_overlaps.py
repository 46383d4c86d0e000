"""Overlaps of axis-aligned boxes in NumPy: float64 [..., 4] of ymin, xmin, ymax, xmax."""

from __future__ import annotations

import numpy as np

from model_fns.structures import rotated_overlaps


def areas(boxes: np.ndarray) -> np.ndarray:
    """Compute areas [n] of boxes [n, 4] or outlines [n, 4, 2]."""
    if boxes.ndim == 3:
        return rotated_overlaps.areas(boxes)
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def has_area(boxes: np.ndarray) -> np.ndarray:
    """Check which boxes [n, 4] have sides above 0, or which outlines have areas: bool [n]."""
    if boxes.ndim == 3:
        return rotated_overlaps.areas(boxes) > 0
    return np.all(boxes[:, 2:] > boxes[:, :2], axis=1)


def scale_to_pixels(boxes: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Scale normalized boxes [n, 4] to pixels of an image of a size (height, width), float32."""
    return boxes * np.tile(size, 2).astype(np.float32)


def intersections(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Compute the areas [n, m] of the intersections of boxes [n, 4] and boxes [m, 4]."""
    low = np.maximum(first[:, np.newaxis, :2], second[np.newaxis, :, :2])
    high = np.minimum(first[:, np.newaxis, 2:], second[np.newaxis, :, 2:])
    return np.prod(np.maximum(high - low, 0.0), axis=-1)


def iou(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Compute intersection over union [n, m]; 0 for boxes without an intersection.

    Boxes are axis-aligned, [n, 4] and [m, 4], or the outlines [n, 4, 2] and [m, 4, 2] of rotated
    boxes.
    """
    if first.ndim == 3:
        return rotated_overlaps.iou(first, second)
    common = intersections(first, second)
    return _divide(common, areas(first)[:, np.newaxis] + areas(second) - common)


def ioa(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Compute intersection over the area of the first box [n, m]; 0 without an intersection.

    Boxes are axis-aligned or outlines, see `iou`.
    """
    if first.ndim == 3:
        common, own = rotated_overlaps.intersections(first, second), rotated_overlaps.areas(first)
    else:
        common, own = intersections(first, second), areas(first)
    return _divide(common, np.broadcast_to(own[:, np.newaxis], common.shape))


def _divide(common: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(common, whole, out=np.zeros_like(common), where=common > 0)
