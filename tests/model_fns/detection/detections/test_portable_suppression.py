"""Suppression of rotated boxes in blocks, beside its definition."""

import numpy as np
import pytest
import tensorflow as tf

from model_fns.detection.boxes import rotated
from model_fns.detection.detections import portable_suppression, suppression
from model_fns.structures import rotated_overlaps, rotated_rectangles

BATCH, ANCHORS, CLASSES = 2, 40, 3


def random_images(seed, boxes_by_class):
    """Rotated boxes in clusters, and scores that often are the same."""
    random = np.random.RandomState(seed)
    shape = [BATCH, ANCHORS, CLASSES if boxes_by_class else 1]
    centers = random.choice([20.0, 60.0], [*shape, 2]) + random.normal(0, 4, [*shape, 2])
    sides = random.uniform(6, 30, [*shape, 2])
    angles = random.uniform(-1.5, 1.5, [*shape, 1])
    scores = np.round(random.uniform(size=[BATCH, ANCHORS, CLASSES]), 2)
    return np.concatenate([centers, sides, angles], -1).astype(np.float32), scores


def definition(boxes, scores, rules):
    """Rows of (score, class, anchor) of one image, best first, one pair after the other."""
    pairs = sorted(
        ((-scores[anchor, label], label, anchor) for anchor, label in np.ndindex(scores.shape)),
    )
    corners = rotated_rectangles.corners(boxes.astype(np.float64))
    kept = []
    for negative, label, anchor in pairs:
        column = min(label, boxes.shape[1] - 1)
        same = [one for one in kept if one[1] == label]
        if len(kept) == rules.max_total or -negative <= rules.score_threshold:
            break
        others = [corners[one[2], column] for one in same]
        overlaps = rotated_overlaps.iou(
            corners[anchor, column][np.newaxis], np.array(others).reshape([-1, 4, 2])
        )
        if len(same) < rules.max_per_class and not np.any(overlaps > rules.iou_threshold):
            kept.append((-negative, label, anchor))
    return kept


@pytest.mark.parametrize('boxes_by_class', [False, True])
@pytest.mark.parametrize(
    'limits',
    [
        {'max_total': 12},
        {'max_total': 7, 'max_per_class': 2},
        {'max_total': 50, 'score_threshold': 0.8},
        {'max_total': 5, 'score_threshold': 1.0},
    ],
)
def test_survivors_are_those_of_the_definition(limits, boxes_by_class, monkeypatch):
    monkeypatch.setattr(portable_suppression, '_BLOCK', 9)
    rules = suppression.Rules(
        **{'score_threshold': 0.1, 'iou_threshold': 0.3, **limits}, portable=True, family=rotated
    )
    boxes, scores = random_images(3, boxes_by_class)
    found = suppression.suppress(tf.constant(boxes), tf.constant(scores, tf.float32), rules)
    for image in range(BATCH):
        expected = definition(boxes[image], scores[image], rules)
        count = int(found.counts[image])
        assert count == len(expected)
        rows = zip(found.scores[image].numpy(), found.classes[image].numpy(), found.anchors[image])
        for (score, label, anchor), wanted in zip(rows, expected):
            assert (label, int(anchor)) == wanted[1:]
            assert score == pytest.approx(wanted[0], abs=1e-6)
            column = label if boxes_by_class else 0
            row = expected.index(wanted)
            np.testing.assert_array_equal(
                found.boxes[image, row], boxes[image, int(anchor), column]
            )
        assert not np.any(found.boxes[image, count:])
