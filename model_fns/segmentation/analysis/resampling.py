"""Scores of samples of an evaluation's images, from the counts of pixels of each image."""

from __future__ import annotations

import array
from typing import Dict

import numpy as np

from estimator_lib.task import Arrays
from estimator_lib.task_interfaces.analysis import Resampler
from model_fns.segmentation.metrics.metrics import Metrics

_IMAGES, _CLASSES = 'images', 'classes'
_COUNTS = ('right', 'labeled', 'predicted')


class ClassCounts:
    """Counts of pixels of the classes in each image; classes that are not there take no memory."""

    def __init__(self) -> None:
        self._num_images = 0
        self._images = array.array('i')
        self._classes = array.array('h')
        self._counts = {name: array.array('i') for name in _COUNTS}

    def add(self, matrix: np.ndarray) -> None:
        """Add an image.

        Args:
            matrix: [C, C], numbers of pixels; rows are labels and columns predictions.
        """
        columns = np.diag(matrix), matrix.sum(axis=1), matrix.sum(axis=0)
        present = np.flatnonzero(columns[1] + columns[2])
        self._classes.extend(present.tolist())
        self._images.extend([self._num_images] * len(present))
        for counts, column in zip(self._counts.values(), columns):
            counts.extend(column[present].tolist())
        self._num_images += 1

    def arrays(self) -> Arrays:
        """Return a row for each class in each image, as arrays of equal lengths by name."""
        return {
            _IMAGES: np.array(self._images, np.int32),
            _CLASSES: np.array(self._classes, np.int16),
            **{name: np.array(counts, np.int32) for name, counts in self._counts.items()},
        }


def create_resampler(examples: Arrays, metrics: Metrics) -> Resampler:
    """Create a function from the weight of each image to the scores of classes.

    Args:
        examples: from `ClassCounts.arrays`.
        metrics: metrics of the task.
    """
    images, classes = examples[_IMAGES], examples[_CLASSES]

    def resample(weights: np.ndarray) -> Dict[str, float]:
        of_rows = weights[images]
        sums = [
            np.bincount(classes, of_rows * examples[name], metrics.num_classes) for name in _COUNTS
        ]
        return metrics.count_metrics(*sums)

    return resample
