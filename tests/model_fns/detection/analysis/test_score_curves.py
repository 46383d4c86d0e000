"""Rates over the score threshold, by hand and beside a slow version."""

import numpy as np
import pytest

from model_fns.detection.analysis import score_curves
from model_fns.detection.metrics import coco_matching
from tests.model_fns.detection.analysis import slow_analysis
from tests.model_fns.detection.analysis.test_error_types import random_scene, to_arrays

SCORES = np.array([0.9, 0.6, 0.6, 0.2], np.float32)
FOUND = np.array([True, False, True, False])


def test_rates_by_hand():
    rates = score_curves.score_rates(SCORES, FOUND, 4, np.array([0.0, 0.5, 0.7, 0.95]))
    np.testing.assert_allclose(rates.precision, [2 / 4, 2 / 3, 1, np.nan])
    np.testing.assert_allclose(rates.recall, [2 / 4, 2 / 4, 1 / 4, 0])
    np.testing.assert_allclose(rates.f1, [4 / 8, 4 / 7, 2 / 5, 0])


def test_a_class_without_objects_has_precision_alone():
    rates = score_curves.score_rates(SCORES, np.zeros(4, bool), 0, np.array([0.5]))
    assert rates.precision.tolist() == [0.0]
    assert np.isnan(rates.recall).all() and np.isnan(rates.f1).all()


def test_a_threshold_cannot_separate_equal_scores():
    assert score_curves.best_threshold(SCORES, FOUND, 4) == pytest.approx(0.6)
    assert np.isnan(score_curves.best_threshold(SCORES, np.zeros(4, bool), 4))
    assert np.isnan(score_curves.best_threshold(SCORES, FOUND, 0))


@pytest.mark.parametrize('seed', range(3))
def test_rates_of_random_scenes(seed):
    rng = np.random.RandomState(seed)
    images = [random_scene(rng, 2) for _ in range(20)]
    arrays = [to_arrays(*image) for image in images]
    joined = coco_matching.concatenate([coco_matching.match(*each) for each in arrays])
    for class_id in (1, 2):
        rows = joined.classes == class_id
        count = sum(int((truth.classes == class_id).sum()) for truth, _ in arrays)
        thresholds = np.array([0.0, 0.25, 0.5, 0.75])
        found = coco_matching.lowest_flags(joined.found)[rows]
        rates = score_curves.score_rates(joined.scores[rows], found, count, thresholds)
        expected = [slow_analysis.rates(images, class_id, least) for least in thresholds]
        np.testing.assert_allclose(np.transpose(rates), np.array(expected, float))
