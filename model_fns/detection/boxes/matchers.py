"""Matchers, which assign a groundtruth box to each anchor.

A matcher is a function of a batch of similarities. For each anchor it returns the row of a
groundtruth box, `UNMATCHED` or `IGNORED`.

    similarity of 2 boxes to 4 anchors      matched at 0.5, unmatched below 0.4, forced
        0.7  0.3  0.1  0.0                  ->  0, -1, -1, 1
        0.1  0.2  0.0  0.3
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Optional, Sequence

import tensorflow as tf

from model_fns.detection.boxes.family import ModelBoxes

# The numbers of the published `Match`, which recorded targets have.
UNMATCHED = -1
IGNORED = -2

# Less than every similarity.
NEVER = -3.4e38


@dataclasses.dataclass(frozen=True)
class Predicted:
    """Predictions at the anchors of a batch.

    Attributes:
        boxes: float32 [B, A, SIZE].
        logits: float32 [B, A, C'] of classes.
    """

    boxes: tf.Tensor
    logits: tf.Tensor


@dataclasses.dataclass(frozen=True)
class Scene:
    """Feature maps of the anchors, and the predictions at the anchors.

    Attributes:
        grids: int32 [L, 2]: height and width of each feature map in cells.
        per_cell: number of anchors of a cell of each map.
        image_size: height and width of the network's input in pixels, float32 scalars.
        is_normalized: whether boxes are normalized to the input; else they are in pixels.
        predicted: predictions at the anchors; None where the matcher needs none.
    """

    grids: tf.Tensor
    per_cell: Sequence[int]
    image_size: Sequence[tf.Tensor]
    is_normalized: bool = True
    predicted: Optional[Predicted] = None

    def anchor_counts(self) -> tf.Tensor:
        """Return the number of anchors of each map: int32 [L]."""
        # Anchors are ordered by map (see `anchors`), so that counts are enough to tell their maps.
        return tf.reduce_prod(self.grids, axis=1) * tf.constant(self.per_cell, tf.int32)

    def strides(self) -> tf.Tensor:
        """Return the stride of the map of each anchor in pixels: float32 [A]."""
        cells = tf.cast(tf.reduce_prod(self.grids, axis=1), tf.float32)
        height, width = self.image_size
        # The mean of both directions, which differ where cells do not divide the input evenly.
        return tf.repeat(tf.sqrt(height * width / cells), self.anchor_counts())


class Placement:
    """Places of the anchors and the groundtruth boxes of a batch, in pixels.

    Attributes:
        scene: the feature maps, and the predictions.
        classes: class targets of the boxes.

    Args:
        scene: likewise.
        boxes: float32 [B, M, SIZE].
        classes: float32 [B, M, C'].
        anchors: float32 [A, SIZE], or [B, A, SIZE].
        family: family of the boxes.
    """

    def __init__(
        self,
        scene: Scene,
        boxes: tf.Tensor,
        classes: tf.Tensor,
        anchors: tf.Tensor,
        family: ModelBoxes,
    ):
        self.scene = scene
        self.classes = classes
        self._family = family
        self._truth = boxes
        if scene.is_normalized:
            boxes, anchors = (family.scale(each, *scene.image_size) for each in (boxes, anchors))
        self._boxes = family.to_rectangles(boxes)[..., :, tf.newaxis, :]
        self._anchors = family.to_rectangles(anchors)[..., tf.newaxis, :, :]

    def squared_distances(self) -> tf.Tensor:
        """Compute the squared distances of centers: float32 [B, M, A]."""
        return tf.reduce_sum(tf.square(self._steps()), axis=-1)

    def inside(self) -> tf.Tensor:
        """Return which anchors have their center inside of which box: bool [B, M, A]."""
        down, right = tf.unstack(self._steps(), axis=-1)
        height, width, angle = tf.unstack(self._boxes[..., 2:], axis=-1)
        cosine, sine = tf.cos(angle), tf.sin(angle)
        along_height = tf.abs(down * cosine - right * sine)
        along_width = tf.abs(down * sine + right * cosine)
        return (along_height < 0.5 * height) & (along_width < 0.5 * width)

    def costs(self) -> tf.Tensor:
        """Compute how far each anchor is from each box: float32 [B, M, A].

        The squared distance of centers, plus that of the half sides. So of the anchors at a place
        the one of the box's size is the nearest. (It is the squared Wasserstein distance of both as
        normal distributions if they are not rotated: Wang et al. 2021, arXiv 2110.13389, eq. 6.)
        """
        sides = 0.5 * (self._boxes[..., 2:4] - self._anchors[..., 2:4])
        return self.squared_distances() + tf.reduce_sum(tf.square(sides), axis=-1)

    def predicted_overlaps(self) -> tf.Tensor:
        """Compute the IoU of each box and each predicted one: float32 [B, M, A]."""
        assert self.scene.predicted is not None
        return self._family.pairwise_iou(self._truth, self.scene.predicted.boxes)

    def _steps(self) -> tf.Tensor:
        """Compute the steps from centers of boxes to those of anchors: [B, M, A, 2], y and x."""
        return self._anchors[..., :2] - self._boxes[..., :2]


class Matcher(abc.ABC):
    """Assignment of groundtruth boxes to anchors by their similarities.

    Attributes:
        threshold: the least similarity of a match that is not forced; None: any similarity.
        needs_placement: whether `match` needs a placement.
        needs_predictions: whether the scene of the placement needs predictions.
    """

    threshold: Optional[float] = None
    needs_placement: bool = False
    needs_predictions: bool = False

    @abc.abstractmethod
    def match(
        self,
        similarity: tf.Tensor,
        valid: tf.Tensor,
        claiming: tf.Tensor,
        placement: Optional[Placement] = None,
    ) -> tf.Tensor:
        """Match each anchor with a groundtruth row.

        Args:
            similarity: float32 [B, M, A].
            valid: bool [B, M]: rows that are groundtruth, not padding.
            claiming: bool [B, M]: rows that may force a match (their weight is positive).
            placement: of the boxes and anchors; None for matchers that do not need it.

        Returns:
            int32 [B, A]: a row, `UNMATCHED` or `IGNORED`.
        """


class ArgMaxMatcher(Matcher):
    """Matcher of each anchor with its most similar box, if the similarity reaches a threshold.

        similarity of 2 boxes to 4 anchors      both thresholds 0.5    both thresholds 0.2
            0.7  0.45  0.1  0.0             ->  0, -1, -1, -1          0, 0, -1, 1
            0.1  0.2   0.0  0.3

    Args:
        matched_threshold: least similarity of a match; None: any similarity.
        unmatched_threshold: below it an anchor is a negative; between the thresholds it is ignored.
        negatives_lower_than_unmatched: False swaps the two: anchors below are ignored, anchors
            between are negatives.
        force_match_for_each_row: each claiming box also takes its most similar anchor; if several
            boxes claim the same anchor, the first of them gets it.

    Raises:
        ValueError: an unmatched threshold without a matched threshold.
    """

    def __init__(
        self,
        matched_threshold: Optional[float] = 0.5,
        unmatched_threshold: Optional[float] = None,
        negatives_lower_than_unmatched: bool = True,
        force_match_for_each_row: bool = False,
    ):
        if matched_threshold is None and unmatched_threshold is not None:
            raise ValueError(
                f'the unmatched threshold is {unmatched_threshold}; expected a matched one too'
            )
        if unmatched_threshold is None:
            unmatched_threshold = matched_threshold
        self.threshold = matched_threshold
        self._unmatched = unmatched_threshold
        self._below = UNMATCHED if negatives_lower_than_unmatched else IGNORED
        self._between = IGNORED if negatives_lower_than_unmatched else UNMATCHED
        self._force = force_match_for_each_row

    def match(
        self,
        similarity: tf.Tensor,
        valid: tf.Tensor,
        claiming: tf.Tensor,
        placement: Optional[Placement] = None,
    ) -> tf.Tensor:
        """Match anchors with their most similar boxes, then force matches: int32 [B, A]."""
        del placement
        if not similarity.shape[1]:  # without a row there is no largest similarity
            similarity = tf.pad(similarity, [[0, 0], [0, 1], [0, 0]])
            valid, claiming = (tf.pad(rows, [[0, 0], [0, 1]]) for rows in (valid, claiming))
        similarity = tf.where(valid[..., tf.newaxis], similarity, tf.constant(NEVER))
        matches = tf.argmax(similarity, axis=1, output_type=tf.int32)
        if self.threshold is not None:
            best = tf.reduce_max(similarity, axis=1)
            # The second choice overwrites the first: what is below the lower threshold is below
            # both.
            matches = tf.where(best < self.threshold, self._between, matches)
            matches = tf.where(best < self._unmatched, self._below, matches)
        # After the thresholds. As published, a forced match may have any similarity, even 0: a box
        # that overlaps no anchor takes the first one. Padding must not claim, or it would take
        # that.
        if self._force:
            matches = force(similarity, claiming, matches)
        # All anchors of an image without groundtruth are negatives, whatever the thresholds.
        return tf.where(tf.reduce_any(valid, axis=1, keepdims=True), matches, UNMATCHED)


class BipartiteMatcher(Matcher):
    """Greedy matcher of the most similar pair, then of the most similar remaining pair, etc.

    Example:
        Similarities (0.8, 0.5, 0.1) and (0.9, 0.6, 0.2) of two boxes to three anchors give the
        matches 1, 0, -1: the best pair is box 1 with anchor 0, which leaves anchor 1 to box 0.
    """

    def match(
        self,
        similarity: tf.Tensor,
        valid: tf.Tensor,
        claiming: tf.Tensor,
        placement: Optional[Placement] = None,
    ) -> tf.Tensor:
        """Match each `claiming` row with at most one anchor: int32 [B, A]."""
        del placement
        batch, rows, anchors = tf.unstack(tf.shape(similarity))
        # The published matcher calls a kernel of `tf.contrib.image`, which TensorFlow 2 does not
        # have.
        taking_part = tf.logical_and(valid, claiming)
        open_pairs = tf.where(taking_part[..., tf.newaxis], similarity, tf.constant(NEVER))
        matches = tf.fill([batch, anchors], UNMATCHED)

        def step(count: tf.Tensor, open_pairs: tf.Tensor, matches: tf.Tensor) -> tuple:
            flat = tf.reshape(open_pairs, [batch, rows * anchors])
            best = tf.argmax(flat, axis=1, output_type=tf.int32)
            row, column = best // anchors, best % anchors
            taken = tf.logical_and(
                tf.equal(tf.range(anchors), column[:, tf.newaxis]),
                tf.reduce_max(flat, axis=1, keepdims=True) > NEVER,
            )
            matches = tf.where(taken, row[:, tf.newaxis], matches)
            closed = tf.logical_or(
                tf.equal(tf.range(rows)[:, tf.newaxis], row[:, tf.newaxis, tf.newaxis]),
                taken[:, tf.newaxis, :],
            )
            return count + 1, tf.where(closed, tf.constant(NEVER), open_pairs), matches

        _, _, matches = tf.while_loop(
            lambda count, *_: count < rows,
            step,
            [tf.constant(0), open_pairs, matches],
            shape_invariants=[
                tf.TensorShape([]),
                tf.TensorShape([None, None, None]),
                tf.TensorShape([None, None]),
            ],
        )
        return matches


def force(similarity: tf.Tensor, claiming: tf.Tensor, matches: tf.Tensor) -> tf.Tensor:
    """Give each claiming row its most similar anchor.

    Args:
        similarity: float32 [B, M, A].
        claiming: bool [B, M]; of several rows that want an anchor the first gets it.
        matches: int32 [B, A]; those of other anchors stay.
    """
    batch, rows, anchors = tf.unstack(tf.shape(similarity))
    wanted = tf.argmax(similarity, axis=2, output_type=tf.int32)  # [B, M]
    # Find the first row that claims each anchor in one pass over the rows, not over all pairs.
    first_anchor = tf.range(batch)[:, tf.newaxis] * anchors
    places = tf.where(claiming, first_anchor + wanted, -1)
    row_numbers = tf.broadcast_to(tf.range(rows), [batch, rows])
    # The kernel skips places of -1. An anchor that no row claims gets the largest int32.
    claims = tf.math.unsorted_segment_min(row_numbers, places, batch * anchors)
    claims = tf.reshape(claims, [batch, anchors])
    return tf.where(claims < rows, claims, matches)
