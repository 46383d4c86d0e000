"""Boundary F-score: the agreement of predicted edges or points with the true ones.

A predicted edge pixel is right where a true one of its class is within the tolerance. A true edge
pixel is found where a predicted one of its class is within the tolerance (Martin et al. 2004, with
distances in place of an assignment, as in Csurka et al. 2013). Counts are summed over all images
before they are divided.
"""

from __future__ import annotations

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
        # A prediction where the truth is unknown is neither right nor wrong.
        predicted = np.where(true < 0, 0, predicted)
        right = find_matches(predicted, true, float(tolerance))
        found = find_matches(true, predicted, float(tolerance))
        counts += [np.count_nonzero(mask) for mask in (right, predicted > 0, found, true > 0)]
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


def find_matches(edges: np.ndarray, others: np.ndarray, tolerance: float) -> np.ndarray:
    """Find the edge pixels with a pixel of their class in another map within the tolerance.

    The loop is over the pixels of a disc, nearest first, and edge pixels leave it with their match.
    So the time depends on the number of edge pixels, not on the size of the map or the number of
    classes.

    Args:
        edges: integers or bool [H, W]: class of the edge, 0 for none.
        others: the same; negative values match nothing.
        tolerance: largest distance between the centers of pixels, not negative.

    Returns:
        bool [H, W].
    """
    height, width = edges.shape
    pixels = np.flatnonzero(edges > 0)
    classes = edges.reshape(-1)[pixels]
    reach = min(int(tolerance), max(height, width) - 1)
    padded = np.zeros([height + 2 * reach, width + 2 * reach], others.dtype)
    padded[reach : reach + height, reach : reach + width] = others
    row_length = width + 2 * reach
    places = (pixels // width + reach) * row_length + pixels % width + reach
    # A class that the other map lacks would be searched in the whole disc.
    left = np.flatnonzero(np.isin(classes, np.unique(others[others > 0])))
    places, classes = places[left], classes[left]
    matched = np.zeros(len(pixels), bool)
    for offset in _disc(reach, tolerance, row_length):
        # The nearest offsets come first, so most maps end after few of them.
        if not left.size:
            break
        is_match = np.take(padded, places + offset) == classes
        if is_match.any():
            matched[left[is_match]] = True
            left, places, classes = left[~is_match], places[~is_match], classes[~is_match]
    matches = np.zeros(height * width, bool)
    matches[pixels[matched]] = True
    return matches.reshape([height, width])


def _disc(reach: int, radius: float, row_length: int) -> np.ndarray:
    """Return the offsets of the pixels of a disc in a flat map, the nearest first: int64 [n]."""
    rows, columns = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    distances = rows**2 + columns**2
    inside = distances <= radius**2
    # Stable, so that equal distances come in the same order on each machine.
    order = np.argsort(distances[inside], kind='stable')
    return (rows * row_length + columns)[inside][order]
