"""Suppression by a matrix of overlaps, for boxes that no kernel of TensorFlow can compare.

B is the batch size, S the number of boxes of an image, and C that of classes. q is 1, or C for
boxes by class.
"""

from __future__ import annotations

import functools
from typing import Callable, Tuple

import tensorflow as tf

_NONE = -float('inf')


def suppress(
    boxes: tf.Tensor,
    scores: tf.Tensor,
    self_iou: Callable[[tf.Tensor], tf.Tensor],
    max_per_class: int,
    iou_threshold: float,
    score_thresholds: tf.Tensor,
    soft_sigma: float = 0.0,
) -> Tuple[tf.Tensor, tf.Tensor]:
    """Suppress boxes that overlap better ones of their class; results are in order of scores.

    Example:
        Two boxes of a class overlap by an IoU of 0.8 and have the scores 0.9 and 0.6. With an
        `iou_threshold` of 0.5 the second is dropped. With a threshold of 1 and a `soft_sigma` of
        0.5 it stays with 0.6 exp(-0.8^2) = 0.316.

    Args:
        boxes: float32 [B, S, q, K].
        scores: float32 [B, C, S]; -inf for boxes that do not count.
        self_iou: computes the overlaps [S, S] of boxes [S, K] with each other.
        max_per_class: largest number of survivors of a class.
        iou_threshold: a box that overlaps a better one by more than this is dropped.
        score_thresholds: float32 [B]: only scores above it count.
        soft_sigma: a box's score is multiplied by exp(-iou^2 / (2 sigma)) for each better box that
            it overlaps; 0: scores stay.

    Returns:
        Indices of boxes, int32 [B, C, max_per_class], and their scores, -inf after the last one.
    """

    @tf.autograph.experimental.do_not_convert
    def suppress_image(
        inputs: Tuple[tf.Tensor, tf.Tensor, tf.Tensor],
    ) -> Tuple[tf.Tensor, tf.Tensor]:
        image_boxes, class_scores, threshold = inputs
        # Only boxes with a sufficient score are compared: a trained model has few of them, and time
        # grows with the square of their number. One more box, which never counts, avoids empty
        # tensors.
        # Below the threshold were most boxes of an image that took 0.3 processor seconds
        # (48fd61d4).
        rows = tf.where(tf.reduce_any(class_scores > threshold, axis=0))[:, 0]
        rows = tf.concat([rows, tf.zeros([1], rows.dtype)], axis=0)
        nothing = tf.fill([tf.shape(class_scores)[0], 1], _NONE)
        class_scores = tf.concat([tf.gather(class_scores, rows[:-1], axis=1), nothing], axis=1)
        overlaps = tf.map_fn(
            self_iou,
            tf.transpose(tf.gather(image_boxes, rows), [1, 0, 2]),
            fn_output_signature=tf.TensorSpec([None, None], tf.float32),
        )
        survivors = functools.partial(_soft, sigma=soft_sigma) if soft_sigma else _hard
        indices, values = survivors(overlaps, class_scores, max_per_class, iou_threshold, threshold)
        return tf.cast(tf.gather(rows, indices), tf.int32), values

    shape = [scores.shape[1], max_per_class]
    return tf.map_fn(
        suppress_image,
        (boxes, scores, score_thresholds),
        fn_output_signature=(tf.TensorSpec(shape, tf.int32), tf.TensorSpec(shape, tf.float32)),
        parallel_iterations=1,
    )


def _hard(
    overlaps: tf.Tensor,
    scores: tf.Tensor,
    max_per_class: int,
    iou_threshold: float,
    score_threshold: tf.Tensor,
) -> Tuple[tf.Tensor, tf.Tensor]:
    """Suppress the boxes of one image: overlaps [q, S, S], scores [C, S]."""

    @tf.autograph.experimental.do_not_convert
    def suppress_class(label: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
        # A kernel of the core, so that graphs can be frozen: the published branch has a loop in
        # Python.
        kept = tf.image.non_max_suppression_overlaps(
            overlaps[tf.minimum(label, tf.shape(overlaps)[0] - 1)],
            scores[label],
            max_per_class,
            iou_threshold,
            score_threshold,
        )
        padding = [[0, max_per_class - tf.shape(kept)[0]]]
        values = tf.gather(scores[label], kept)
        return tf.pad(kept, padding), tf.pad(values, padding, constant_values=_NONE)

    signature = (
        tf.TensorSpec([max_per_class], tf.int32),
        tf.TensorSpec([max_per_class], tf.float32),
    )
    return tf.map_fn(suppress_class, tf.range(tf.shape(scores)[0]), fn_output_signature=signature)


def _soft(
    overlaps: tf.Tensor,
    scores: tf.Tensor,
    max_per_class: int,
    iou_threshold: float,
    score_threshold: tf.Tensor,
    sigma: float,
) -> Tuple[tf.Tensor, tf.Tensor]:
    """Suppress as `_hard`, but overlaps with better boxes of the class reduce the scores."""
    classes = tf.range(tf.shape(scores)[0])
    groups = tf.minimum(classes, tf.shape(overlaps)[0] - 1)

    def step(
        index: tf.Tensor, left: tf.Tensor, indices: tf.TensorArray, values: tf.TensorArray
    ) -> Tuple[tf.Tensor, tf.Tensor, tf.TensorArray, tf.TensorArray]:
        best = tf.argmax(left, axis=1, output_type=tf.int32)
        value = tf.gather(left, best, batch_dims=1)
        counts = value > score_threshold
        overlap = tf.gather_nd(overlaps, tf.stack([groups, best], axis=1))
        kept = tf.exp(-0.5 / sigma * tf.square(overlap))
        # -inf times a factor that underflows to 0 would be NaN.
        decayed = tf.where(left > 0.0, left * kept, left)
        decayed = tf.where(overlap > iou_threshold, tf.constant(_NONE), decayed)
        taken = tf.one_hot(best, tf.shape(left)[1], on_value=True, off_value=False)
        return (
            index + 1,
            tf.where(taken, tf.constant(_NONE), decayed),
            indices.write(index, best),
            values.write(index, tf.where(counts, value, tf.constant(_NONE))),
        )

    outputs = [tf.TensorArray(dtype, max_per_class) for dtype in (tf.int32, tf.float32)]
    *_, indices, values = tf.while_loop(
        lambda index, *_: index < max_per_class,
        step,
        (tf.constant(0), scores, *outputs),
        parallel_iterations=1,
    )
    return tf.transpose(indices.stack()), tf.transpose(values.stack())
