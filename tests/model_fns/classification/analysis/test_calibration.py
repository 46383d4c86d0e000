"""Calibration, against loops over bins and predictions, and by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model_fns.classification.analysis import calibration

# Edges of bins are among the confidences.
confidences = st.one_of(st.floats(0, 1, width=32), st.integers(0, 15).map(lambda n: n / 15))
predictions = st.lists(st.tuples(confidences, st.booleans()), max_size=30)


def slow_bins(examples, num_bins):
    """For each bin (lower, upper], the confidences and whether each is right."""
    for number in range(num_bins):
        lower, upper = number / num_bins, (number + 1) / num_bins
        yield [
            (confidence, is_right)
            for confidence, is_right in examples
            if lower < confidence <= upper or (number == 0 and confidence == 0)
        ]


@settings(max_examples=100, deadline=None)
@given(predictions, st.sampled_from([1, 4, 15]))
def test_bins_and_error_equal_loops(examples, num_bins):
    columns = np.array(examples, float).reshape([-1, 2]).T
    result = calibration.calibrate(columns[0], columns[1] > 0, num_bins)
    error = 0.0
    for number, members in enumerate(slow_bins(examples, num_bins)):
        assert result.counts[number] == len(members)
        if not members:
            assert math.isnan(result.confidences[number]) and math.isnan(result.accuracies[number])
            continue
        mean = sum(confidence for confidence, _ in members) / len(members)
        accuracy = sum(is_right for _, is_right in members) / len(members)
        assert result.confidences[number] == pytest.approx(mean)
        assert result.accuracies[number] == pytest.approx(accuracy)
        error += len(members) / len(examples) * abs(accuracy - mean)
    expected = error if examples else math.nan
    assert result.error == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_the_error_by_hand():
    # Two of four are right at 0.9, one of one at 0.3: 4/5 * 0.4 + 1/5 * 0.7.
    found = calibration.calibrate(
        np.array([0.9, 0.9, 0.9, 0.9, 0.3]), np.array([True, True, False, False, True]), 10
    )
    assert found.error == pytest.approx(0.46)
    assert found.counts.tolist() == [0, 0, 1, 0, 0, 0, 0, 0, 4, 0]


def test_a_calibrated_model_has_no_error():
    found = calibration.calibrate(np.full([4], 0.75), np.array([True, True, False, True]))
    assert found.error == pytest.approx(0.0)
