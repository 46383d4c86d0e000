"""What of a detection is held against an object: its box, or its mask."""

from __future__ import annotations

import abc
from typing import FrozenSet

import numpy as np

from model_fns.detection import fields
from model_fns.detection.boxes import overlaps
from model_fns.detection.metrics.evaluator import Detections, Groundtruth


class Shape(abc.ABC):
    """How alike detections are to objects; n detections, m objects of one image.

    Attributes:
        needs: the names of `fields` in labels beyond boxes that it looks at.
    """

    needs: FrozenSet[str] = frozenset()

    @abc.abstractmethod
    def overlaps(
        self, detections: Detections, groundtruth: Groundtruth, of_detection: np.ndarray
    ) -> np.ndarray:
        """How much each detection overlaps each object: float64 [n, m], from 0 to 1.

        Args:
            detections: boxes float64.
            groundtruth: boxes float64.
            of_detection: bool [m]: whether what they have in common is taken as a share of the
                detection; else as a share of what either has.
        """

    @abc.abstractmethod
    def areas(self, detections: Detections) -> np.ndarray:
        """Return pixels of each detection: float64 [n]."""

    def unknown(self, groundtruth: Groundtruth) -> np.ndarray:
        """Which objects nobody knows the shape of: bool [m]; they need not be found."""
        return np.zeros([len(groundtruth.boxes)], bool)


class _Boxes(Shape):
    """See `Shape`."""

    def overlaps(
        self, detections: Detections, groundtruth: Groundtruth, of_detection: np.ndarray
    ) -> np.ndarray:
        """See `Shape`."""
        boxes, objects = detections.boxes, groundtruth.boxes
        if not np.any(of_detection):
            return overlaps.iou(boxes, objects)
        return np.where(of_detection, overlaps.ioa(boxes, objects), overlaps.iou(boxes, objects))

    def areas(self, detections: Detections) -> np.ndarray:
        """See `Shape`."""
        return overlaps.areas(detections.boxes)


class _Masks(Shape):
    """See `Shape`. The box of an object without a mask stands for it, with a mask weight of 0."""

    needs = frozenset([fields.MASKS])

    def overlaps(
        self, detections: Detections, groundtruth: Groundtruth, of_detection: np.ndarray
    ) -> np.ndarray:
        """See `Shape`."""
        return detections.masks.overlaps(groundtruth.masks, of_detection)

    def areas(self, detections: Detections) -> np.ndarray:
        """See `Shape`."""
        return detections.masks.areas()

    def unknown(self, groundtruth: Groundtruth) -> np.ndarray:
        """See `Shape`."""
        if groundtruth.mask_weights is None:
            return super().unknown(groundtruth)
        return np.asarray(groundtruth.mask_weights) <= 0.0


BOXES: Shape = _Boxes()
MASKS: Shape = _Masks()
