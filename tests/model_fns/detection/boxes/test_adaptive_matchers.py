import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from model_fns.detection.boxes import (
    adaptive_matchers,
    axis_aligned,
    matchers,
    rotated,
    similarities,
)
from tests.model_fns.detection import slow_matchers

NO = matchers.UNMATCHED
# Two maps of an input of 32 x 64 pixels, with anchors of two strides.
SIZE, GRIDS, STRIDES = (32, 64), ((4, 8), (2, 4)), (8, 16)


def square_anchors():
    """Return boxes [40, 4] in pixels."""
    rows = []
    for (height, width), stride in zip(GRIDS, STRIDES):
        for row in range(height):
            for column in range(width):
                center = stride * np.array([row + 0.5, column + 0.5])
                rows.append([*center - stride, *center + stride])
    return np.array(rows, np.float32)


ANCHORS = square_anchors()


def match(boxes, count=9, claiming=None, valid=None, normalized=True):
    """Return the matches of an image's boxes [n, 4] in pixels."""
    boxes = np.reshape(boxes, [1, -1, 4]).astype(np.float32)
    everything = np.ones(boxes.shape[:2], bool)
    claiming, valid = (
        everything if each is None else np.array([each]) for each in (claiming, valid)
    )
    sides = np.tile(np.float32(SIZE), 2) if normalized else np.float32(1)
    boxes, anchors = tf.constant(boxes / sides), tf.constant(ANCHORS / sides)
    scene = matchers.Scene(
        tf.constant(GRIDS), (1, 1), [tf.constant(float(side)) for side in SIZE], normalized
    )
    similarity = similarities.iou(axis_aligned)(boxes, anchors)
    classes = tf.ones_like(boxes[..., :1])
    placement = matchers.Placement(scene, boxes, classes, anchors, axis_aligned)
    matcher = adaptive_matchers.AtssMatcher(count)
    return matcher.match(similarity, valid, claiming, placement)[0].numpy().tolist()


def positives(matches, row=0):
    return [index for index, match in enumerate(matches) if match == row]


def test_atss_by_hand():
    # The centers of the four nearest anchors of the first map are 4 pixels away along both axes, so
    # each has the IoU 144 / 368 = 0.391. Those of the second map are at 8 (the center of the box)
    # and 24: the anchor around the center has 256 / 1024 = 0.25, two have 128 / 1152 = 0.111 (8 of
    # 16 pixels along one axis), and the fourth has 64 / 1216 = 0.053.
    # Mean of the eight: 0.261; deviation: 0.149; threshold: 0.411. None reaches it.
    similarity = [0.3913] * 4 + [0.25, 0.1111, 0.1111, 0.0526]
    assert np.mean(similarity) + np.std(similarity, ddof=1) == pytest.approx(0.411, abs=1e-3)
    # Without a positive it takes the anchor of least cost: 32 for those of the first map, of its
    # own size and (4, 4) away; 0 + 8 ** 2 + 8 ** 2 = 128 for the one around it.
    assert positives(match([0, 0, 16, 16], count=4)) == [0]
    # One candidate of each map: those as near as it count too. Mean of 0.3913 (4 times) and 0.25:
    # 0.3630, deviation 0.0632, threshold 0.4262.
    assert positives(match([0, 0, 16, 16], count=1)) == [0]
    # An anchor's own box: IoU 1 of itself, at most 1/3 of others.
    assert positives(match([4, 4, 20, 20])) == [9]


def test_small_objects_have_an_anchor():
    # Between the cells: no center is inside, so it takes the nearest one of the finer map.
    assert positives(match([15, 15, 17, 17])) == [9]
    assert positives(match([[15, 15, 17, 17], [15, 15, 17, 17]]), 1) == [10]


def test_boxes_without_weight_claim_nothing_and_padding_has_nothing():
    tiny = [15, 15, 17, 17]
    assert match([tiny], claiming=[False]) == [NO] * 40
    assert match([tiny], claiming=[False], valid=[False]) == [NO] * 40
    assert match(np.zeros([0, 4])) == [NO] * 40


def test_rows_take_the_nearest_anchor_that_no_other_row_took():
    def give(costs, matches, claiming=None):
        claiming = [True] * len(costs) if claiming is None else claiming
        given = adaptive_matchers.give_each_row_one(
            tf.constant([costs]), tf.constant([claiming]), tf.constant([matches])
        )
        return given[0].numpy().tolist()

    # Row 1 takes the only anchor that it is near to, and row 0 keeps the other.
    assert give([[1.0, 2.0, 3.0], [1.0, 4.0, 5.0]], [0, 0, NO]) == [1, 0, NO]
    # Row 0 loses its only one, and takes the next nearest.
    assert give([[1.0, 2.0, 3.0], [1.0, 4.0, 5.0]], [0, NO, NO]) == [1, 0, NO]
    # Three that want the same one.
    assert give([[1.0, 2.0, 3.0]] * 3, [NO, NO, NO]) == [0, 1, 2]
    assert give([[1.0, 2.0, 3.0]] * 3, [NO, NO, NO], [True, False, True]) == [0, 2, NO]
    # More rows than anchors: no endless loop.
    assert len(set(give([[1.0]] * 3, [NO]))) == 1


def boxes():
    sides = st.tuples(
        st.integers(0, 30), st.integers(0, 60), st.integers(1, 40), st.integers(1, 60)
    )
    return st.lists(sides.map(lambda box: [*box[:2], box[0] + box[2], box[1] + box[3]]), max_size=6)


