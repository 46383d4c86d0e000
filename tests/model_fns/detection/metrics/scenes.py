"""Groundtruth and detections for the tests of metrics."""

from __future__ import annotations

import numpy as np

from model_fns.detection.metrics.evaluator import Detections, Groundtruth


def groundtruth(boxes, classes, crowd=(), difficult=(), group_of=(), areas=(), image_classes=()):
    """Flags and areas are given for the first boxes; the rest are False and unknown."""

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
    )


def detections(boxes, scores, classes):
    return Detections(
        np.asarray(boxes, np.float32).reshape(-1, 4),
        np.asarray(scores, np.float32),
        np.asarray(classes, np.int64),
    )


def square(place, side=10.0):
    """A box on the diagonal; squares of the default side at different whole places are apart."""
    return [20.0 * place, 20.0 * place, 20.0 * place + side, 20.0 * place + side]


def random_image(rng, num_classes, *, coarse=False, most=30):
    """Objects of several sizes, and detections near to them, some of the wrong class.

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


def _boxes(rng, count):
    low = rng.rand(count, 2) * 300
    return np.concatenate([low, low + rng.rand(count, 2) * 150], axis=1)
