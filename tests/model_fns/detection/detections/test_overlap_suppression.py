import math

import numpy as np
import pytest
import tensorflow as tf

from model_fns.detection.boxes import axis_aligned, rotated
from model_fns.detection.detections import overlap_suppression, suppression
from tests.model_fns.detection import rotated_cases

NONE = -float('inf')


def run(boxes, scores, max_per_class, iou_threshold, score_threshold=0.0, sigma=0.0):
    """Return kept indices and scores of one image: [n, K] and [C, n]."""
    places, values = overlap_suppression.suppress(
        tf.constant(boxes, tf.float32)[tf.newaxis, :, tf.newaxis],
        tf.constant(scores, tf.float32)[tf.newaxis],
        rotated.self_iou if np.shape(boxes)[1] == 5 else axis_aligned.self_iou,
        max_per_class,
        iou_threshold,
        tf.constant([score_threshold]),
        sigma,
    )
    return places[0].numpy(), values[0].numpy()


@pytest.mark.parametrize('threshold', ['0.1', '0.3', '0.5'])
def test_recorded(threshold):
    case = rotated_cases.recorded()['nms']
    places, values = run(case['boxes'], [case['scores']], 12, float(threshold))
    kept = case['kept'][threshold]
    assert places[0][values[0] > NONE].tolist() == kept
    np.testing.assert_allclose(values[0][: len(kept)], np.array(case['scores'])[kept], atol=1e-6)


def test_each_class_by_itself():
    boxes = [[5.0, 5, 4, 8, 0.3], [5, 5.5, 4, 8, 0.3], [40, 40, 4, 8, 0]]
    places, values = run(boxes, [[0.9, 0.8, 0.7], [0.1, 0.6, NONE]], 2, 0.5, 0.2)
    assert places[0].tolist() == [0, 2]
    np.testing.assert_allclose(values, [[0.9, 0.7], [0.6, NONE]])
    assert places[1][0] == 1


def slow_soft(overlaps, scores, most, sigma, threshold):
    scores, found = scores.copy(), []
    while len(found) < most and scores.max() > threshold:
        best = int(scores.argmax())
        found.append((best, scores[best]))
        scores *= np.exp(-(overlaps[best] ** 2) / (2 * sigma))
        scores[best] = -1
    return found


def test_soft_suppression_lowers_scores():
    boxes = rotated_cases.boxes(30, 5, 40)
    scores = np.random.RandomState(2).rand(30)
    overlaps = rotated.pairwise_iou(tf.constant(boxes), tf.constant(boxes)).numpy()
    expected = slow_soft(overlaps, scores, 20, 0.5, 0.1)
    places, values = run(boxes, [scores], 20, 1.0, 0.1, 0.5)
    count = len(expected)
    assert 5 < count <= 20 and np.all(values[0][count:] == NONE)
    assert places[0][:count].tolist() == [place for place, _ in expected]
    np.testing.assert_allclose(values[0][:count], [value for _, value in expected], atol=1e-5)


@pytest.mark.parametrize('sigma', [0.0, 0.5])
def test_axis_aligned_boxes_as_by_the_kernels(sigma):
    random = np.random.RandomState(3)
    low = random.rand(2, 60, 1, 2).astype(np.float32) * 0.5
    boxes = np.concatenate([low, low + 0.1 + random.rand(2, 60, 1, 2) * 0.3], -1).astype(np.float32)
    scores = random.rand(2, 60, 3).astype(np.float32)
    rules = suppression.Rules(0.3, 0.5, max_per_class=10, max_total=20, soft_sigma=sigma)
    expected = suppression.suppress(tf.constant(boxes), tf.constant(scores), rules)
    # The same boxes without a turn.
    half = (boxes[..., 2:] - boxes[..., :2]) / 2
    centers = np.concatenate([boxes[..., :2] + half, 2 * half, 0 * half[..., :1]], -1)
    found = suppression.suppress(
        tf.constant(centers, tf.float32),
        tf.constant(scores),
        suppression.dataclasses.replace(rules, family=rotated),
    )
    np.testing.assert_array_equal(found.counts, expected.counts)
    np.testing.assert_array_equal(found.anchors, expected.anchors)
    np.testing.assert_array_equal(found.classes, expected.classes)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-5)


def test_boxes_of_each_class():
    # The two boxes overlap as the first class has them alone.
    one, apart = [5.0, 5, 4, 8, math.pi / 3], [50.0, 5, 4, 8, 0]
    boxes = tf.constant([[[one, one], [one, apart]]])
    scores = tf.constant([[[0.9, 0.9], [0.8, 0.8]]])
    rules = suppression.Rules(0.1, 0.5, 5, 5, family=rotated)
    found = suppression.suppress(boxes, scores, rules)
    assert found.counts.numpy() == [3]
    assert found.classes[0, :3].numpy().tolist() == [0, 1, 1]


def test_the_example_of_the_docstring():
    boxes, scores = [[0.0, 0, 2, 2], [0, 0, 2, 1.6]], [[0.9, 0.6]]
    _, values = run(boxes, scores, 2, 0.5)
    np.testing.assert_allclose(values, [[0.9, NONE]])
    _, values = run(boxes, scores, 2, 1.0, sigma=0.5)
    np.testing.assert_allclose(values, [[0.9, 0.316]], atol=1e-3)
