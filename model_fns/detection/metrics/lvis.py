"""LVIS metrics (Gupta et al. 2019, "LVIS: A Dataset for Large Vocabulary Instance Segmentation").

Average precision is that of COCO, but each image only tells about some of the many classes: about
those of its objects, and about those that were verified to be absent. Of some classes an image does
not have all objects, so that detections without an object are not counted. As in lvis-api, objects
and detections without a pixel are left out.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, Mapping, Sequence

import numpy as np

from model_fns.detection.metrics import coco, coco_matching, shapes
from model_fns.detection.metrics.evaluator import Detections, Groundtruth
from protos import label_map_pb2

# Detections of an image that count, of all classes together.
# `max_dets` of lvis-api.
_LIMIT = 300
_ALL = slice(None)
# The numbers of a summary, in its order.
_NUMBERS = (
    coco.Number('AP', 'precision', (_ALL, 0)),
    coco.Number('AP50', 'precision', (0, 0)),
    coco.Number('AP75', 'precision', (5, 0)),
    coco.Number('APs', 'precision', (_ALL, 1)),
    coco.Number('APm', 'precision', (_ALL, 2)),
    coco.Number('APl', 'precision', (_ALL, 3)),
    coco.Number('APr', 'precision', (_ALL, 0)),
    coco.Number('APc', 'precision', (_ALL, 0)),
    coco.Number('APf', 'precision', (_ALL, 0)),
    coco.Number('AR@300', 'recall', (_ALL, 0, 0)),
    coco.Number('ARs@300', 'recall', (_ALL, 1, 0)),
    coco.Number('ARm@300', 'recall', (_ALL, 2, 0)),
    coco.Number('ARl@300', 'recall', (_ALL, 3, 0)),
)
# Values of `LVISFrequency` of the classes of a number; others are of all classes.
_FREQUENCIES = {
    'APr': label_map_pb2.RARE,
    'APc': label_map_pb2.COMMON,
    'APf': label_map_pb2.FREQUENT,
}


class LvisEvaluator(coco.CocoEvaluator):
    """Evaluator of average precision by masks, by size, and by how often classes are seen.

    Args:
        class_names: names by id.
        frequencies: values of `LVISFrequency` by id.
        shape: shape that is compared.
        prefix: prefix of the metrics' names.
    """

    limits = (_LIMIT,)

    def __init__(
        self,
        class_names: Mapping[int, str],
        frequencies: Mapping[int, int],
        shape: shapes.Shape = shapes.MASKS,
        prefix: str = coco.MASK_PREFIX,
    ):
        super().__init__(class_names, shape=shape, prefix=prefix)
        self._frequencies = dict(frequencies)

    def names(self) -> Sequence[str]:
        """List the names of the summary."""
        return [self._prefix + number.name for number in _NUMBERS]

    def add_assigned(
        self, groundtruth: Groundtruth, detections: Detections
    ) -> coco_matching.Assignment:
        """Add one image, and return which objects its detections take."""
        # Limited before classes of other images are left out, as in lvis-api.
        best = np.argsort(-detections.scores, kind='stable')[:_LIMIT]
        best = best[~self.shape.empty(detections)[best]]
        groundtruth = groundtruth.kept(~self.shape.empty(groundtruth))
        known = np.concatenate([groundtruth.classes, groundtruth.absent_classes])
        detections = detections.kept(best[np.isin(detections.classes[best], known)])
        assignment = super().add_assigned(groundtruth, detections)
        matches = self.matches[-1].with_unmatched_ignored(groundtruth.incomplete_classes)
        self.matches[-1] = matches
        return dataclasses.replace(assignment, matches=matches)

    def evaluate(self) -> Dict[str, float]:
        """Compute all numbers; an undefined one is -1."""
        results = self.results()
        metrics = {}
        for number in _NUMBERS:
            frequency = _FREQUENCIES.get(number.name)
            chosen = [
                result
                for class_id, result in results.items()
                if frequency in (None, self._frequencies.get(class_id))
            ]
            mean = coco.mean(chosen, number)
            metrics[self._prefix + number.name] = coco.UNDEFINED if mean is None else mean
        return metrics
