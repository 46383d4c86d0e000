"""Average precision of rotated boxes, by the rule of Pascal VOC.

A detection belongs to the object of its class that it overlaps most. It is a true positive if the
intersection over union of the two rotated boxes is at least a threshold and no better detection
belongs to that object. Difficult objects are optional, and their detections are not counted.
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
_NAMED = ('0.5', '0.75')  # thresholds with separate metrics
_ALL = '0.5:0.95'
# Tolerance of thresholds, so that rounding of boxes to 32 bits does not matter.
_ROUNDING = 1e-9
# Functions from a curve of precision and recall to a number, by name of the mean.
_FORMS = {'AP': average_precision, 'AP11': eleven_point_precision}


class _Matched(NamedTuple):
    """The detections of one image.

    Attributes:
        classes: int32 [n], ids.
        scores: float32 [n].
        found: bool [n, thresholds]: True for true positives.
        counts: bool [n, thresholds]: True for counted detections.
    """

    classes: np.ndarray
    scores: np.ndarray
    found: np.ndarray
    counts: np.ndarray


class RotatedEvaluator(Evaluator):
    """Evaluator of mean average precision at 0.5, 0.75 and over ten thresholds.

    Pascal VOC has two forms: the area under the curve (since 2010), and the mean of the best
    precision at eleven recalls (2007, also used by DOTA), which is only reported at 0.5. Boxes are
    outlines, see `rotated_overlaps`.
    """

    def __init__(self, class_names: Mapping[int, str]):
        super().__init__(class_names)
        self.clear()

    def clear(self) -> None:
        """Discard all images."""
        self._matched: List[_Matched] = []
        self._counts = np.zeros([max(self.class_names) + 1], np.int64)

    def names(self) -> Sequence[str]:
        """List the names of the means and of each class."""
        class_metrics = [
            _class_name(form, self.class_names[class_id])
            for form in _FORMS
            for class_id in self.class_ids
        ]
        return [*self.summary_names(), *class_metrics]

    def summary_names(self) -> Sequence[str]:
        """List the names of the means over classes."""
        means = [_mean_name('AP', threshold) for threshold in (*_NAMED, _ALL)]
        return [*means, _mean_name('AP11', _NAMED[0])]

    def add_image(self, image_id: str, groundtruth: Groundtruth, detections: Detections) -> None:
        """Match the detections of one image and keep the matches."""
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
            objects, overlap = overlaps.argmax(axis=1), overlaps.max(axis=1)
            difficult = groundtruth.difficult[objects]
            for index, threshold in enumerate(_THRESHOLDS):
                # At least the threshold, as MMRotate; the development kit of DOTA asks for more
                # than 0.5.
                enough = overlap >= threshold - _ROUNDING
                found[:, index] = first_of_each(objects, enough & ~difficult)
                counts[:, index] = ~(enough & difficult)
        self._matched.append(
            _Matched(best.classes.astype(np.int32), best.scores.astype(np.float32), found, counts)
        )

    def evaluate(self) -> Dict[str, float]:
        """Compute all metrics, without classes that have no objects to find."""
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
                counted = np.flatnonzero(rows & counts[:, column])
                true_positives = found[counted, column]
                curve = precision_recall(scores[counted], true_positives, self._counts[class_id])
                areas[:, row, column] = [form(*curve) for form in _FORMS.values()]
        by_threshold = dict(zip(map(str, _THRESHOLDS), areas[0].mean(axis=0)))
        return {
            **{_mean_name('AP', threshold): float(by_threshold[threshold]) for threshold in _NAMED},
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
