"""Survivors of suppression among the best pairs of anchor and class, by the kernel for their boxes.

B is the batch size, A the number of anchors, C that of classes, and K that of the values of a box.
q is 1, or C for boxes by class. S is the number of slots, the considered anchors of an image.
"""

from __future__ import annotations

import dataclasses
from typing import List, Tuple

import tensorflow as tf

from model_fns.detection.boxes import axis_aligned
from model_fns.detection.boxes.family import Boxes
from model_fns.detection.detections import overlap_suppression, portable_suppression


@dataclasses.dataclass(frozen=True)
class Rules:
    """Rules of suppression.

    Attributes:
        score_threshold: only scores above it count.
        iou_threshold: in [0, 1]; a box that overlaps a better one by more than this is dropped.
        max_per_class: largest number of survivors of a class, before empty boxes are dropped.
        max_total: largest number of detections of an image.
        soft_sigma: the score of a box is multiplied by exp(-iou^2 / (2 sigma)) for each better box
            that it overlaps (Bodla et al. 2017); 0: scores stay.
        class_agnostic: True: each anchor only has its best class, and classes suppress each other.
        max_classes_per_box: number of classes of a survivor of class-agnostic suppression.
        drop_empty: True: boxes without area inside the window are dropped.
        change_frame: True: survivors are returned in coordinates of the window.
        on_cpu: True: suppression runs on the CPU even if there is another device.
        portable: True: only ops that other formats have are used; the result is the same.
        family: family of the boxes.
    """

    score_threshold: float = 0.0
    iou_threshold: float = 0.6
    max_per_class: int = 100
    max_total: int = 100
    soft_sigma: float = 0.0
    class_agnostic: bool = False
    max_classes_per_box: int = 1
    drop_empty: bool = True
    change_frame: bool = False
    on_cpu: bool = False
    portable: bool = False
    family: Boxes = axis_aligned


@dataclasses.dataclass(frozen=True)
class Pairs:
    """The best pairs of anchor and class of each image: in order of score, class and anchor.

    Attributes:
        scores: float32 [B, M].
        places: int32 [B, M]: class * S + slot.
        anchors: int32 [B, S]: the anchor of each slot.
        boxes: float32 [B, S, q, K].
        bounds: float32 [B]: upper bound of the scores of all other pairs.
    """

    scores: tf.Tensor
    places: tf.Tensor
    anchors: tf.Tensor
    boxes: tf.Tensor
    bounds: tf.Tensor

    @property
    def slots(self) -> tf.Tensor:
        """S, the number of slots: int32 scalar."""
        return tf.shape(self.anchors)[1]


@dataclasses.dataclass(frozen=True)
class Survivors:
    """Pairs that survive suppression: [B, T]; equal scores stay in order.

    Attributes:
        scores: float32; -inf for no pair.
        places: int32, as in `Pairs`.
    """

    scores: tf.Tensor
    places: tf.Tensor


def best_pairs(boxes: tf.Tensor, scores: tf.Tensor, best: tf.Tensor, num_pairs: tf.Tensor) -> Pairs:
    """Select the pairs of anchor and class with the highest scores.

    The best n pairs are among the n anchors whose best scores are highest.

    Args:
        boxes: float32 [B, A, q, K].
        scores: float32 [B, A, C], without background.
        best: float32 [B, A]: the best score of each anchor.
        num_pairs: n, int32 scalar; M is n, or the number of all pairs if that is less.
    """
    slots = tf.minimum(num_pairs, tf.shape(best)[1])
    # Anchors are sorted, so that equal scores are in order of anchors too.
    anchors = tf.sort(tf.math.top_k(best, slots, sorted=False).indices, axis=1)
    slot_scores = tf.transpose(tf.gather(scores, anchors, batch_dims=1), [0, 2, 1])
    flat = tf.reshape(slot_scores, [tf.shape(best)[0], slots * scores.shape[2]])
    # `top_k` keeps equal scores in order: the lower class, then the lower anchor, as published.
    values, places = tf.math.top_k(flat, tf.minimum(num_pairs, tf.shape(flat)[1]))
    return Pairs(
        scores=values,
        places=places,
        anchors=anchors,
        boxes=tf.gather(boxes, anchors, batch_dims=1),
        bounds=values[:, -1],
    )


