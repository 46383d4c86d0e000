"""COCO metrics by pycocotools, for the tests of metrics."""

from __future__ import annotations

import contextlib
import io

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from tests.model_fns.detection.metrics.scenes import SIZE


def corner_and_size(box):
    ymin, xmin, ymax, xmax = (float(side) for side in box)
    return [xmin, ymin, xmax - xmin, ymax - ymin]


def _points(points):
    """List [x, y, visibility] of each keypoint, zeros for missing ones."""
    rows = [[x, y, 2] if x == x else [0, 0, 0] for y, x in points.astype(float)]
    return np.ravel(rows).tolist()


def reference(images, names, kind='bbox'):
    """Evaluate (groundtruth, detections) of images; return numbers and tables.

    Args:
        images: pairs.
        names: of the classes by id.
        kind: `bbox`, `segm` or `keypoints`.
    """
    annotations, results = [], []
    for image_id, (truth, found) in enumerate(images, 1):
        for row in range(len(truth.boxes)):
            box = corner_and_size(truth.boxes[row])
            annotation = {
                'id': len(annotations) + 1,
                'image_id': image_id,
                'category_id': int(truth.classes[row]),
                'bbox': box,
                'area': float(truth.areas[row]) or box[2] * box[3],
                'iscrowd': int(truth.is_crowd[row]),
            }
            if kind == 'segm':
                annotation['segmentation'] = truth.masks._encoded[row]
            if kind == 'keypoints':
                annotation['keypoints'] = _points(truth.keypoints[row])
                labeled = np.isfinite(truth.keypoints[row]).all(axis=-1)
                annotation['num_keypoints'] = int(labeled.sum())
            annotations.append(annotation)
        for row in range(len(found.boxes)):
            result = {
                'image_id': image_id,
                'category_id': int(found.classes[row]),
                'score': float(found.scores[row]),
            }
            if kind == 'bbox':
                result['bbox'] = corner_and_size(found.boxes[row])
            if kind == 'segm':
                result['segmentation'] = found.masks._encoded[row]
            if kind == 'keypoints':
                result['keypoints'] = _points(found.keypoints[row])
            results.append(result)
    with contextlib.redirect_stdout(io.StringIO()):
        known = COCO()
        known.dataset = {
            'images': [
                {'id': image_id, 'height': SIZE[0], 'width': SIZE[1]}
                for image_id in range(1, len(images) + 1)
            ],
            'annotations': annotations,
            'categories': [{'id': key, 'name': name} for key, name in names.items()],
        }
        known.createIndex()
        detected = known.loadRes(results) if results else COCO()
        evaluated = COCOeval(known, detected, kind)
        evaluated.evaluate()
        evaluated.accumulate()
        evaluated.summarize()
    return evaluated
