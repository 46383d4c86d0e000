"""Losses of classification."""

from __future__ import annotations

from typing import Optional, Sequence

import tensorflow as tf

# About float32's distance between 1 and its neighbors.
_LEAST_MISSED = 1e-7


def cross_entropy(
    logits: tf.Tensor,
    labels: tf.Tensor,
    label_smoothing: float = 0.0,
    class_weights: Sequence[float] = (),
    focal_gamma: float = 0.0,
    shares: Optional[tf.Tensor] = None,
) -> tf.Tensor:
    """Compute the softmax cross entropy, averaged over the batch.

    With smoothing s and n classes the target is (1 - s) for the label plus s / n for each class
    (Szegedy et al. 2016, section 7).

    Args:
        logits: float32 [batch, num_classes].
        labels: int64 [batch], in [0, num_classes).
        label_smoothing: s, in [0, 1).
        class_weights: factors on the loss of each class's examples; empty: 1. The mean is over the
            number of examples, not over their weights.
        focal_gamma: g: a further factor, (1 - probability of the label)^g (Lin et al. 2017).
        shares: float32 [batch, num_classes]: the loss of an example is the mean of its losses with
            each label, with these weights, which add up to 1 (Zhang et al. 2018). None: `labels`.

    Returns:
        float32 scalar.
    """
    if shares is None:
        cross_entropies = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=logits
        )
    else:
        cross_entropies = -tf.nn.log_softmax(logits)  # with each of the labels
    per_label = cross_entropies
    if label_smoothing:
        # Cross entropy is linear in the target: the uniform part needs no one-hot tensor.
        keepdims = shares is not None
        to_uniform = tf.reduce_mean(-tf.nn.log_softmax(logits), axis=-1, keepdims=keepdims)
        per_label = (1.0 - label_smoothing) * per_label + label_smoothing * to_uniform
    if focal_gamma:
        # 1 - exp(-x) has no digits left for a small x, where focal losses are.
        missed = -tf.math.expm1(-cross_entropies)
        # Not at 0, where the power's gradient is infinite for a gamma below 1.
        per_label *= tf.maximum(missed, _LEAST_MISSED) ** focal_gamma
    if class_weights:
        weights = tf.constant(list(class_weights), tf.float32)
        per_label *= tf.gather(weights, labels) if shares is None else weights
    if shares is not None:
        per_label = tf.reduce_sum(shares * per_label, axis=-1)
    return tf.reduce_mean(per_label)


def sigmoid_cross_entropy(
    logits: tf.Tensor,
    labels: tf.Tensor,
    label_smoothing: float = 0.0,
    class_weights: Sequence[float] = (),
    focal_gamma: float = 0.0,
) -> tf.Tensor:
    """Compute the sigmoid cross entropy, averaged over the batch and the classes.

    With smoothing s the target is (1 - s) * label + s / 2.

    Args:
        logits: float32 [batch, num_classes].
        labels: float32 [batch, num_classes]: 1 for each label of an image, else 0; shares in
            between, where training mixes images. NaN, a class that was not looked for: no loss.
        label_smoothing: s, in [0, 1).
        class_weights: factors on the loss of each class; empty: 1.
        focal_gamma: g: a further factor, (1 - p)^g, where p is the probability of the right answer
            (Lin et al. 2017).

    Returns:
        float32 scalar.
    """
    is_known = tf.logical_not(tf.math.is_nan(labels))
    # Before the loss: NaN times 0 is NaN, and so would be its gradient.
    labels = tf.where(is_known, labels, 0.0)
    # Keras smooths binary labels in the same way.
    targets = labels * (1.0 - label_smoothing) + 0.5 * label_smoothing
    per_class = tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits)
    if focal_gamma:
        missed = labels * tf.sigmoid(-logits) + (1.0 - labels) * tf.sigmoid(logits)
        # Not at 0, where the power's gradient is infinite for a gamma below 1.
        per_class *= tf.maximum(missed, _LEAST_MISSED) ** focal_gamma
    if class_weights:
        per_class *= tf.constant(list(class_weights), tf.float32)
    # Over all classes, unknown ones too: a gradient does not grow with what is not known.
    return tf.reduce_mean(tf.where(is_known, per_class, 0.0))
