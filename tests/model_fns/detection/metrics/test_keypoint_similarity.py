from __future__ import annotations

import math

import numpy as np
import pytest

from model_fns.detection.metrics.keypoint_similarity import Keypoints
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


def test_keypoints_are_chosen_by_their_places():
    found = np.array([[[4.0, 3.0], [5.0, 5.0], [6.0, 5.0]]])
    truth = [[[0.0, 0.0], [5.0, 5.0], [7.0, 5.0]]]
    assert overlap(found, truth, [2], [0.3]) == pytest.approx(near(1, 0.3))


def test_a_keypoint_that_is_not_told_is_not_near():
    assert overlap(np.array([[NO, [5.0, 5.0]]]), [[[1.0, 1.0], [5.0, 5.0]]]) == pytest.approx(0.5)
