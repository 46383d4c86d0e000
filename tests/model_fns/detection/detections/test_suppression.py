import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from model_fns.detection.detections import suppression
from tests.model_fns.detection import slow_suppression
from tests.model_fns.detection.architectures.faster_rcnn import oracles

tf1 = tf.compat.v1
Rules = suppression.Rules

BASE = Rules(score_threshold=0.1, iou_threshold=0.5, max_per_class=6, max_total=8)
CASES = {
    'by class': BASE,
    'frame of the window': dataclasses.replace(BASE, change_frame=True),
    'empty boxes stay': dataclasses.replace(BASE, drop_empty=False),
    'one a class': dataclasses.replace(BASE, max_per_class=1, max_total=4),
    'more room than survivors': dataclasses.replace(BASE, max_per_class=50, max_total=60),
    'any overlap': dataclasses.replace(BASE, iou_threshold=0.0),
    'no overlap is too much': dataclasses.replace(BASE, iou_threshold=1.0),
    'few above the threshold': dataclasses.replace(BASE, score_threshold=0.93),
    'none above the threshold': dataclasses.replace(BASE, score_threshold=1.0),
    'soft': dataclasses.replace(BASE, soft_sigma=0.3, iou_threshold=1.0),
    'soft with a limit': dataclasses.replace(BASE, soft_sigma=0.5, iou_threshold=0.6),
    'class agnostic': dataclasses.replace(BASE, class_agnostic=True),
    'class agnostic, soft': dataclasses.replace(BASE, class_agnostic=True, soft_sigma=0.3),
    'two classes a box': dataclasses.replace(BASE, class_agnostic=True, max_classes_per_box=2),
    'on the CPU': dataclasses.replace(BASE, on_cpu=True),
    'portable': dataclasses.replace(BASE, portable=True),
    'portable, one a class': dataclasses.replace(BASE, portable=True, max_per_class=1, max_total=4),
    'portable, class agnostic': dataclasses.replace(BASE, portable=True, class_agnostic=True),
}


def random_images(seed, batch, anchors, classes, boxes_by_class=False, levels=None):
    """Generate boxes in clusters, which overlap; some leave the unit square or have no area."""
    rng = np.random.RandomState(seed)
    q = classes if boxes_by_class else 1
    clusters = rng.uniform(-0.1, 1.1, [batch, 4, 2])[:, rng.randint(4, size=anchors)]
    centers = clusters[:, :, None] + rng.normal(0, 0.03, [batch, anchors, q, 2])
    sizes = rng.uniform(0.05, 0.4, [batch, anchors, q, 2])
    sizes *= rng.uniform(size=[batch, anchors, q, 1]) > 0.05
    boxes = np.concatenate([centers - sizes / 2, centers + sizes / 2], axis=-1)
    scores = rng.uniform(size=[batch, anchors, classes])
    if levels:
        scores = np.round(scores * levels) / levels
    return boxes.astype(np.float32), scores.astype(np.float32)


def run(boxes, scores, rules, windows=None, counts=None):
    with tf.Graph().as_default(), tf1.Session() as session:
        found = suppression.suppress(
            tf.constant(boxes),
            tf.constant(scores),
            rules,
            None if windows is None else tf.constant(windows),
            None if counts is None else tf.constant(counts),
        )
        return suppression.Detections(*session.run(found.tensors()))


def assert_equals_definition(found, boxes, scores, rules, windows=None):
    for image in range(len(boxes)):
        window = None if windows is None else windows[image % len(windows)]
        expected = slow_suppression.detections(boxes[image], scores[image], rules, window)
        count = found.counts[image]
        assert count == len(expected)
        assert found.scores.shape[1] == rules.max_total
        np.testing.assert_array_equal(found.classes[image, :count], [one[1] for one in expected])
        np.testing.assert_array_equal(found.anchors[image, :count], [one[2] for one in expected])
        np.testing.assert_allclose(
            found.scores[image, :count], [one[0] for one in expected], rtol=1e-6
        )
        np.testing.assert_allclose(
            found.boxes[image, :count],
            np.reshape([one[3] for one in expected], [-1, 4]),
            atol=1e-6,
        )
        for padded in found.tensors()[:4]:
            assert not padded[image, count:].any()


