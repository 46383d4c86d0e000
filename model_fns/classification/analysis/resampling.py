"""Accuracies of samples of an evaluation's images."""

from __future__ import annotations

from typing import Dict

import numpy as np

from estimator_lib.task import Arrays
from estimator_lib.task_interfaces.analysis import Resampler
from model_fns.classification import metrics

LABELS, PREDICTIONS = 'labels', 'predictions'  # int32 [images], from 0


def create_resampler(examples: Arrays, num_classes: int) -> Resampler:
    """Create a function from the weight of each image to the accuracies of `metrics.finish`.

    Args:
        examples: `LABELS` and `PREDICTIONS`.
        num_classes: number of classes.
    """
    labels, is_right = examples[LABELS], examples[LABELS] == examples[PREDICTIONS]

    def resample(weights: np.ndarray) -> Dict[str, float]:
        return metrics.accuracies(
            np.bincount(labels, weights * is_right, num_classes),
            np.bincount(labels, weights, num_classes),
        )

    return resample
