"""The six types of errors of TIDE, and the average precision that fixing each would gain.

The definition is that of Bolya et al. 2020, "TIDE: A General Toolbox for Identifying Object
Detection Errors".

A false positive has one type, by its highest intersection over union with objects of its own class
(`same`) and of other classes (`other`). The first row that applies counts:

    localization     0.1 <= same < 0.5
    classification   other >= 0.5
    duplicate        same >= 0.5; a detection with a higher score has the object
    background       same < 0.1 and other < 0.1
    both             the rest: 0.1 <= other < 0.5

An object is missed if no detection found it, and no localization or classification error is about
it. What a fix does:

    localization, classification   the detection finds its object; of several, the one with the
                                   highest score does, and the others are removed, as all are where
                                   the object is found already
    duplicate, background, both    the detection is removed
    missed                         the object is not counted; a class that has no other object, but
                                   detections, which are all false, has an average precision of 0
"""

from __future__ import annotations

import enum
from typing import Dict, Mapping, NamedTuple, Sequence

import numpy as np

from model_fns.detection.metrics import coco_matching

# The thresholds tf and tb of TIDE (Bolya et al. 2020).
FOREGROUND = 0.5
BACKGROUND = 0.1


class Kind(enum.IntEnum):
    """Type of an error; `NONE` for detections that are right or not counted."""

    NONE = 0
    CLASSIFICATION = 1
    LOCALIZATION = 2
    BOTH = 3
    DUPLICATE = 4
    BACKGROUND = 5
    MISSED = 6


KINDS = tuple(Kind)[1:]


class ImageErrors(NamedTuple):
    """Errors of an image: n detections, as `coco_matching.Matches` sorts them, and m objects.

    Attributes:
        kinds: uint8 [n], a `Kind`.
        objects: int16 [n]: the object that a detection has found, or that its error is about; -1:
            none.
        overlaps: float32 [n], with that object; without one, the highest with any object.
        fixed: int16 [n]: class id of the object that a fix lets the detection find; 0: the fix
            removes the detection.
        missed: bool [m].
    """

    kinds: np.ndarray
    objects: np.ndarray
    overlaps: np.ndarray
    fixed: np.ndarray
    missed: np.ndarray


def find_errors(
    assignment: coco_matching.Assignment, classes: np.ndarray, counted: np.ndarray
) -> ImageErrors:
    """Find the type of each error of an image.

    Args:
        assignment: the detections of the image beside its objects.
        classes: [m], class ids of the objects.
        counted: bool [m], objects that are not optional.
    """
    # Copied because rows of errors are overwritten: the assignment is the caller's.
    matches, objects = assignment.matches, np.asarray(assignment.objects).copy()
    # The lowest threshold of COCO, 0.5, is `FOREGROUND`: all types are found at this one.
    is_false = ~coco_matching.lowest_flags(matches.found | matches.ignored)
    # A detection on an optional object (crowd, difficult) is ignored by matching, so no error is
    # about such an object.
    overlaps = np.where(counted, assignment.overlaps, 0.0)
    is_same = matches.classes[:, np.newaxis] == classes
    same, same_at = _best(np.where(is_same, overlaps, 0.0))
    other, other_at = _best(np.where(is_same, 0.0, overlaps))
    # The last assignment to a detection counts: the first row of the table comes last.
    kinds = np.where(np.maximum(same, other) < BACKGROUND, Kind.BACKGROUND, Kind.BOTH)
    kinds[same >= FOREGROUND] = Kind.DUPLICATE
    kinds[other >= FOREGROUND] = Kind.CLASSIFICATION
    kinds[(same >= BACKGROUND) & (same < FOREGROUND)] = Kind.LOCALIZATION
    kinds[~is_false] = Kind.NONE
    own = (kinds == Kind.LOCALIZATION) | (kinds == Kind.DUPLICATE)
    others = (kinds == Kind.CLASSIFICATION) | (kinds == Kind.BOTH)
    objects[own], objects[others] = same_at[own], other_at[others]
    taken = np.zeros(len(classes), bool)
    taken[objects[(kinds == Kind.NONE) & (objects >= 0)]] = True
    fixed, missed = _fixes(kinds, objects, matches.scores, classes, taken)
    rows = np.arange(len(objects))
    at_object = assignment.overlaps[rows, objects] if overlaps.size else np.zeros(len(rows))
    return ImageErrors(
        kinds.astype(np.uint8),
        objects.astype(np.int16),
        np.where(objects >= 0, at_object, np.maximum(same, other)).astype(np.float32),
        fixed.astype(np.int16),
        missed & counted,
    )


