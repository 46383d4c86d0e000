"""Metrics of images with several labels: average precision and F1 of each class.

Scores are counted in bins of equal width of the logit, for images with and without each label, so
that memory does not depend on the number of images. Scores in one bin count as equal.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

import numpy as np
import tensorflow as tf

from estimator_lib.task import Metric

tf1 = tf.compat.v1

SCORES = 'label_scores'
MEAN_AP, MACRO_F1, MICRO_F1 = 'mAP', 'F1_macro', 'F1_micro'

_BINS = 4096  # an even number: a border is at the logit 0, which is the probability 0.5
_HIGHEST = 20.0  # and -20: logits beyond share the outermost bins


def create_metrics(logits: tf.Tensor, labels: tf.Tensor) -> Dict[str, Metric]:
    """Return the accumulator over an evaluation.

    Args:
        logits: float32 [batch, num_classes].
        labels: float32 [batch, num_classes] of 0 and 1.

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
    indices = tf.stack([tf.cast(labels, tf.int64), classes, bins], axis=-1)
    indices = tf.reshape(indices, [-1, 3])
    update = total.scatter_nd_add(indices, tf.ones(tf.shape(indices)[:1], tf.int64))
    return {SCORES: (total.read_value(), update)}


def metric_names(num_classes: int) -> List[str]:
    """Return the names of the metrics that `finish` may return."""
    of_classes = [name(index) for name in (ap_name, f1_name) for index in range(num_classes)]
    return [MEAN_AP, MACRO_F1, MICRO_F1, *of_classes]


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
        metrics[MACRO_F1] = float(f1[labeled].mean())
    for index in map(int, labeled):
        metrics[ap_name(index)] = float(aps[index])
        metrics[f1_name(index)] = float(f1[index])
    return metrics
