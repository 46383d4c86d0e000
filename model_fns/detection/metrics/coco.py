"""COCO detection metrics (Lin et al. 2014; cocodataset.org/#detection-eval)."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

import numpy as np

from model_fns.detection.metrics.evaluator import Detections, Evaluator, Groundtruth

PREFIX = 'DetectionBoxes_'

# The twelve numbers of a COCO summary, in its order.
_SUMMARY = (
    'Precision/mAP',
    'Precision/mAP@.50IOU',
    'Precision/mAP@.75IOU',
    'Precision/mAP (small)',
    'Precision/mAP (medium)',
    'Precision/mAP (large)',
    'Recall/AR@1',
    'Recall/AR@10',
    'Recall/AR@100',
    'Recall/AR@100 (small)',
    'Recall/AR@100 (medium)',
    'Recall/AR@100 (large)',
)
# (name, IoU index or None for all, area index, of recall, index of the detection limit).
_ALL_IOUS = None
_BY_CATEGORY = (
    ('Precision/mAP ByCategory', _ALL_IOUS, 0, False, 2),
    ('Precision mAP@.50IOU ByCategory', 0, 0, False, 2),
    ('Precision mAP@.75IOU ByCategory', 5, 0, False, 2),
    ('Precision mAP (small) ByCategory', _ALL_IOUS, 1, False, 2),
    ('Precision mAP (medium) ByCategory', _ALL_IOUS, 2, False, 2),
    ('Precision mAP (large) ByCategory', _ALL_IOUS, 3, False, 2),
    ('Recall AR@1 ByCategory', _ALL_IOUS, 0, True, 0),
    ('Recall AR@10 ByCategory', _ALL_IOUS, 0, True, 1),
    ('Recall AR@100 ByCategory', _ALL_IOUS, 0, True, 2),
    ('Recall AR@100 (small) ByCategory', _ALL_IOUS, 1, True, 2),
    ('Recall AR@100 (medium) ByCategory', _ALL_IOUS, 2, True, 2),
    ('Recall AR@100 (large) ByCategory', _ALL_IOUS, 3, True, 2),
)
_CATEGORY_MAP = 'PerformanceByCategory/mAP/'


class CocoEvaluator(Evaluator):
    """Average precision and recall over ten IoU thresholds, by size and by class.

    Args:
        class_names: names by id.
        per_category: whether the mAP of each class is reported.
        all_per_category: whether all twelve numbers of each class are.
        super_categories: names of classes by the name of a group of them; the mean of their mAP is
            reported.
    """

    def __init__(
        self,
        class_names: Mapping[int, str],
        per_category: bool = False,
        all_per_category: bool = False,
        super_categories: Optional[Mapping[str, Sequence[str]]] = None,
    ):
        super().__init__(class_names)
        self._per_category = per_category or all_per_category
        self._all_per_category = all_per_category
        self._super_categories = dict(super_categories or {})
        self.clear()

    def clear(self) -> None:
        """See `Evaluator`."""
        self._images: List[Dict[str, Any]] = []
        self._annotations: List[Dict[str, Any]] = []
        self._results: List[np.ndarray] = []

    def names(self) -> Sequence[str]:
        """See `Evaluator`."""
        names = [PREFIX + name for name in _SUMMARY]
        if self._per_category:
            classes = list(self.class_names.values())
            names += [PREFIX + _CATEGORY_MAP + name for name in classes]
            if self._all_per_category:
                names += [
                    f'{PREFIX}{group}/{name}' for group, *_ in _BY_CATEGORY for name in classes
                ]
        return names + [PREFIX + _CATEGORY_MAP + name for name in self._super_categories]

    def add_image(self, image_id: str, groundtruth: Groundtruth, detections: Detections) -> None:
        """See `Evaluator`."""
        number = len(self._images) + 1
        self._images.append({'id': number, 'file_name': image_id})
        for index, box in enumerate(_corner_and_size(groundtruth.boxes)):
            area = float(groundtruth.areas[index])
            self._annotations.append(
                {
                    'id': len(self._annotations) + 1,
                    'image_id': number,
                    'category_id': int(groundtruth.classes[index]),
                    'bbox': box.tolist(),
                    'area': area if area > 0 else float(box[2] * box[3]),
                    'iscrowd': int(groundtruth.is_crowd[index]),
                }
            )
        self._results.append(
            np.column_stack(
                [
                    np.full(len(detections.scores), number, np.float64),
                    _corner_and_size(detections.boxes),
                    detections.scores.astype(np.float64),
                    detections.classes.astype(np.float64),
                ]
            )
        )

    def evaluate(self) -> Dict[str, float]:
        """See `Evaluator`."""
        results = np.concatenate(self._results) if self._results else np.zeros([0, 7])
        if not len(results) or not self._annotations:
            return {PREFIX + name: 0.0 if self._annotations else -1.0 for name in _SUMMARY}
        evaluated = self._run(results)
        metrics = {PREFIX + name: float(value) for name, value in zip(_SUMMARY, evaluated.stats)}
        if self._per_category or self._super_categories:
            metrics.update(self._by_category(evaluated.eval))
        return metrics

    def _run(self, results: np.ndarray) -> Any:
        # Imported here: only an evaluation needs it.
        import faster_coco_eval

        truth = faster_coco_eval.COCO()
        truth.dataset = {
            'images': self._images,
            'annotations': self._annotations,
            'categories': [
                {'id': class_id, 'name': name} for class_id, name in self.class_names.items()
            ],
        }
        truth.createIndex()
        found = truth.loadRes(results)
        evaluated = faster_coco_eval.COCOeval_faster(
            truth, found, iouType='bbox', print_function=lambda *_: None
        )
        evaluated.run()
        return evaluated

    def _by_category(self, evaluated: Mapping[str, Any]) -> Dict[str, float]:
        """Means over one class each; a class without groundtruth has none."""
        # [IoU, recall, class, area, limit] and [IoU, class, area, limit], -1 where undefined.
        precision, recall = evaluated['precision'], evaluated['recall']
        metrics: Dict[str, float] = {}
        maps: Dict[str, float] = {}
        for index, class_id in enumerate(self.class_ids):
            name = self.class_names[class_id]
            value = _mean(precision[:, :, index, 0, 2])
            if value is None:
                continue
            maps[name] = value
            if self._per_category:
                metrics[PREFIX + _CATEGORY_MAP + name] = value
            if not self._all_per_category:
                continue
            for group, iou, area, of_recall, limit in _BY_CATEGORY:
                table = (
                    recall[:, index, area, limit]
                    if of_recall
                    else (precision[:, :, index, area, limit])
                )
                value = _mean(table if iou is None else table[iou])
                if value is not None:
                    metrics[f'{PREFIX}{group}/{name}'] = value
        for group, members in self._super_categories.items():
            known = [maps[name] for name in members if name in maps]
            if known:
                metrics[PREFIX + _CATEGORY_MAP + group] = float(np.mean(known))
        return metrics


def _mean(table: np.ndarray) -> Optional[float]:
    defined = table[table > -1]
    return float(defined.mean()) if defined.size else None


def _corner_and_size(boxes: np.ndarray) -> np.ndarray:
    """[n, 4] of ymin, xmin, ymax, xmax as xmin, ymin, width, height."""
    ymin, xmin, ymax, xmax = np.asarray(boxes, np.float64).reshape(-1, 4).T
    return np.column_stack([xmin, ymin, xmax - xmin, ymax - ymin])
