"""COCO's matching of detections and groundtruth, and what follows for precision and recall.

The rules are those of the COCO challenge (Lin et al. 2014; cocodataset.org/#detection-eval) as
pycocotools computes them. An image is matched as it comes, for all classes, IoU thresholds and size
ranges at once; what is kept of it is 29 bytes a detection, and counts of the groundtruth.
"""

from __future__ import annotations

import dataclasses
from typing import Sequence, Union

import numpy as np

from model_fns.detection.boxes import overlaps
from model_fns.detection.metrics import shapes
from model_fns.detection.metrics.evaluator import Detections, Groundtruth

IOU_THRESHOLDS = np.linspace(0.5, 0.95, 10)
# All, small, medium, large: least and most area in pixels, both inclusive.
AREA_RANGES = np.array([[0.0, 1e10], [0.0, 32.0**2], [32.0**2, 96.0**2], [96.0**2, 1e10]])
# How many detections of an image and class count.
LIMITS = (1, 10, 100)

_RECALLS = np.linspace(0.0, 1.0, 101)
_SHAPE = (len(IOU_THRESHOLDS), len(AREA_RANGES))
# A box is never asked to overlap by all of itself: rounding may leave less.
_LEAST_OVERLAP = np.minimum(IOU_THRESHOLDS, 1.0 - 1e-10)
# A number with one bit for each threshold and range.
_BITS = (1 << np.arange(np.prod(_SHAPE), dtype=np.uint64)).reshape(_SHAPE)


@dataclasses.dataclass(frozen=True)
class Matches:
    """The detections of an image, by class and then by score.

    Attributes:
        classes: int32 [n], ids.
        scores: float32 [n].
        ranks: uint8 [n]: how many detections of the same class have a higher score.
        found: uint64 [n], a bit for each threshold and range: matched to an object.
        ignored: uint64 [n], likewise: counts for nothing.
    """

    classes: np.ndarray
    scores: np.ndarray
    ranks: np.ndarray
    found: np.ndarray
    ignored: np.ndarray

    def part(self, which: Union[slice, np.ndarray]) -> Matches:
        """Return some of the detections, by their places."""
        return Matches(*(getattr(self, field.name)[which] for field in dataclasses.fields(self)))


@dataclasses.dataclass(frozen=True)
class ClassResult:
    """Precision and recall of one class.

    Attributes:
        precision: [thresholds, ranges]: the mean over 101 recalls; NaN without groundtruth.
        recall: [thresholds, ranges, limits]; NaN without groundtruth.
    """

    precision: np.ndarray
    recall: np.ndarray


def not_counted(groundtruth: Groundtruth, shape: shapes.Shape = shapes.BOXES) -> np.ndarray:
    """Which objects it does not matter to find: bool [ranges, n].

    They are crowds, those of other sizes, and those whose shape nobody knows.
    """
    area = np.asarray(groundtruth.areas, np.float64)
    area = np.where(area > 0, area, overlaps.areas(np.asarray(groundtruth.boxes, np.float64)))
    return _outside(area) | np.asarray(groundtruth.is_crowd, bool) | shape.unknown(groundtruth)


def match(
    groundtruth: Groundtruth, detections: Detections, shape: shapes.Shape = shapes.BOXES
) -> Matches:
    """Matches the detections of an image, each class by itself.

    The detections take objects in the order of their scores: each the object of its class that it
    overlaps most, of those that count and are still free. Only where none is left does it take one
    that does not count, and then it does not count either. Crowds are free for any number of
    detections; the overlap with a crowd is a share of the detection.
    """
    detections, ranks = _ranked(detections)
    detections = dataclasses.replace(detections, boxes=np.asarray(detections.boxes, np.float64))
    boxes = np.asarray(groundtruth.boxes, np.float64)
    groundtruth = dataclasses.replace(groundtruth, boxes=boxes)
    crowd = np.asarray(groundtruth.is_crowd, bool)
    overlap = shape.overlaps(detections, groundtruth, crowd)
    overlap[detections.classes[:, np.newaxis] != groundtruth.classes] = 0.0
    free = np.ones([*_SHAPE, len(boxes)], bool)
    skipped = not_counted(groundtruth, shape)
    found = np.zeros([len(overlap), *_SHAPE], bool)
    ignored = np.zeros([len(overlap), *_SHAPE], bool)
    # Most detections overlap nothing enough, and most of the others one object.
    enough = overlap >= _LEAST_OVERLAP[0]
    contested = enough[enough.sum(axis=1) > 1].any(axis=0)
    rows, taken, which = _found_alone(overlap, np.logical_and(enough, ~contested), crowd)
    found[rows] = which[:, :, np.newaxis]
    ignored[rows] = np.logical_and(found[rows], skipped.T[taken][:, np.newaxis, :])
    for index in np.flatnonzero(enough[:, contested].any(axis=1)):
        near = np.flatnonzero(enough[index])
        chosen, found[index] = _choose(overlap[index, near], free[:, :, near], skipped[:, near])
        taken = near[chosen]
        ignored[index] = np.logical_and(found[index], _pick(skipped, taken))
        thresholds, ranges = np.nonzero(np.logical_and(found[index], ~crowd[taken]))
        free[thresholds, ranges, taken[thresholds, ranges]] = False
    ignored |= np.logical_and(~found, _outside(shape.areas(detections)).T[:, np.newaxis, :])
    return Matches(
        detections.classes.astype(np.int32),
        detections.scores.astype(np.float32),
        ranks,
        _packed(found),
        _packed(ignored),
    )


