"""From which score on detections are worth showing: where F1, over all classes, is highest."""

from __future__ import annotations

import dataclasses
from typing import Dict, Mapping, Sequence

import numpy as np

from model_fns.detection.metrics.evaluator import Detections, Groundtruth
from model_fns.detection.metrics.pascal import PascalEvaluator

PREFIX = 'BestF1@.50IOU/'
SCORE_THRESHOLD = f'{PREFIX}score_threshold'
_F1, _PRECISION, _RECALL = (f'{PREFIX}{name}' for name in ('F1', 'precision', 'recall'))


class BestF1Evaluator(PascalEvaluator):
    """The score threshold with the highest F1, the harmonic mean of precision and recall.

    Detections of all classes count together, by the rule of Pascal VOC. Of thresholds with equal F1
    it is the highest, which shows least. Finding or missing what is difficult, a crowd or a group
    counts for nothing.

    Args:
        class_names: names by id.
    """

    def __init__(self, class_names: Mapping[int, str]):
        super().__init__(class_names, PREFIX)

    def names(self) -> Sequence[str]:
        """See `Evaluator`."""
        return [_F1, _PRECISION, _RECALL, SCORE_THRESHOLD]

    def add_image(self, image_id: str, groundtruth: Groundtruth, detections: Detections) -> None:
        """See `Evaluator`."""
        unclear = np.logical_or.reduce(
            [groundtruth.difficult, groundtruth.is_crowd, groundtruth.group_of]
        )
        super().add_image(image_id, dataclasses.replace(groundtruth, difficult=unclear), detections)

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
