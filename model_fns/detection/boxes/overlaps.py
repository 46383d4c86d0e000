"""How much boxes overlap: NumPy, float64 [..., 4] of ymin, xmin, ymax, xmax."""

from __future__ import annotations

import numpy as np

from model_fns.structures import rotated_overlaps


def areas(boxes: np.ndarray) -> np.ndarray:
    """Return areas [n] of boxes [n, 4]."""
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def has_area(boxes: np.ndarray) -> np.ndarray:
    """Bool [n]: whether both sides of boxes [n, 4], or the areas of outlines, are above 0."""
    if boxes.ndim == 3:
        return rotated_overlaps.areas(boxes) > 0
    return np.all(boxes[:, 2:] > boxes[:, :2], axis=1)


def in_pixels(boxes: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Normalized boxes [n, 4] in pixels of an image of a size (height, width), float32."""
    return boxes * np.tile(size, 2).astype(np.float32)


def intersections(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return areas [n, m] of what boxes [n, 4] and boxes [m, 4] have in common."""
    low = np.maximum(first[:, np.newaxis, :2], second[np.newaxis, :, :2])
    high = np.minimum(first[:, np.newaxis, 2:], second[np.newaxis, :, 2:])
    return np.prod(np.maximum(high - low, 0.0), axis=-1)


def iou(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return intersection over union [n, m]; 0 where there is no intersection.

    Of upright boxes [n, 4] and [m, 4], or of the outlines [n, 4, 2] and [m, 4, 2] of rotated ones.
    """
    if first.ndim == 3:
        return rotated_overlaps.iou(first, second)
    common = intersections(first, second)
    return _over(common, areas(first)[:, np.newaxis] + areas(second) - common)


def ioa(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return intersection over the area of the first box [n, m]; 0 where there is no intersection.

    Of axis-aligned boxes or of outlines, see `iou`.
    """
    if first.ndim == 3:
        common, own = rotated_overlaps.intersections(first, second), rotated_overlaps.areas(first)
    else:
        common, own = intersections(first, second), areas(first)
    return _over(common, np.broadcast_to(own[:, np.newaxis], common.shape))


def _over(common: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(common, whole, out=np.zeros_like(common), where=common > 0)