@given(boxes(), st.integers(1, 12), st.booleans())
@settings(max_examples=40, deadline=None)
def test_atss_is_that_of_loops(rows, count, normalized):
    found = match(rows or np.zeros([0, 4]), count, normalized=normalized)
    expected = slow_matchers.atss(np.array(rows), ANCHORS, [32, 8], count)
    assert found == expected
    assert set(range(len(rows))) <= set(found)


def test_the_inside_of_rotated_boxes():
    # A box of 4 x 20 pixels along the diagonal; centers of anchors along both diagonals.
    scene = matchers.Scene(tf.constant([[1, 4]]), (1,), [32.0, 32.0], is_normalized=False)
    box = tf.constant([[[16.0, 16.0, 4.0, 20.0, np.pi / 4]]])
    centers = [[16, 16], [21, 21], [24, 24], [21, 11]]
    anchors = tf.constant([[*center, 8.0, 8.0, 0.0] for center in centers], tf.float32)
    placement = matchers.Placement(scene, box, tf.ones([1, 1, 1]), anchors, rotated)
    assert placement.inside().numpy().tolist() == [[[True, True, False, False]]]
    np.testing.assert_allclose(placement.squared_distances(), [[[0, 50, 128, 50]]])
    # Half sides differ by 2 and 6.
    np.testing.assert_allclose(placement.costs(), [[[40, 90, 168, 90]]])


def dynamic(boxes, predicted, logits=0.0, classes=None, most=13, static_steps=0, similarity=0.0):
    """Return the matches of boxes [n, 4] by predicted boxes [40, 4], in pixels."""
    boxes = np.reshape(boxes, [1, -1, 4]).astype(np.float32)
    classes = np.ones([1, boxes.shape[1], 1], np.float32) if classes is None else [classes]
    logits = np.broadcast_to(np.float32(logits), [1, len(ANCHORS), np.shape(classes)[-1]])
    scene = matchers.Scene(
        tf.constant(GRIDS),
        (1, 1),
        [tf.constant(float(side)) for side in SIZE],
        False,
        matchers.Predicted(tf.constant(predicted[np.newaxis]), tf.constant(logits)),
    )
    placement = matchers.Placement(
        scene, tf.constant(boxes), tf.constant(classes), tf.constant(ANCHORS), axis_aligned
    )
    everything = tf.ones(boxes.shape[:2], tf.bool)
    matcher = adaptive_matchers.DynamicMatcher(most, static_steps=static_steps)
    return matcher.match(similarity, everything, everything, placement)[0].numpy().tolist()


def test_dynamic_matching_by_hand():
    # Two predictions are the box, one is half of it, and the others are far away: the sum of the
    # IoUs is 2.5, so the box takes two. All have their centers inside of it.
    box = np.array([8, 8, 24, 24], np.float32)
    predicted = np.tile(np.array([0, 0, 1, 1], np.float32), [len(ANCHORS), 1])
    predicted[[9, 18]], predicted[10] = box, [8, 8, 24, 16]
    assert positives(dynamic([box], predicted)) == [9, 18]
    # One at most, and the first of those that cost the same. Center 9 is as far away as 18.
    assert positives(dynamic([box], predicted, most=1)) == [9]
    # A score that is wrong costs more than half of the box: -3 log(0.5) = 2.08 and what its own
    # score of 0.5 costs, none as it is the IoU; 6.0 * 0.995 of a logit of -6 for an IoU of 1.
    logits = np.zeros([len(ANCHORS), 1], np.float32)
    logits[18] = -6.0
    assert positives(dynamic([box], predicted, logits)) == [9, 10]


def test_the_first_steps_are_those_of_atss(monkeypatch):
    box = np.array([8, 8, 24, 24], np.float32)
    predicted = np.tile(np.array([0, 0, 1, 1], np.float32), [len(ANCHORS), 1])
    predicted[[20, 21]] = box
    monkeypatch.setattr(adaptive_matchers.forward_pass, 'global_step', lambda: tf.constant(4))
    similarity = similarities.iou(axis_aligned)(tf.constant([[box]]), tf.constant(ANCHORS))
    first = dynamic([box], predicted, static_steps=5, similarity=similarity)
    assert first == match([box])
    later = dynamic([box], predicted, static_steps=4, similarity=similarity)
    assert later == dynamic([box], predicted) != first


def test_dynamic_matching_of_two_classes_at_one_place():
    # Both predictions are the boxes of both objects: the scores decide.
    box = np.array([8, 8, 24, 24], np.float32)
    predicted = np.tile(np.array([0, 0, 1, 1], np.float32), [len(ANCHORS), 1])
    predicted[[9, 18]] = box
    logits = np.zeros([len(ANCHORS), 2], np.float32)
    logits[9], logits[18] = [3.0, -3.0], [-3.0, 3.0]
    found = dynamic([box, box], predicted, logits, np.eye(2, dtype=np.float32))
    assert (positives(found, 0), positives(found, 1)) == ([9], [18])


def test_dynamic_matching_gives_each_box_an_anchor():
    predicted = np.tile(np.array([0, 0, 1, 1], np.float32), [len(ANCHORS), 1])
    tiny = [[15, 15, 17, 17], [15, 15, 17, 17], [0, 0, 2, 2]]
    assert {0, 1, 2} <= set(dynamic(tiny, predicted))
    assert dynamic(np.zeros([0, 4]), predicted) == [NO] * 40