def concatenate(matches: Sequence[Matches]) -> Matches:
    """Return the detections of several images: by class, then by score, then by image."""
    names = [field.name for field in dataclasses.fields(Matches)]
    joined = Matches(*(np.concatenate([getattr(one, name) for one in matches]) for name in names))
    return joined.part(np.lexsort([-joined.scores, joined.classes]))


def class_result(matches: Matches, counts: np.ndarray) -> ClassResult:
    """Precision and recall of one class over all images.

    Args:
        matches: of that class, sorted by score.
        counts: [ranges], how many objects there are to find.
    """
    precision = np.full(_SHAPE, np.nan)
    recall = np.full([*_SHAPE, len(LIMITS)], np.nan)
    for threshold, size in np.ndindex(*_SHAPE):
        if not counts[size]:
            continue
        counted = matches.ignored & _BITS[threshold, size] == 0
        found = matches.found[counted] & _BITS[threshold, size] != 0
        ranks = matches.ranks[counted]
        precision[threshold, size] = _mean_precision(found, counts[size])
        recall[threshold, size] = [
            np.count_nonzero(found[ranks < limit]) / counts[size] for limit in LIMITS
        ]
    return ClassResult(precision, recall)


def _mean_precision(found: np.ndarray, count: int) -> float:
    """Return mean over 101 recalls of the best precision that has at least that recall.

    Args:
        found: bool [n], sorted by score: true and false positives.
        count: of objects.
    """
    if not len(found):
        return 0.0
    true = np.cumsum(found)
    precision = true / np.arange(1, len(found) + 1)
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    places = np.searchsorted(true / count, _RECALLS, side='left')
    return float(np.append(precision, 0.0)[places].mean())


def _ranked(detections: Detections) -> tuple:
    """Return the detections by class, then by score, with their ranks; no more than count."""
    order = np.lexsort([-detections.scores, detections.classes])
    classes = detections.classes[order]
    ranks = np.arange(len(order)) - np.searchsorted(classes, classes)
    kept = ranks < LIMITS[-1]
    return detections.kept(order[kept]), ranks[kept].astype(np.uint8)


def _found_alone(overlap: np.ndarray, pairs: np.ndarray, crowd: np.ndarray) -> tuple:
    """Who finds objects that nobody has to choose between.

    Args:
        overlap: [n, m].
        pairs: bool [n, m]: which detection is near to which object; to no more than one.
        crowd: bool [m].

    Returns:
        The k detections that are near to an object, the objects, and by threshold whether it is
        found: bool [k, thresholds]. The first that overlaps it enough finds it, or, of a crowd,
        each.
    """
    taken, rows = np.nonzero(pairs.T)
    enough = overlap[rows, taken][:, np.newaxis] >= _LEAST_OVERLAP
    first_of_object = np.searchsorted(taken, taken)
    up_to_here = np.cumsum(enough, axis=0)
    before_object = (up_to_here - enough)[first_of_object]
    is_first = up_to_here - before_object == 1
    return rows, taken, np.logical_and(enough, is_first | crowd[taken, np.newaxis])


def _choose(overlap: np.ndarray, free: np.ndarray, skipped: np.ndarray) -> tuple:
    """What one detection takes of the objects near to it, by threshold and range.

    Args:
        overlap: [k].
        free: bool [thresholds, ranges, k].
        skipped: bool [ranges, k].

    Returns:
        Places in [0, k), and whether there is one: [thresholds, ranges].
    """
    possible = np.logical_and(free, (overlap >= _LEAST_OVERLAP[:, np.newaxis])[:, np.newaxis, :])
    if len(overlap) == 1:
        return np.zeros(_SHAPE, np.int64), possible[:, :, 0]
    counting = np.logical_and(possible, ~skipped)
    possible = np.where(counting.any(axis=-1, keepdims=True), counting, possible)
    values = np.where(possible, overlap, -1.0)
    # Of equal ones the last.
    chosen = len(overlap) - 1 - values[:, :, ::-1].argmax(axis=-1)
    return chosen, possible.any(axis=-1)


def _outside(area: np.ndarray) -> np.ndarray:
    """Which areas [n] are not in a range: bool [ranges, n]."""
    least, most = AREA_RANGES[:, :1], AREA_RANGES[:, 1:]
    return np.logical_or(area < least, area > most)


def _pick(table: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return a table [ranges, n] at columns [thresholds, ranges]."""
    return table[np.arange(len(table)), columns]


def _packed(flags: np.ndarray) -> np.ndarray:
    """Flags [n, thresholds, ranges] as the bits of uint64 [n]."""
    return np.where(flags, _BITS, np.uint64(0)).sum(axis=(1, 2), dtype=np.uint64)
