"""Score threshold with the best F1 over all classes, the default for showing detections."""

from __future__ import annotations

from typing import Dict, Mapping, Sequence

import numpy as np

from model_fns.detection.metrics.average_precision import (
    AveragePrecisionEvaluator,
    MatchedDetections,
    first_of_each,
)
from model_fns.detection.metrics.evaluator import Detections, Groundtruth

PREFIX = 'BestF1@.50IOU/'
SCORE_THRESHOLD = f'{PREFIX}score_threshold'
_F1, _PRECISION, _RECALL = (f'{PREFIX}{name}' for name in ('F1', 'precision', 'recall'))


class BestF1Evaluator(AveragePrecisionEvaluator):
    """Evaluator of the score threshold with the highest F1.

    F1 is the harmonic mean of precision and recall. Detections of all classes count together, by
    the rule of Pascal VOC. If several thresholds have the same F1 the highest one is used, which
    shows the fewest detections. Difficult objects, crowds and groups are optional. A detection
    without an object is ignored if at least half of its area lies in a crowd or a group.

    Args:
        class_names: names by id.
    """

    def __init__(self, class_names: Mapping[int, str]):
        super().__init__(class_names, PREFIX)

    def names(self) -> Sequence[str]:
        """List the names of F1, precision, recall and threshold."""
        return [_F1, _PRECISION, _RECALL, SCORE_THRESHOLD]

    def summary_names(self) -> Sequence[str]:
        """Return no names, because a best threshold need not exist."""
        return ()

    def match(self, groundtruth: Groundtruth, detections: Detections) -> MatchedDetections:
        """Match detections with single objects, then with crowds and groups."""
        several = _several(groundtruth)
        single = groundtruth.kept(~several)
        objects, near = self.nearest(single, detections)
        difficult = np.zeros(len(objects), bool)
        difficult[near] = single.difficult[objects[near]]
        found = first_of_each(objects, near & ~difficult)
        _, inside = self.nearest(groundtruth.kept(several), detections, by_detection=True)
        counts = found | ~(difficult | inside)
        counted = detections.kept(counts)
        return MatchedDetections(counted.classes, counted.scores, found[counts])

    def objects_to_find(self, groundtruth: Groundtruth) -> np.ndarray:
        """Return True for single objects that are not difficult: bool [m]."""
        return ~np.logical_or(groundtruth.difficult, _several(groundtruth))

    def evaluate(self) -> Dict[str, float]:
        """Compute the threshold and its values; empty without a true positive or an object."""
        scores = np.concatenate([np.zeros([0]), *(image.scores for image in self._matched)])
        found = np.concatenate([np.zeros([0]), *(image.true_positives for image in self._matched)])
        order = np.argsort(-scores, kind='stable')
        scores, true = scores[order], np.cumsum(found[order])
        shown = np.arange(1, len(scores) + 1)
        # A threshold cannot separate equal scores, so only the last of them is a candidate.
        last = np.flatnonzero(np.append(scores[:-1] != scores[1:], True)[: len(scores)])
        count = self._counts.sum()
        if not count or not true[-1:].any():
            return {}
        # Without precision and recall, so that it has no 0 / 0.
        f1 = 2 * true[last] / (shown[last] + count)
        best = last[f1.argmax()]
        return {
            _F1: float(f1.max()),
            _PRECISION: float(true[best] / shown[best]),
            _RECALL: float(true[best] / count),
            SCORE_THRESHOLD: float(scores[best]),
        }


def _several(groundtruth: Groundtruth) -> np.ndarray:
    """Find boxes of several objects: bool [n]."""
    return np.logical_or(groundtruth.is_crowd, groundtruth.group_of)
