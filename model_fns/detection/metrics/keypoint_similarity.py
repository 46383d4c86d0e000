"""Object keypoint similarity: how near the keypoints of a detection are to those of an object.

See cocodataset.org/#keypoints-eval: the mean over the labeled keypoints of exp(-d^2 / (2 a k^2)),
with d the distance in pixels, a the object's area, k twice the keypoint's sigma: what part of an
object's size annotators are off.
"""

from __future__ import annotations

from typing import Sequence, Union

import numpy as np

from model_fns.detection import fields
from model_fns.detection.boxes import overlaps
from model_fns.detection.metrics.evaluator import Detections, Groundtruth
from model_fns.detection.metrics.shapes import Shape

# Of a person's nose, eyes, ears, shoulders, elbows, wrists, hips, knees and ankles.
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
    """Some of the keypoints of objects; objects without a labeled one need not be found.

    Args:
        places: of the keypoints among all that examples have.
        sigmas: of each.
    """

    needs = frozenset([fields.KEYPOINTS])

    def __init__(self, places: Sequence[int], sigmas: Sequence[float]):
        self._places = list(places)
        self._variances = (2.0 * np.asarray(sigmas, np.float64)) ** 2

    def overlaps(
        self, detections: Detections, groundtruth: Groundtruth, of_detection: np.ndarray
    ) -> np.ndarray:
        """See `Shape`: the similarity, whatever is shared."""
        del of_detection
        points, objects = self._chosen(detections), self._chosen(groundtruth)
        labeled = ~np.isnan(objects).any(axis=-1)  # [m, k]
        apart = points[:, np.newaxis] - np.nan_to_num(objects)  # [n, m, k, 2]
        # Of an object without keypoints only how far they are from twice its box is known.
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
        # A keypoint that is not told is as far off as can be.
        near = np.exp(-np.where(np.isnan(error), np.inf, error))
        return np.where(counted, near, 0.0).sum(axis=-1) / counted.sum(axis=-1)

    def areas(self, detections: Detections) -> np.ndarray:
        """See `Shape`: of the box around the keypoints."""
        points = self._chosen(detections)
        if not len(points):
            return np.zeros([0])
        told = np.isfinite(points)
        low = np.where(told, points, np.inf).min(axis=1)
        high = np.where(told, points, -np.inf).max(axis=1)
        return np.prod(np.maximum(high - low, 0.0), axis=-1)

    def unknown(self, groundtruth: Groundtruth) -> np.ndarray:
        """See `Shape`."""
        return np.isnan(self._chosen(groundtruth)).any(axis=-1).all(axis=-1)

    def _chosen(self, rows: Union[Detections, Groundtruth]) -> np.ndarray:
        return np.asarray(rows.keypoints, np.float64)[:, self._places]


def _areas(groundtruth: Groundtruth) -> np.ndarray:
    """Of the objects; of their boxes where a record does not say."""
    areas = np.asarray(groundtruth.areas, np.float64)
    return np.where(areas > 0, areas, overlaps.areas(np.asarray(groundtruth.boxes, np.float64)))
