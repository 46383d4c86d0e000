"""Descriptions of the detections of one image: names, scores, boxes in pixels."""

from __future__ import annotations

from typing import Any, Collection, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from estimator_lib.task import Arrays, Region, Shown
from model_fns.detection import fields
from model_fns.detection.boxes.family import BoxFamily
from model_fns.detection.detections.masks import binary_windows
from model_fns.structures import run_lengths
from model_fns.structures.label_map import to_index

_SIDES = ('ymin', 'xmin', 'ymax', 'xmax')
_ROTATED_NAMES = ('cy', 'cx', 'h', 'w')


class Found(NamedTuple):
    """Detections of one image, the one with the highest score first.

    Attributes:
        size: height and width of the image in pixels.
        ids: int [n], ids of the label map.
        scores: float [n].
        boxes: float64 [n, 4] in pixels of the image; rotated ones [n, 5].
        masks: n parts of the image: first row, first column, and bool [h, w], which has the whole
            mask; None without.
        keypoints: [n, k, 2], y and x in pixels; None without.
        corners: float64 [n, 4, 2] of rotated boxes, y and x in pixels; None for axis-aligned boxes.
    """

    size: Tuple[int, int]
    ids: np.ndarray
    scores: np.ndarray
    boxes: np.ndarray
    masks: Optional[Sequence[Tuple[int, int, np.ndarray]]] = None
    keypoints: Optional[np.ndarray] = None
    corners: Optional[np.ndarray] = None


def needed_outputs(
    family: BoxFamily, further: Collection[str]
) -> Dict[str, Sequence[Optional[int]]]:
    """Return the shapes of the outputs that a description needs, of one image, by name.

    Args:
        family: of the boxes.
        further: outputs of the model beside boxes: masks, keypoints.
    """
    per_box = {
        fields.DETECTION_BOXES: (None, len(family.RECORD_KEYS)),
        fields.DETECTION_SCORES: (None,),
        fields.DETECTION_CLASSES: (None,),
        fields.NUM_DETECTIONS: (),
    }
    shapes = {
        fields.DETECTION_MASKS: (None, None, None),
        fields.DETECTION_KEYPOINTS: (None, None, 2),
    }
    return {**per_box, **{name: shapes[name] for name in shapes if name in further}}


def find(outputs: Arrays, shape: Sequence[int], least_score: float, shown: Shown) -> Found:
    """Select the detections to show from a model's outputs.

    Args:
        outputs: outputs for one image; boxes are normalized to it.
        shape: height and width of the image.
        least_score: the least score, if `shown` has none.
        shown: selection by score and number.
    """
    size = int(shape[0]), int(shape[1])
    scores = np.asarray(outputs[fields.DETECTION_SCORES])[: int(outputs[fields.NUM_DETECTIONS])]
    if shown.least_score is not None:
        least_score = shown.least_score
    best = np.argsort(-scores, kind='stable')
    if shown.class_indices is not None:
        best = best[of_classes(outputs, shown.class_indices)[best]]
    best = best[scores[best] >= least_score][: shown.top_k]
    boxes = np.asarray(outputs[fields.DETECTION_BOXES], np.float64)[best]
    masks, keypoints, corners = None, None, None
    scale = np.array([*size, *size], np.float64)
    if fields.DETECTION_CORNERS in outputs:
        scale = np.append(scale, 1.0)
        per_box = np.asarray(outputs[fields.DETECTION_CORNERS], np.float64)[best]
        corners = per_box.reshape([-1, 4, 2]) * size
    if fields.DETECTION_MASKS in outputs:
        per_box = np.asarray(outputs[fields.DETECTION_MASKS])[best]
        masks = list(binary_windows(per_box, boxes, size))
    if fields.DETECTION_KEYPOINTS in outputs:
        keypoints = np.asarray(outputs[fields.DETECTION_KEYPOINTS], np.float64)[best] * size
    return Found(
        size,
        np.asarray(outputs[fields.DETECTION_CLASSES])[best].astype(int),
        scores[best],
        boxes * scale,
        masks,
        keypoints,
        corners,
    )


def of_classes(outputs: Arrays, class_indices: Sequence[int]) -> np.ndarray:
    """Return whether each detection of one image is of some classes: bool [n]."""
    ids = np.asarray(outputs[fields.DETECTION_CLASSES]).astype(int)
    return np.isin(to_index(ids), class_indices)


def rows(found: Found, class_names: Mapping[int, str]) -> List[Dict[str, Any]]:
    """Build one flat mapping per detection; a class without a name is called by its id.

    Rotated boxes have their values, and x and y of their corners.

    Args:
        found: the detections.
        class_names: names of classes by id.
    """
    return [
        {
            'class': class_names.get(int(class_id), str(class_id)),
            'id': int(class_id),
            # float32 has about 7 digits: more of them would be noise in files.
            'score': round(float(score), 6),
            **_numbers(found, index),
        }
        for index, (class_id, score) in enumerate(zip(found.ids, found.scores))
    ]


