"""Precision, recall and F1 of one class over the score threshold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

THRESHOLDS = np.linspace(0.0, 1.0, 201)


class AtScore(NamedTuple):
    """Counts and rates of the detections from a score on.

    Attributes:
        precision: NaN without detections.
        recall: NaN without objects.
        f1: NaN without objects.
    """

    precision: np.ndarray
    recall: np.ndarray
    f1: np.ndarray


def score_rates(
    scores: np.ndarray, found: np.ndarray, count: int, thresholds: np.ndarray
) -> AtScore:
    """Return the rates from each score threshold on: [k] each.

    Args:
        scores: [n], the highest first.
        found: bool [n], true positives.
        count: number of objects.
        thresholds: [k].
    """
    # searchsorted needs ascending values. In float64 thresholds are compared as they are, without a
    # rounding to float32.
    shown = np.searchsorted(
        -scores.astype(np.float64), -np.asarray(thresholds, np.float64), 'right'
    )
    true = np.append(0, np.cumsum(found))[shown]
    nothing = np.full(len(shown), np.nan)
    precision = np.divide(true, shown, out=nothing.copy(), where=shown > 0)
    if not count:
        return AtScore(precision, nothing, nothing)
    return AtScore(precision, true / count, 2 * true / (shown + count))


def best_threshold(scores: np.ndarray, found: np.ndarray, count: int) -> float:
    """Return the score with the best F1, the highest of several; NaN without a true positive.

    Args:
        scores: [n], the highest first.
        found: bool [n], true positives.
        count: number of objects.
    """
    if not count or not found.any():
        return float('nan')
    f1 = score_rates(scores, found, count, scores).f1
    return float(scores[f1.argmax()])
