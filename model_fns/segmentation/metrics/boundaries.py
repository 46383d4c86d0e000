"""Boundary F-score: the agreement of predicted edges or points with the true ones.

A predicted edge pixel is right where a true one of its class is within the tolerance. A true edge
pixel is found where a predicted one of its class is within the tolerance (Martin et al. 2004, with
distances in place of an assignment, as in Csurka et al. 2013). Counts are summed over all images
before they are divided.
"""

from __future__ import annotations

import math
from typing import Dict, List

import numpy as np

# The entries of `boundary_counts`.
NUM_COUNTS = 4
_RIGHT, _PREDICTED, _FOUND, _TRUE = range(NUM_COUNTS)

SCORES = ('f_score', 'precision', 'recall')


def boundary_counts(
    predictions: np.ndarray, truth: np.ndarray, tolerances: np.ndarray
) -> np.ndarray:
    """Count right and found edge pixels of a batch; an evaluation sums these counts.

    Args:
        predictions: integers or bool [B, H, W]: class of the edge, 0 for none.
        truth: the same; negative where it is unknown: predictions there do not count.
        tolerances: float [B]: largest distance in pixels of each image.

    Returns:
        int64 [4]: predicted pixels that are right, predicted pixels, true pixels that are found,
        true pixels.
    """
    counts = np.zeros([NUM_COUNTS], np.int64)
    for predicted, true, tolerance in zip(predictions, truth, tolerances):
        predicted = np.where(true < 0, 0, predicted)
        for index in np.union1d(predicted, true):
            if index > 0:
                counts += _count_class(predicted == index, true == index, float(tolerance))
    return counts


def boundary_scores(counts: np.ndarray, prefix: str) -> Dict[str, float]:
    """Compute the scalars of an evaluation, by the names of `boundary_names`.

    Args:
        counts: sums of `boundary_counts`.
        prefix: of the names.

    Returns:
        Precision where there is a prediction, recall where there is a true edge, their harmonic
        mean where there is either.
    """
    right, predicted, found, true = (float(count) for count in counts)
    scores = {}
    if predicted:
        scores['precision'] = right / predicted
    if true:
        scores['recall'] = found / true
    if scores:
        both = (scores.get('precision', 0.0), scores.get('recall', 0.0))
        scores['f_score'] = 2.0 * both[0] * both[1] / (sum(both) or 1.0)
    return {f'{prefix}_{name}': value for name, value in scores.items()}


def boundary_names(prefix: str) -> List[str]:
    """Return the names of all scalars of `boundary_scores`."""
    return [f'{prefix}_{name}' for name in SCORES]


def dilate(mask: np.ndarray, distance: float) -> np.ndarray:
    """Dilate a mask by a disc: find the pixels with one of the mask within a distance.

    The loop is over the rows of the disc. The running count of the mask's pixels, at both ends of a
    run, tells if the mask has a pixel in it: the time does not depend on the length of the run.

    Args:
        mask: bool [H, W].
        distance: between centers of pixels, not negative.

    Returns:
        bool [H, W].
    """
    height, width = mask.shape
    running = np.zeros([height, width + 1], np.int32)
    np.cumsum(mask, axis=1, out=running[:, 1:])
    columns = np.arange(width)
    near = np.zeros_like(mask)
    for rows in range(min(int(distance), height - 1) + 1):
        half = int(math.sqrt(distance**2 - rows**2))
        last, first = np.minimum(columns + half + 1, width), np.maximum(columns - half, 0)
        in_row = running[:, last] > running[:, first]
        near[rows:] |= in_row[: height - rows]
        near[: height - rows] |= in_row[rows:]
    return near


def _count_class(predicted: np.ndarray, true: np.ndarray, tolerance: float) -> np.ndarray:
    right = predicted & dilate(true, tolerance)
    found = true & dilate(predicted, tolerance)
    return np.array([mask.sum() for mask in (right, predicted, found, true)], np.int64)
