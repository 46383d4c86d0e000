"""Object keypoint similarity of the keypoints of a detection and those of an object.

See cocodataset.org/#keypoints-eval: the mean over the labeled keypoints of exp(-d^2 / (2 a k^2)),
with d the distance in pixels, a the object's area, and k twice the keypoint's sigma. Sigma is the
standard deviation of annotations, relative to the size of the object.
"""

from __future__ import annotations

from typing import Sequence, Union

import numpy as np

from model_fns.detection import fields
from model_fns.detection.metrics.evaluator import Detections, Groundtruth
from model_fns.detection.metrics.shapes import Shape
from model_fns.structures import box_overlaps

# Sigmas of a person's nose, eyes, ears, shoulders, elbows, wrists, hips, knees and ankles.
COCO_SIGMAS = (
    (0.026,)
    + (0.025,) * 2
    + (0.035,) * 2
    + (0.079,) * 2
    + (0.072,) * 2
    + (0.062,) * 2
    + (0.107,) * 2
    + (0.087,) * 2
    + (0.089,) * 2
)


class Keypoints(Shape):
    """Shape of some of the keypoints of objects; objects without a labeled keypoint are optional.

    Args:
        indices: indices of the keypoints among those of examples.
        sigmas: sigma of each keypoint.
    """

    needs = frozenset([fields.KEYPOINTS])

    def __init__(self, indices: Sequence[int], sigmas: Sequence[float]):
        self._indices = list(indices)
        # `vars = (sigmas * 2)**2` in `computeOks` of pycocotools, whose `np.spacing(1)` is kept
        # below.
        self._variances = (2.0 * np.asarray(sigmas, np.float64)) ** 2

    def overlaps(
        self, detections: Detections, groundtruth: Groundtruth, by_detection: np.ndarray
    ) -> np.ndarray:
        """Compute the similarity of keypoints, whatever `by_detection` says: [n, m]."""
        del by_detection
        points, objects = self._chosen(detections), self._chosen(groundtruth)
        labeled = ~np.isnan(objects).any(axis=-1)  # [m, k]
        apart = points[:, np.newaxis] - np.nan_to_num(objects)  # [n, m, k, 2]
        # For an object without keypoints the distance to its box is used, after the box is enlarged
        # by its own size on each side.
        box = np.asarray(groundtruth.boxes, np.float64)
        low, high, side = box[:, np.newaxis, :2], box[:, np.newaxis, 2:], box[:, 2:] - box[:, :2]
        side = side[:, np.newaxis]
        outside = np.maximum(low - side - points[:, np.newaxis], 0.0)
        outside = outside + np.maximum(points[:, np.newaxis] - (high + side), 0.0)
        known = labeled.any(axis=1)
        apart = np.where(known[:, np.newaxis, np.newaxis], apart, outside)
        counted = np.where(known[:, np.newaxis], labeled, True)
        error = np.square(apart).sum(axis=-1) / self._variances
        error = error / (_areas(groundtruth)[:, np.newaxis] + np.spacing(1)) / 2.0
        # A missing keypoint has an infinite distance.
        near = np.exp(-np.where(np.isnan(error), np.inf, error))
        return np.where(counted, near, 0.0).sum(axis=-1) / counted.sum(axis=-1)

    def areas(self, regions: Union[Detections, Groundtruth]) -> np.ndarray:
        """Compute the area of the box around the keypoints: [n]."""
        points = self._chosen(regions)
        if not len(points):
            return np.zeros([0])
        known = np.isfinite(points)
        # `loadRes` of pycocotools gives results of keypoints this area, not that of their box.
        low = np.where(known, points, np.inf).min(axis=1)
        high = np.where(known, points, -np.inf).max(axis=1)
        return np.prod(np.maximum(high - low, 0.0), axis=-1)

    def unknown(self, groundtruth: Groundtruth) -> np.ndarray:
        """Find the objects without labeled keypoints: bool [m]."""
        return np.isnan(self._chosen(groundtruth)).any(axis=-1).all(axis=-1)

    def _chosen(self, rows: Union[Detections, Groundtruth]) -> np.ndarray:
        return np.asarray(rows.keypoints, np.float64)[:, self._indices]


def _areas(groundtruth: Groundtruth) -> np.ndarray:
    """Return the areas of objects, or of their boxes if a record does not have them."""
    areas = np.asarray(groundtruth.areas, np.float64)
    return np.where(areas > 0, areas, box_overlaps.areas(np.asarray(groundtruth.boxes, np.float64)))
