"""Average precision at one IoU threshold, the base of Pascal VOC and Open Images metrics."""

from __future__ import annotations

import abc
import dataclasses
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from model_fns.detection.metrics import shapes
from model_fns.detection.metrics.evaluator import Detections, Evaluator, Groundtruth
from model_fns.structures import box_overlaps

# The threshold of Pascal VOC.
IOU_THRESHOLD = 0.5


@dataclasses.dataclass(frozen=True)
class MatchedDetections:
    """Counted detections of an image, in any order.

    Attributes:
        classes: int32 [n], ids.
        scores: float32 [n].
        true_positives: float32 [n]: fraction of an object that each detection found; 0 for a false
            positive.
    """

    classes: np.ndarray
    scores: np.ndarray
    true_positives: np.ndarray


class AveragePrecisionEvaluator(Evaluator):
    """Evaluator of the area under the precision-recall curve of each class, and of their mean.

    Args:
        class_names: names by id.
        prefix: prefix of the metrics' names.
        recall_bounds: points of the curve with a recall outside of these bounds are dropped; the
            remaining curve is constant to the left and ends on the right.
        pooled: True: the mean is replaced by the area under a common curve of all classes, in which
            the weight of each class is its number of objects.
        shape: shape that is compared: boxes or masks.
    """

    def __init__(
        self,
        class_names: Mapping[int, str],
        prefix: str,
        recall_bounds: Tuple[float, float] = (0.0, 1.0),
        pooled: bool = False,
        shape: shapes.Shape = shapes.BOXES,
    ):
        super().__init__(class_names)
        self.needs = shape.needs
        self.shape = shape
        self._prefix = prefix
        self._recall_bounds = recall_bounds
        self._pooled = pooled
        self.clear()

    @abc.abstractmethod
    def match(self, groundtruth: Groundtruth, detections: Detections) -> MatchedDetections:
        """Match the detections of an image with its objects.

        Args:
            groundtruth: boxes float64.
            detections: boxes float64, all with an area; the highest scores first.
        """

    @abc.abstractmethod
    def objects_to_find(self, groundtruth: Groundtruth) -> np.ndarray:
        """Return the weight of each object of an image, [n]; 0 for optional objects."""

    def nearest(
        self,
        groundtruth: Groundtruth,
        detections: Detections,
        by_detection: bool = False,
        shape: Optional[shapes.Shape] = None,
    ) -> Tuple[np.ndarray, np.ndarray]:
        """Find the object of its own class that each detection overlaps most.

        Args:
            groundtruth: m objects.
            detections: n detections.
            by_detection: True: overlaps are relative to the detection's area; False: to the union.
            shape: shape that is compared; None: that of the evaluator.

        Returns:
            Indices [n] of objects, and whether the overlap is sufficient: bool [n].
        """
        shares = np.full([len(groundtruth.boxes)], by_detection)
        overlap = (shape or self.shape).overlaps(detections, groundtruth, shares)
        if not overlap.size:
            return np.zeros([len(overlap)], np.int64), np.zeros([len(overlap)], bool)
        same = detections.classes[:, np.newaxis] == groundtruth.classes
        overlap = np.where(same, overlap, -1.0)
        # At least the threshold, as `ovmax>=VOCopts.minoverlap` in the development kit.
        return overlap.argmax(axis=1), overlap.max(axis=1) >= IOU_THRESHOLD

    def clear(self) -> None:
        """Discard all images."""
        self._matched: List[MatchedDetections] = []
        self._counts = np.zeros([max(self.class_names) + 1], np.float64)

    def names(self) -> Sequence[str]:
        """List the names of the mean and of each class."""
        return [self._mean_name(), *map(self._class_name, self.class_ids)]

    def summary_names(self) -> Sequence[str]:
        """List the name of the mean."""
        return [self._mean_name()]

    def add_image(self, image_id: str, groundtruth: Groundtruth, detections: Detections) -> None:
        """Match the detections of one image and keep the matches."""
        boxes = np.asarray(detections.boxes, np.float64)
        has_area = box_overlaps.has_area(boxes)
        order = np.argsort(-detections.scores, kind='stable')
        detections = dataclasses.replace(detections, boxes=boxes).kept(order[has_area[order]])
        boxes = np.asarray(groundtruth.boxes, np.float64)
        groundtruth = dataclasses.replace(groundtruth, boxes=boxes)
        np.add.at(self._counts, groundtruth.classes, self.objects_to_find(groundtruth))
        matched = self.match(groundtruth, detections)
        self._matched.append(
            MatchedDetections(
                matched.classes.astype(np.int32),
                matched.scores.astype(np.float32),
                matched.true_positives.astype(np.float32),
            )
        )

    def evaluate(self) -> Dict[str, float]:
        """Compute the areas of classes with objects to find, and their mean."""
        scores, true_positives = self._split_by_class()
        known = [class_id for class_id in self.class_ids if self._counts[class_id] > 0]
        areas = {
            class_id: self._area(scores[class_id], true_positives[class_id], self._counts[class_id])
            for class_id in known
        }
        if not known:
            return {}
        mean = float(np.mean(list(areas.values())))
        if self._pooled:
            mean = self._area(
                np.concatenate([scores[class_id] for class_id in known]),
                np.concatenate([true_positives[class_id] for class_id in known]),
                self._counts[known].sum(),
            )
        return {
            self._mean_name(): mean,
            **{self._class_name(class_id): area for class_id, area in areas.items()},
        }

    def _split_by_class(self) -> Tuple[Dict[int, np.ndarray], Dict[int, np.ndarray]]:
        """Split scores and true positives of all images by class id."""
        classes, scores, true_positives = (
            np.concatenate([getattr(image, field.name) for image in self._matched] or [np.zeros(0)])
            for field in dataclasses.fields(MatchedDetections)
        )
        order = np.argsort(classes, kind='stable')
        starts = np.searchsorted(classes[order], [*self.class_ids, np.inf])
        parts = {
            class_id: order[start:end]
            for class_id, start, end in zip(self.class_ids, starts, starts[1:])
        }
        return (
            {class_id: scores[part] for class_id, part in parts.items()},
            {class_id: true_positives[part] for class_id, part in parts.items()},
        )

    def _area(self, scores: np.ndarray, true_positives: np.ndarray, count: float) -> float:
        precision, recall = precision_recall(scores, true_positives, count)
        low, high = self._recall_bounds
        inside = np.logical_and(recall >= low, recall <= high)
        return average_precision(precision[inside], recall[inside])

    def _mean_name(self) -> str:
        low, high = self._recall_bounds
        within = '' if low <= 0.0 and high >= 1.0 else f'@[{low:.1f},{high:.1f}]Recall'
        return f'{self._prefix}Precision/mAP@{IOU_THRESHOLD}IOU{within}'

    def _class_name(self, class_id: int) -> str:
        name = self.class_names[class_id]
        return f'{self._prefix}PerformanceByCategory/AP@{IOU_THRESHOLD}IOU/{name}'