def missed_objects(errors: ImageErrors, counted: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """Find the objects that are missed if some detections are left out: bool [m].

    Args:
        errors: errors of the image.
        counted: bool [m], objects that are not optional.
        shown: bool [n], the detections that stay: those above a score.
    """
    about = shown & (errors.objects >= 0)
    kinds = errors.kinds
    about &= (kinds == Kind.NONE) | (kinds == Kind.LOCALIZATION) | (kinds == Kind.CLASSIFICATION)
    known = np.zeros(len(errors.missed), bool)
    known[errors.objects[about]] = True
    return counted & ~known


class Detected(NamedTuple):
    """The counted detections of all images.

    Attributes:
        classes: [n], class ids.
        scores: [n].
        found: bool [n]: True for true positives.
        kinds: [n], the `Kind` of each.
        fixed: [n], see `ImageErrors`.
    """

    classes: np.ndarray
    scores: np.ndarray
    found: np.ndarray
    kinds: np.ndarray
    fixed: np.ndarray


def compute_gains(
    detected: Detected, counts: Mapping[int, int], missed: Mapping[int, int]
) -> Dict[Kind, float]:
    """Compute the change of the mean average precision at 0.5 if each type of error were fixed.

    Args:
        detected: the counted detections, the images in order.
        counts: number of objects to find, by class id.
        missed: number of them that are missed, by class id.
    """
    # Classes without any object are left out, as COCO does.
    counts = {class_id: count for class_id, count in counts.items() if count > 0}
    before = mean_precision(detected.classes, detected.scores, detected.found, counts)
    gains = {}
    for kind in KINDS:
        of_kind = detected.kinds == kind
        kept = ~of_kind | (detected.fixed > 0)
        # A fixed detection keeps its score, but counts for the class of its object.
        classes = np.where(of_kind, detected.fixed, detected.classes)[kept]
        found = (detected.found | of_kind)[kept]
        left = dict(counts)
        if kind == Kind.MISSED:
            left = {class_id: count - missed.get(class_id, 0) for class_id, count in counts.items()}
        gains[kind] = mean_precision(classes, detected.scores[kept], found, left) - before
    return gains


def mean_precision(
    classes: np.ndarray, scores: np.ndarray, found: np.ndarray, counts: Mapping[int, int]
) -> float:
    """Compute the mean of the average precision of classes; 0 without any.

    Args:
        classes: [n], class ids of the detections.
        scores: [n].
        found: bool [n], true positives.
        counts: number of objects to find, by class id. A class of 0 objects has 0 if it has
            detections, and is left out if it has none. Classes without a number are left out.
    """
    order = np.lexsort([-scores, classes])
    classes, found = classes[order], found[order]
    values = []
    for class_id, count in counts.items():
        first, last = np.searchsorted(classes, [class_id, class_id + 1])
        if count > 0:
            values.append(coco_matching.mean_precision(found[first:last], count))
        elif last > first:
            values.append(0.0)
    return float(np.mean(values)) if values else 0.0


def _best(overlaps: np.ndarray) -> Sequence[np.ndarray]:
    """Return the highest overlap of each detection, and its object; 0 and -1 without objects."""
    # NumPy has no maximum of an empty axis.
    if not overlaps.shape[1]:
        return np.zeros(len(overlaps)), np.full(len(overlaps), -1)
    return overlaps.max(axis=1), overlaps.argmax(axis=1)


def _fixes(
    kinds: np.ndarray,
    objects: np.ndarray,
    scores: np.ndarray,
    classes: np.ndarray,
    taken: np.ndarray,
) -> Sequence[np.ndarray]:
    """Return `ImageErrors.fixed`, and the objects that no detection is about: bool [m]."""
    fixed, known = np.zeros(len(kinds), np.int64), taken.copy()
    fixable = np.flatnonzero((kinds == Kind.LOCALIZATION) | (kinds == Kind.CLASSIFICATION))
    for row in fixable[np.argsort(-scores[fixable], kind='stable')]:
        if not known[objects[row]]:
            known[objects[row]] = True
            fixed[row] = classes[objects[row]]
    return fixed, ~known
