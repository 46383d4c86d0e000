"""Boundary F-score of each class of a segmentation (Csurka et al. 2013).

A boundary pixel of a class is a pixel of it with a pixel of another class above, below or beside
it. The tolerance is that of the paper, 0.75 % of the image's diagonal. As in the other metrics of
this package, and unlike in the paper, counts are summed over all images before they are divided:
an image with a long boundary counts more than one with a short boundary.

Ignored pixels have no class. Data sets like Pascal VOC ignore a band along each outline, where the
boundary lies. So ignored pixels take the class of their nearest labeled pixel, up to the tolerance
away; the true boundary then is in the middle of the band. A predicted boundary pixel in or beside
ignored pixels counts where it is right, and is left out of the counts otherwise.
"""

from __future__ import annotations

import math

import numpy as np

from model_fns.segmentation.metrics import boundaries

TOLERANCE = 0.0075  # fraction of the diagonal

_UNKNOWN = -1


def count_boundaries(
    predictions: np.ndarray, labels: np.ndarray, num_classes: int, ignore_label: int
) -> np.ndarray:
    """Count the right and found boundary pixels of each class of one image.

    Args:
        predictions: integers [H, W], classes.
        labels: integers [H, W], classes or the ignore label.
        num_classes: C.
        ignore_label: of pixels without a class.

    Returns:
        int64 [C, 4], with the columns of `boundaries.boundary_counts`.
    """
    tolerance = TOLERANCE * math.hypot(*labels.shape)
    # Numbers of 2 bytes take half of the time.
    dtype = np.int16 if num_classes < np.iinfo(np.int16).max else np.int32
    is_labeled = labels != ignore_label
    truth = np.where(is_labeled, labels, _UNKNOWN).astype(dtype)
    true = _edges(_grown(truth, int(tolerance)))
    predicted = _edges(predictions.astype(dtype))
    right = boundaries.find_matches(predicted, true, tolerance)
    found = boundaries.find_matches(true, predicted, tolerance)
    counted = (predicted > 0) & (right | _surrounded(is_labeled))
    columns = [
        np.bincount(edges[mask], minlength=num_classes + 1)[1:]
        for edges, mask in (
            (predicted, right),
            (predicted, counted),
            (true, found),
            (true, true > 0),
        )
    ]
    return np.stack(columns, axis=1)


def _edges(classes: np.ndarray) -> np.ndarray:
    """Return class + 1 of boundary pixels and 0 elsewhere; an unknown class makes no boundary."""
    is_edge = np.zeros(classes.shape, bool)
    for first, second in ((np.s_[1:], np.s_[:-1]), (np.s_[:, 1:], np.s_[:, :-1])):
        one, other = classes[first], classes[second]
        differs = (one != other) & (one != _UNKNOWN) & (other != _UNKNOWN)
        is_edge[first] |= differs
        is_edge[second] |= differs
    # Class 0 has boundaries too, and 0 means no edge in `find_matches`.
    return (classes + 1) * is_edge


def _grown(classes: np.ndarray, steps: int) -> np.ndarray:
    """Grow the classes into unknown pixels, a pixel up, down, left and right in each step."""
    height, width = classes.shape
    # A border, so that neighbors of all pixels have a place in the flat map.
    padded = np.pad(classes, 1, constant_values=_UNKNOWN)
    is_unknown = np.zeros(padded.shape, bool)
    is_unknown[1:-1, 1:-1] = classes == _UNKNOWN
    places = np.flatnonzero(is_unknown)
    flat, row_length = padded.reshape(-1), width + 2
    for _ in range(steps if places.size else 0):
        # All values of a step are read before any is written: growth has the same speed everywhere.
        values = np.full(places.shape, _UNKNOWN, flat.dtype)
        for offset in (-row_length, -1, 1, row_length):
            values = np.where(values == _UNKNOWN, flat[places + offset], values)
        flat[places] = values
        places = places[values == _UNKNOWN]
    return padded[1 : height + 1, 1 : width + 1]


def _surrounded(mask: np.ndarray) -> np.ndarray:
    """Return the pixels of a mask whose four neighbors are in it, where there are any."""
    padded = np.pad(mask, 1, constant_values=True)
    neighbors = padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
    return mask & neighbors
