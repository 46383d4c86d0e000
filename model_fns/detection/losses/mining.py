"""Reductions, which weight the anchors in the loss of a batch.

B is the batch size, A the number of anchors and C' that of class columns. A reduction assigns a
weight to every anchor, and the losses are weighted sums. Most anchors are easy negatives, and the
reductions differ in how they limit their influence.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Callable, Optional, Tuple

import tensorflow as tf

from estimator_lib.config.section import Section
from model_fns.detection.boxes import matchers, targets
from model_fns.detection.config_rules import checks
from model_fns.detection.losses import near_duplicates
from model_fns.layers import forward_pass
from protos import losses_pb2

# Returns the predicted boxes, float32 [B, A, 4]; only called if they are needed.
DecodeBoxes = Callable[[], tf.Tensor]


@dataclasses.dataclass(frozen=True)
class AnchorLosses:
    """The losses of the anchors of a batch.

    Attributes:
        classification: float32 [B, A, C'], or [B, A] if classes exclude each other.
        localization: float32 [B, A].
    """

    classification: tf.Tensor
    localization: tf.Tensor

    def sum_classes(self) -> AnchorLosses:
        """Sum the losses of the classes of each anchor."""
        if self.classification.shape.rank == 2:
            return self
        return AnchorLosses(tf.reduce_sum(self.classification, axis=-1), self.localization)


class Reduction(abc.ABC):
    """Reduction of the losses of anchors to losses of a batch."""

    def reduce(
        self, losses: AnchorLosses, assigned: targets.Targets, decode_boxes: DecodeBoxes
    ) -> Tuple[tf.Tensor, tf.Tensor]:
        """Compute the weighted sums over a batch.

        Args:
            losses: losses of anchors.
            assigned: targets of anchors.
            decode_boxes: returns the predicted boxes.

        Returns:
            (classification, localization), float32 scalars.
        """
        losses = losses.sum_classes()
        weights = self.anchor_weights(losses, assigned, decode_boxes)
        if weights is None:
            return tf.reduce_sum(losses.classification), tf.reduce_sum(losses.localization)
        weights = tf.stop_gradient(weights)
        return (
            tf.reduce_sum(losses.classification * weights),
            tf.reduce_sum(losses.localization * weights),
        )

    @abc.abstractmethod
    def anchor_weights(
        self, losses: AnchorLosses, assigned: targets.Targets, decode_boxes: DecodeBoxes
    ) -> Optional[tf.Tensor]:
        """Compute the weight of each anchor, float32 [B, A]; None: all have the weight 1.

        Args:
            losses: both [B, A].
            assigned: targets of the anchors.
            decode_boxes: returns the predicted boxes.
        """


class Sum(Reduction):
    """Reduction that counts all anchors."""

    def anchor_weights(
        self, losses: AnchorLosses, assigned: targets.Targets, decode_boxes: DecodeBoxes
    ) -> Optional[tf.Tensor]:
        """Return None: all anchors have the weight 1."""
        del losses, assigned, decode_boxes
        return None


class HardExamples(Reduction):
    """Reduction that counts the anchors with the highest losses, without near duplicates.

    Anchors of an image are visited in descending order of losses. An anchor whose box overlaps an
    earlier box too much is skipped. The first `limit` other anchors are hard. All positives and the
    first negatives of these count.

    Args:
        limit: number of hard anchors of an image; None: unlimited.
        iou_threshold: in [0, 1]; boxes that overlap by more are duplicates.
        classification_weight: weight of the classification loss in the order of anchors.
        localization_weight: weight of the localization loss in the order of anchors.
        negatives_per_positive: largest ratio of negatives to positives; None: all hard anchors
            count.
        least_negatives: least number of negatives of an image, whatever the ratio.
    """

    def __init__(
        self,
        limit: Optional[int] = 64,
        iou_threshold: float = 0.7,
        classification_weight: float = 1.0,
        localization_weight: float = 1.0,
        negatives_per_positive: Optional[float] = None,
        least_negatives: int = 0,
    ):
        self._limit = limit
        self._iou_threshold = iou_threshold
        self._classification_weight = classification_weight
        self._localization_weight = localization_weight
        self._negatives_per_positive = negatives_per_positive
        self._least_negatives = least_negatives

    def anchor_weights(
        self, losses: AnchorLosses, assigned: targets.Targets, decode_boxes: DecodeBoxes
    ) -> Optional[tf.Tensor]:
        """Return 1 for hard anchors, else 0: float32 [B, A]."""
        hardness = (
            losses.classification * self._classification_weight
            + losses.localization * self._localization_weight
        )
        # Where losses tie, in the order of anchors: a repeated run selects the same ones.
        order = tf.argsort(hardness, axis=1, direction='DESCENDING', stable=True)
        hard = self._hard(tf.gather(decode_boxes(), order, batch_dims=1))
        if self._negatives_per_positive is not None:
            hard = self._balanced(hard, tf.gather(assigned.matches, order, batch_dims=1))
        batch, anchors = tf.unstack(tf.shape(order))
        # Each row of `order` is a permutation, so no index repeats. tf.scatter_nd would sum
        # repeated ones.
        indices = order + anchors * tf.range(batch)[:, tf.newaxis]
        weights = tf.scatter_nd(
            tf.reshape(indices, [-1, 1]),
            tf.reshape(tf.cast(hard, tf.float32), [-1]),
            [batch * anchors],
        )
        return tf.reshape(weights, [batch, anchors])

    def _hard(self, boxes: tf.Tensor) -> tf.Tensor:
        """Find the hard boxes of [B, A, 4] in descending order of losses: bool [B, A]."""
        limit = tf.shape(boxes)[1] if self._limit is None else self._limit
        apart = _greedily_apart(boxes, self._iou_threshold, limit)
        return tf.logical_and(apart, _count_up_to_here(apart) <= limit)

    def _balanced(self, hard: tf.Tensor, matches: tf.Tensor) -> tf.Tensor:
        positive = tf.logical_and(hard, matches >= 0)
        # Ignored anchors, with a match of -2, are neither positive nor negative.
        negative = tf.logical_and(hard, tf.equal(matches, matchers.UNMATCHED))
        num_positive = tf.reduce_sum(tf.cast(positive, tf.float32), axis=1, keepdims=True)
        # Truncated, not rounded, as published.
        by_ratio = tf.cast(self._negatives_per_positive * num_positive, tf.int32)
        most = tf.maximum(by_ratio, self._least_negatives)
        return positive | (negative & (_count_up_to_here(negative) <= most))


class SampledExamples(Reduction):
    """Reduction that counts all positives, and negatives drawn to a given ratio.

    Draws depend on the graph's seed and the global step.

    Args:
        positive_fraction: fraction of positives among the counted anchors, in (0, 1].
        then: reduction of the drawn anchors.
    """

    def __init__(self, positive_fraction: float = 0.01, then: Optional[Reduction] = None):
        self._negatives_per_positive = (1.0 - positive_fraction) / positive_fraction
        self._then = then or Sum()

    def anchor_weights(
        self, losses: AnchorLosses, assigned: targets.Targets, decode_boxes: DecodeBoxes
    ) -> Optional[tf.Tensor]:
        """Compute weights by `then` for drawn anchors, and 0 for others: float32 [B, A]."""
        drawn = tf.stop_gradient(tf.cast(self._drawn(assigned), tf.float32))
        losses = AnchorLosses(losses.classification * drawn, losses.localization * drawn)
        weights = self._then.anchor_weights(losses, assigned, decode_boxes)
        return drawn if weights is None else weights * drawn

    def _drawn(self, assigned: targets.Targets) -> tf.Tensor:
        # Ignored anchors have a match below 0 too. Their class weights of 0 leave them out.
        counts = tf.reduce_any(tf.not_equal(assigned.class_weights, 0.0), axis=-1)
        positive = counts & (assigned.matches >= 0)
        negative = counts & (assigned.matches < 0)
        num_positive = tf.reduce_sum(tf.cast(positive, tf.float32), axis=1, keepdims=True)
        # Without positives there are no negatives, as in the published sampler without a batch
        # size.
        most = tf.cast(self._negatives_per_positive * num_positive, tf.int32)
        # Stateless: the state of a random op is in no checkpoint, so a resumed run would draw
        # others.
        seed = forward_pass.step_seed('sampled_examples')
        uniform = tf.random.stateless_uniform(tf.shape(negative), seed)
        # 2 is beyond the draws in [0, 1): all other anchors come after the negatives.
        order = tf.argsort(tf.where(negative, uniform, 2.0), axis=1, stable=True)
        # The rank of each anchor is the inverse permutation of the order.
        ranks = tf.argsort(order, axis=1)
        return positive | (negative & (ranks < most))


class WeightedNegatives(Reduction):
    """Reduction that counts all anchors, with reduced weights of negatives.

    With P positives in an image, the weights of its negatives are equal and sum to
    max(ratio * P, least_negatives).

    Args:
        ratio: ratio of negatives to positives.
        least_negatives: least sum of the weights of negatives in an image.
        at_most_all: True: the weight of a negative is at most 1, as sampling cannot draw more
            negatives than there are.
    """

    def __init__(self, ratio: float = 3.0, least_negatives: float = 0.0, at_most_all: bool = False):
        self._ratio = ratio
        self._least_negatives = least_negatives
        self._at_most_all = at_most_all

    def anchor_weights(
        self, losses: AnchorLosses, assigned: targets.Targets, decode_boxes: DecodeBoxes
    ) -> Optional[tf.Tensor]:
        """Return 1 for positives and a common weight for negatives: float32 [B, A]."""
        positive = tf.cast(assigned.matches >= 0, tf.float32)
        negative = tf.cast(tf.equal(assigned.matches, matchers.UNMATCHED), tf.float32)
        num_positive = tf.reduce_sum(positive, axis=1, keepdims=True)
        num_negative = tf.reduce_sum(negative, axis=1, keepdims=True)
        wanted = tf.maximum(self._ratio * num_positive, self._least_negatives)
        if self._at_most_all:
            wanted = tf.minimum(wanted, num_negative)
        # An image may have no negatives: every anchor matches or is ignored.
        return positive + negative * tf.math.divide_no_nan(wanted, num_negative)


def build_reduction(section: Section[losses_pb2.Loss]) -> Reduction:
    """Build the reduction that a config describes.

    Args:
        section: configuration message of the loss.

    Raises:
        errors.ConfigError: a value is outside its range, two options exclude each other, or one is
            not honored.
    """
    config = section.message
    checks.check_part(section)
    if config.expected_loss_weights != losses_pb2.Loss.NONE:
        return WeightedNegatives(
            config.desired_negative_sampling_ratio,
            config.min_num_negative_samples,
            config.expected_loss_weights == losses_pb2.Loss.EXPECTED_SAMPLING,
        )
    reduction: Reduction = Sum()
    if config.HasField('hard_example_miner'):
        weights = config.localization_weight, config.classification_weight
        reduction = build_hard_examples(config.hard_example_miner, *weights)
    if config.HasField('random_example_sampler'):
        return SampledExamples(config.random_example_sampler.positive_sample_fraction, reduction)
    return reduction


def build_hard_examples(
    miner: losses_pb2.HardExampleMiner,
    localization_weight: float,
    classification_weight: float,
    balanced: bool = True,
) -> HardExamples:
    """Build the reduction to hard examples that a config describes.

    Args:
        miner: configuration message.
        localization_weight: factor of the loss of boxes.
        classification_weight: factor of the loss of classes.
        balanced: True: the ratio of negatives to positives is limited.
    """
    kinds = losses_pb2.HardExampleMiner
    by_classes = miner.loss_type != kinds.LOCALIZATION
    by_boxes = miner.loss_type != kinds.CLASSIFICATION
    return HardExamples(
        # As published, 0 means all here, and no ratio in `max_negatives_per_positive`.
        limit=miner.num_hard_examples or None,
        iou_threshold=miner.iou_threshold,
        classification_weight=classification_weight if by_classes else 0.0,
        localization_weight=localization_weight if by_boxes else 0.0,
        negatives_per_positive=(miner.max_negatives_per_positive or None) if balanced else None,
        least_negatives=miner.min_negatives_per_image,
    )


def _greedily_apart(boxes: tf.Tensor, iou_threshold: float, limit: tf.Tensor) -> tf.Tensor:
    """Find the boxes that overlap no earlier kept box.

    Args:
        boxes: float32 [B, A, 4]; the first is always kept.
        iou_threshold: boxes that overlap more than this are not both kept.
        limit: int32 scalar: results after this number of kept boxes are not needed, and may be
            wrong.

    Returns:
        bool [B, A].
    """
    if iou_threshold >= 1.0:
        return tf.fill(tf.shape(boxes)[:2], True)
    if iou_threshold < near_duplicates.LEAST_THRESHOLD:
        return _suppressed(boxes, tf.fill(tf.shape(boxes)[:2], True), iou_threshold, limit)
    # The published SSDs have 0.99. Hardly any box has such a near duplicate, so the suppression
    # gets few candidates instead of all anchors.
    candidates = near_duplicates.may_overlap(boxes, iou_threshold)
    return tf.logical_not(candidates) | _suppressed(boxes, candidates, iou_threshold, limit)


def _suppressed(
    boxes: tf.Tensor, candidates: tf.Tensor, iou_threshold: float, limit: tf.Tensor
) -> tf.Tensor:
    """Suppress boxes among the candidates, and return the remaining ones: bool [B, A]."""
    batch, anchors = tf.unstack(tf.shape(candidates))
    # The kernel refuses an output of 0 rows.
    most = tf.maximum(1, tf.reduce_max(tf.reduce_sum(tf.cast(candidates, tf.int32), axis=1)))
    # An earlier box has a higher rank. The kernel gets ranks as scores, and the ranks that it
    # returns identify the boxes.
    # The hardness itself would not do: equal scores cannot be told apart afterwards. float32 counts
    # exactly up to 2^24 anchors.
    ranks = tf.cast(anchors - tf.range(anchors), tf.float32)
    ranks, rows = tf.math.top_k(tf.where(candidates, ranks, 0.0), most)
    kept = tf.raw_ops.CombinedNonMaxSuppression(
        boxes=tf.gather(boxes, rows, batch_dims=1)[:, :, tf.newaxis],
        scores=ranks[..., tf.newaxis],
        max_output_size_per_class=tf.minimum(limit, most),
        max_total_size=most,
        iou_threshold=iou_threshold,
        # Strict: rows with a rank of 0, which are no candidates, are not kept.
        score_threshold=0.0,
        clip_boxes=False,
    ).nmsed_scores
    images = tf.broadcast_to(tf.range(batch)[:, tf.newaxis], tf.shape(kept))
    indices = tf.stack([images, anchors - tf.cast(kept, tf.int32)], axis=-1)
    # The padding of the kernel goes to an additional column.
    marked = tf.scatter_nd(indices, tf.ones_like(kept), [batch, anchors + 1])
    return marked[:, :-1] > 0


def _count_up_to_here(marks: tf.Tensor) -> tf.Tensor:
    """Count the true values of [B, A] up to and including each: int32 [B, A]."""
    return tf.cumsum(tf.cast(marks, tf.int32), axis=1)