def all_pairs(boxes: tf.Tensor, scores: tf.Tensor) -> Pairs:
    """Return all pairs of anchor and class; see `best_pairs` for the arguments."""
    batch, count = tf.unstack(tf.shape(scores)[:2])
    flat = tf.reshape(tf.transpose(scores, [0, 2, 1]), [batch, count * scores.shape[2]])
    values, places = tf.math.top_k(flat, tf.shape(flat)[1])
    return Pairs(
        scores=values,
        places=places,
        # A slot is an anchor here, so that other code need not know which of the two made the
        # pairs.
        anchors=tf.tile(tf.range(count)[tf.newaxis], [batch, 1]),
        boxes=boxes,
        bounds=tf.fill([batch], -float('inf')),
    )


def find_survivors(pairs: Pairs, rules: Rules, num_classes: int) -> Survivors:
    """Suppress each class of pairs separately, with at most `max_per_class` survivors.

    Args:
        pairs: pairs of all classes.
        rules: rules of suppression; the kernel depends on the family.
        num_classes: C.
    """
    if rules.family.SIZE != axis_aligned.SIZE and rules.portable:
        # Without `soft_sigma`, which exports of portable graphs refuse.
        return Survivors(*portable_suppression.suppress(pairs, rules))
    if rules.family.SIZE != axis_aligned.SIZE:
        return _suppress_by_overlaps(pairs, rules, num_classes)
    if rules.soft_sigma:
        return _suppress_softly(pairs, rules, num_classes)
    return _suppress_in_one_kernel(pairs, rules, num_classes)


def _suppress_in_one_kernel(pairs: Pairs, rules: Rules, num_classes: int) -> Survivors:
    """Suppress all images and classes by one kernel.

    The kernel returns scores of survivors, not their indices. So it gets ranks instead of scores,
    which are in the same order and identify the pairs.
    """
    batch, num_pairs = tf.unstack(tf.shape(pairs.scores))
    counting = pairs.scores > rules.score_threshold
    ranks = tf.cast(num_pairs - tf.range(num_pairs), tf.float32)  # the best has the highest
    ranks = tf.where(counting, ranks, 0.0)
    images = tf.broadcast_to(tf.range(batch)[:, tf.newaxis], [batch, num_pairs])
    by_place = tf.scatter_nd(
        tf.stack([images, pairs.places], axis=-1), ranks, [batch, num_classes * pairs.slots]
    )
    by_class = tf.reshape(by_place, [batch, num_classes, pairs.slots])
    if rules.portable and pairs.boxes.shape[2] > 1:
        kept = _kept_of_apart(pairs.boxes, by_class, rules)
    else:
        most = tf.minimum(num_pairs, rules.max_per_class * num_classes)
        scores = tf.transpose(by_class, [0, 2, 1])
        kept = _kept(pairs.boxes, scores, tf.maximum(rules.max_total, most), rules)
    # A rank of 0, which is no survivor, would be the row behind the last one.
    rows = tf.minimum(num_pairs - tf.cast(kept, tf.int32), num_pairs - 1)
    scores = tf.gather(pairs.scores, rows, batch_dims=1)
    return Survivors(
        scores=tf.where(kept > 0, scores, tf.constant(-float('inf'))),
        places=tf.gather(pairs.places, rows, batch_dims=1),
    )


def _kept(boxes: tf.Tensor, ranks: tf.Tensor, room: tf.Tensor, rules: Rules) -> tf.Tensor:
    """Return the ranks of survivors [B, room], 0 after the last one.

    Args:
        boxes: float32 [B, S, q, 4].
        ranks: float32 [B, S, C]; 0 for no pair.
        room: int32 scalar.
        rules: rules of suppression.
    """
    return tf.raw_ops.CombinedNonMaxSuppression(
        boxes=boxes,
        scores=ranks,
        max_output_size_per_class=rules.max_per_class,
        max_total_size=room,
        iou_threshold=rules.iou_threshold,
        score_threshold=0.0,
        # Clipping would be to the unit square, and boxes of two-stage detectors are in pixels.
        clip_boxes=False,
    ).nmsed_scores


