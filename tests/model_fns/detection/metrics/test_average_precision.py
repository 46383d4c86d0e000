import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_fns.detection.metrics import average_precision
from model_fns.detection.metrics.average_precision import precision_recall


def test_precision_and_recall_after_each_detection():
    precision, recall = precision_recall(np.array([0.7, 0.9, 0.8]), np.array([1, 1, 0]), 4)
    np.testing.assert_allclose(precision, [1, 1 / 2, 2 / 3])
    np.testing.assert_allclose(recall, [1 / 4, 1 / 4, 2 / 4])


def test_hits_may_be_parts_of_an_object():
    precision, recall = precision_recall(np.array([0.9, 0.8]), np.array([0.5, 0.0]), 2.0)
    np.testing.assert_allclose(precision, [1, 0.5 / 1.5])
    np.testing.assert_allclose(recall, [0.25, 0.25])


def test_tied_detections_stay_in_order():
    precision, _ = precision_recall(np.array([0.5, 0.5]), np.array([0, 1]), 1)
    np.testing.assert_allclose(precision, [0, 1 / 2])


@pytest.mark.parametrize(
    ('precision', 'recall', 'area'),
    [
        ([], [], 0.0),
        ([1.0], [1.0], 1.0),
        ([1.0], [0.25], 0.25),
        # Precision is made level from the right: 1 up to 1/4, 2/3 up to 1/2.
        ([1.0, 0.5, 2 / 3], [0.25, 0.25, 0.5], 0.25 + 0.25 * 2 / 3),
        ([0.2, 0.9], [0.5, 1.0], 0.9),
    ],
)
def test_area_under_the_curve(precision, recall, area):
    found = average_precision.average_precision(np.array(precision), np.array(recall))
    assert found == pytest.approx(area)


@given(st.lists(st.booleans(), min_size=1, max_size=20), st.integers(0, 5))
def test_area_by_steps(found, missed):
    """A small sum: each object found adds the best precision from there on."""
    count = sum(found) + missed
    if not count:
        return
    precisions = [sum(found[: place + 1]) / (place + 1) for place in range(len(found))]
    expected = sum(max(precisions[place:]) for place, hit in enumerate(found) if hit) / count
    curve = precision_recall(-np.arange(len(found)), np.array(found, float), count)
    assert average_precision.average_precision(*curve) == pytest.approx(expected)
