"""Agreement of the detections of a file with those of its network.

Rows cannot be compared directly, because detections with almost equal scores may be swapped. The
same holds for the proposals of a second stage. Other raw predictions, which a format may show as
`INTERMEDIATE`, have an order: they are compared number by number. They are all that says something
where a network finds nothing.
"""

from __future__ import annotations

from typing import Dict, List, Mapping, Sequence, Tuple

import numpy as np

from estimator_lib.task import Arrays
from estimator_lib.task_interfaces import agreement
from estimator_lib.task_interfaces.deployable import INTERMEDIATE
from model_fns.detection import fields
from model_fns.structures import box_overlaps, rotated_overlaps

# Raw predictions of proposals, whose order may differ.
OF_PROPOSALS = (fields.PROPOSAL_BOXES, fields.REFINED_BOX_ENCODINGS, fields.CLASS_LOGITS)
PROPOSALS = 'proposals'  # the part of them that is found again
_IN_ORDER = 'scores in order'
_FOUND = 0.3  # least score of detections that are compared
_NEAR_BOX = 0.6  # least IoU of the same detection where outputs are not exact
_NEAR_SCORE = 0.1
_EXACT = 1e-4  # of scores, of normalized boxes, and of the values of masks and keypoints
# Further values of a detection.
_VALUES = (
    fields.DETECTION_MASKS,
    fields.DETECTION_KEYPOINTS,
    fields.DETECTION_KEYPOINT_SCORES,
)


def compare(expected: Sequence[Arrays], found: Sequence[Arrays], exact: bool) -> Dict[str, float]:
    """Compute the fraction of detections that are found again, of equal sorted scores, and so on.

    Args:
        expected: detections, and maybe raw predictions, of each image in TensorFlow, by name.
        found: the same of the file for the same images.
        exact: whether the file computes in float32; else numbers may differ somewhat.
    """
    tolerance = _EXACT if exact else _NEAR_SCORE
    scores = [
        np.abs(_scores(want) - _scores(got)) <= tolerance for want, got in zip(expected, found)
    ]
    parts = {_IN_ORDER: float(np.mean(scores)), **compare_raw(expected, found, exact)}
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


def compare_served(expected: Sequence[Arrays], found: Sequence[Arrays]) -> Dict[str, float]:
    """Compute the matching part of each output of a SavedModel or a frozen graph.

    Rows whose scores are equal but for rounding may change places: rows of detections, and those of
    raw boxes behind proposals. Where an output differs in order, its rows are found again in any
    place, with all their values.

    Example: the scores [0.9, 0.5] with the classes [1, 2], and [0.5, 0.9] with [2, 1], agree; with
    [1, 2] no row does.

    Args:
        expected: outputs of each image, by name.
        found: likewise.
    """
    parts = agreement.compare(expected, found)
    # They count in the order of raw boxes.
    numbers = {fields.DETECTION_ANCHOR_INDICES}
    if parts.get(fields.RAW_DETECTION_BOXES, 1.0) == 1.0:
        numbers = set()
    for boxes in (fields.RAW_DETECTION_BOXES, fields.DETECTION_BOXES):
        rows = [name for name in parts if _has_rows_of(expected[0], name, boxes)]
        values = [name for name in rows if name not in numbers]
        has_shapes = all(
            want[name].shape == got[name].shape
            for want, got in zip(expected, found)
            for name in values
        )
        if has_shapes and min((parts[name] for name in rows), default=1.0) < 1.0:
            again = compare_rows(expected, found, values)
            parts.update({name: max(parts[name], again) for name in rows})
    return parts


def _has_rows_of(outputs: Arrays, name: str, boxes: str) -> bool:
    """Check whether an output has a row for each of some boxes [1, N, ..]."""
    prefix = boxes[: -len('boxes')]
    return boxes in outputs and name.startswith(prefix) and outputs[name].ndim > 1


def compare_raw(
    expected: Sequence[Arrays], found: Sequence[Arrays], exact: bool
) -> Dict[str, float]:
    """Compute the fraction of equal numbers of raw predictions, and of proposals found again.

    Args:
        expected: outputs of each image in TensorFlow, by name; there may be no raw predictions.
        found: the same of the file for the same images.
        exact: whether the file computes in float32; where it does not, other proposals are chosen.
    """
    if not _raw(expected[0]):
        return {}
    pairs = [(_raw(want), _raw(got)) for want, got in zip(expected, found)]
    wanted, got = ([_drop_proposals(one) for one in side] for side in _sides(pairs))
    parts = agreement.compare(wanted, got, exact)
    if not exact or fields.PROPOSAL_BOXES not in pairs[0][0]:
        return parts
    names = [name for name in OF_PROPOSALS if name in pairs[0][0]]
    again = compare_rows(*_sides(pairs), names)
    return {PROPOSALS: min(again / chosen_by_both(expected, found, parts), 1.0), **parts}


