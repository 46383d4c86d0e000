"""COCO's matching of detections and groundtruth, with precision and recall.

The rules are those of the COCO challenge (Lin et al. 2014; cocodataset.org/#detection-eval) as
pycocotools computes them. Each image is matched when it arrives, for all classes, IoU thresholds
and size ranges at once. Only 29 bytes per detection and counts of the groundtruth are kept.
"""

from __future__ import annotations

import dataclasses
from typing import Sequence, Union

import numpy as np

from model_fns.detection.metrics import shapes
from model_fns.detection.metrics.evaluator import Detections, Groundtruth
from model_fns.structures import box_overlaps

IOU_THRESHOLDS = np.linspace(0.5, 0.95, 10)
# All, small, medium, large: least and most area in pixels, both inclusive.
AREA_RANGES = np.array([[0.0, 1e10], [0.0, 32.0**2], [32.0**2, 96.0**2], [96.0**2, 1e10]])
# Numbers of counted detections of an image and class.
LIMITS = (1, 10, 100)
# The largest rank that is kept.
_MOST_RANK = np.iinfo(np.uint8).max

RECALLS = np.linspace(0.0, 1.0, 101)
_SHAPE = (len(IOU_THRESHOLDS), len(AREA_RANGES))
# The least overlap stays below 1, because rounding may reduce a complete overlap.
_LEAST_OVERLAP = np.minimum(IOU_THRESHOLDS, 1.0 - 1e-10)
# One bit for each threshold and range.
# They are 40 of the 64.
_BITS = (1 << np.arange(np.prod(_SHAPE), dtype=np.uint64)).reshape(_SHAPE)


@dataclasses.dataclass(frozen=True)
class Matches:
    """The detections of an image, by class and then by score.

    Attributes:
        classes: int32 [n], ids.
        scores: float32 [n].
        ranks: uint8 [n]: number of detections of the same class with a higher score, at most 255.
        found: uint64 [n], a bit for each threshold and range: matched with an object.
        ignored: uint64 [n], a bit for each threshold and range: not counted.
    """

    classes: np.ndarray
    scores: np.ndarray
    ranks: np.ndarray
    found: np.ndarray
    ignored: np.ndarray

    def part(self, rows: Union[slice, np.ndarray]) -> Matches:
        """Return the detections at some indices."""
        return Matches(*(getattr(self, field.name)[rows] for field in dataclasses.fields(self)))

    def with_unmatched_ignored(self, classes: np.ndarray) -> Matches:
        """Return the matches without counting detections of some classes that have no object."""
        unmatched = _BITS.sum(dtype=np.uint64) & ~self.found
        chosen = np.isin(self.classes, classes)
        ignored = np.where(chosen, self.ignored | unmatched, self.ignored)
        return dataclasses.replace(self, ignored=ignored)


@dataclasses.dataclass(frozen=True)
class ClassResult:
    """Precision and recall of one class.

    Attributes:
        precision: [thresholds, ranges]: the mean over 101 recalls; NaN without groundtruth.
        recall: [thresholds, ranges, limits]; NaN without groundtruth.
    """

    precision: np.ndarray
    recall: np.ndarray


@dataclasses.dataclass(frozen=True)
class Assignment:
    """The detections of an image beside its objects.

    Attributes:
        matches: the detections, by class and then by score.
        objects: [n], the object that each takes at the lowest threshold, of any size; -1 for none.
        overlaps: [n, m], with objects of all classes; see `Shape.overlaps`.
    """

    matches: Matches
    objects: np.ndarray
    overlaps: np.ndarray


def not_counted(groundtruth: Groundtruth, shape: shapes.Shape = shapes.BOXES) -> np.ndarray:
    """Find the objects that are optional: bool [ranges, n].

    These are crowds, objects of other sizes, and objects with an unknown shape.
    """
    area = np.asarray(groundtruth.areas, np.float64)
    area = np.where(area > 0, area, box_overlaps.areas(np.asarray(groundtruth.boxes, np.float64)))
    return _outside(area) | np.asarray(groundtruth.is_crowd, bool) | shape.unknown(groundtruth)


def match(
    groundtruth: Groundtruth, detections: Detections, shape: shapes.Shape = shapes.BOXES
) -> Matches:
    """Match the detections of an image, each class separately.

    Detections take objects in descending order of scores. Each takes the counted, free object of
    its class that it overlaps most. If there is none, it takes an optional object, and is not
    counted either. Crowds can be taken by any number of detections. The overlap with a crowd is
    relative to the area of the detection.
    """
    return assign(groundtruth, detections, shape).matches


