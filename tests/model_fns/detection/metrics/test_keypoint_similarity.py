from __future__ import annotations

import math

import numpy as np
import pytest

from model_fns.detection import fields
from model_fns.detection.metrics.keypoint_similarity import COCO_SIGMAS, Keypoints
from tests.model_fns.detection.metrics.scenes import detections, groundtruth

NAN = float('nan')
NO = [NAN, NAN]
BOX = [0.0, 0.0, 10.0, 10.0]


def overlap(found, truth, places=(0, 1), sigmas=(0.1, 0.2), **more):
    found = detections([BOX] * len(found), [0.5] * len(found), [1] * len(found), keypoints=found)
    truth = groundtruth([BOX] * len(truth), [1] * len(truth), keypoints=np.array(truth), **more)
    flags = np.zeros(len(truth.boxes), bool)
    return Keypoints(places, sigmas).overlaps(found, truth, flags)


def near(distance, sigma, area=100.0):
    return math.exp(-(distance**2) / (2 * area * (2 * sigma) ** 2))


def test_by_hand():
    # The first keypoint is 5 pixels off, the second exact, in one object not labeled.
    found = np.array([[[4.0, 3.0], [5.0, 5.0]]])
    truth = [[[0.0, 0.0], [5.0, 5.0]], [[0.0, 0.0], NO]]
    np.testing.assert_allclose(
        overlap(found, truth), [[(near(5, 0.1) + 1) / 2, near(5, 0.1)]], rtol=1e-6
    )
    np.testing.assert_allclose(
        overlap(found, truth, areas=[400.0]),
        [[(near(5, 0.1, 400.0) + 1) / 2, near(5, 0.1)]],
        rtol=1e-6,
    )


def test_keypoints_are_chosen_by_their_places():
    found = np.array([[[4.0, 3.0], [5.0, 5.0], [6.0, 5.0]]])
    truth = [[[0.0, 0.0], [5.0, 5.0], [7.0, 5.0]]]
    assert overlap(found, truth, [2], [0.3]) == pytest.approx(near(1, 0.3))


def test_an_object_without_keypoints_is_twice_its_box():
    found = np.array([[[15.0, -10.0], [23.0, 24.0]]])
    # The first is inside of twice the box, the second 3 and 4 pixels outside.
    assert overlap(found, [[NO, NO]]) == pytest.approx((1 + near(5, 0.2)) / 2)


def test_a_keypoint_that_is_not_told_is_not_near():
    assert overlap(np.array([[NO, [5.0, 5.0]]]), [[[1.0, 1.0], [5.0, 5.0]]]) == pytest.approx(0.5)


def test_areas_are_of_the_box_around_keypoints():
    keypoints = np.array([[[1.0, 2.0], [4.0, 8.0]], [NO, [4.0, 8.0]], [NO, NO]])
    found = detections([BOX] * 3, [0.5] * 3, [1] * 3, keypoints=keypoints)
    assert Keypoints([0, 1], [0.1, 0.1]).areas(found).tolist() == [18, 0, 0]
    none = detections([], [], [], keypoints=keypoints[:0])
    assert Keypoints([0, 1], [0.1, 0.1]).areas(none).shape == (0,)


def test_objects_without_a_labeled_keypoint_are_unknown():
    points = np.array([[[1.0, 1.0], NO], [NO, [1.0, 1.0]], [NO, NO]])
    truth = groundtruth([BOX] * 3, [1] * 3, keypoints=points)
    assert Keypoints([0, 1], [0.1, 0.1]).unknown(truth).tolist() == [False, False, True]
    assert Keypoints([0], [0.1]).unknown(truth).tolist() == [False, True, True]
    assert Keypoints.needs == {fields.KEYPOINTS}


def test_a_person_has_17_keypoints():
    assert len(COCO_SIGMAS) == 17
