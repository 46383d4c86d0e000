"""Groundtruth and detections for the tests of metrics."""

from __future__ import annotations

import numpy as np

from model_fns.detection.metrics.evaluator import Detections, Groundtruth
from model_fns.detection.metrics.run_length_masks import RunLengthMasks

SIZE = (160, 200)  # of images with masks


def groundtruth(
    boxes, classes, crowd=(), difficult=(), group_of=(), areas=(), image_classes=(), **more
):
    """Build groundtruth; flags and areas of the first boxes are given, others False and unknown."""

    def filled(values, dtype):
        full = np.zeros([len(boxes)], dtype)
        full[: len(values)] = values
        return full

    return Groundtruth(
        np.asarray(boxes, np.float32).reshape(-1, 4),
        np.asarray(classes, np.int64),
        filled(crowd, bool),
        filled(difficult, bool),
        filled(group_of, bool),
        filled(areas, np.float32),
        np.asarray(image_classes, np.int64),
        **more,
    )


def detections(boxes, scores, classes, **more):
    return Detections(
        np.asarray(boxes, np.float32).reshape(-1, 4),
        np.asarray(scores, np.float32),
        np.asarray(classes, np.int64),
        **more,
    )


def square(place, side=10.0):
    """Return a box on the diagonal; default squares at different integer positions are disjoint."""
    return [20.0 * place, 20.0 * place, 20.0 * place + side, 20.0 * place + side]


def random_image(rng, num_classes, *, coarse=False, most=30):
    """Generate objects of several sizes and nearby detections, some of the wrong class.

    Args:
        rng: a `RandomState`.
        num_classes: ids are from 1 to it.
        coarse: coordinates are multiples of 16 and scores of 0.1, so that much is tied.
        most: detections.
    """
    count, found = rng.randint(0, 6), rng.randint(0, most)
    boxes = _boxes(rng, count)
    classes = rng.randint(1, num_classes + 1, count)
    if count:
        of = rng.randint(0, count, found)
        near, right = boxes[of] + rng.randn(found, 4) * rng.choice([0, 4, 8]), classes[of]
        near[:, 2:] = np.maximum(near[:, 2:], near[:, :2] + 1)
    else:
        near, right = _boxes(rng, found), rng.randint(1, num_classes + 1, found)
    wrong = rng.randint(1, num_classes + 1, found)
    scores = rng.rand(found)
    if coarse:
        boxes, near, scores = (
            np.rint(boxes / 16) * 16,
            np.rint(near / 16) * 16,
            np.round(scores, 1),
        )
    areas = np.where(rng.rand(count) < 0.5, 0.0, rng.rand(count) * 20000)
    return (
        groundtruth(
            boxes,
            classes,
            crowd=rng.rand(count) < 0.2,
            difficult=rng.rand(count) < 0.2,
            group_of=rng.rand(count) < 0.2,
            areas=areas,
            image_classes=np.unique(wrong),
        ),
        detections(near, scores, np.where(rng.rand(found) < 0.8, right, wrong)),
    )


def ellipse(box):
    """Draw the ellipse in a box: bool [height, width]."""
    rows, columns = np.mgrid[: SIZE[0], : SIZE[1]] + 0.5
    top, left, bottom, right = box
    across = (rows - (top + bottom) / 2) / max(bottom - top, 1e-6)
    along = (columns - (left + right) / 2) / max(right - left, 1e-6)
    return across**2 + along**2 <= 0.25


def random_masks(rng, num_classes, *, objects=None, most=20):
    """Round objects of several sizes, and detections near to them, with masks."""
    count = rng.randint(0, 6) if objects is None else objects
    boxes = _boxes(rng, count, reach=100)
    found = rng.randint(0, most) if count else 0
    of = rng.randint(0, max(count, 1), found)
    near = boxes[of] + rng.randn(found, 4) * rng.choice([0, 4, 8]) if found else boxes[:0]
    classes = rng.randint(1, num_classes + 1, count)
    shapes = np.array([ellipse(box) for box in boxes]).reshape(-1, *SIZE)
    return (
        groundtruth(
            boxes,
            classes,
            crowd=rng.rand(count) < 0.2,
            areas=shapes.sum((1, 2)),
            masks=RunLengthMasks.encode([shapes]),
        ),
        detections(
            near,
            rng.rand(found),
            np.where(rng.rand(found) < 0.8, classes[of] if found else 1, 1),
            masks=RunLengthMasks.encode([np.array([ellipse(box)]) for box in near]),
        ),
    )


def random_keypoints(rng, num_classes, *, keypoints=17, most=30):
    """Generate objects and detections with keypoints, some of them not labeled."""
    count = rng.randint(0, 5)
    boxes = _boxes(rng, count)
    side = boxes[:, 2:] - boxes[:, :2]
    points = boxes[:, None, :2] + rng.rand(count, keypoints, 2) * side[:, None]
    labeled = rng.rand(count, keypoints) < rng.choice([0.0, 0.3, 0.9], [count, 1])
    found = rng.randint(0, most) if count else 0
    of = rng.randint(0, max(count, 1), found)
    spread = rng.choice([0.0, 3.0, 10.0])
    near = points[of] + rng.randn(found, keypoints, 2) * spread if found else points[:0]
    classes = rng.randint(1, num_classes + 1, count)
    around = np.concatenate([near.min(1), near.max(1)], 1) if found else boxes[:0]
    return (
        groundtruth(
            boxes,
            classes,
            crowd=rng.rand(count) < 0.2,
            areas=np.where(rng.rand(count) < 0.5, 0.0, np.prod(side, 1) / 2),
            keypoints=np.where(labeled[..., None], points, np.nan).astype(np.float32),
        ),
        detections(
            around,
            rng.rand(found),
            np.where(rng.rand(found) < 0.9, classes[of] if found else 1, 1),
            keypoints=near.astype(np.float32),
        ),
    )


def _boxes(rng, count, reach=300):
    low = rng.rand(count, 2) * reach
    return np.concatenate([low, low + rng.rand(count, 2) * 150], axis=1)
