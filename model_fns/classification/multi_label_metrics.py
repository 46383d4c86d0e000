"""Metrics of images with several labels: average precision and F1 of each class.

Scores are counted in bins of equal width of the logit, for images with and without each label, so
that memory does not depend on the number of images. Scores in one bin count as equal, and the
order of the images in a bin is not known: `mAP_bound` says how far the exact mean may be away.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib.task import Metric

tf1 = tf.compat.v1

SCORES = 'label_scores'
MEAN_AP, MACRO_F1, MICRO_F1 = 'mAP', 'F1_macro', 'F1_micro'
AP_BOUND = 'mAP_bound'  # the exact mean is at most this far from `MEAN_AP`

_BINS = 4096  # an even number: a border is at the logit 0, which is the probability 0.5
_HIGHEST = 20.0  # and -20: logits beyond share the outermost bins


def create_metrics(logits: tf.Tensor, labels: tf.Tensor) -> Dict[str, Metric]:
    """Return the accumulator over an evaluation.

    Args:
        logits: float32 [batch, num_classes].
        labels: float32 [batch, num_classes] of 0 and 1; NaN: the image does not count for a class.

    Returns:
        `SCORES`: int64 [2, num_classes, bins]: counts of scores of images without and with each
        label.
    """
    num_classes = logits.shape[1]
    total = tf1.get_variable(
        SCORES,
        [2, num_classes, _BINS],
        tf.int64,
        initializer=tf1.zeros_initializer(),
        trainable=False,
        use_resource=True,
        collections=[tf1.GraphKeys.LOCAL_VARIABLES, tf1.GraphKeys.METRIC_VARIABLES],
    )
    # A logit that is not a number, of a model that diverged, ranks lowest.
    logits = tf.where(tf.math.is_nan(logits), -_HIGHEST, logits)
    position = (logits + _HIGHEST) * (_BINS / (2 * _HIGHEST))
    bins = tf.cast(tf.floor(tf.clip_by_value(position, 0.0, _BINS - 1.0)), tf.int64)
    classes = tf.broadcast_to(tf.range(num_classes, dtype=tf.int64), tf.shape(bins, tf.int64))
    known = tf.logical_not(tf.math.is_nan(labels))
    targets = tf.cast(tf.where(known, labels, 0.0), tf.int64)
    indices = tf.boolean_mask(tf.stack([targets, classes, bins], axis=-1), known)
    # Equal indices add up, which a scattered assignment would not do.
    update = total.scatter_nd_add(indices, tf.ones(tf.shape(indices)[:1], tf.int64))
    return {SCORES: (total.read_value(), update)}


def metric_names(num_classes: int) -> List[str]:
    """Return the names of the metrics that `finish` may return."""
    of_classes = [name(index) for name in (ap_name, f1_name) for index in range(num_classes)]
    return [MEAN_AP, AP_BOUND, MACRO_F1, MICRO_F1, *of_classes]


def ap_name(index: int) -> str:
    """Return the name of the average precision of one class."""
    return f'AP_class_{index}'


def f1_name(index: int) -> str:
    """Return the name of the F1 score of one class."""
    return f'F1_class_{index}'


def finish(values: Mapping[str, Any]) -> Dict[str, float]:
    """Return the metrics of the counts; those of a class without images are missing.

    The average precision is the sum over the bins, from the highest, of the precision times the
    recall that the bin adds. F1 is 2 TP / (2 TP + FP + FN) of the probabilities from 0.5.

    Args:
        values: with `SCORES`.
    """
    # Highest scores first: precision and recall are those from a bin on upward.
    negatives, positives = np.asarray(values[SCORES], np.int64)[:, :, ::-1]
    counts = positives.sum(axis=1)
    labeled = np.flatnonzero(counts)
    found, told = positives.cumsum(axis=1), (positives + negatives).cumsum(axis=1)
    precision = found / np.maximum(told, 1)
    aps = (positives * precision).sum(axis=1) / np.maximum(counts, 1)
    right, said = found[:, _BINS // 2 - 1], told[:, _BINS // 2 - 1]
    # TP + FP are those said, TP + FN those labeled.
    f1 = 2 * right / np.maximum(said + counts, 1)
    metrics = {MICRO_F1: float(2 * right.sum() / max(1, said.sum() + counts.sum()))}
    if len(labeled):
        metrics[MEAN_AP] = float(aps[labeled].mean())
        worst, best = _extreme_precisions(negatives[labeled], positives[labeled])
        distance = np.maximum(best - aps[labeled], aps[labeled] - worst)
        metrics[AP_BOUND] = float(max(0.0, distance.mean()))
        metrics[MACRO_F1] = float(f1[labeled].mean())
    for index in map(int, labeled):
        metrics[ap_name(index)] = float(aps[index])
        metrics[f1_name(index)] = float(f1[index])
    return metrics


def _extreme_precisions(
    negatives: np.ndarray, positives: np.ndarray
) -> Tuple[np.ndarray, np.ndarray]:
    """Return the least and the greatest average precision of any order within the bins.

    The least has the images without the label first in each bin, the greatest has them last. With
    one bin of 1 image without and 2 with the label: (1/2 + 2/3) / 2 and (1/1 + 2/2) / 2.

    Args:
        negatives: int64 [classes, bins], numbers of images without the label, highest scores first.
        positives: int64 [classes, bins], numbers of images with the label; at least one per class.

    Returns:
        float64 [classes] each.
    """
    extremes = []
    for first in (True, False):
        before = negatives.cumsum(axis=1) - (0 if first else negatives)
        sums = []
        for images, others in zip(positives, before):
            # The number of images with the label from 1 on, and of the others before each.
            rank = np.arange(1, images.sum() + 1)
            sums.append(np.mean(rank / (rank + np.repeat(others, images))))
        extremes.append(np.array(sums))
    return extremes[0], extremes[1]
