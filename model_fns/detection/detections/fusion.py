"""Weighted boxes fusion: the detections of several views of an image become one set.

Solovyev, Wang and Gabruseva 2021 (Weighted boxes fusion: ensembling boxes from different object
detection models, Image and Vision Computing 107), section 3; the views are the models.
"""

from __future__ import annotations

from typing import Tuple

import tensorflow as tf

from estimator_lib.task import Tensors
from model_fns.detection import fields
from model_fns.detection.boxes import axis_aligned

# A box joins the cluster of its class whose fused box overlaps it most, from this IoU on (0.55 was
# the best value in the paper).
IOU_THRESHOLD = 0.55

# Boxes, scores and classes by row; sums over clusters; see `_add_box`.
_Rows = Tuple[tf.Tensor, tf.Tensor, tf.Tensor]
_Clusters = Tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]


def fuse(boxes: tf.Tensor, scores: tf.Tensor, classes: tf.Tensor, counts: tf.Tensor) -> Tensors:
    """Fuse the detections of V views of each of B images.

    In order of their scores, boxes join clusters of their class. A fused box is the mean of its
    cluster, weighted by the scores. Its score is the mean of the scores, times the number of boxes
    (at most V) over V: what one view alone has found is less certain.

    Example:
        Of three views one finds [0, 0, 0.4, 0.4] with 0.9 and one [0, 0, 0.4, 0.44] with 0.3. They
        become [0, 0, 0.4, 0.41] with (0.9 + 0.3) / 2 * 2 / 3 = 0.4.

    Args:
        boxes: float32 [B, V, N, 4], axis-aligned.
        scores: float32 [B, V, N].
        classes: float32 [B, V, N].
        counts: float32 [B, V]: number of valid rows.

    Returns:
        By the names of `fields`: boxes [B, N, 4], scores [B, N], classes [B, N] and
        `NUM_DETECTIONS` float32 [B]: the N best fused boxes. Rows after the last are zeros.
    """
    batch, views, rows, _ = tf.unstack(tf.shape(boxes))
    valid = tf.sequence_mask(tf.cast(counts, tf.int32), rows)
    flat = [batch, views * rows]
    ranks = tf.reshape(tf.where(valid, scores, -1.0), flat)
    # Stable, as the order of boxes decides which clusters there are.
    order = tf.argsort(ranks, direction='DESCENDING', stable=True)
    ordered = (
        tf.gather(tf.reshape(boxes, [*flat, axis_aligned.SIZE]), order, batch_dims=1),
        tf.gather(tf.reshape(scores, flat), order, batch_dims=1),
        tf.gather(tf.reshape(classes, flat), order, batch_dims=1),
    )
    totals = tf.cast(tf.reduce_sum(counts, 1), tf.int32)
    sums, weights, sizes, kinds, found = _cluster(ordered, totals)
    views_of = tf.cast(views, tf.float32)
    means = tf.math.divide_no_nan(weights, sizes) * tf.minimum(sizes, views_of) / views_of
    best = tf.argsort(means, direction='DESCENDING', stable=True)[:, :rows]
    found = tf.minimum(found, rows)
    fused = {
        fields.DETECTION_BOXES: tf.gather(_fused_boxes(sums, weights), best, batch_dims=1),
        fields.DETECTION_SCORES: tf.gather(means, best, batch_dims=1),
        fields.DETECTION_CLASSES: tf.gather(kinds, best, batch_dims=1),
        fields.NUM_DETECTIONS: tf.cast(found, tf.float32),
    }
    for name, value in fused.items():
        if name != fields.NUM_DETECTIONS:
            value.set_shape([boxes.shape[0], boxes.shape[2], *value.shape[2:]])
    return fused


def _cluster(ordered: _Rows, totals: tf.Tensor) -> _Clusters:
    """Group boxes [B, M, 4] in order of their scores; `totals`, int32 [B], of them are valid.

    Returns:
        By cluster: the sums of boxes times scores [B, M, 4], of scores [B, M], of boxes [B, M],
        and the class [B, M]; zeros after the last. And the number of clusters, int32 [B].
    """
    boxes, scores, classes = ordered
    nothing = tf.zeros_like(scores)
    start = tf.zeros_like(boxes), nothing, nothing, nothing, tf.zeros_like(totals)

    @tf.autograph.experimental.do_not_convert
    def step(index: tf.Tensor, *clusters: tf.Tensor) -> Tuple[tf.Tensor, ...]:
        box = boxes[:, index], scores[:, index], classes[:, index]
        return (index + 1, *_add_box(box, index < totals, clusters))

    _, *clusters = tf.while_loop(
        lambda index, *_: index < tf.reduce_max(totals),
        step,
        (tf.constant(0), *start),
        parallel_iterations=1,
    )
    return tuple(clusters)


def _add_box(row: _Rows, counts: tf.Tensor, clusters: _Clusters) -> _Clusters:
    """Add a box of each image, [B, 4], [B] and [B], to its cluster, where it `counts`, bool [B]."""
    box, score, kind = row
    sums, weights, sizes, kinds, found = clusters
    room = tf.shape(weights)[1]
    overlaps = axis_aligned.elementwise_iou(box[:, tf.newaxis], _fused_boxes(sums, weights))
    # `==` would compare the tensors themselves in graphs of sessions.
    is_same = tf.logical_and(tf.sequence_mask(found, room), tf.equal(kinds, kind[:, tf.newaxis]))
    overlaps = tf.where(is_same, overlaps, 0.0)
    best = tf.argmax(overlaps, 1, output_type=tf.int32)
    # Above the threshold, as the authors' program (`iou > match_iou`).
    joins = tf.reduce_max(overlaps, 1) > IOU_THRESHOLD
    into = tf.one_hot(tf.where(joins, best, found), room)
    into *= tf.cast(counts, tf.float32)[:, tf.newaxis]
    is_new = tf.logical_and(counts, tf.logical_not(joins))
    opened = into * tf.cast(is_new, tf.float32)[:, tf.newaxis]
    added = into * score[:, tf.newaxis]
    return (
        sums + added[..., tf.newaxis] * box[:, tf.newaxis],
        weights + added,
        sizes + into,
        kinds + opened * kind[:, tf.newaxis],
        found + tf.cast(is_new, tf.int32),
    )


def _fused_boxes(sums: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    return tf.math.divide_no_nan(sums, weights[..., tf.newaxis])
