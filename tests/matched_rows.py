"""Rows that are compared as sets: candidates of nearly equal scores come in any order."""

import numpy as np


def nearest_rows(found, expected):
    """Find the row of `found` that belongs to each row of `expected`.

    Args:
        found: [n, K], what tells rows apart, for example a box and a score.
        expected: [n, K].

    Returns:
        int [n], each row of `found` once: `found[nearest_rows(found, expected)]` is in the order of
        `expected`. Of rows that are equally near the first comes first.
    """
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    assert found.shape == expected.shape
    columns = np.maximum(np.abs(expected).max(axis=0, initial=0.0), 1e-12)
    distances = np.abs(found[np.newaxis] - expected[:, np.newaxis]) / columns
    distances = distances.max(axis=-1, initial=0.0)
    order = np.full(len(expected), -1)
    for _ in order:
        row, nearest = np.unravel_index(np.argmin(distances), distances.shape)
        order[row] = nearest
        distances[row], distances[:, nearest] = np.inf, np.inf
    return order
