"""The detections of one image for people and programs: names, scores, boxes in pixels."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from estimator_lib.task import Arrays, Shown
from model_fns.detection import fields
from model_fns.detection.detections.masks import binary_masks
from model_fns.structures import run_lengths

_SIDES = ('ymin', 'xmin', 'ymax', 'xmax')
_OF_ROTATED = ('cy', 'cx', 'h', 'w')


class Found(NamedTuple):
    """Detections of one image, the one with the highest score first.

    Attributes:
        size: height and width of the image in pixels.
        ids: int [n], of the label map.
        scores: float [n].
        boxes: float64 [n, 4] in pixels of the image; rotated ones [n, 5].
        masks: bool [n, height, width]; None without.
        keypoints: [n, k, 2], y and x in pixels; None without.
        corners: float64 [n, 4, 2] of rotated boxes, y and x in pixels; None of upright ones.
    """

    size: Tuple[int, int]
    ids: np.ndarray
    scores: np.ndarray
    boxes: np.ndarray
    masks: Optional[np.ndarray] = None
    keypoints: Optional[np.ndarray] = None
    corners: Optional[np.ndarray] = None


def find(outputs: Arrays, shape: Sequence[int], least_score: float, shown: Shown) -> Found:
    """Take the detections that are shown out of a model's outputs.

    Args:
        outputs: of one image; boxes are normalized to it.
        shape: of the image: height, width.
        least_score: where `shown` has none.
        shown: which ones.
    """
    size = int(shape[0]), int(shape[1])
    scores = np.asarray(outputs[fields.DETECTION_SCORES])[: int(outputs[fields.NUM_DETECTIONS])]
    if shown.least_score is not None:
        least_score = shown.least_score
    best = np.argsort(-scores, kind='stable')
    best = best[scores[best] >= least_score][: shown.top_k]
    boxes = np.asarray(outputs[fields.DETECTION_BOXES], np.float64)[best]
    masks, keypoints, corners = None, None, None
    scale = np.array([*size, *size], np.float64)
    if fields.DETECTION_CORNERS in outputs:
        scale = np.append(scale, 1.0)
        of_boxes = np.asarray(outputs[fields.DETECTION_CORNERS], np.float64)[best]
        corners = of_boxes.reshape([-1, 4, 2]) * size
    if fields.DETECTION_MASKS in outputs:
        of_boxes = np.asarray(outputs[fields.DETECTION_MASKS])[best]
        masks = binary_masks(of_boxes, boxes, size)
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


def rows(found: Found, class_names: Mapping[int, str]) -> List[Dict[str, Any]]:
    """Return a flat mapping a detection; a class without a name is called by its id.

    Of a rotated box it has the numbers, and x and y of the corners.

    Args:
        found: the detections.
        class_names: by id.
    """
    return [
        {
            'class': class_names.get(int(class_id), str(class_id)),
            'id': int(class_id),
            'score': round(float(score), 6),
            **_numbers(found, index),
        }
        for index, (class_id, score) in enumerate(zip(found.ids, found.scores))
    ]


def _numbers(found: Found, index: int) -> Dict[str, float]:
    """Return the numbers of a box by name."""
    box = found.boxes[index]
    if found.corners is None:
        return {side: round(float(value), 2) for side, value in zip(_SIDES, box)}
    numbers = {name: round(float(value), 2) for name, value in zip(_OF_ROTATED, box)}
    corners = {
        f'{axis}{place}': round(float(corner[column]), 2)
        for place, corner in enumerate(found.corners[index], 1)
        for axis, column in (('x', 1), ('y', 0))
    }
    return {**numbers, 'angle': round(float(box[4]), 6), **corners}


def values(found: Found, rows_of_found: Sequence[Mapping[str, Any]]) -> Dict[str, Any]:
    """What `predictions.json` says of an image: its size, and its detections.

    Args:
        found: the detections.
        rows_of_found: see `rows`; keypoints are added, as [y, x] in pixels, None where not found.
    """
    detections = [dict(row) for row in rows_of_found]
    if found.keypoints is not None:
        for detection, points in zip(detections, found.keypoints):
            detection['keypoints'] = [
                point.round(2).tolist() if np.isfinite(point).all() else None for point in points
            ]
    return {'height': found.size[0], 'width': found.size[1], 'detections': detections}


def coco_results(found: Found) -> List[Dict[str, Any]]:
    """Return the detections as COCO's results list them: `bbox` is [x, y, width, height] in pixels.

    With masks there is a `segmentation`, run lengths as COCO compresses them; with keypoints
    `keypoints`, [x, y, 1] each, or zeros. A rotated box is a `segmentation` of one polygon, and its
    `bbox` the upright one around it.
    """
    boxes = found.boxes
    if found.corners is not None:
        boxes = np.concatenate([found.corners.min(axis=1), found.corners.max(axis=1)], axis=1)
    results = []
    for index, (top, left, bottom, right) in enumerate(boxes):
        result: Dict[str, Any] = {
            'category_id': int(found.ids[index]),
            'bbox': [round(float(x), 3) for x in (left, top, right - left, bottom - top)],
            'score': round(float(found.scores[index]), 6),
        }
        if found.corners is not None:
            result['segmentation'] = [found.corners[index][:, ::-1].round(3).ravel().tolist()]
        if found.masks is not None:
            result['segmentation'] = run_lengths.encode(found.masks[index])
        if found.keypoints is not None:
            points = found.keypoints[index]
            there = np.isfinite(points).all(axis=1, keepdims=True)
            triples = np.concatenate([points[:, ::-1], there], axis=1)
            result['keypoints'] = np.where(there, triples, 0.0).ravel().tolist()
        results.append(result)
    return results


def dota_lines(stem: str, found: Found, class_names: Mapping[int, str]) -> Dict[str, List[str]]:
    """Rotated boxes as DOTA's server takes them: `image score x1 y1 x2 y2 x3 y3 x4 y4`.

    Args:
        stem: what the image is called.
        found: with corners.
        class_names: by id.

    Returns:
        Lines by the name of the file of their class, of which each class has one.
    """
    lines: Dict[str, List[str]] = {
        f'Task1_{name.replace("/", "-")}.txt': [] for name in class_names.values()
    }
    for class_id, score, corners in zip(found.ids, found.scores, found.corners):
        name = class_names.get(int(class_id), str(class_id)).replace('/', '-')
        numbers = ' '.join(f'{value:.2f}' for value in corners[:, ::-1].ravel())
        lines.setdefault(f'Task1_{name}.txt', []).append(f'{stem} {score:.6f} {numbers}')
    return lines
