"""Suppression of boxes that are not axis-aligned, in ops that other formats have.

Pairs of anchor and class are visited in descending order of scores, in blocks. A block is compared
with the survivors so far, and then with itself. The loop ends where there are enough survivors, so
that the time depends on what is in an image and not on the number of anchors.

B is the batch size, S the number of slots, q is 1, or C for boxes by class, K the number of values
of a box, N the largest number of survivors of an image, and P that of pairs in a block.
"""

from __future__ import annotations

from typing import Any, Tuple

import tensorflow as tf

_BLOCK = 256
_NONE = -float('inf')


def suppress(pairs: Any, rules: Any) -> Tuple[tf.Tensor, tf.Tensor]:
    """Suppress each class of pairs separately, and keep the best N survivors of all.

    Args:
        pairs: all pairs, a `survivors.Pairs`.
        rules: a `survivors.Rules`; `max_total` is N.

    Returns:
        Scores float32 [B, N], -inf after the last survivor, and places int32 [B, N].
    """
    batch = tf.shape(pairs.scores)[0]
    scores = tf.where(pairs.scores > rules.score_threshold, pairs.scores, _NONE)
    # There is always a full block to be sliced.
    scores = tf.pad(scores, [[0, 0], [0, _BLOCK]], constant_values=_NONE)
    places = tf.pad(pairs.places, [[0, 0], [0, _BLOCK]])
    room = rules.max_total

    def has_next(start: tf.Tensor, kept: tf.Tensor, kept_places: tf.Tensor) -> tf.Tensor:
        del kept_places
        has_room = kept[:, -1] <= _NONE
        has_more = tf.gather(scores, start, axis=1) > _NONE
        return tf.reduce_any(tf.logical_and(has_room, has_more))

    def step(
        start: tf.Tensor, kept: tf.Tensor, kept_places: tf.Tensor
    ) -> Tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        block, block_places = (values[:, start : start + _BLOCK] for values in (scores, places))
        block = tf.ensure_shape(block, [None, _BLOCK])
        block_places = tf.ensure_shape(block_places, [None, _BLOCK])
        left = _survivors(pairs, rules, (kept, kept_places), (block, block_places))
        both = tf.concat([kept, tf.where(left, block, _NONE)], axis=1)
        both_places = tf.concat([kept_places, block_places], axis=1)
        # The survivors so far are first in `both`, and `top_k` keeps equal scores in order.
        best, rows = tf.math.top_k(both, room)
        return start + _BLOCK, best, tf.gather(both_places, rows, batch_dims=1)

    _, kept, kept_places = tf.while_loop(
        has_next,
        step,
        (tf.constant(0), tf.fill([batch, room], _NONE), tf.zeros([batch, room], tf.int32)),
        shape_invariants=(
            tf.TensorShape([]),
            tf.TensorShape([None, room]),
            tf.TensorShape([None, room]),
        ),
        parallel_iterations=1,
    )
    return kept, kept_places


def _survivors(
    pairs: Any,
    rules: Any,
    kept: Tuple[tf.Tensor, tf.Tensor],
    block: Tuple[tf.Tensor, tf.Tensor],
) -> tf.Tensor:
    """Return which pairs of a block survive: bool [B, P].

    Args:
        pairs: all pairs, a `survivors.Pairs`.
        rules: a `survivors.Rules`; `max_total` is N.
        kept: scores and places [B, N] of the survivors of earlier blocks.
        block: scores and places [B, P].
    """
    (kept_scores, kept_places), (scores, places) = kept, block
    boxes, kept_boxes = _boxes(pairs, places), _boxes(pairs, kept_places)
    labels, kept_labels = places // pairs.slots, kept_places // pairs.slots
    # Boxes of padding and of the places after the last survivor are those of place 0.
    alive = scores > _NONE
    same = tf.equal(labels[:, :, tf.newaxis], kept_labels[:, tf.newaxis])
    same = tf.logical_and(same, (kept_scores > _NONE)[:, tf.newaxis])
    overlap = rules.family.pairwise_iou(boxes, kept_boxes, at_once=True) > rules.iou_threshold
    alive = tf.logical_and(
        alive, tf.logical_not(tf.reduce_any(tf.logical_and(same, overlap), axis=2))
    )
    earlier = tf.reduce_sum(tf.cast(same, tf.float32), axis=2)
    number = tf.range(_BLOCK)
    peers = tf.equal(labels[:, :, tf.newaxis], labels[:, tf.newaxis])
    peers = tf.logical_and(peers, number[:, tf.newaxis] > number)  # of each row the better ones
    overlap = rules.family.pairwise_iou(boxes, boxes, at_once=True) > rules.iou_threshold
    better = tf.cast(tf.logical_and(peers, overlap), tf.float32)
    left = _greedy(alive, better)
    peers_left = tf.linalg.matvec(tf.cast(peers, tf.float32), tf.cast(left, tf.float32))
    return tf.logical_and(left, earlier + peers_left < float(rules.max_per_class))


def _greedy(alive: tf.Tensor, better: tf.Tensor) -> tf.Tensor:
    """Return which rows have no better survivor that overlaps them: bool [B, P].

    Starting from all that are alive, rows are struck out until nothing changes: after n rounds the
    first n rows are right.

    Args:
        alive: bool [B, P].
        better: float32 [B, P, P], 1 for the rows of the last dimension that suppress one.
    """

    def strike(left: tf.Tensor) -> tf.Tensor:
        struck = tf.linalg.matvec(better, left) > 0.0
        return tf.cast(tf.logical_and(alive, tf.logical_not(struck)), tf.float32)

    first = tf.cast(alive, tf.float32)
    _, left = tf.while_loop(
        lambda before, left: tf.reduce_any(tf.not_equal(before, left)),
        lambda _, left: (left, strike(left)),
        (first, strike(first)),
        shape_invariants=(tf.TensorShape([None, _BLOCK]),) * 2,
        parallel_iterations=1,
    )
    return left > 0.0


def _boxes(pairs: Any, places: tf.Tensor) -> tf.Tensor:
    """Return the boxes [B, n, K] at places [B, n]."""
    slots, labels = places % pairs.slots, places // pairs.slots
    count = pairs.boxes.shape[2]
    indices = slots if count == 1 else slots * count + labels
    batch, size = tf.shape(pairs.boxes)[0], pairs.boxes.shape[3]
    flat = tf.reshape(pairs.boxes, tf.stack([batch, pairs.slots * count, size]))
    return tf.gather(flat, indices, batch_dims=1)
