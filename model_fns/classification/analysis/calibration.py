"""Calibration of classifiers: does a confidence of 80 % mean that 80 % are right?

Guo et al. 2017, On Calibration of Modern Neural Networks, section 2. The confidence is the
probability of the predicted class. Predictions are sorted into bins of equal width; the expected
calibration error (ECE) is the mean over all predictions of |accuracy - mean confidence| of their
bin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

NUM_BINS = 15  # of the paper's experiments


class Calibration(NamedTuple):
    """Bins of the confidences from 0 to 1, and their error.

    Attributes:
        edges: float64 [bins + 1]: a bin has the confidences above its edge, up to the next one.
        counts: int64 [bins]: predictions.
        confidences: float64 [bins]: mean confidence; NaN without predictions.
        accuracies: float64 [bins]: fraction of right predictions; NaN without predictions.
        error: the expected calibration error; NaN without predictions.
    """

    edges: np.ndarray
    counts: np.ndarray
    confidences: np.ndarray
    accuracies: np.ndarray
    error: float


def calibrate(
    confidences: np.ndarray, is_right: np.ndarray, num_bins: int = NUM_BINS
) -> Calibration:
    """Compute the calibration of predictions.

    Args:
        confidences: [n], from 0 to 1.
        is_right: bool [n].
        num_bins: number of bins.
    """
    # k / 15 is rounded once; linspace multiplies a step that is rounded before.
    edges = np.arange(num_bins + 1) / num_bins
    # Bins include their upper edge, as in section 2 of the paper.
    bins = np.searchsorted(edges[1:-1], confidences, side='left')
    counts = np.bincount(bins, minlength=num_bins)
    with np.errstate(invalid='ignore'):
        means = np.bincount(bins, confidences, num_bins) / counts
        accuracies = np.bincount(bins, is_right, num_bins) / counts
    total = counts.sum()
    gaps = np.nansum(counts * np.abs(accuracies - means))
    return Calibration(edges, counts, means, accuracies, float(gaps / total if total else np.nan))
