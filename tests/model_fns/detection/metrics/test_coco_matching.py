"""Matching by hand; whole evaluations are held against pycocotools in `test_coco`."""

import numpy as np
import pytest

from model_fns.detection.metrics import coco_matching
from tests.model_fns.detection.metrics.scenes import detections, groundtruth, square

ALL = 0  # the first size range


def bits(flags, size=ALL):
    """Return bool [n, thresholds] of one size range."""
    sizes = len(coco_matching.AREA_RANGES)
    places = [threshold * sizes + size for threshold in range(len(coco_matching.IOU_THRESHOLDS))]
    return np.array([[int(one) >> place & 1 for place in places] for one in flags], bool)


def test_the_best_detection_takes_the_object_and_the_next_finds_nothing():
    found = detections([square(0), square(0), square(3)], [0.5, 0.9, 0.7], [1, 1, 1])
    matches = coco_matching.match(groundtruth([square(0)], [1]), found)
    np.testing.assert_allclose(matches.scores, [0.9, 0.7, 0.5])
    assert matches.ranks.tolist() == [0, 1, 2]
    assert bits(matches.found).all(axis=1).tolist() == [True, False, False]
    assert not bits(matches.ignored).any()


def test_the_overlap_decides_by_threshold():
    # 8 of 10 columns: an IoU of 0.8 is enough for thresholds up to 0.8.
    found = detections([[0.0, 0.0, 10.0, 8.0]], [0.5], [1])
    matches = coco_matching.match(groundtruth([[0.0, 0.0, 10.0, 10.0]], [1]), found)
    assert bits(matches.found)[0].tolist() == [True] * 7 + [False] * 3


def test_other_classes_are_not_found():
    matches = coco_matching.match(
        groundtruth([square(0)], [2]), detections([square(0)], [0.5], [1])
    )
    assert not bits(matches.found).any()


def test_a_crowd_takes_any_number_and_none_of_them_counts():
    crowd = groundtruth([[0.0, 0.0, 100.0, 100.0]], [1], crowd=[True])
    found = detections([square(0), square(1)], [0.5, 0.4], [1, 1])
    matches = coco_matching.match(crowd, found)
    assert bits(matches.found).all() and bits(matches.ignored).all()


def test_what_need_not_be_found():
    truth = groundtruth([square(0), square(1, side=40.0)], [1, 1], crowd=[False, True])
    # Areas of 100 (small) and 1600 (medium, and a crowd).
    assert coco_matching.not_counted(truth).tolist() == [
        [False, True],
        [False, True],
        [True, True],
        [True, True],
    ]


def test_precision_and_recall_of_a_class():
    truth = groundtruth([square(0), square(1)], [1, 1])
    found = detections([square(5), square(0)], [0.9, 0.8], [1, 1])
    matches = coco_matching.concatenate([coco_matching.match(truth, found)])
    result = coco_matching.class_result(matches, np.array([2, 2, 0, 0]))
    # Half of the objects at a precision of 1/2: recalls 0, 0.01, ... 0.5 of 101.
    assert result.precision[0, ALL] == pytest.approx(51 * 0.5 / 101)
    assert result.recall[0, ALL].tolist() == [0.0, 0.5, 0.5]
    assert np.isnan(result.precision[0, 2])


def test_images_are_joined_by_class_and_score():
    one = coco_matching.match(groundtruth([], []), detections([square(0)], [0.3], [2]))
    two = coco_matching.match(
        groundtruth([], []), detections([square(0), square(1)], [0.5, 0.9], [2, 1])
    )
    joined = coco_matching.concatenate([one, two])
    assert joined.classes.tolist() == [1, 2, 2]
    np.testing.assert_allclose(joined.scores, [0.9, 0.5, 0.3])
