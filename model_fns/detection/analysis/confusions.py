"""Confusion matrix of a detector, with the background as a class.

Detections above a score and objects are paired one to one. First each detection takes an object of
its own class, as for average precision at an intersection over union of 0.5. Then the others are
paired with objects of other classes that they overlap as much, the highest overlap first. What is
left is background: a detection without an object, or an object without a detection.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

FOREGROUND = 0.5


class Pairs(NamedTuple):
    """Pairs of a detection and an object of another class of one image, the highest overlap first.

    Attributes:
        rows: uint16 [k], indices of detections.
        columns: uint16 [k], indices of objects.
    """

    rows: np.ndarray
    columns: np.ndarray


def find_pairs(
    overlaps: np.ndarray, classes: np.ndarray, object_classes: np.ndarray, possible: np.ndarray
) -> Pairs:
    """Find the pairs of an image that may be confused.

    Args:
        overlaps: [n, m], intersection over union.
        classes: [n], class ids of the detections, the highest score of a class first.
        object_classes: [m], class ids of the objects.
        possible: bool [n, m], pairs of a counted detection and a counted object.
    """
    other = classes[:, np.newaxis] != object_classes
    rows, columns = np.nonzero(possible & other & (overlaps >= FOREGROUND))
    order = np.argsort(-overlaps[rows, columns], kind='stable')
    return Pairs(rows[order].astype(np.uint16), columns[order].astype(np.uint16))


def count(
    matrix: np.ndarray,
    pairs: Pairs,
    detections: np.ndarray,
    objects: np.ndarray,
    found: np.ndarray,
) -> None:
    """Add an image to a matrix.

    Args:
        matrix: int64 [classes + 1, classes + 1], groundtruth x prediction; background is last.
        pairs: pairs of the image.
        detections: [n], index of the class of each detection in the matrix; -1: not counted.
        objects: [m], likewise of the objects.
        found: [n], the object of its own class that each counted detection takes; -1: none.
    """
    background = len(matrix) - 1
    seen = detections < 0
    known = objects < 0
    rows = np.flatnonzero(~seen & (found >= 0))
    # Several objects of an image may share a cell of the matrix: += would count them once.
    np.add.at(matrix, (objects[found[rows]], detections[rows]), 1)
    seen[rows] = True
    known[found[rows]] = True
    # In order, because a pair depends on those before it. Python's integers index faster here than
    # NumPy's scalars.
    for row, column in zip(pairs.rows.tolist(), pairs.columns.tolist()):
        if not (seen[row] or known[column]):
            matrix[objects[column], detections[row]] += 1
            seen[row] = known[column] = True
    np.add.at(matrix[background], detections[~seen], 1)
    np.add.at(matrix[:, background], objects[~known], 1)
