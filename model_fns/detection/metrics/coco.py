"""COCO detection metrics (Lin et al. 2014; cocodataset.org/#detection-eval).

This implementation replaces faster-coco-eval because of memory: a COCO tool needs all detections of
all images before it starts. This one only keeps the matches of each image, and discards boxes and
masks with the batch. The overlaps of masks are computed by that tool's kernels.
"""

from __future__ import annotations

import json
import os
from typing import (
    Any,
    Dict,
    FrozenSet,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np
import tensorflow as tf

from model_fns.detection.metrics import coco_matching, shapes
from model_fns.detection.metrics.coco_matching import ClassResult, Matches
from model_fns.detection.metrics.evaluator import Detections, Evaluator, Groundtruth

PREFIX = 'DetectionBoxes_'
MASK_PREFIX = 'DetectionMasks_'

_CATEGORY_MAP = 'PerformanceByCategory/mAP'
_SUPER_CATEGORY_MAP = 'PerformanceBySuperCategory'

GROUNDTRUTH_FILE = 'groundtruth.json'
# By the key of what is compared. pycocotools takes the area of a detection from its box where a
# result has one beside a mask or keypoints, so each kind has a file of its own.
RESULTS_FILES = {
    'bbox': 'results.json',
    'segmentation': 'results_masks.json',
    'keypoints': 'results_keypoints.json',
}


class Number(NamedTuple):
    """Number of a COCO summary: a mean over some of the results of each class.

    Attributes:
        name: name of the metric.
        table: `precision` or `recall`.
        cells: index of cells in the table: thresholds, ranges and, for recall, limits.
    """

    name: str
    table: str
    cells: Tuple


# Index 5 of the thresholds is 0.75; ranges are all, small, medium and large.
_ALL = slice(None)
# The twelve numbers of a summary, in its order.
_NUMBERS = (
    Number('Precision/mAP', 'precision', (_ALL, 0)),
    Number('Precision/mAP@.50IOU', 'precision', (0, 0)),
    Number('Precision/mAP@.75IOU', 'precision', (5, 0)),
    Number('Precision/mAP (small)', 'precision', (_ALL, 1)),
    Number('Precision/mAP (medium)', 'precision', (_ALL, 2)),
    Number('Precision/mAP (large)', 'precision', (_ALL, 3)),
    Number('Recall/AR@1', 'recall', (_ALL, 0, 0)),
    Number('Recall/AR@10', 'recall', (_ALL, 0, 1)),
    Number('Recall/AR@100', 'recall', (_ALL, 0, 2)),
    Number('Recall/AR@100 (small)', 'recall', (_ALL, 1, 2)),
    Number('Recall/AR@100 (medium)', 'recall', (_ALL, 2, 2)),
    Number('Recall/AR@100 (large)', 'recall', (_ALL, 3, 2)),
)
_MAP = _NUMBERS[0]
# Value that COCO reports for numbers without groundtruth.
UNDEFINED = -1.0


class CocoEvaluator(Evaluator):
    """Evaluator of average precision and recall over ten IoU thresholds, by size and by class.

    Args:
        class_names: names by id.
        per_category: True: the mAP of each class is reported.
        all_per_category: True: all twelve numbers of each class are reported.
        super_categories: ids of classes by the name of their group; the means over groups are
            reported like those of classes.
        skip_unlabeled: True: only detections of verified classes count, those of
            `Groundtruth.image_classes` and of the image's boxes.
        empty_to_all: True: all classes of an image without `image_classes` are verified; False:
            only those of its boxes.
        shape: shape that is compared: boxes or masks.
        prefix: prefix of the metrics' names.

    Attributes:
        limits: numbers of counted detections of an image and class.
        matches: the detections of each image.
        counts: [ids up to the largest, size ranges], numbers of objects to find.
    """

    limits: Tuple[int, ...] = coco_matching.LIMITS

    def __init__(
        self,
        class_names: Mapping[int, str],
        per_category: bool = False,
        all_per_category: bool = False,
        super_categories: Optional[Mapping[str, Sequence[int]]] = None,
        skip_unlabeled: bool = False,
        empty_to_all: bool = True,
        shape: shapes.Shape = shapes.BOXES,
        prefix: str = PREFIX,
    ):
        super().__init__(class_names)
        self.needs = shape.needs
        self.shape = shape
        self._prefix = prefix
        self._per_category = per_category or all_per_category
        self._group_numbers = _NUMBERS if all_per_category else ()
        self._super_categories = dict(super_categories or {})
        self._skip_unlabeled = skip_unlabeled
        self._empty_to_all = empty_to_all
        self.clear()

    def clear(self) -> None:
        """Discard all images."""
        self.matches: List[Matches] = []
        sizes = len(coco_matching.AREA_RANGES)
        self.counts = np.zeros([max(self.class_names) + 1, sizes], np.int64)

    def names(self) -> Sequence[str]:
        """List the names of the summary, and of classes and groups as configured."""
        return [self._prefix + number.name for number in _NUMBERS] + [
            self._prefix + _group_name(group, number) for group, number, _ in self._groups()
        ]

    def add_image(self, image_id: str, groundtruth: Groundtruth, detections: Detections) -> None:
        """Match the detections of one image and keep the matches."""
        self.add_assigned(groundtruth, detections)

    def add_assigned(
        self, groundtruth: Groundtruth, detections: Detections
    ) -> coco_matching.Assignment:
        """Add one image, and return which objects its detections take."""
        if self._skip_unlabeled and (len(groundtruth.image_classes) or not self._empty_to_all):
            verified = np.concatenate([groundtruth.image_classes, groundtruth.classes])
            detections = detections.kept(np.isin(detections.classes, verified))
        counted = ~coco_matching.not_counted(groundtruth, self.shape)
        for size, in_size in enumerate(counted):
            np.add.at(self.counts[:, size], groundtruth.classes[in_size], 1)
        assignment = coco_matching.assign(groundtruth, detections, self.shape, self.limits[-1])
        self.matches.append(assignment.matches)
        return assignment

    def evaluate(self) -> Dict[str, float]:
        """Compute all numbers; an undefined number of the summary is -1."""
        undefined = {self._prefix + number.name: UNDEFINED for number in _NUMBERS}
        return {**undefined, **self.summarize(self.results())}

    def summarize(self, results: Mapping[int, ClassResult]) -> Dict[str, float]:
        """Compute the numbers that the results of classes define, given by id."""
        metrics = {}
        for number in _NUMBERS:
            value = mean(results.values(), number)
            if value is not None:
                metrics[self._prefix + number.name] = value
        for group, number, ids in self._groups():
            value = mean([results[class_id] for class_id in ids if class_id in results], number)
            if value is not None:
                metrics[self._prefix + _group_name(group, number)] = value
        return metrics

    def _groups(self) -> Iterator[Tuple[Tuple[str, str], Optional[Number], Sequence[int]]]:
        """Generate (kind and name of a group of classes, number or None for the mAP, ids)."""
        kinds: List[Tuple[str, Mapping[str, Sequence[int]]]] = [
            (_SUPER_CATEGORY_MAP, self._super_categories)
        ]
        if self._per_category:
            each = {name: [class_id] for class_id, name in self.class_names.items()}
            kinds.insert(0, (_CATEGORY_MAP, each))
        for kind, groups in kinds:
            for number in (None, *self._group_numbers):
                for name, ids in groups.items():
                    yield (kind, name), number, ids

    def results(self) -> Dict[int, ClassResult]:
        """Compute the result of each class with groundtruth, by id."""
        if not self.matches:
            return {}
        matches = coco_matching.concatenate(self.matches)
        results = {}
        for class_id in self.class_ids:
            if not self.counts[class_id].any():
                continue
            first, last = np.searchsorted(matches.classes, [class_id, class_id + 1])
            results[class_id] = coco_matching.class_result(
                matches.part(slice(first, last)), self.counts[class_id], self.limits
            )
        return results


def _group_name(group: Tuple[str, str], number: Optional[Number]) -> str:
    kind, name = group
    if number is None:
        return f'{kind}/{name}'
    by = 'ByCategory' if kind == _CATEGORY_MAP else 'BySuperCategory'
    return f'{number.name} {by}/{name}'


def mean(results: Iterable[ClassResult], number: Optional[Number]) -> Optional[float]:
    """Compute the mean of a number over classes; None if no class defines it."""
    number = number or _MAP
    values = np.array([getattr(result, number.table)[number.cells] for result in results])
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else None


class CocoFiles(Evaluator):
    """Writer of the objects and detections that the metrics of an evaluation compare.

    It has no metrics of its own. The files replace those of an earlier evaluation. pycocotools
    computes the metrics of COCO from them: `COCO(groundtruth).loadRes(results)`, with the results
    of boxes, of masks or of keypoints.

    Args:
        class_names: names by id, from 1.
        folder: of the files; created if needed.
        needs: names of `fields` of labels beside boxes that the evaluation compares.
    """

    def __init__(self, class_names: Mapping[int, str], folder: str, needs: FrozenSet[str]):
        super().__init__(class_names)
        self._folder = folder
        self.needs = needs
        self.clear()

    def names(self) -> Sequence[str]:
        """Return no names."""
        return ()

    def clear(self) -> None:
        """Discard all images."""
        self._images: List[Dict[str, Any]] = []
        self._objects: List[Dict[str, Any]] = []
        self._detections: List[Dict[str, Any]] = []

    def add_image(self, image_id: str, groundtruth: Groundtruth, detections: Detections) -> None:
        """Add the objects and detections of an image."""
        number = len(self._images) + 1
        own, found = _entries(number, groundtruth), _entries(number, detections)
        image: Dict[str, Any] = {'id': number, 'file_name': image_id}
        masks = [each['segmentation'] for each in (*own, *found) if 'segmentation' in each]
        if masks:
            image['height'], image['width'] = masks[0]['size']
        self._images.append(image)
        areas = np.asarray(groundtruth.areas, np.float64)
        for index, entry in enumerate(own):
            width, height = entry['bbox'][2:]
            entry['id'] = len(self._objects) + 1
            # pycocotools sorts objects into size ranges by this number, and not by the box.
            entry['area'] = float(areas[index]) if areas[index] > 0 else width * height
            entry['iscrowd'] = int(groundtruth.is_crowd[index])
            self._objects.append(entry)
        for entry, score in zip(found, detections.scores):
            self._detections.append({**entry, 'score': float(score)})

    def evaluate(self) -> Dict[str, float]:
        """Write the files; there are no metrics."""
        categories = [{'id': key, 'name': name} for key, name in sorted(self.class_names.items())]
        groundtruth = {
            'images': self._images,
            'annotations': self._objects,
            'categories': categories,
        }
        files: Dict[str, Any] = {GROUNDTRUTH_FILE: groundtruth}
        for kind, name in RESULTS_FILES.items():
            others = RESULTS_FILES.keys() - {kind}
            if kind == 'bbox' or any(kind in each for each in self._detections):
                files[name] = [
                    {key: value for key, value in each.items() if key not in others}
                    for each in self._detections
                ]
        tf.io.gfile.makedirs(self._folder)
        for name, content in files.items():
            with tf.io.gfile.GFile(os.path.join(self._folder, name), 'w') as file:
                json.dump(content, file)
        return {}


def _entries(number: int, rows: Any) -> List[Dict[str, Any]]:
    """Return the entries of the objects or detections of an image: class, box, mask, keypoints."""
    boxes = np.asarray(rows.boxes, np.float64).reshape(-1, 4)
    entries: List[Dict[str, Any]] = []
    for index, (top, left, bottom, right) in enumerate(boxes.tolist()):
        entry: Dict[str, Any] = {'image_id': number, 'category_id': int(rows.classes[index])}
        entry['bbox'] = [left, top, right - left, bottom - top]
        if rows.keypoints is not None:
            entry.update(_keypoints(np.asarray(rows.keypoints[index], np.float64)))
        entries.append(entry)
    for entry, mask in zip(entries, () if rows.masks is None else rows.masks.to_json()):
        entry['segmentation'] = mask
    return entries


def _keypoints(points: np.ndarray) -> Dict[str, Any]:
    """Return x, y and visibility of each keypoint; 0 for one that is not labeled (NaN)."""
    labeled = ~np.isnan(points).any(axis=1)
    visible = np.where(labeled, 2.0, 0.0)[:, np.newaxis]
    values = np.concatenate([np.nan_to_num(points[:, ::-1]) * labeled[:, np.newaxis], visible], 1)
    return {'keypoints': values.ravel().tolist(), 'num_keypoints': int(labeled.sum())}
