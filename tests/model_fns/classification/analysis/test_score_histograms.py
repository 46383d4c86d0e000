"""Areas under ROC curves, against all pairs of images, within the bound that is stated."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model_fns.classification.analysis import score_histograms


def slow_area(scores, is_positive):
    """Fraction of pairs in the right order; a pair of equal scores counts as half."""
    positives, negatives = scores[is_positive], scores[~is_positive]
    if not len(positives) or not len(negatives):
        return np.nan
    pairs = [
        1.0 if high > low else 0.5 if high == low else 0.0
        for high in positives
        for low in negatives
    ]
    return np.mean(pairs)


def areas_of(probabilities, labels):
    histograms = score_histograms.ScoreHistograms(probabilities.shape[1])
    for row, label in zip(probabilities, labels):
        histograms.add(row, label)
    return histograms.areas()


def softmax(logits):
    exponents = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return (exponents / exponents.sum(axis=-1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize('scale', [0.1, 1.0, 10.0])
def test_areas_equal_all_pairs(scale):
    random = np.random.RandomState(0)
    labels = random.randint(0, 4, [120])  # no image has the class 4
    logits = random.normal(size=[120, 5]) + 0.5 * np.eye(5)[labels]
    probabilities = softmax(scale * logits)
    areas, bounds = areas_of(probabilities, labels)
    expected = [slow_area(probabilities[:, index], labels == index) for index in range(5)]
    assert np.isnan(expected[4]) and np.isnan(areas[4]) and np.isnan(bounds[4])
    assert np.all(np.abs(areas - expected)[:4] <= bounds[:4] + 1e-12)
    assert bounds[:4].max() < 0.01


def test_bounds_with_many_classes():
    random = np.random.RandomState(1)
    labels = random.randint(0, 1001, [60])
    labels[:20] = 3
    probabilities = softmax(4 * (random.normal(size=[60, 1001]) + np.eye(1001)[labels]))
    areas, bounds = areas_of(probabilities, labels)
    expected = slow_area(probabilities[:, 3], labels == 3)
    assert abs(areas[3] - expected) <= bounds[3] + 1e-12
    assert bounds[3] < 0.01


# Far apart in log-odds, so that each has a bin of its own: 0 and 1 are among them.
LEVELS = np.array([0.0, 1e-30, 1e-10, 0.01, 0.3, 0.6, 0.99, 1 - 2.0**-20, 1.0], np.float32)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=2, max_size=30))
def test_ties_count_as_half(examples):
    scores = np.array([LEVELS[level] for level, _ in examples])
    is_positive = np.array([positive for _, positive in examples])
    probabilities = np.stack([1 - scores, scores], axis=1)
    areas, bounds = areas_of(probabilities, is_positive.astype(int))
    expected = slow_area(scores, is_positive)
    np.testing.assert_allclose(areas[1], expected, rtol=1e-12)
    ties = np.sum(scores[is_positive][:, None] == scores[~is_positive])
    pairs = is_positive.sum() * (~is_positive).sum()
    np.testing.assert_allclose(bounds[1], 0.5 * ties / pairs if pairs else np.nan)


def test_a_perfect_classifier_and_one_that_diverged():
    areas, bounds = areas_of(np.eye(2, dtype=np.float32)[[0, 1, 1]], [0, 1, 1])
    assert areas.tolist() == [1.0, 1.0] and bounds.tolist() == [0.0, 0.0]
    areas, _ = areas_of(np.full([3, 2], np.nan, np.float32), [0, 1, 1])
    assert areas.tolist() == [0.5, 0.5]


def test_memory_is_bounded():
    for num_classes in (2, 1001, 20000):
        held = vars(score_histograms.ScoreHistograms(num_classes)).values()
        arrays = [each for each in held if isinstance(each, np.ndarray)]
        assert sum(array.nbytes for array in arrays) < 35e6