def chosen_by_both(
    expected: Sequence[Arrays], found: Sequence[Arrays], parts: Mapping[str, float]
) -> float:
    """Compute the fraction of proposals that may be compared: all, but for ties.

    Where all that proposals are chosen by agrees, others come from scores that are equal but for
    rounding. An untrained network has many of them. Half of the proposals must be the same.

    Args:
        expected: with the raw predictions of a network with proposals.
        found: likewise.
        parts: of `compare_raw`.
    """
    if min((part for name, part in parts.items() if name != PROPOSALS), default=0.0) < 1.0:
        return 1.0
    pairs = [(_raw(want), _raw(got)) for want, got in zip(expected, found)]
    part = compare_rows(*_sides(pairs), [fields.PROPOSAL_BOXES])
    # 1 makes the comparison strict again: ties explain a part of the proposals, not most of them.
    # An untrained detector agreed in 93 % of them.
    return part if part >= 0.5 else 1.0


def compare_rows(
    expected: Sequence[Arrays], found: Sequence[Arrays], names: Sequence[str]
) -> float:
    """Compute the fraction of rows that are found again, in any place.

    Args:
        expected: of each image.
        found: likewise.
        names: of values [1, N, ..], which belong together.
    """
    again: List[bool] = []
    for want, got in zip(expected, found):
        rows, others = _rows(want, names), _rows(got, names)
        again += [
            bool(
                agreement.is_close(row, others[index]).all()
                or agreement.is_close(row, others).all(1).any()
            )
            for index, row in enumerate(rows)
        ]
    return float(np.mean(again))


def largest_differences(expected: Sequence[Arrays], found: Sequence[Arrays]) -> Dict[str, float]:
    """Compute the largest differences of sorted scores, and of raw predictions in order."""
    differences = [np.abs(_scores(want) - _scores(got)) for want, got in zip(expected, found)]
    raw = ([_drop_proposals(_raw(outputs)) for outputs in side] for side in (expected, found))
    return {_IN_ORDER: float(np.max(differences)), **agreement.largest_differences(*raw)}


def _raw(outputs: Arrays) -> Dict[str, np.ndarray]:
    """Return raw predictions by their names."""
    return {
        name[len(INTERMEDIATE) :]: value
        for name, value in outputs.items()
        if name.startswith(INTERMEDIATE)
    }


def _sides(pairs: Sequence[Tuple[Arrays, Arrays]]) -> Tuple[List[Arrays], List[Arrays]]:
    """Return the first of all pairs, and the second of all."""
    return [first for first, _ in pairs], [second for _, second in pairs]


def _drop_proposals(raw: Arrays) -> Dict[str, np.ndarray]:
    """Return raw predictions without those of proposals."""
    by_proposal = OF_PROPOSALS if fields.PROPOSAL_BOXES in raw else ()
    return {name: value for name, value in raw.items() if name not in by_proposal}


def _rows(outputs: Arrays, names: Sequence[str]) -> np.ndarray:
    """Return values of one image, flat: [N, numbers]."""
    values = [outputs[name][0] for name in names]
    return np.concatenate([value.reshape([len(value), -1]) for value in values], axis=1)


def _boxes(outputs: Arrays) -> np.ndarray:
    """Return boxes [N, 4], or the corners of rotated boxes [N, 8]."""
    name = fields.DETECTION_BOXES
    return outputs[name if name in outputs else fields.DETECTION_CORNERS][0]


def _close(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Check which boxes [N, values] have the numbers of which others: bool [N, M]."""
    return np.isclose(others, boxes[:, np.newaxis], rtol=_EXACT, atol=_EXACT).all(-1)


def _overlaps(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the IoU of all boxes of one image with all others."""
    if boxes.shape[-1] == 4:
        return box_overlaps.iou(boxes, others)
    # In float64: clipping of polygons subtracts nearly equal products.
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
    boxes, others = _boxes(expected), _boxes(found)
    # Rotated boxes may begin with any corner.
    turns = range(0, boxes.shape[-1], 2) if boxes.shape[-1] == 8 else (0,)
    # By numbers first: a CenterNet's boxes may have no area, and overlap not even themselves.
    near = np.any([_close(np.roll(boxes, turn, -1), others) for turn in turns], axis=0)
    if not exact:
        near |= _overlaps(boxes, others) > _NEAR_BOX
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
