"""Confusions by hand, and those of random scenes beside a slow version."""

import numpy as np
import pytest

from model_fns.detection.analysis import confusions
from model_fns.detection.metrics import coco_matching
from tests.model_fns.detection.analysis import slow_analysis
from tests.model_fns.detection.analysis.test_error_types import random_scene, to_arrays


def count(images, num_classes, least_score):
    matrix = np.zeros([num_classes + 1] * 2, np.int64)
    for objects, found in images:
        truth, arrays = to_arrays(objects, found)
        assignment = coco_matching.assign(truth, arrays)
        matches = assignment.matches
        possible = np.ones(assignment.overlaps.shape, bool)
        pairs = confusions.find_pairs(assignment.overlaps, matches.classes, truth.classes, possible)
        shown = matches.scores >= least_score
        classes = np.where(shown, matches.classes - 1, -1)
        confusions.count(matrix, pairs, classes, truth.classes - 1, assignment.objects)
    return matrix


OBJECT = [0.0, 0.0, 10.0, 10.0]
NEAR = [0.0, 0.0, 10.0, 8.0]
FAR = [50.0, 50.0, 60.0, 60.0]


def test_each_kind_of_cell():
    image = (
        [(OBJECT, 1), (FAR, 2)],
        [(NEAR, 2, 0.9), ([90.0, 90.0, 99.0, 99.0], 1, 0.8), (NEAR, 1, 0.3)],
    )
    # Rows: groundtruth 1, 2, background. Below 0.5 the right detection is hidden.
    assert count([image], 2, 0.5).tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    # With it, the confused detection has no object.
    assert count([image], 2, 0.2).tolist() == [[1, 0, 0], [0, 0, 1], [1, 1, 0]]


def test_what_is_not_counted_is_in_no_cell():
    matrix = np.zeros([2, 2], np.int64)
    none = confusions.Pairs(np.zeros(0, np.uint16), np.zeros(0, np.uint16))
    confusions.count(matrix, none, np.array([-1]), np.array([-1]), np.array([0]))
    assert not matrix.any()


@pytest.mark.parametrize('least_score', [0.0, 0.3, 0.7])
@pytest.mark.parametrize('seed', range(4))
def test_confusions_of_random_scenes(seed, least_score):
    rng = np.random.RandomState(seed)
    images = [random_scene(rng, 3) for _ in range(30)]
    expected = slow_analysis.confusion(images, 3, least_score)
    assert count(images, 3, least_score).tolist() == expected
    assert np.trace(expected) and sum(expected[3])
    confused = np.array(expected)[:3, :3]
    assert confused.sum() > np.trace(confused)