def assign(
    groundtruth: Groundtruth,
    detections: Detections,
    shape: shapes.Shape = shapes.BOXES,
    limit: int = LIMITS[-1],
) -> Assignment:
    """Match the detections of an image as `match` does, and return the objects that they take.

    Args:
        groundtruth: objects.
        detections: detections; of each class only those of the highest scores are matched.
        shape: shape that is compared.
        limit: number of matched detections of a class.
    """
    detections, ranks = _ranked(detections, limit)
    detections = dataclasses.replace(detections, boxes=np.asarray(detections.boxes, np.float64))
    boxes = np.asarray(groundtruth.boxes, np.float64)
    groundtruth = dataclasses.replace(groundtruth, boxes=boxes)
    crowd = np.asarray(groundtruth.is_crowd, bool)
    overlap = shape.overlaps(detections, groundtruth, crowd)
    all_overlaps = overlap
    same = detections.classes[:, np.newaxis] == groundtruth.classes
    overlap = np.where(same, overlap, 0.0)
    free = np.ones([*_SHAPE, len(boxes)], bool)
    skipped = not_counted(groundtruth, shape)
    found = np.zeros([len(overlap), *_SHAPE], bool)
    ignored = np.zeros([len(overlap), *_SHAPE], bool)
    objects = np.full([len(overlap)], -1)
    # Most detections overlap no object sufficiently, and most others exactly one.
    enough = overlap >= _LEAST_OVERLAP[0]
    contested = enough[enough.sum(axis=1) > 1].any(axis=0)
    rows, taken, is_match = _match_uncontested(overlap, np.logical_and(enough, ~contested), crowd)
    found[rows] = is_match[:, :, np.newaxis]
    objects[rows] = np.where(is_match[:, 0], taken, -1)
    ignored[rows] = np.logical_and(found[rows], skipped.T[taken][:, np.newaxis, :])
    for index in np.flatnonzero(enough[:, contested].any(axis=1)):
        near = np.flatnonzero(enough[index])
        chosen, found[index] = _choose(overlap[index, near], free[:, :, near], skipped[:, near])
        taken = near[chosen]
        ignored[index] = np.logical_and(found[index], _pick(skipped, taken))
        objects[index] = taken[0, 0] if found[index, 0, 0] else -1
        thresholds, ranges = np.nonzero(np.logical_and(found[index], ~crowd[taken]))
        free[thresholds, ranges, taken[thresholds, ranges]] = False
    # As in pycocotools, a detection of another size that matches nothing is no false positive.
    ignored |= np.logical_and(~found, _outside(shape.areas(detections)).T[:, np.newaxis, :])
    matches = Matches(
        detections.classes.astype(np.int32),
        detections.scores.astype(np.float32),
        ranks,
        _packed(found),
        _packed(ignored),
    )
    return Assignment(matches, objects, all_overlaps)


def concatenate(matches: Sequence[Matches]) -> Matches:
    """Concatenate the detections of images, sorted by class, then by score, then by image."""
    names = [field.name for field in dataclasses.fields(Matches)]
    joined = Matches(
        *(np.concatenate([getattr(image, name) for image in matches]) for name in names)
    )
    return joined.part(np.lexsort([-joined.scores, joined.classes]))


def lowest_flags(flags: np.ndarray) -> np.ndarray:
    """Return the flags of `Matches` for the lowest threshold and all sizes: bool [n]."""
    return flags & _BITS[0, 0] != 0


def threshold_flags(flags: np.ndarray) -> np.ndarray:
    """Return the flags of `Matches` for all sizes: bool [n, thresholds]."""
    return flags[:, np.newaxis] & _BITS[:, 0] != 0


def class_result(
    matches: Matches, counts: np.ndarray, limits: Sequence[int] = LIMITS
) -> ClassResult:
    """Compute precision and recall of one class over all images.

    Args:
        matches: matches of that class, sorted by score.
        counts: [ranges], number of objects to find.
        limits: numbers of counted detections of an image, for recall; above 255 all count.
    """
    result = undefined_result(len(limits))
    for threshold, size in np.ndindex(*_SHAPE):
        if not counts[size]:
            continue
        counted = matches.ignored & _BITS[threshold, size] == 0
        found = matches.found[counted] & _BITS[threshold, size] != 0
        ranks = matches.ranks[counted]
        result.precision[threshold, size] = mean_precision(found, int(counts[size]))
        result.recall[threshold, size] = [
            np.count_nonzero(found[ranks < limit]) / counts[size] for limit in limits
        ]
    return result


