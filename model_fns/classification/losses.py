"""What a classifier minimises."""

from __future__ import annotations

import tensorflow as tf


def cross_entropy(logits: tf.Tensor, labels: tf.Tensor, label_smoothing: float = 0.0) -> tf.Tensor:
    """Softmax cross entropy, the mean over the batch.

    With smoothing s and n classes the target is (1 - s) for the label plus s / n for each class
    (Szegedy et al. 2016, section 7).

    Args:
        logits: float32 [batch, num_classes].
        labels: int64 [batch], in [0, num_classes).
        label_smoothing: s, in [0, 1).

    Returns:
        float32 scalar.
    """
    per_example = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    if label_smoothing:
        # Cross entropy is linear in the target: the uniform part needs no one-hot tensor.
        to_uniform = tf.reduce_mean(-tf.nn.log_softmax(logits), axis=-1)
        per_example = (1.0 - label_smoothing) * per_example + label_smoothing * to_uniform
    return tf.reduce_mean(per_example)
