"""Agreement of the detections of a file with those of its network.

Rows cannot be compared directly, because detections with almost equal scores may be swapped.
"""

from __future__ import annotations

from typing import Dict, List, Sequence, Tuple

import numpy as np

from estimator_lib.task import Arrays
from model_fns.detection import fields
from model_fns.detection.boxes import overlaps
from model_fns.structures import rotated_overlaps

_IN_ORDER = 'scores in order'
_FOUND = 0.3  # least score of detections that are compared
_SAME_BOX = 0.9  # least IoU of the same detection in exact outputs; in others:
_NEAR_BOX = 0.6
_NEAR_SCORE = 0.1
_EXACT = 1e-3  # of scores, and of the values of masks and keypoints
# Further values of a detection.
_VALUES = (
    fields.DETECTION_MASKS,
    fields.DETECTION_KEYPOINTS,
    fields.DETECTION_KEYPOINT_SCORES,
)


def compare(expected: Sequence[Arrays], found: Sequence[Arrays], exact: bool) -> Dict[str, float]:
    """Compute the fraction of detections that are found again, and of equal sorted scores.

    Args:
        expected: see `Deployable.agreement`.
        found: likewise.
        exact: likewise.
    """
    tolerance = _EXACT if exact else _NEAR_SCORE
    scores = [
        np.abs(_scores(want) - _scores(got)) <= tolerance for want, got in zip(expected, found)
    ]
    parts = {_IN_ORDER: float(np.mean(scores))}
    again = [
        is_found
        for want, got in zip(expected, found)
        for is_found in _found_again(want, got, exact)
    ]
    # An untrained network may have no detections.
    if not again:
        return parts
    return {
        f'detections from {_FOUND} on': float(np.mean(again)),
        **parts,
        **_values_in_common(expected, found, exact),
    }


def largest_differences(expected: Sequence[Arrays], found: Sequence[Arrays]) -> Dict[str, float]:
    """Compute the largest difference of sorted scores."""
    differences = [np.abs(_scores(want) - _scores(got)) for want, got in zip(expected, found)]
    return {_IN_ORDER: float(np.max(differences))}


def _boxes(outputs: Arrays) -> np.ndarray:
    """Return boxes [N, 4], or the corners of rotated boxes [N, 8]."""
    name = fields.DETECTION_BOXES
    return outputs[name if name in outputs else fields.DETECTION_CORNERS][0]


def _overlaps(expected: Arrays, found: Arrays) -> np.ndarray:
    """Return the IoU of all boxes of one image with all others."""
    boxes, others = _boxes(expected), _boxes(found)
    if boxes.shape[-1] == 4:
        return overlaps.iou(boxes, others)
    corners, other_corners = (
        each.reshape([-1, 4, 2]).astype(np.float64) for each in (boxes, others)
    )
    return rotated_overlaps.iou(corners, other_corners)


def _scores(outputs: Arrays) -> np.ndarray:
    """Return scores [N], with zeros after the last detection."""
    scores = outputs[fields.DETECTION_SCORES][0]
    return np.where(np.arange(len(scores)) < outputs[fields.NUM_DETECTIONS][0], scores, 0.0)


def _same(expected: Arrays, found: Arrays, exact: bool) -> np.ndarray:
    """Check which detections of an image are the same in both: bool [N, N]."""
    classes, other_classes = (outputs[fields.DETECTION_CLASSES][0] for outputs in (expected, found))
    is_other = np.arange(len(other_classes)) < found[fields.NUM_DETECTIONS][0]
    near = _overlaps(expected, found) > (_SAME_BOX if exact else _NEAR_BOX)
    # Boxes without area overlap nothing.
    boxes, others = _boxes(expected), _boxes(found)
    near |= np.abs(boxes[:, np.newaxis] - others).max(-1) <= _EXACT
    return near & is_other & (classes[:, np.newaxis] == other_classes)


def _found_again(expected: Arrays, found: Arrays, exact: bool) -> Sequence[bool]:
    """Check for each detection with a sufficient score whether another run found it too.

    If the other run has no free rows, detections with the lowest scores may have been replaced by
    others with the same score: the scores of an untrained network are almost equal.
    """
    scores, other_scores = _scores(expected), _scores(found)
    same = _same(expected, found, exact)
    is_full = found[fields.NUM_DETECTIONS][0] >= len(other_scores)
    lost_from = other_scores.min() if is_full else 0.0
    tolerance = _EXACT if exact else _NEAR_SCORE
    return [
        scores[row] <= lost_from + tolerance or bool(np.any(same[row]))
        for row in np.flatnonzero(scores >= _FOUND)
    ]


def _values_in_common(
    expected: Sequence[Arrays], found: Sequence[Arrays], exact: bool
) -> Dict[str, float]:
    """Compute the fraction of equal values of masks and keypoints of the same detections.

    Of several detections that are the same, the one counts whose values are nearest.
    """
    tolerance = _EXACT if exact else _NEAR_SCORE
    parts: Dict[str, List[float]] = {name: [] for name in _VALUES if name in expected[0]}
    for want, got in zip(expected, found):
        for row, others in _matches(want, got, exact):
            for name, fractions in parts.items():
                near = np.abs(got[name][0, others] - want[name][0, row]) <= tolerance
                fractions.append(float(near.reshape([len(others), -1]).mean(1).max()))
    return {name: float(np.mean(fractions)) for name, fractions in parts.items() if fractions}


def _matches(expected: Arrays, found: Arrays, exact: bool) -> Sequence[Tuple[int, np.ndarray]]:
    """Return rows with a sufficient score, each with the rows of the same detections."""
    same = _same(expected, found, exact)
    rows = np.flatnonzero((_scores(expected) >= _FOUND) & same.any(1))
    return [(int(row), np.flatnonzero(same[row])) for row in rows]
