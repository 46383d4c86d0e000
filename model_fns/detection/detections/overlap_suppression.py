"""Suppression by a matrix of overlaps: for boxes that no kernel of TensorFlow can compare.

B is the batch size, S the number of boxes of an image, C that of classes, q 1 or C (boxes by
class).
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
    """Return the boxes that better ones of their class leave, by falling score.

    Args:
        boxes: float32 [B, S, q, K].
        scores: float32 [B, C, S]; -inf for boxes that do not count.
        self_iou: the overlaps [S, S] of boxes [S, K] with each other.
        max_per_class: survivors of a class.
        iou_threshold: a box that overlaps a better one more than this is dropped.
        score_thresholds: float32 [B]: only scores above it count.
        soft_sigma: see `suppression.Rules`.

    Returns:
        Places among the S boxes, int32 [B, C, max_per_class], and scores, -inf where there is none.
    """

    @tf.autograph.experimental.do_not_convert
    def of_image(inputs: Tuple[tf.Tensor, tf.Tensor, tf.Tensor]) -> Tuple[tf.Tensor, tf.Tensor]:
        of_boxes, of_classes, threshold = inputs
        # Few boxes count once a model is trained, and time grows with the square of their number.
        # One more, that never counts, stands in where there is none.
        rows = tf.where(tf.reduce_any(of_classes > threshold, axis=0))[:, 0]
        rows = tf.concat([rows, tf.zeros([1], rows.dtype)], axis=0)
        nothing = tf.fill([tf.shape(of_classes)[0], 1], _NONE)
        of_classes = tf.concat([tf.gather(of_classes, rows[:-1], axis=1), nothing], axis=1)
        overlaps = tf.map_fn(
            self_iou,
            tf.transpose(tf.gather(of_boxes, rows), [1, 0, 2]),
            fn_output_signature=tf.TensorSpec([None, None], tf.float32),
        )
        survivors = functools.partial(_soft, sigma=soft_sigma) if soft_sigma else _hard
        places, values = survivors(overlaps, of_classes, max_per_class, iou_threshold, threshold)
        return tf.cast(tf.gather(rows, places), tf.int32), values

    shape = [scores.shape[1], max_per_class]
    return tf.map_fn(
        of_image,
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
    """Return survivors of one image: overlaps [q, S, S], scores [C, S]."""

    @tf.autograph.experimental.do_not_convert
    def of_class(label: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
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
    return tf.map_fn(of_class, tf.range(tf.shape(scores)[0]), fn_output_signature=signature)


def _soft(
    overlaps: tf.Tensor,
    scores: tf.Tensor,
    max_per_class: int,
    iou_threshold: float,
    score_threshold: tf.Tensor,
    sigma: float,
) -> Tuple[tf.Tensor, tf.Tensor]:
    """As `_hard`; the best box of each class is taken, and the others lose score by it."""
    classes = tf.range(tf.shape(scores)[0])
    groups = tf.minimum(classes, tf.shape(overlaps)[0] - 1)

    def step(
        index: tf.Tensor, left: tf.Tensor, places: tf.TensorArray, values: tf.TensorArray
    ) -> Tuple[tf.Tensor, tf.Tensor, tf.TensorArray, tf.TensorArray]:
        best = tf.argmax(left, axis=1, output_type=tf.int32)
        value = tf.gather(left, best, batch_dims=1)
        counts = value > score_threshold
        overlap = tf.gather_nd(overlaps, tf.stack([groups, best], axis=1))
        kept = tf.exp(-0.5 / sigma * tf.square(overlap))
        decayed = tf.where(left > 0.0, left * kept, left)
        decayed = tf.where(overlap > iou_threshold, tf.constant(_NONE), decayed)
        taken = tf.one_hot(best, tf.shape(left)[1], on_value=True, off_value=False)
        return (
            index + 1,
            tf.where(taken, tf.constant(_NONE), decayed),
            places.write(index, best),
            values.write(index, tf.where(counts, value, tf.constant(_NONE))),
        )

    outputs = [tf.TensorArray(dtype, max_per_class) for dtype in (tf.int32, tf.float32)]
    *_, places, values = tf.while_loop(
        lambda index, *_: index < max_per_class,
        step,
        (tf.constant(0), scores, *outputs),
        parallel_iterations=1,
    )
    return tf.transpose(places.stack()), tf.transpose(values.stack())