def undefined_result(limits: int = len(LIMITS)) -> ClassResult:
    """Return a result of NaN, with recall at a number of limits."""
    return ClassResult(np.full(_SHAPE, np.nan), np.full([*_SHAPE, limits], np.nan))


def mean_precision(found: np.ndarray, count: int) -> float:
    """Compute the mean of `precision_at_recalls` of bool [n]; 0 without detections."""
    return float(precision_at_recalls(found, count).mean()) if len(found) else 0.0


def precision_at_recalls(found: np.ndarray, count: int) -> np.ndarray:
    """Compute the best precision with at least each of the recalls 0, 0.01, ... 1: [101].

    Args:
        found: bool [n], sorted by score: true and false positives.
        count: number of objects.
    """
    true = np.cumsum(found)
    precision = true / np.arange(1, len(found) + 1)
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    # As `accumulate` of pycocotools; recalls that are never reached have a precision of 0.
    indices = np.searchsorted(true / count, RECALLS, side='left')
    return np.append(precision, 0.0)[indices]


def _ranked(detections: Detections, limit: int) -> tuple:
    """Sort detections by class, then by score, with their ranks; drop those beyond the limit."""
    # Stable, as the merge sort of pycocotools: equal scores stay in the order of the model.
    order = np.lexsort([-detections.scores, detections.classes])
    classes = detections.classes[order]
    ranks = np.arange(len(order)) - np.searchsorted(classes, classes)
    kept = ranks < limit
    return detections.kept(order[kept]), np.minimum(ranks[kept], _MOST_RANK).astype(np.uint8)


def _match_uncontested(overlap: np.ndarray, pairs: np.ndarray, crowd: np.ndarray) -> tuple:
    """Match detections with objects that no other decision affects.

    Args:
        overlap: [n, m].
        pairs: bool [n, m]: True for a detection near an object, at most one per detection.
        crowd: bool [m].

    Returns:
        The k detections near an object, their objects, and whether they match: bool
        [k, thresholds]. The first detection with a sufficient overlap matches, and each one for a
        crowd.
    """
    taken, rows = np.nonzero(pairs.T)
    enough = overlap[rows, taken][:, np.newaxis] >= _LEAST_OVERLAP
    first_of_object = np.searchsorted(taken, taken)
    up_to_here = np.cumsum(enough, axis=0)
    before_object = (up_to_here - enough)[first_of_object]
    is_first = up_to_here - before_object == 1
    return rows, taken, np.logical_and(enough, is_first | crowd[taken, np.newaxis])


def _choose(overlap: np.ndarray, free: np.ndarray, skipped: np.ndarray) -> tuple:
    """Choose the object that a detection takes among the near ones, by threshold and range.

    Args:
        overlap: [k].
        free: bool [thresholds, ranges, k].
        skipped: bool [ranges, k].

    Returns:
        Indices in [0, k), and whether an object is taken: [thresholds, ranges].
    """
    possible = np.logical_and(free, (overlap >= _LEAST_OVERLAP[:, np.newaxis])[:, np.newaxis, :])
    if len(overlap) == 1:
        return np.zeros(_SHAPE, np.int64), possible[:, :, 0]
    counting = np.logical_and(possible, ~skipped)
    possible = np.where(counting.any(axis=-1, keepdims=True), counting, possible)
    values = np.where(possible, overlap, -1.0)
    # The last of equal overlaps wins.
    # pycocotools only skips an object whose overlap is less than the best so far.
    chosen = len(overlap) - 1 - values[:, :, ::-1].argmax(axis=-1)
    return chosen, possible.any(axis=-1)


def _outside(area: np.ndarray) -> np.ndarray:
    """Find the areas [n] outside of each range: bool [ranges, n]."""
    least, most = AREA_RANGES[:, :1], AREA_RANGES[:, 1:]
    return np.logical_or(area < least, area > most)


def _pick(table: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Select from a table [ranges, n] at columns [thresholds, ranges]."""
    return table[np.arange(len(table)), columns]


def _packed(flags: np.ndarray) -> np.ndarray:
    """Pack flags [n, thresholds, ranges] into the bits of uint64 [n]."""
    return np.where(flags, _BITS, np.uint64(0)).sum(axis=(1, 2), dtype=np.uint64)
