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

    Args:
        class_names: names by id.
        prefix: prefix of the metrics' names.
        group_weight: weight of a group relative to an object; 0: groups are optional.
        verified_only: True: only detections of verified classes count, those of
            `Groundtruth.image_classes` and of the image's boxes.
        empty_to_all: True: all classes of an image without `image_classes` are verified; False:
            only those of its boxes.
        shape: shape that is compared; objects with an unknown shape are ignored.
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
        groundtruth = groundtruth.kept(~self.shape.unknown(groundtruth))
        is_group = np.asarray(groundtruth.group_of, bool)
        objects, enough = self.nearest(groundtruth.kept(~is_group), detections)
        true_positives = first_of_each(objects, enough)
        objects, enough = self.nearest(groundtruth.kept(is_group), detections, by_detection=True)
        in_group = np.logical_and(enough, ~true_positives)
        counted = detections.kept(~in_group)
        if not self._group_weight:
            return MatchedDetections(counted.classes, counted.scores, true_positives[~in_group])
        # The detection with the highest score represents all detections of a group.
        best = detections.kept(first_of_each(objects, in_group))
        weights = np.full(len(best.scores), self._group_weight)
        return MatchedDetections(
            np.concatenate([counted.classes, best.classes]),
            np.concatenate([counted.scores, best.scores]),
            np.concatenate([true_positives[~in_group], weights]),
        )

    def objects_to_find(self, groundtruth: Groundtruth) -> np.ndarray:
        """Return the weight of each object; groups have `group_weight`."""
        weights = np.where(groundtruth.group_of, self._group_weight, 1.0)
        return np.where(self.shape.unknown(groundtruth), 0.0, weights)
