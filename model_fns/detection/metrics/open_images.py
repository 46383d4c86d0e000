"""Open Images detection metrics (storage.googleapis.com/openimages/web/evaluation.html).

Of the data set's class hierarchy nothing is known here: records are expected to hold the boxes of
the parent classes too, as the data set's own tools write them.
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
    """Pascal's rule, with boxes that are groups of objects.

    Detections that found no object, but lie in a group of their class by half or more of their own
    area, are together one find of that group.

    Args:
        class_names: names by id.
        prefix: of the metrics' names.
        group_weight: how much of an object a group is; 0: finding or missing it counts for nothing.
        verified_only: whether detections count only where their class was verified to be in the
            image or not: `Groundtruth.image_classes`, and the classes that it has boxes of.
        empty_to_all: what it means that an image has no `image_classes`: all classes were verified,
            or none but those of its boxes.
        shape: what is held against the objects; those whose shape nobody knows are left out.
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
        """See `AveragePrecisionEvaluator`."""
        if self._verified_only and (len(groundtruth.image_classes) or not self._empty_to_all):
            verified = np.concatenate([groundtruth.image_classes, groundtruth.classes])
            detections = detections.kept(np.isin(detections.classes, verified))
        groundtruth = groundtruth.kept(~self.shape.unknown(groundtruth))
        is_group = np.asarray(groundtruth.group_of, bool)
        places, enough = self.nearest(groundtruth.kept(~is_group), detections)
        true_positives = first_of_each(places, enough)
        places, enough = self.nearest(groundtruth.kept(is_group), detections, of_detection=True)
        in_group = np.logical_and(enough, ~true_positives)
        counted = detections.kept(~in_group)
        if not self._group_weight:
            return MatchedDetections(counted.classes, counted.scores, true_positives[~in_group])
        # The detection of a group with the highest score stands for all of them.
        finds = detections.kept(first_of_each(places, in_group))
        weights = np.full(len(finds.scores), self._group_weight)
        return MatchedDetections(
            np.concatenate([counted.classes, finds.classes]),
            np.concatenate([counted.scores, finds.scores]),
            np.concatenate([true_positives[~in_group], weights]),
        )

    def objects_to_find(self, groundtruth: Groundtruth) -> np.ndarray:
        """See `AveragePrecisionEvaluator`."""
        weights = np.where(groundtruth.group_of, self._group_weight, 1.0)
        return np.where(self.shape.unknown(groundtruth), 0.0, weights)
