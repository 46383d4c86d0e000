"""From which score on detections are worth showing: where F1, over all classes, is highest."""

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
    """The score threshold with the highest F1, the harmonic mean of precision and recall.

    Detections of all classes count together, by the rule of Pascal VOC. Of thresholds with equal F1
    it is the highest, which shows least. Finding or missing what is difficult, a crowd or a group
    counts for nothing; a detection that found no object is of a crowd or a group where it lies in
    it by half or more of its own area.

    Args:
        class_names: names by id.
    """

    def __init__(self, class_names: Mapping[int, str]):
        super().__init__(class_names, PREFIX)

    def names(self) -> Sequence[str]:
        """See `Evaluator`."""
        return [_F1, _PRECISION, _RECALL, SCORE_THRESHOLD]

    def summary_names(self) -> Sequence[str]:
        """Return none: there need not be a best threshold."""
        return ()

    def match(self, groundtruth: Groundtruth, detections: Detections) -> MatchedDetections:
        """Matches single objects, then crowds; see `AveragePrecisionEvaluator`."""
        several = _several(groundtruth)
        single = groundtruth.kept(~several)
        places, near = self.nearest(single, detections)
        of_difficult = np.zeros(len(places), bool)
        of_difficult[near] = single.difficult[places[near]]
        found = first_of_each(places, near & ~of_difficult)
        _, inside = self.nearest(groundtruth.kept(several), detections, of_detection=True)
        counts = found | ~(of_difficult | inside)
        counted = detections.kept(counts)
        return MatchedDetections(counted.classes, counted.scores, found[counts])

    def objects_to_find(self, groundtruth: Groundtruth) -> np.ndarray:
        """Return whether a box is of one clear object; see `AveragePrecisionEvaluator`."""
        return ~np.logical_or(groundtruth.difficult, _several(groundtruth))

    def evaluate(self) -> Dict[str, float]:
        """See `Evaluator`; nothing where nothing was found, or nothing was to be found."""
        scores = np.concatenate([np.zeros([0]), *(one.scores for one in self._matched)])
        found = np.concatenate([np.zeros([0]), *(one.true_positives for one in self._matched)])
        order = np.argsort(-scores, kind='stable')
        scores, true = scores[order], np.cumsum(found[order])
        shown = np.arange(1, len(scores) + 1)
        # A threshold does not tell equal scores apart: the last of them stands for all.
        last = np.flatnonzero(np.append(scores[:-1] != scores[1:], True)[: len(scores)])
        count = self._counts.sum()
        if not count or not true[-1:].any():
            return {}
        f1 = 2 * true[last] / (shown[last] + count)
        best = last[f1.argmax()]
        return {
            _F1: float(f1.max()),
            _PRECISION: float(true[best] / shown[best]),
            _RECALL: float(true[best] / count),
            SCORE_THRESHOLD: float(scores[best]),
        }


def _several(groundtruth: Groundtruth) -> np.ndarray:
    """Return which boxes are of several objects: bool [n]."""
    return np.logical_or(groundtruth.is_crowd, groundtruth.group_of)
