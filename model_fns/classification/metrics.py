"""Metrics of classification."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib.task import Metric

tf1 = tf.compat.v1

ACCURACY = 'accuracy'
RECALL_5 = 'recall_5'
CONFUSION = 'confusion_matrix'


def create_metrics(logits: tf.Tensor, labels: tf.Tensor, num_classes: int) -> Dict[str, Metric]:
    """Return accumulators over an evaluation.

    Args:
        logits: float32 [batch, num_classes].
        labels: int64 [batch].
        num_classes: size of the confusion matrix.

    Returns:
        `CONFUSION`: int64 [num_classes, num_classes], rows are labels and columns predictions; and
        `RECALL_5`: the share of examples whose label is among the five largest logits, where there
        are more than five classes.
    """
    metrics = {CONFUSION: _confusion(tf.argmax(logits, -1), labels, num_classes)}
    if num_classes > 5:
        in_top_5 = tf.nn.in_top_k(targets=labels, predictions=logits, k=5)
        # slim's Recall_5. A confusion matrix cannot give it.
        metrics[RECALL_5] = tf1.metrics.mean(tf.cast(in_top_5, tf.float32))
    return metrics


def metric_names(num_classes: int) -> List[str]:
    """Return the names of the metrics that `finish` may return."""
    names = [ACCURACY, *(class_accuracy_name(index) for index in range(num_classes))]
    return [*names, RECALL_5] if num_classes > 5 else names


def class_accuracy_name(index: int) -> str:
    """Return the name of the accuracy among the examples of one class."""
    return f'accuracy_class_{index}'


def finish(values: Mapping[str, Any]) -> Dict[str, float]:
    """Return scalars from the accumulated values; a class without examples has no accuracy."""
    confusion = np.asarray(values[CONFUSION])
    metrics = accuracies(np.diag(confusion), confusion.sum(axis=1))
    if RECALL_5 in values:
        metrics[RECALL_5] = float(values[RECALL_5])
    return metrics


def accuracies(right: np.ndarray, total: np.ndarray) -> Dict[str, float]:
    """Return the accuracy of all examples and of each class with examples.

    Args:
        right: [num_classes], numbers of right predictions by label.
        total: [num_classes], numbers of examples by label.
    """
    metrics = {ACCURACY: float(right.sum() / max(1, total.sum()))}
    for index in np.flatnonzero(total):
        metrics[class_accuracy_name(int(index))] = float(right[index] / total[index])
    return metrics


def class_names(num_classes: int, names: Mapping[int, str], offset: int) -> Sequence[str]:
    """Return display names by index: those of the label map, else the labels themselves."""
    return [names.get(index + offset, str(index + offset)) for index in range(num_classes)]


def _confusion(predicted: tf.Tensor, labels: tf.Tensor, num_classes: int) -> Metric:
    total = tf1.get_variable(
        CONFUSION,
        [num_classes, num_classes],
        tf.int64,
        initializer=tf1.zeros_initializer(),
        trainable=False,
        collections=[tf1.GraphKeys.LOCAL_VARIABLES, tf1.GraphKeys.METRIC_VARIABLES],
    )
    # int64: counts in float32 stop at 2^24.
    batch = tf.math.confusion_matrix(labels, predicted, num_classes, dtype=tf.int64)
    return total.read_value(), total.assign_add(batch)
