"""Confusion of classes, against loops over the examples and by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model_fns.structures import confusion

NUM_CLASSES = 5
pairs = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=40)


def slow_scores(examples, index):
    """Precision, recall, F1 and IoU of a class, by their definitions as sets of examples."""
    labeled = {number for number, (label, _) in enumerate(examples) if label == index}
    predicted = {number for number, (_, found) in enumerate(examples) if found == index}
    right, either = labeled & predicted, labeled | predicted
    nan = math.nan
    precision = len(right) / len(predicted) if predicted else nan
    recall = len(right) / len(labeled) if labeled else nan
    iou = len(right) / len(either) if either else nan
    # The harmonic mean, where a class that is missing on one side has no right predictions.
    f1 = 0.0 if either else nan
    if right:
        f1 = 2 / (1 / precision + 1 / recall)
    return precision, recall, f1, iou


@settings(max_examples=100, deadline=None)
@given(pairs)
def test_scores_equal_sets_of_examples(examples):
    labels, predictions = np.array(examples, int).reshape([-1, 2]).T
    counted = confusion.Confusion.from_pairs(labels, predictions, NUM_CLASSES)
    expected = np.array([slow_scores(examples, index) for index in range(NUM_CLASSES)]).T
    np.testing.assert_allclose(counted.scores(), expected, rtol=1e-12)
    matrix = np.zeros([NUM_CLASSES, NUM_CLASSES], int)
    for label, found in examples:
        matrix[label, found] += 1
    np.testing.assert_array_equal(counted.matrix(np.arange(NUM_CLASSES)), matrix)
    again = confusion.Confusion.from_matrix(matrix)
    np.testing.assert_array_equal(again.scores(), counted.scores())
    if examples:
        assert counted.accuracy == pytest.approx(np.mean([a == b for a, b in examples]))
    else:
        assert math.isnan(counted.accuracy)


MATRIX = np.array([[5, 1, 0, 2], [4, 7, 0, 0], [0, 0, 9, 0], [0, 0, 0, 0]])


def test_largest_errors_by_hand():
    counted = confusion.Confusion.from_matrix(MATRIX)
    assert counted.largest_errors(2) == [(1, 0, 4), (0, 3, 2)]
    assert counted.largest_errors(9) == [(1, 0, 4), (0, 3, 2), (0, 1, 1)]


def test_the_most_confused_classes_by_hand():
    counted = confusion.Confusion.from_matrix(MATRIX)
    # Errors by class: 1 + 2 + 4, 4 + 1, 0, 2.
    assert counted.most_confused(1).tolist() == [0]
    assert counted.most_confused(3).tolist() == [0, 1, 3]


def test_other_classes_are_merged():
    counted = confusion.Confusion.from_matrix(MATRIX)
    # Class 2, and then the classes 0, 1 and 3.
    np.testing.assert_array_equal(counted.matrix(np.array([2])), [[9, 0], [0, 19]])
    np.testing.assert_array_equal(
        counted.matrix(np.array([0, 1])), [[5, 1, 2], [4, 7, 0], [0, 0, 9]]
    )


def test_the_memory_does_not_depend_on_the_classes():
    many = 10**6
    counted = confusion.Confusion.from_pairs(np.array([7, 7]), np.array([many - 1, 7]), many)
    assert counted.counts.tolist() == [1, 1]
    assert counted.largest_errors(3) == [(7, many - 1, 1)]
    assert np.nansum(counted.scores().recall) == 0.5


def test_mean_of_known_by_hand():
    assert confusion.mean_of_known(np.array([np.nan, 1.0, 2.0])) == 1.5
    assert math.isnan(confusion.mean_of_known(np.array([np.nan])))