@pytest.mark.parametrize('boxes_by_class', [False, True])
@pytest.mark.parametrize('name', CASES)
def test_is_suppression_by_its_definition(monkeypatch, name, boxes_by_class):
    # Few pairs are looked at first, so that looking at more is tried as well.
    monkeypatch.setattr(suppression, '_FIRST_PAIRS', 1)
    rules = CASES[name]
    windows = np.array([[0, 0, 1, 1], [0.1, 0.2, 0.7, 0.6]], np.float32)
    boxes, scores = random_images(len(name), 6, 70, 3, boxes_by_class)
    found = run(boxes, scores, rules, np.tile(windows, [3, 1]))
    assert_equals_definition(found, boxes, scores, rules, windows)


@pytest.mark.parametrize('seed', range(4))
def test_equal_scores_are_in_order_of_classes_then_anchors(monkeypatch, seed):
    monkeypatch.setattr(suppression, '_FIRST_PAIRS', 1)
    boxes, scores = random_images(seed, 4, 60, 3, levels=8)
    assert_equals_definition(run(boxes, scores, BASE), boxes, scores, BASE)


def test_looks_at_all_pairs_where_few_survive():
    # 6000 pairs above the threshold, in 4 places: 8 detections, fewer than there is room for.
    rng = np.random.RandomState(0)
    boxes, scores = random_images(0, 2, 3000, 2)
    places = np.array([[0, 0, 0.3, 0.3], [0.5, 0, 0.8, 0.3], [0, 0.5, 0.3, 0.8], [0.5, 0.5, 1, 1]])
    boxes = (places[rng.randint(4, size=[2, 3000, 1])] + 1e-3 * boxes).astype(np.float32)
    rules = Rules(iou_threshold=0.6, max_per_class=100, max_total=100)
    found = run(boxes, scores, rules, np.array([[0, 0, 1, 1]], np.float32))
    assert found.counts.tolist() == [8, 8]
    assert_equals_definition(found, boxes, scores, rules, np.array([[0, 0, 1, 1]], np.float32))


def test_dropped_boxes_make_room_for_others(monkeypatch):
    monkeypatch.setattr(suppression, '_FIRST_PAIRS', 1)
    # The 30 best boxes are outside of the window.
    boxes, scores = random_images(3, 1, 60, 2)
    boxes[:, :30] = boxes[:, :30] * 0.1 + 2.0
    scores[:, :30] += 1.0
    window = np.array([[0, 0, 1, 1]], np.float32)
    rules = dataclasses.replace(BASE, max_per_class=40)
    found = run(boxes, scores, rules, window)
    assert found.counts[0] == 8 and (found.anchors[0] >= 30).all()
    assert_equals_definition(found, boxes, scores, rules, window)


def test_boxes_outside_of_the_window_use_up_the_places_of_their_class():
    boxes = np.array([[[[2, 2, 3, 3]], [[0, 0, 1, 1]], [[4, 4, 5, 5]]]], np.float32)
    scores = np.array([[[0.9], [0.5], [0.7]]], np.float32)
    window = np.array([[0, 0, 1, 1]], np.float32)
    assert run(boxes, scores, Rules(max_per_class=2, max_total=2), window).counts == [0]
    assert run(boxes, scores, Rules(max_per_class=3, max_total=3), window).anchors[0, 0] == 1


