"""Suppression of a few boxes by each kernel, held against what was found by hand."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from model_fns.detection.boxes import axis_aligned, rotated
from model_fns.detection.detections import survivors

# The second box is on half of the first, by a third of both; the third is apart.
BOXES = np.array([[0, 0, 2, 4], [0, 2, 2, 6], [5, 5, 7, 9]], np.float32)
# Of two classes.
SCORES = np.array([[0.9, 0.2], [0.8, 0.6], [0.3, 0.7]], np.float32)
RULES = survivors.Rules(score_threshold=0.25, iou_threshold=0.3, max_per_class=3, max_total=3)


def as_rotated(boxes):
    """Convert boxes to equal rotated boxes, with height and width swapped at 90 degrees."""
    centers, sides = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
    turns = np.full([len(boxes), 1], np.pi / 2)
    return np.concatenate([centers, sides[:, ::-1], turns], axis=1).astype(np.float32)


def best_pairs(boxes, count):
    scores = tf.constant(SCORES[np.newaxis])
    best = tf.reduce_max(scores, axis=-1)
    return survivors.best_pairs(tf.constant(boxes[np.newaxis, :, np.newaxis]), scores, best, count)


def test_best_pairs():
    pairs = best_pairs(BOXES, tf.constant(4))
    np.testing.assert_allclose(pairs.scores, [[0.9, 0.8, 0.7, 0.6]])
    # Class times three slots, and the slot.
    np.testing.assert_array_equal(pairs.places, [[0, 1, 5, 4]])
    np.testing.assert_array_equal(pairs.anchors, [[0, 1, 2]])
    np.testing.assert_allclose(pairs.bounds, [0.6])
    of_two = best_pairs(BOXES, tf.constant(2))
    np.testing.assert_array_equal(of_two.anchors, [[0, 1]])
    np.testing.assert_array_equal(of_two.places, [[0, 1]])


def found(boxes, rules):
    """Return the survivors' scores, by (class, anchor)."""
    pairs = best_pairs(boxes, tf.constant(6))
    left = survivors.find_survivors(pairs, rules, 2)
    return {
        divmod(int(place), 3): round(float(score), 4)
        for place, score in zip(left.places[0], left.scores[0])
        if np.isfinite(score)
    }


@pytest.mark.parametrize(
    ('family', 'boxes'), [(axis_aligned, BOXES), (rotated, as_rotated(BOXES))], ids=['4', '5']
)
@pytest.mark.parametrize(
    ('changes', 'expected'),
    [
        ({}, {(0, 0): 0.9, (0, 2): 0.3, (1, 1): 0.6, (1, 2): 0.7}),
        ({'max_per_class': 1}, {(0, 0): 0.9, (1, 2): 0.7}),
        (
            {'iou_threshold': 0.4},
            {(0, 0): 0.9, (0, 1): 0.8, (0, 2): 0.3, (1, 1): 0.6, (1, 2): 0.7},
        ),
        # 0.8 exp(-(1/3)^2 / (2 * 0.5)) of the second.
        (
            {'soft_sigma': 0.5, 'iou_threshold': 1.0},
            {(0, 0): 0.9, (0, 1): 0.7159, (0, 2): 0.3, (1, 1): 0.6, (1, 2): 0.7},
        ),
    ],
    ids=['hard', 'one a class', 'more overlap', 'soft'],
)
def test_every_kernel_leaves_the_same(family, boxes, changes, expected):
    rules = dataclasses.replace(RULES, family=family, **changes)
    assert found(boxes, rules) == pytest.approx(expected, abs=2e-4)
