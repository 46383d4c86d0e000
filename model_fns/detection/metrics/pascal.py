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
    """Evaluator by the rule of Pascal VOC: a true positive has an IoU of at least one half.

    A detection belongs to the object that it overlaps most. The first detection of an object is a
    true positive, the others are false positives. Difficult objects and those with an unknown shape
    are optional, and their detections are not counted.
    """

    def match(self, groundtruth: Groundtruth, detections: Detections) -> MatchedDetections:
        """Match detections with objects, without detections of optional objects."""
        difficult = ~self.objects_to_find(groundtruth)
        objects, enough = self.nearest(groundtruth, detections)
        skipped = np.zeros(len(objects), bool)
        # `objects` has a row only where there are objects, and only rows with `enough` have a
        # meaning.
        skipped[enough] = difficult[objects[enough]]
        true_positives = first_of_each(objects, np.logical_and(enough, ~skipped))
        counted = detections.kept(~skipped)
        return MatchedDetections(counted.classes, counted.scores, true_positives[~skipped])

    def objects_to_find(self, groundtruth: Groundtruth) -> np.ndarray:
        """Return True for objects that are not difficult and have a known shape."""
        unknown = self.shape.unknown(groundtruth)
        return ~np.logical_or(groundtruth.difficult, unknown)