def first_of_each(objects: np.ndarray, selected: np.ndarray) -> np.ndarray:
    """Find the first selected detection of each object: bool [n]."""
    candidates = np.flatnonzero(selected)
    _, firsts = np.unique(objects[candidates], return_index=True)
    is_first = np.zeros(len(objects), bool)
    is_first[candidates[firsts]] = True
    return is_first


def precision_recall(
    scores: np.ndarray, true_positives: np.ndarray, count: float
) -> Tuple[np.ndarray, np.ndarray]:
    """Compute precision and recall after each detection, the highest scores first.

        found 1 0 1 of 4 objects  ->  precision 1, 1/2, 2/3; recall 1/4, 1/4, 2/4

    Args:
        scores: [n].
        true_positives: [n], see `MatchedDetections`.
        count: number of objects to find.
    """
    true_positives = true_positives[np.argsort(-scores, kind='stable')].astype(np.float64)
    # A group of Open Images counts as its weight of a true positive, and as no false one.
    true, false = np.cumsum(true_positives), np.cumsum(true_positives <= 0)
    return true / np.maximum(true + false, np.finfo(np.float64).tiny), true / count


def average_precision(precision: np.ndarray, recall: np.ndarray) -> float:
    """Compute the area under a non-increasing precision curve (Pascal VOC since 2010).

    Args:
        precision: [n].
        recall: [n], not decreasing.
    """
    level = np.maximum.accumulate(precision[::-1])[::-1]
    return float(np.sum(np.diff(recall, prepend=0.0) * level))


def eleven_point_precision(precision: np.ndarray, recall: np.ndarray) -> float:
    """Compute the mean of the best precision at recalls 0, 0.1, ... 1 (Pascal VOC 2007).

    The recalls are the multiples of 0.1 in 64 bits, as in the development kit of DOTA. Those of
    0.3, 0.6 and 0.7 are rounded up, so that three of ten objects do not reach 0.3 (it is
    0.30000000000000004).

    Args:
        precision: [n].
        recall: [n], not decreasing.
    """
    best = [precision[recall >= least].max(initial=0.0) for least in np.arange(0.0, 1.1, 0.1)]
    return float(np.mean(best))
