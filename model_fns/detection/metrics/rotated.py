"""Average precision of rotated boxes, in the manner of Pascal VOC.

A detection finds the object of its class that it overlaps most, when the intersection over union of
the two turned boxes is at least a threshold and no better detection found that object. Difficult
objects need not be found, and their detections count for nothing.
"""

from __future__ import annotations

from typing import Dict, List, Mapping, NamedTuple, Sequence

import numpy as np

from model_fns.detection.metrics.average_precision import (
    average_precision,
    eleven_point_precision,
    first_of_each,
    precision_recall,
)
from model_fns.detection.metrics.evaluator import Detections, Evaluator, Groundtruth
from model_fns.structures import rotated_overlaps

PREFIX = 'RotatedBoxes_'

_THRESHOLDS = np.arange(0.5, 0.96, 0.05).round(2)
_NAMED = ('0.5', '0.75')  # thresholds that are reported by themselves
_ALL = '0.5:0.95'
# Below it no overlap matters; rounding of boxes by 32 bits must not decide at a threshold.
_ROUNDING = 1e-9
# By name of the mean: from a curve of precision and recall to a number.
_FORMS = {'AP': average_precision, 'AP11': eleven_point_precision}


class _Matched(NamedTuple):
    """The detections of one image.

    Attributes:
        classes: int32 [n], ids.
        scores: float32 [n].
        found: bool [n, thresholds]: whether it found an object.
        counts: bool [n, thresholds]: whether it counts at all.
    """

    classes: np.ndarray
    scores: np.ndarray
    found: np.ndarray
    counts: np.ndarray


class RotatedEvaluator(Evaluator):
    """Mean average precision at 0.5, 0.75 and over ten thresholds, in both of Pascal VOC's forms.

    The area under the curve (VOC since 2010), and the mean of the best precision at eleven recalls
    (VOC 2007, what DOTA reports); the latter at 0.5 alone. Boxes are outlines, see
    `rotated_overlaps`.
    """

    def __init__(self, class_names: Mapping[int, str]):
        super().__init__(class_names)
        self.clear()

    def clear(self) -> None:
        """See `Evaluator`."""
        self._matched: List[_Matched] = []
        self._counts = np.zeros([max(self.class_names) + 1], np.int64)

    def names(self) -> Sequence[str]:
        """See `Evaluator`."""
        of_classes = [
            _class_name(form, self.class_names[one]) for form in _FORMS for one in self.class_ids
        ]
        return [*self.summary_names(), *of_classes]

    def summary_names(self) -> Sequence[str]:
        """Return the means over classes; see `Evaluator`."""
        means = [_mean_name('AP', threshold) for threshold in (*_NAMED, _ALL)]
        return [*means, _mean_name('AP11', _NAMED[0])]

    def add_image(self, image_id: str, groundtruth: Groundtruth, detections: Detections) -> None:
        """See `Evaluator`."""
        np.add.at(self._counts, groundtruth.classes[~groundtruth.difficult], 1)
        order = np.argsort(-detections.scores, kind='stable')
        outlines = rotated_overlaps.corners(detections.boxes)
        order = order[rotated_overlaps.areas(outlines)[order] > 0]
        best = detections.kept(order)
        truth = rotated_overlaps.corners(groundtruth.boxes)
        overlaps = rotated_overlaps.iou(outlines[order], truth)
        same = best.classes[:, np.newaxis] == groundtruth.classes
        overlaps = np.where(same, overlaps, -1.0)
        found = np.zeros([len(order), len(_THRESHOLDS)], bool)
        counts = np.ones_like(found)
        if overlaps.size:
            places, overlap = overlaps.argmax(axis=1), overlaps.max(axis=1)
            difficult = groundtruth.difficult[places]
            for index, threshold in enumerate(_THRESHOLDS):
                enough = overlap >= threshold - _ROUNDING
                found[:, index] = first_of_each(places, enough & ~difficult)
                counts[:, index] = ~(enough & difficult)
        self._matched.append(
            _Matched(best.classes.astype(np.int32), best.scores.astype(np.float32), found, counts)
        )

    def evaluate(self) -> Dict[str, float]:
        """See `Evaluator`; classes without an object to find are left out."""
        known = [class_id for class_id in self.class_ids if self._counts[class_id] > 0]
        if not known:
            return {}
        empty = np.zeros([0, len(_THRESHOLDS)], bool)
        none = _Matched(np.zeros(0, np.int32), np.zeros(0, np.float32), empty, empty)
        classes, scores, found, counts = map(np.concatenate, zip(*(self._matched or [none])))
        areas = np.zeros([len(_FORMS), len(known), len(_THRESHOLDS)])
        for row, class_id in enumerate(known):
            rows = classes == class_id
            for column in range(len(_THRESHOLDS)):
                some = np.flatnonzero(rows & counts[:, column])
                curve = precision_recall(scores[some], found[some, column], self._counts[class_id])
                areas[:, row, column] = [form(*curve) for form in _FORMS.values()]
        by_threshold = dict(zip(map(str, _THRESHOLDS), areas[0].mean(axis=0)))
        return {
            **{_mean_name('AP', one): float(by_threshold[one]) for one in _NAMED},
            _mean_name('AP', _ALL): float(areas[0].mean()),
            _mean_name('AP11', _NAMED[0]): float(areas[1, :, 0].mean()),
            **{
                _class_name(form, self.class_names[class_id]): float(areas[index, row, 0])
                for index, form in enumerate(_FORMS)
                for row, class_id in enumerate(known)
            },
        }


def _mean_name(form: str, threshold: str) -> str:
    return f'{PREFIX}Precision/m{form}@{threshold}IOU'


def _class_name(form: str, class_name: str) -> str:
    return f'{PREFIX}PerformanceByCategory/{form}@{_NAMED[0]}IOU/{class_name}'
