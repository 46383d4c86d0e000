import math

import numpy as np
import pytest

from model_fns.detection.metrics import rotated
from model_fns.detection.metrics.average_precision import eleven_point_precision
from model_fns.detection.metrics.evaluator import Detections, Groundtruth
from model_fns.structures import rotated_rectangles

NAMES = {1: 'ship', 2: 'crane'}
MEAN = 'RotatedBoxes_Precision/mAP'
OF_CLASS = 'RotatedBoxes_PerformanceByCategory/'


def truth(boxes, classes, difficult=None):
    count = len(boxes)
    none = np.zeros(count, bool)
    return Groundtruth(
        boxes=rotated_rectangles.corners(np.reshape(boxes, [-1, 5]).astype(float)),
        classes=np.array(classes, np.int64),
        is_crowd=none,
        difficult=none if difficult is None else np.array(difficult),
        group_of=none,
        areas=np.ones(count, np.float32),
        image_classes=np.zeros(0, np.int64),
    )


def found(boxes, scores, classes):
    outlines = rotated_rectangles.corners(np.reshape(boxes, [-1, 5]).astype(float))
    return Detections(outlines, np.array(scores, np.float32), np.array(classes, np.int64))


def evaluated(*images):
    evaluator = rotated.RotatedEvaluator(NAMES)
    for index, (groundtruth, detections) in enumerate(images):
        evaluator.add_image(str(index), groundtruth, detections)
    values = evaluator.evaluate()
    assert set(values) <= set(evaluator.names())
    return values


BAR = [50.0, 50, 10, 60, 0.5]
ACROSS = [50.0, 50, 10, 60, 0.5 + math.pi / 2]
FAR = [50.0, 200, 10, 60, 0.5]


def test_perfect():
    values = evaluated((truth([BAR, FAR], [1, 2]), found([BAR, FAR], [0.9, 0.8], [1, 2])))
    assert all(value == pytest.approx(1) for value in values.values())
    assert len(values) == 4 + 2 * 2


def test_a_turned_box_is_another_one():
    # Same position and enclosing box as its mirror image, but hardly any intersection.
    values = evaluated((truth([BAR], [1]), found([ACROSS], [0.9], [1])))
    assert values[f'{MEAN}@0.5IOU'] == 0
    # The same rectangle by another name.
    exchanged = [50.0, 50, 60, 10, 0.5 + math.pi / 2]
    values = evaluated((truth([BAR], [1]), found([exchanged], [0.9], [1])))
    assert values[f'{MEAN}@0.5:0.95IOU'] == pytest.approx(1)


def test_thresholds():
    # Half as long: an overlap of 0.6.
    shorter = [50.0, 50, 10, 36, 0.5]
    values = evaluated((truth([BAR], [1]), found([shorter], [0.9], [1])))
    assert values[f'{MEAN}@0.5IOU'] == pytest.approx(1)
    assert values[f'{MEAN}@0.75IOU'] == 0
    assert values[f'{MEAN}@0.5:0.95IOU'] == pytest.approx(0.3)  # .5, .55 and .6 of ten


def test_curve_by_hand():
    # Found, a miss, found again (of the other object): precision 1, 1/2, 2/3 at 1/3, 1/3, 2/3.
    images = (
        (truth([BAR, FAR], [1, 1]), found([BAR, BAR, FAR], [0.9, 0.8, 0.7], [1, 1, 1])),
        (truth([BAR], [1]), found([], [], [])),
    )
    values = evaluated(*images)
    assert values[f'{OF_CLASS}AP@0.5IOU/ship'] == pytest.approx(1 / 3 + 2 / 3 * 1 / 3)
    # Recalls 0 to .3 have 1, .4 to .6 have 2/3.
    assert values[f'{OF_CLASS}AP11@0.5IOU/ship'] == pytest.approx((4 + 3 * 2 / 3) / 11)
    assert f'{OF_CLASS}AP@0.5IOU/crane' not in values


def test_difficult_objects_count_neither_way():
    groundtruth = truth([BAR, FAR], [1, 1], [False, True])
    values = evaluated((groundtruth, found([FAR, FAR, BAR], [0.9, 0.8, 0.7], [1, 1, 1])))
    assert values[f'{MEAN}@0.5IOU'] == pytest.approx(1)


def test_other_classes_are_not_found():
    values = evaluated((truth([BAR], [1]), found([BAR, BAR], [0.9, 0.8], [2, 1])))
    assert values[f'{MEAN}@0.5IOU'] == pytest.approx(1)


def test_axis_aligned_boxes_are_evaluated_too():
    # As much as the square covers of its quarter turned self.
    square = [50.0, 50, 20, 20, math.pi / 4]
    axis_aligned = Detections(
        np.array([[40.0, 40, 60, 60]]), np.ones(1, np.float32), np.ones(1, int)
    )
    values = evaluated((truth([square], [1]), axis_aligned))
    # 1/sqrt(2) or .707: .5 to .7, five of ten thresholds.
    assert values[f'{MEAN}@0.5:0.95IOU'] == pytest.approx(0.5)


def test_nothing_to_find():
    evaluator = rotated.RotatedEvaluator(NAMES)
    assert evaluator.evaluate() == {}
    evaluator.add_image('a', truth([BAR], [1]), found([], [], []))
    assert evaluator.evaluate()[f'{MEAN}@0.5IOU'] == 0
    evaluator.clear()
    assert evaluator.evaluate() == {}


def test_eleven_points():
    # Three of ten found, all of them right.
    recall = np.array([1, 2, 3]) / 10
    # 3/10 is less than 0.1 x 3 in 64 bits, as in the development kit of DOTA.
    assert eleven_point_precision(np.ones(3), recall) == pytest.approx(3 / 11)
    assert eleven_point_precision(np.ones(4), np.arange(1, 5) / 10) == pytest.approx(5 / 11)
    # All ten found: 1.0 is reached, 0.6 and 0.7 by the seventh and eighth.
    assert eleven_point_precision(np.ones(10), np.arange(1, 11) / 10) == pytest.approx(1.0)
