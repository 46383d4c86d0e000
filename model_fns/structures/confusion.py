"""Confusion of classes: counts of (groundtruth, prediction) pairs, and the scores that follow."""

from __future__ import annotations

import dataclasses
from typing import List, NamedTuple, Tuple

import numpy as np


class ClassScores(NamedTuple):
    """Scores of each class, float64 [num_classes]; NaN where nothing was counted.

    Attributes:
        precision: right / predicted; NaN for a class that is never predicted.
        recall: right / labeled; NaN for a class without groundtruth.
        f1: 2 right / (predicted + labeled), the harmonic mean of the two. Of pixels it is the Dice
            coefficient. NaN for a class without either.
        iou: right / (predicted + labeled - right), intersection over union; NaN as for `f1`.
    """

    precision: np.ndarray
    recall: np.ndarray
    f1: np.ndarray
    iou: np.ndarray

    @classmethod
    def from_counts(
        cls, right: np.ndarray, predicted: np.ndarray, labeled: np.ndarray
    ) -> ClassScores:
        """Compute the scores from the counts of each class."""
        return cls(
            _ratio(right, predicted),
            _ratio(right, labeled),
            _ratio(2 * right, labeled + predicted),
            _ratio(right, labeled + predicted - right),
        )


@dataclasses.dataclass(frozen=True)
class Confusion:
    """Confusion matrix without its zeros: the memory depends on what occurs, not on the classes.

    Attributes:
        num_classes: number of classes.
        labels: int64 [n]: class of the groundtruth of each pair.
        predictions: int64 [n]: predicted class of each pair.
        counts: int64 [n]: number of examples or pixels of each pair, at least 1.
    """

    num_classes: int
    labels: np.ndarray
    predictions: np.ndarray
    counts: np.ndarray

    @classmethod
    def from_pairs(cls, labels: np.ndarray, predictions: np.ndarray, num_classes: int) -> Confusion:
        """Count pairs, given two integers for each example."""
        # In 64 bits: from 46,341 classes on the product exceeds 32.
        keys = np.asarray(labels, np.int64) * num_classes + np.asarray(predictions, np.int64)
        keys, counts = np.unique(keys, return_counts=True)
        return cls(num_classes, keys // num_classes, keys % num_classes, counts)

    @classmethod
    def from_matrix(cls, matrix: np.ndarray) -> Confusion:
        """Convert a matrix [num_classes, num_classes], whose rows are labels."""
        labels, predictions = np.nonzero(matrix)
        return cls(len(matrix), labels, predictions, matrix[labels, predictions])

    @property
    def right(self) -> np.ndarray:
        """Right predictions of each class: int64 [num_classes]."""
        is_right = self.labels == self.predictions
        return self._sums(self.labels[is_right], self.counts[is_right])

    @property
    def labeled(self) -> np.ndarray:
        """Groundtruth of each class: int64 [num_classes]."""
        return self._sums(self.labels, self.counts)

    @property
    def predicted(self) -> np.ndarray:
        """Predictions of each class: int64 [num_classes]."""
        return self._sums(self.predictions, self.counts)

    @property
    def accuracy(self) -> float:
        """Fraction of right predictions; NaN if nothing was counted."""
        total = self.counts.sum()
        return float(self.right.sum() / total) if total else float('nan')

    def scores(self) -> ClassScores:
        """Compute the scores of each class."""
        return ClassScores.from_counts(self.right, self.predicted, self.labeled)

    def largest_errors(self, limit: int) -> List[Tuple[int, int, int]]:
        """Return (label, prediction, count) of the most frequent errors, in descending order."""
        wrong = np.flatnonzero(self.labels != self.predictions)
        # Stable: equal counts stay in the order of labels, so that reports of equal runs are equal.
        largest = wrong[np.argsort(-self.counts[wrong], kind='stable')[:limit]]
        columns = self.labels[largest], self.predictions[largest], self.counts[largest]
        return [(int(label), int(found), int(count)) for label, found, count in zip(*columns)]

    def most_confused(self, limit: int) -> np.ndarray:
        """Return the classes with most errors, as label or prediction: sorted int64 [<= limit]."""
        errors = self.labeled + self.predicted - 2 * self.right
        return np.sort(np.argsort(-errors, kind='stable')[:limit])

    def matrix(self, classes: np.ndarray) -> np.ndarray:
        """Return the confusion matrix of some classes, and of all others as one.

        Args:
            classes: int64 [n], classes without repetition.

        Returns:
            int64 [n, n] for all classes, else [n + 1, n + 1], whose last row and column are the
            other classes. Rows are labels.
        """
        size = len(classes) + int(len(classes) < self.num_classes)
        positions = np.full(self.num_classes, size - 1)
        positions[classes] = np.arange(len(classes))
        cells = positions[self.labels] * size + positions[self.predictions]
        return np.bincount(cells, self.counts, size**2).astype(np.int64).reshape([size, size])

    def _sums(self, classes: np.ndarray, counts: np.ndarray) -> np.ndarray:
        # The weights of bincount are floats: exact up to 2^53 pixels of a class.
        return np.bincount(classes, counts, self.num_classes).astype(np.int64)


def mean_of_known(values: np.ndarray) -> float:
    """Return the mean of the values that are not NaN; NaN if there is none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float('nan')


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.where(whole > 0, part / np.maximum(whole, 1), np.nan)
