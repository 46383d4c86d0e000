"""Average precision of samples of an evaluation's images, from the matches of each image."""

from __future__ import annotations

from typing import Dict, Sequence

import numpy as np

from estimator_lib.task import Arrays
from estimator_lib.task_interfaces.analysis import Resampler
from model_fns.detection.metrics import coco_matching
from model_fns.detection.metrics.coco import CocoEvaluator
from model_fns.detection.metrics.coco_matching import ClassResult, Matches

# Of each detection.
_IMAGES, _CLASSES, _SCORES, _FOUND, _IGNORED = 'images', 'classes', 'scores', 'found', 'ignored'
# Of each object to find.
_OBJECT_IMAGES, _OBJECT_CLASSES = 'object_images', 'object_classes'

# Ten thresholds take 2 bytes of a detection, not 10.
_BITS = 1 << np.arange(len(coco_matching.IOU_THRESHOLDS), dtype=np.uint16)


def to_arrays(
    numbers: Sequence[int], matches: Sequence[Matches], objects: Sequence[np.ndarray]
) -> Arrays:
    """Return the matches of images of any size, 14 bytes for each detection, 6 for each object.

    Args:
        numbers: number of each image among the examples.
        matches: the detections of each image.
        objects: class ids of the objects to find in each image.
    """
    if not numbers:
        return {}
    return {
        _IMAGES: np.repeat(numbers, [len(image.scores) for image in matches]).astype(np.int32),
        _CLASSES: np.concatenate([image.classes for image in matches]).astype(np.int16),
        _SCORES: np.concatenate([image.scores for image in matches]),
        _FOUND: np.concatenate([_packed(image.found) for image in matches]),
        _IGNORED: np.concatenate([_packed(image.ignored) for image in matches]),
        _OBJECT_IMAGES: np.repeat(numbers, [len(image) for image in objects]).astype(np.int32),
        _OBJECT_CLASSES: np.concatenate(objects).astype(np.int16),
    }


def create_resampler(examples: Arrays, evaluator: CocoEvaluator) -> Resampler:
    """Create a function from the weight of each image to COCO's precisions for all sizes.

    Args:
        examples: from `to_arrays`.
        evaluator: has the classes and the names of metrics.
    """
    # Sorted once for all samples: a weight repeats rows and does not change their order. The last
    # key of lexsort is the primary one.
    order = np.lexsort([-examples[_SCORES], examples[_CLASSES]])
    images, classes = examples[_IMAGES][order], examples[_CLASSES][order]
    found, ignored = (examples[name][order, np.newaxis] & _BITS != 0 for name in (_FOUND, _IGNORED))
    ids = evaluator.class_ids
    parts = np.searchsorted(classes, np.add.outer(ids, [0, 1]))

    def resample(weights: np.ndarray) -> Dict[str, float]:
        counts = np.bincount(
            examples[_OBJECT_CLASSES], weights[examples[_OBJECT_IMAGES]], max(ids) + 1
        )
        results = {}
        for class_id, (first, last) in zip(ids, parts):
            if counts[class_id]:
                rows = np.repeat(np.arange(first, last), weights[images[first:last]])
                results[class_id] = _result(found[rows], ignored[rows], int(counts[class_id]))
        return evaluator.summarize(results)

    return resample


def _result(found: np.ndarray, ignored: np.ndarray, count: int) -> ClassResult:
    """Compute the precisions of a class; those of sizes and all recalls are NaN.

    Args:
        found: bool [n, thresholds], sorted by score.
        ignored: bool [n, thresholds].
        count: number of objects.
    """
    result = coco_matching.undefined_result()
    for threshold, (is_true, is_left_out) in enumerate(zip(found.T, ignored.T)):
        result.precision[threshold, 0] = coco_matching.mean_precision(is_true[~is_left_out], count)
    return result


def _packed(flags: np.ndarray) -> np.ndarray:
    """Pack the flags of `Matches` for all sizes into a bit for each threshold: uint16 [n]."""
    return np.where(coco_matching.threshold_flags(flags), _BITS, 0).sum(axis=1).astype(np.uint16)
