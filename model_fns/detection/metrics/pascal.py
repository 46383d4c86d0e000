"""Pascal VOC detection metrics (Everingham et al. 2010, section 4.2)."""

from __future__ import annotations

import numpy as np

from model_fns.detection.metrics.average_precision import (
    AveragePrecisionEvaluator,
    MatchedDetections,
    first_of_each,
)
from model_fns.detection.metrics.evaluator import Detections, Groundtruth

PREFIX = 'PascalBoxes_'
WEIGHTED_PREFIX = 'WeightedPascalBoxes_'
MASK_PREFIX = 'PascalMasks_'
WEIGHTED_MASK_PREFIX = 'WeightedPascalMasks_'
PRECISION_AT_RECALL_PREFIX = 'PrecisionAtRecallBoxes_'


class PascalEvaluator(AveragePrecisionEvaluator):
    """A detection is right when the object that it overlaps most is its own by half or more.

    Only the first detection of an object is right, the others are wrong. Difficult objects, and
    those whose shape nobody knows, need not be found, and their detections count for nothing.
    """

    def match(self, groundtruth: Groundtruth, detections: Detections) -> MatchedDetections:
        """See `AveragePrecisionEvaluator`."""
        difficult = ~self.objects_to_find(groundtruth)
        places, enough = self.nearest(groundtruth, detections)
        of_difficult = np.zeros(len(places), bool)
        of_difficult[enough] = difficult[places[enough]]
        true_positives = first_of_each(places, np.logical_and(enough, ~of_difficult))
        counted = detections.kept(~of_difficult)
        return MatchedDetections(counted.classes, counted.scores, true_positives[~of_difficult])

    def objects_to_find(self, groundtruth: Groundtruth) -> np.ndarray:
        """See `AveragePrecisionEvaluator`."""
        unknown = self.shape.unknown(groundtruth)
        return ~np.logical_or(groundtruth.difficult, unknown)
