"""Open Images detection metrics (storage.googleapis.com/openimages/web/evaluation.html).

The class hierarchy of the data set is not used. Records should contain the boxes of the parent
classes too, as the data set's own tools write them.
"""

from __future__ import annotations

from typing import Mapping

import numpy as np

from model_fns.detection.metrics import shapes
from model_fns.detection.metrics.average_precision import (
    AveragePrecisionEvaluator,
    MatchedDetections,
    first_of_each,
)
from model_fns.detection.metrics.evaluator import Detections, Groundtruth

V2_PREFIX = 'OpenImagesV2_'
CHALLENGE_PREFIX = 'OpenImagesDetectionChallenge_'
MASK_CHALLENGE_PREFIX = 'OpenImagesInstanceSegmentationChallenge_'


class OpenImagesEvaluator(AveragePrecisionEvaluator):
    """Evaluator by the rule of Pascal VOC, with boxes that are groups of objects.

    Detections without an object that lie in a group of their class by at least half of their area
    count together as one detection of that group.

    Where masks are compared, detections without a pixel are left out. Objects without a mask, or
    with an empty one, are optional: the best remaining detection whose box has one half of their
    box does not count, nor do those with half of their box in a group.

    Args:
        class_names: names by id.
        prefix: prefix of the metrics' names.
        group_weight: weight of a group relative to an object; 0: groups are optional.
        verified_only: True: only detections of verified classes count, those of
            `Groundtruth.image_classes` and of the image's boxes.
        empty_to_all: True: all classes of an image without `image_classes` are verified; False:
            only those of its boxes.
        shape: shape that is compared.
    """

    def __init__(
        self,
        class_names: Mapping[int, str],
        prefix: str = V2_PREFIX,
        group_weight: float = 0.0,
        verified_only: bool = False,
        empty_to_all: bool = True,
        shape: shapes.Shape = shapes.BOXES,
    ):
        super().__init__(class_names, prefix, shape=shape)
        self._group_weight = group_weight
        self._verified_only = verified_only
        self._empty_to_all = empty_to_all

    def match(self, groundtruth: Groundtruth, detections: Detections) -> MatchedDetections:
        """Match detections with single objects, then with groups."""
        if self._verified_only and (len(groundtruth.image_classes) or not self._empty_to_all):
            verified = np.concatenate([groundtruth.image_classes, groundtruth.classes])
            detections = detections.kept(np.isin(detections.classes, verified))
        detections = detections.kept(~self.shape.empty(detections))
        unknown = self._unknown(groundtruth)
        of_boxes, groundtruth = groundtruth.kept(unknown), groundtruth.kept(~unknown)
        is_group = np.asarray(groundtruth.group_of, bool)
        objects, enough = self.nearest(groundtruth.kept(~is_group), detections)
        true_positives = first_of_each(objects, enough)
        objects, enough = self.nearest(groundtruth.kept(is_group), detections, by_detection=True)
        in_group = np.logical_and(enough, ~true_positives)
        left_out = in_group | self._match_boxes(of_boxes, detections, ~true_positives & ~in_group)
        counted = detections.kept(~left_out)
        if not self._group_weight:
            return MatchedDetections(counted.classes, counted.scores, true_positives[~left_out])
        # The detection with the highest score represents all detections of a group.
        best = detections.kept(first_of_each(objects, in_group))
        weights = np.full(len(best.scores), self._group_weight)
        return MatchedDetections(
            np.concatenate([counted.classes, best.classes]),
            np.concatenate([counted.scores, best.scores]),
            np.concatenate([true_positives[~left_out], weights]),
        )

    def objects_to_find(self, groundtruth: Groundtruth) -> np.ndarray:
        """Return the weight of each object; groups have `group_weight`: float [m]."""
        weights = np.where(groundtruth.group_of, self._group_weight, 1.0)
        return np.where(self._unknown(groundtruth), 0.0, weights)

    def _unknown(self, groundtruth: Groundtruth) -> np.ndarray:
        """Find the objects whose masks are missing or empty: bool [m]."""
        return self.shape.unknown(groundtruth) | self.shape.empty(groundtruth)

    def _match_boxes(
        self, groundtruth: Groundtruth, detections: Detections, left: np.ndarray
    ) -> np.ndarray:
        """Find the detections of objects without a mask, by boxes: bool [n].

        Args:
            groundtruth: the objects without a mask.
            detections: the highest scores first.
            left: bool [n], detections that belong to no other object.
        """
        is_group = np.asarray(groundtruth.group_of, bool)
        objects, enough = self.nearest(groundtruth.kept(~is_group), detections, shape=shapes.BOXES)
        matched = first_of_each(objects, enough & left)
        _, in_group = self.nearest(
            groundtruth.kept(is_group), detections, by_detection=True, shape=shapes.BOXES
        )
        return matched | (in_group & left)
