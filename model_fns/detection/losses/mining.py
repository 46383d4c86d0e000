"""Which anchors count in the loss of a batch, and how much.

B is the batch size, A the number of anchors and C' that of class columns. A reduction gives every
anchor a weight; the losses are weighted sums. Most anchors are easy negatives, and the reductions
differ in what they do about that.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Callable, Optional, Tuple

import tensorflow as tf

from model_fns.detection.boxes import matchers, targets
from model_fns.detection.config_rules import checks
from model_fns.detection.losses import near_duplicates
from model_fns.layers import forward_pass
from protos import losses_pb2

# Gives the predicted boxes, float32 [B, A, 4]; called by what needs them alone.
DecodeBoxes = Callable[[], tf.Tensor]


@dataclasses.dataclass(frozen=True)
class AnchorLosses:
    """The losses of the anchors of a batch.

    Attributes:
        classification: float32 [B, A, C'], or [B, A] where classes exclude each other.
        localization: float32 [B, A].
    """

    classification: tf.Tensor
    localization: tf.Tensor

    def by_anchor(self) -> AnchorLosses:
        """Return the same with the classes of an anchor summed."""
        if self.classification.shape.rank == 2:
            return self
        return AnchorLosses(tf.reduce_sum(self.classification, axis=-1), self.localization)


class Reduction(abc.ABC):
    """From losses of anchors to losses of a batch."""

    def reduce(
        self, losses: AnchorLosses, assigned: targets.Targets, decode_boxes: DecodeBoxes
    ) -> Tuple[tf.Tensor, tf.Tensor]:
        """Return the sums over a batch.

        Args:
            losses: of anchors.
            assigned: what they should have predicted.
            decode_boxes: gives the boxes that they did predict.

        Returns:
            (classification, localisation), float32 scalars.
        """
        losses = losses.by_anchor()
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
        """float32 [B, A]: how much each anchor counts; None: all of them fully.

        Args:
            losses: both [B, A].
            assigned: see `reduce`.
            decode_boxes: see `reduce`.
        """


class Sum(Reduction):
    """All anchors count."""

    def anchor_weights(
        self, losses: AnchorLosses, assigned: targets.Targets, decode_boxes: DecodeBoxes
    ) -> Optional[tf.Tensor]:
        """See `Reduction`."""
        del losses, assigned, decode_boxes
        return None


class HardExamples(Reduction):
    """The anchors with the highest losses count, where boxes are not of the same place.

    In each image anchors are looked at by falling loss. One whose box overlaps that of an earlier
    one too much is left out, and the first `limit` others are hard. Of these all positives count,
    and the first negatives.

    Args:
        limit: hard anchors of an image; None: any number.
        iou_threshold: in [0, 1]; boxes that overlap more than this are of the same place.
        classification_weight: of the classification loss in what anchors are ordered by.
        localization_weight: of the localisation loss there.
        negatives_per_positive: None: all hard anchors count, whether they are positive or not.
        least_negatives: in an image, whatever the ratio says.
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
        """See `Reduction`."""
        hardness = (
            losses.classification * self._classification_weight
            + losses.localization * self._localization_weight
        )
        order = tf.argsort(hardness, axis=1, direction='DESCENDING', stable=True)
        hard = self._hard(tf.gather(decode_boxes(), order, batch_dims=1))
        if self._negatives_per_positive is not None:
            hard = self._balanced(hard, tf.gather(assigned.matches, order, batch_dims=1))
        batch, anchors = tf.unstack(tf.shape(order))
        places = order + anchors * tf.range(batch)[:, tf.newaxis]
        weights = tf.scatter_nd(
            tf.reshape(places, [-1, 1]),
            tf.reshape(tf.cast(hard, tf.float32), [-1]),
            [batch * anchors],
        )
        return tf.reshape(weights, [batch, anchors])

    def _hard(self, boxes: tf.Tensor) -> tf.Tensor:
        """Which are hard, [B, A], of boxes [B, A, 4] by falling loss."""
        limit = tf.shape(boxes)[1] if self._limit is None else self._limit
        apart = _greedily_apart(boxes, self._iou_threshold, limit)
        return tf.logical_and(apart, _count_up_to_here(apart) <= limit)

    def _balanced(self, hard: tf.Tensor, matches: tf.Tensor) -> tf.Tensor:
        positive = tf.logical_and(hard, matches >= 0)
        negative = tf.logical_and(hard, tf.equal(matches, matchers.UNMATCHED))
        num_positive = tf.reduce_sum(tf.cast(positive, tf.float32), axis=1, keepdims=True)
        by_ratio = tf.cast(self._negatives_per_positive * num_positive, tf.int32)
        most = tf.maximum(by_ratio, self._least_negatives)
        return positive | (negative & (_count_up_to_here(negative) <= most))


class SampledExamples(Reduction):
    """All positives count, and so many negatives, drawn at random, that shares are as wanted.

    Draws depend on the graph's seed and the global step.

    Args:
        positive_fraction: share of the positives, in (0, 1].
        then: what is done with the anchors that were drawn.
    """

    def __init__(self, positive_fraction: float = 0.01, then: Optional[Reduction] = None):
        self._negatives_per_positive = (1.0 - positive_fraction) / positive_fraction
        self._then = then or Sum()

    def anchor_weights(
        self, losses: AnchorLosses, assigned: targets.Targets, decode_boxes: DecodeBoxes
    ) -> Optional[tf.Tensor]:
        """See `Reduction`."""
        drawn = tf.stop_gradient(tf.cast(self._drawn(assigned), tf.float32))
        losses = AnchorLosses(losses.classification * drawn, losses.localization * drawn)
        weights = self._then.anchor_weights(losses, assigned, decode_boxes)
        return drawn if weights is None else weights * drawn

    def _drawn(self, assigned: targets.Targets) -> tf.Tensor:
        counts = tf.reduce_any(tf.not_equal(assigned.class_weights, 0.0), axis=-1)
        positive = counts & (assigned.matches >= 0)
        negative = counts & (assigned.matches < 0)
        num_positive = tf.reduce_sum(tf.cast(positive, tf.float32), axis=1, keepdims=True)
        most = tf.cast(self._negatives_per_positive * num_positive, tf.int32)
        seed = forward_pass.step_seed('sampled_examples')
        uniform = tf.random.stateless_uniform(tf.shape(negative), seed)
        order = tf.argsort(tf.where(negative, uniform, 2.0), axis=1, stable=True)
        # The place in an order is the order of the order.
        places = tf.argsort(order, axis=1)
        return positive | (negative & (places < most))


class WeightedNegatives(Reduction):
    """All anchors count, negatives so much less that on the whole they weigh what is wanted.

    With P positives and U negatives in an image, negatives together weigh
    max(ratio * P, least_negatives), each the same.

    Args:
        ratio: of negatives to positives.
        least_negatives: what negatives weigh in an image at least.
        at_most_all: a negative weighs 1 at most, as if so many were drawn, of which there can be no
            more than there are.
    """

    def __init__(self, ratio: float = 3.0, least_negatives: float = 0.0, at_most_all: bool = False):
        self._ratio = ratio
        self._least_negatives = least_negatives
        self._at_most_all = at_most_all

    def anchor_weights(
        self, losses: AnchorLosses, assigned: targets.Targets, decode_boxes: DecodeBoxes
    ) -> Optional[tf.Tensor]:
        """See `Reduction`."""
        positive = tf.cast(assigned.matches >= 0, tf.float32)
        negative = tf.cast(tf.equal(assigned.matches, matchers.UNMATCHED), tf.float32)
        num_positive = tf.reduce_sum(positive, axis=1, keepdims=True)
        num_negative = tf.reduce_sum(negative, axis=1, keepdims=True)
        wanted = tf.maximum(self._ratio * num_positive, self._least_negatives)
        if self._at_most_all:
            wanted = tf.minimum(wanted, num_negative)
        return positive + negative * tf.math.divide_no_nan(wanted, num_negative)


def build_reduction(config: losses_pb2.Loss, where: str) -> Reduction:
    """Return the reduction that a config describes.

    Args:
        config: of the loss.
        where: its path, for error messages.

    Raises:
        errors.ConfigError: a value is outside its range, two options exclude each other, or one is
            not honored.
    """
    checks.check_part(config, where, checks.loss_problems(where, config))
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
    """Return the choice of hard examples that a config describes.

    Args:
        miner: its config.
        localization_weight: factor of the loss of boxes.
        classification_weight: factor of the loss of classes.
        balanced: whether shares of positives and negatives are kept.
    """
    kinds = losses_pb2.HardExampleMiner
    by_classes = miner.loss_type != kinds.LOCALIZATION
    by_boxes = miner.loss_type != kinds.CLASSIFICATION
    return HardExamples(
        limit=miner.num_hard_examples or None,
        iou_threshold=miner.iou_threshold,
        classification_weight=classification_weight if by_classes else 0.0,
        localization_weight=localization_weight if by_boxes else 0.0,
        negatives_per_positive=(miner.max_negatives_per_positive or None) if balanced else None,
        least_negatives=miner.min_negatives_per_image,
    )


def _greedily_apart(boxes: tf.Tensor, iou_threshold: float, limit: tf.Tensor) -> tf.Tensor:
    """Return whether a box overlaps no earlier one that is kept itself.

    Args:
        boxes: float32 [B, A, 4]; the first is always kept.
        iou_threshold: boxes that overlap more than this are not both kept.
        limit: int32 scalar: boxes after so many kept ones are not needed, and may be wrong.

    Returns:
        bool [B, A].
    """
    if iou_threshold >= 1.0:
        return tf.fill(tf.shape(boxes)[:2], True)
    if iou_threshold < near_duplicates.LEAST_THRESHOLD:
        return _suppressed(boxes, tf.fill(tf.shape(boxes)[:2], True), iou_threshold, limit)
    doubtful = near_duplicates.may_overlap(boxes, iou_threshold)
    return tf.logical_not(doubtful) | _suppressed(boxes, doubtful, iou_threshold, limit)


def _suppressed(
    boxes: tf.Tensor, doubtful: tf.Tensor, iou_threshold: float, limit: tf.Tensor
) -> tf.Tensor:
    """Those of the doubtful boxes that suppression among these leaves: bool [B, A]."""
    batch, anchors = tf.unstack(tf.shape(doubtful))
    most = tf.maximum(1, tf.reduce_max(tf.reduce_sum(tf.cast(doubtful, tf.int32), axis=1)))
    # An earlier box has a higher rank. The kernel takes ranks for scores, and by the ranks that it
    # gives back boxes are found again.
    ranks = tf.cast(anchors - tf.range(anchors), tf.float32)
    ranks, rows = tf.math.top_k(tf.where(doubtful, ranks, 0.0), most)
    kept = tf.raw_ops.CombinedNonMaxSuppression(
        boxes=tf.gather(boxes, rows, batch_dims=1)[:, :, tf.newaxis],
        scores=ranks[..., tf.newaxis],
        max_output_size_per_class=tf.minimum(limit, most),
        max_total_size=most,
        iou_threshold=iou_threshold,
        score_threshold=0.0,
        clip_boxes=False,
    ).nmsed_scores
    images = tf.broadcast_to(tf.range(batch)[:, tf.newaxis], tf.shape(kept))
    places = tf.stack([images, anchors - tf.cast(kept, tf.int32)], axis=-1)
    # What the kernel pads with lands in a column of its own.
    marked = tf.scatter_nd(places, tf.ones_like(kept), [batch, anchors + 1])
    return marked[:, :-1] > 0


def _count_up_to_here(marks: tf.Tensor) -> tf.Tensor:
    """int32 [B, A]: how many of [B, A] are true up to and with each."""
    return tf.cumsum(tf.cast(marks, tf.int32), axis=1)