def test_rows_that_are_not_real_do_not_count():
    boxes, scores = random_images(5, 3, 40, 2)
    counts = np.array([40, 7, 0], np.int32)
    found = run(boxes, scores, BASE, counts=counts)
    for image, count in enumerate(counts):
        expected = slow_suppression.detections(boxes[image][:count], scores[image][:count], BASE)
        assert found.counts[image] == len(expected)
        assert found.anchors[image, : len(expected)].tolist() == [one[2] for one in expected]


def test_by_hand():
    # Of three overlapping boxes of class 0 the best stays; class 1 is by itself.
    boxes = np.array([[[[0, 0, 2, 2]], [[0, 0, 2, 1.8]], [[0, 0.1, 2, 2]], [[4, 4, 5, 5]]]])
    scores = np.array([[[0.5, 0.0], [0.6, 0.8], [0.3, 0.7], [0.2, 0.0]]])
    found = run(boxes.astype(np.float32), scores.astype(np.float32), Rules(max_total=100))
    assert found.counts == [3]
    assert found.scores[0, :4] == pytest.approx([0.8, 0.6, 0.2, 0.0])
    assert found.classes[0, :4].tolist() == [1, 0, 0, 0]
    assert found.anchors[0, :4].tolist() == [1, 1, 3, 0]
    assert found.boxes[0, 0] == pytest.approx([0, 0, 2, 1.8])


def test_no_number_is_no_detection():
    boxes, scores = random_images(0, 1, 600, 3)
    found = run(boxes, np.full_like(scores, np.nan), BASE)
    assert found.counts == [0]


def test_boxes_that_fit_no_class_are_an_error():
    with pytest.raises(ValueError, match='2 boxes an anchor for 3 classes'):
        run(np.zeros([1, 5, 2, 4], np.float32), np.zeros([1, 5, 3], np.float32), BASE)
    with pytest.raises(ValueError, match='needs windows'):
        run(*random_images(0, 1, 5, 3), dataclasses.replace(BASE, change_frame=True))


@pytest.mark.parametrize('name', ['by class', 'soft', 'two classes a box'])
def test_the_graph_does_not_grow(name):
    def count(batch, anchors, classes):
        with tf.Graph().as_default() as graph:
            boxes = tf1.placeholder(tf.float32, [batch, anchors, 1, 4])
            scores = tf1.placeholder(tf.float32, [batch, anchors, classes])
            windows = tf1.placeholder(tf.float32, [batch, 4])
            suppression.suppress(boxes, scores, CASES[name], windows)
        definition = graph.as_graph_def()
        inner = sum(len(function.node_def) for function in definition.library.function)
        return len(definition.node) + inner

    small = count(2, 2000, 3)
    assert small == count(2, 51150, 90) == count(16, 2000, 3)
    assert small < 400


def test_recorded_details():
    """Ties, zero scores, empty boxes, and one outside that takes a place before it is dropped."""
    case = oracles.case('nms_details')
    rules = Rules(0.0, 0.6, max_per_class=4, max_total=7, change_frame=True)
    window = np.array([[0, 0, 100, 100]], np.float32)
    found = run(case['boxes'][np.newaxis, :, np.newaxis], case['scores'][np.newaxis], rules, window)
    np.testing.assert_array_equal(found.counts, case['num'])
    np.testing.assert_allclose(found.boxes, case['out_boxes'], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.scores, case['out_scores'], rtol=1e-6)
    np.testing.assert_array_equal(found.classes, case['out_classes'])
    np.testing.assert_array_equal(found.anchors, case['out_index'][..., 0])


def test_the_example_of_the_docstring():
    boxes = np.float32([[0, 0, 2, 2], [0, 0, 2, 1.8], [4, 4, 6, 6]])[np.newaxis, :, np.newaxis]
    scores = np.float32([[[0.9], [0.8], [0.7]]])
    found = run(boxes, scores, Rules(iou_threshold=0.6, max_per_class=3, max_total=3))
    assert found.counts == [2]
    assert found.anchors[0, :2].tolist() == [0, 2]