def _numbers(found: Found, index: int) -> Dict[str, float]:
    """Return the values of a box by name."""
    box = found.boxes[index]
    if found.corners is None:
        return {side: round(float(value), 2) for side, value in zip(_SIDES, box)}
    numbers = {name: round(float(value), 2) for name, value in zip(_ROTATED_NAMES, box)}
    corners = {
        f'{axis}{place}': round(float(corner[column]), 2)
        for place, corner in enumerate(found.corners[index], 1)
        for axis, column in (('x', 1), ('y', 0))
    }
    return {**numbers, 'angle': round(float(box[4]), 6), **corners}


def values(found: Found, rows_of_found: Sequence[Mapping[str, Any]]) -> Dict[str, Any]:
    """Build the entry of `predictions.json` for an image: its size and its detections.

    Args:
        found: the detections.
        rows_of_found: from `rows`; keypoints are added as [y, x] in pixels, None for missing ones.
    """
    detections = [dict(row) for row in rows_of_found]
    if found.keypoints is not None:
        for detection, points in zip(detections, found.keypoints):
            detection['keypoints'] = [
                point.round(2).tolist() if np.isfinite(point).all() else None for point in points
            ]
    return {'height': found.size[0], 'width': found.size[1], 'detections': detections}


def coco_results(found: Found) -> List[Dict[str, Any]]:
    """Convert detections to the result format of COCO: `bbox` is [x, y, width, height] in pixels.

    Masks become a `segmentation` of compressed run lengths. Keypoints become `keypoints`, [x, y, 1]
    each, or zeros. A rotated box becomes a `segmentation` of one polygon, and its `bbox` is the
    enclosing axis-aligned box.
    """
    results = []
    for index, (top, left, bottom, right) in enumerate(_enclosing_boxes(found)):
        result: Dict[str, Any] = {
            'category_id': int(found.ids[index]),
            'bbox': [round(float(x), 3) for x in (left, top, right - left, bottom - top)],
            'score': round(float(found.scores[index]), 6),
        }
        if found.corners is not None:
            result['segmentation'] = [found.corners[index][:, ::-1].round(3).ravel().tolist()]
        if found.masks is not None:
            *origin, mask = found.masks[index]
            result['segmentation'] = run_lengths.encode(mask, origin, found.size)
        if found.keypoints is not None:
            points = found.keypoints[index]
            there = np.isfinite(points).all(axis=1, keepdims=True)
            triples = np.concatenate([points[:, ::-1], there], axis=1)
            result['keypoints'] = np.where(there, triples, 0.0).ravel().tolist()
        results.append(result)
    return results


def _enclosing_boxes(found: Found) -> np.ndarray:
    """Return the axis-aligned boxes [n, 4], or those around the corners of rotated boxes."""
    if found.corners is None:
        return found.boxes
    return np.concatenate([found.corners.min(axis=1), found.corners.max(axis=1)], axis=1)


def regions(found: Found) -> List[Region]:
    """Convert detections to regions of an image, for files of annotations."""
    return [
        Region(
            class_index=int(to_index(found.ids[index])),
            box=box.tolist(),
            rotated=None if found.corners is None else found.boxes[index].tolist(),
            corners=None if found.corners is None else found.corners[index],
            mask=None if found.masks is None else found.masks[index][2].astype(bool),
            origin=(0, 0) if found.masks is None else found.masks[index][:2],
        )
        for index, box in enumerate(_enclosing_boxes(found))
    ]


def dota_lines(stem: str, found: Found, class_names: Mapping[int, str]) -> Dict[str, List[str]]:
    """Format rotated boxes for the server of DOTA: `image score x1 y1 x2 y2 x3 y3 x4 y4`.

    Args:
        stem: name of the image.
        found: detections with corners.
        class_names: names of classes by id.

    Returns:
        Lines by name of their file; each class has a file.
    """
    # Task 1 of DOTA is rotated boxes, with a file for each class.
    lines: Dict[str, List[str]] = {
        f'Task1_{name.replace("/", "-")}.txt': [] for name in class_names.values()
    }
    for class_id, score, corners in zip(found.ids, found.scores, found.corners):
        name = class_names.get(int(class_id), str(class_id)).replace('/', '-')
        numbers = ' '.join(f'{value:.2f}' for value in corners[:, ::-1].ravel())
        lines.setdefault(f'Task1_{name}.txt', []).append(f'{stem} {score:.6f} {numbers}')
    return lines
