"""Shapes that are compared with objects: boxes or masks."""

from __future__ import annotations

import abc
from typing import FrozenSet, Union

import numpy as np

from model_fns.detection import fields
from model_fns.detection.metrics.evaluator import Detections, Groundtruth
from model_fns.structures import box_overlaps


class Shape(abc.ABC):
    """Comparison of the shapes of n detections and m objects of one image.

    Attributes:
        needs: names of `fields` of the labels that it uses besides boxes.
    """

    needs: FrozenSet[str] = frozenset()

    @abc.abstractmethod
    def overlaps(
        self, detections: Detections, groundtruth: Groundtruth, by_detection: np.ndarray
    ) -> np.ndarray:
        """Compute the overlap of each detection with each object: float64 [n, m], from 0 to 1.

        Args:
            detections: boxes float64.
            groundtruth: boxes float64.
            by_detection: bool [m]: True: the intersection is divided by the area of the detection;
                False: by that of the union.
        """

    @abc.abstractmethod
    def areas(self, regions: Union[Detections, Groundtruth]) -> np.ndarray:
        """Compute the pixels of each detection or object: float64 [n]."""

    def empty(self, regions: Union[Detections, Groundtruth]) -> np.ndarray:
        """Find the detections or objects without a pixel: bool [n]; boxes never are."""
        return np.zeros([len(regions.boxes)], bool)

    def unknown(self, groundtruth: Groundtruth) -> np.ndarray:
        """Find the objects with an unknown shape, which are optional: bool [m]."""
        return np.zeros([len(groundtruth.boxes)], bool)


class _Boxes(Shape):
    """Comparison of boxes."""

    def overlaps(
        self, detections: Detections, groundtruth: Groundtruth, by_detection: np.ndarray
    ) -> np.ndarray:
        """Compute the overlaps of boxes: [n, m]."""
        boxes, objects = detections.boxes, groundtruth.boxes
        if not np.any(by_detection):
            return box_overlaps.iou(boxes, objects)
        return np.where(
            by_detection, box_overlaps.ioa(boxes, objects), box_overlaps.iou(boxes, objects)
        )

    def areas(self, regions: Union[Detections, Groundtruth]) -> np.ndarray:
        """Compute the areas of boxes: [n]."""
        return box_overlaps.areas(regions.boxes)


class _Masks(Shape):
    """Comparison of masks; an object without a mask has its box, and a mask weight of 0."""

    needs = frozenset([fields.MASKS])

    def overlaps(
        self, detections: Detections, groundtruth: Groundtruth, by_detection: np.ndarray
    ) -> np.ndarray:
        """Compute the overlaps of masks: [n, m]."""
        return detections.masks.overlaps(groundtruth.masks, by_detection)

    def areas(self, regions: Union[Detections, Groundtruth]) -> np.ndarray:
        """Compute the pixels of masks: [n]."""
        return regions.masks.areas()

    def empty(self, regions: Union[Detections, Groundtruth]) -> np.ndarray:
        """Find the masks without a pixel: bool [n]."""
        return self.areas(regions) == 0

    def unknown(self, groundtruth: Groundtruth) -> np.ndarray:
        """Find the objects without a mask: bool [m]."""
        if groundtruth.mask_weights is None:
            return super().unknown(groundtruth)
        return np.asarray(groundtruth.mask_weights) <= 0.0


BOXES: Shape = _Boxes()
MASKS: Shape = _Masks()