def _kept_of_apart(boxes: tf.Tensor, by_class: tf.Tensor, rules: Rules) -> tf.Tensor:
    """Return ranks of survivors of boxes [B, S, C, 4] by class, each class as one more image.

    Other formats have suppression for boxes that all classes share.
    """
    num_classes, size = boxes.shape[2:]
    batch, slots = tf.unstack(tf.shape(boxes)[:2])
    apart = tf.reshape(tf.transpose(boxes, [0, 2, 1, 3]), [batch * num_classes, slots, 1, size])
    ranks = tf.reshape(by_class, [batch * num_classes, slots, 1])
    kept = _kept(apart, ranks, tf.constant(rules.max_per_class), rules)
    kept = tf.reshape(kept, [batch, num_classes * rules.max_per_class])
    return tf.pad(kept, _spare(rules, num_classes))


def _suppress_softly(pairs: Pairs, rules: Rules, num_classes: int) -> Survivors:
    """Suppress softly, by a kernel for one image and class at a time."""
    batch = tf.shape(pairs.scores)[0]
    # Soft scores fall. One that falls below the missing pairs cannot be ranked among them, so it is
    # left out here, and `_is_enough` asks for more pairs if it is needed.
    threshold = tf.maximum(pairs.bounds, rules.score_threshold)
    by_class = tf.reshape(_scores_by_class(pairs, num_classes), [-1, pairs.slots])

    def suppress_one(index: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
        image, label = index // num_classes, index % num_classes
        slots, scores = tf.image.non_max_suppression_with_scores(
            pairs.boxes[image, :, label if pairs.boxes.shape[2] > 1 else 0],
            by_class[index],
            rules.max_per_class,
            rules.iou_threshold,
            threshold[image],
            rules.soft_sigma,
        )
        padding = [[0, rules.max_per_class - tf.shape(slots)[0]]]
        return (
            tf.pad(label * pairs.slots + slots, padding),
            tf.pad(scores, padding, constant_values=-float('inf')),
        )

    places, scores = tf.map_fn(
        suppress_one,
        tf.range(batch * num_classes),
        fn_output_signature=(
            tf.TensorSpec([rules.max_per_class], tf.int32),
            tf.TensorSpec([rules.max_per_class], tf.float32),
        ),
    )
    return _with_room(scores, places, batch, rules, num_classes)


def _suppress_by_overlaps(pairs: Pairs, rules: Rules, num_classes: int) -> Survivors:
    """Suppress boxes that are not axis-aligned, which the kernels do not support."""
    slots, scores = overlap_suppression.suppress(
        pairs.boxes,
        _scores_by_class(pairs, num_classes),
        rules.family.self_iou,
        rules.max_per_class,
        rules.iou_threshold,
        tf.maximum(pairs.bounds, rules.score_threshold)
        if rules.soft_sigma
        else tf.fill(tf.shape(pairs.bounds), rules.score_threshold),
        rules.soft_sigma,
    )
    places = tf.range(num_classes)[:, tf.newaxis] * pairs.slots + slots
    return _with_room(scores, places, tf.shape(pairs.scores)[0], rules, num_classes)


def _scores_by_class(pairs: Pairs, num_classes: int) -> tf.Tensor:
    """Scatter scores to [B, C, S]; -inf for missing pairs."""
    batch = tf.shape(pairs.scores)[0]
    images = tf.broadcast_to(tf.range(batch)[:, tf.newaxis], tf.shape(pairs.places))
    below = tf.fill([batch, num_classes * pairs.slots], -float('inf'))
    by_place = tf.tensor_scatter_nd_update(
        below, tf.stack([images, pairs.places], axis=-1), pairs.scores
    )
    return tf.reshape(by_place, [batch, num_classes, pairs.slots])


def _with_room(
    scores: tf.Tensor, places: tf.Tensor, batch: tf.Tensor, rules: Rules, num_classes: int
) -> Survivors:
    """Pad survivors of all classes to at least `max_total`."""
    flat = [batch, num_classes * rules.max_per_class]
    spare = _spare(rules, num_classes)
    return Survivors(
        scores=tf.pad(tf.reshape(scores, flat), spare, constant_values=-float('inf')),
        places=tf.pad(tf.reshape(places, flat), spare),
    )


def _spare(rules: Rules, num_classes: int) -> List[List[int]]:
    """Return the padding of [B, C * max_per_class] to at least `max_total`."""
    return [[0, 0], [0, max(0, rules.max_total - num_classes * rules.max_per_class)]]
