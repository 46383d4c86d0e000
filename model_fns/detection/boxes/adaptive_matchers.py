"""Matchers without a fixed threshold, which give each object at least one anchor."""

from __future__ import annotations

from typing import Optional

import tensorflow as tf

from model_fns.detection.boxes import matchers
from model_fns.layers import forward_pass

# What is equal in exact arithmetic may differ in its last bits: a difference that counts is larger.
_ROUNDING = 1e-5
_COST_STEP = 1.0 / 16.0  # square pixels
# Of the costs of DynamicMatcher: strides from a center; and bounds that keep costs finite.
# The first is the center of 3 x 3 cells of YOLOX ("multi positives"). The offset and the least
# overlap are `soft_center_radius` and `EPS` of MMDetection's `DynamicSoftLabelAssigner`. 10^17 is
# far above all other terms, and sums of it are still far below the largest float32.
_RADIUS = 1.5
_PLACE_OFFSET = 3.0
_MOST_STRIDES = 20.0
_LEAST_OVERLAP = 1e-7
_OUTSIDE = 1e9  # factor on the cost of anchors outside of a box, above any other one


class AtssMatcher(matchers.Matcher):
    """Adaptive training sample selection (Zhang et al. 2020, arXiv 1912.02424, algorithm 1).

    The candidates of a box are, on each feature map, the anchors with the nearest centers, and
    those as near as the last of them. Positive are those whose similarity is at least the mean plus
    the standard deviation (of a sample: n - 1) of the candidates, and whose center is inside of the
    box. Of several boxes that want an anchor the most similar one gets it. A box without an anchor
    takes the nearest one (`Placement.costs`), inside of the box if there is one.

        similarities of a box to its candidates   0.7  0.3  0.2  0.0
        mean 0.3 + deviation 0.294 = 0.594        -> the first is positive

    Args:
        count: candidates of a box on each feature map.
    """

    needs_placement = True

    def __init__(self, count: int = 9):
        self._count = count

    def match(
        self,
        similarity: tf.Tensor,
        valid: tf.Tensor,
        claiming: tf.Tensor,
        placement: Optional[matchers.Placement] = None,
    ) -> tf.Tensor:
        """Match anchors with the most similar boxes they are positive for: int32 [B, A]."""
        assert placement is not None
        inside = placement.inside()
        candidates = self._find_candidates(placement)
        # A single candidate is its own threshold, as its deviation is 0; rounding must not lose it.
        positive = similarity >= _threshold(similarity, candidates) - _ROUNDING
        positive &= candidates & inside & valid[..., tf.newaxis]
        # Rounded, so that of two boxes with the same similarity the first wins on every processor.
        rounded = tf.round(similarity / _ROUNDING)
        matches = _most(tf.where(positive, rounded, matchers.NEVER))
        return give_each_row_one(_distances(placement), claiming & valid, matches)

    def _find_candidates(self, placement: matchers.Placement) -> tf.Tensor:
        """Find the nearest anchors of each map: bool [B, M, A]."""
        sizes = placement.scene.anchor_counts()
        count = len(placement.scene.per_cell)
        found = []
        for part in tf.split(placement.squared_distances(), sizes, axis=-1, num=count):
            nearest = tf.math.top_k(-part, tf.minimum(self._count, tf.shape(part)[-1])).values
            # By distance, not by the indices of `top_k`: of equally near anchors it takes those of
            # lower index, and the candidates of a box between two cells would all lie on one side.
            found.append(part <= -nearest[..., -1:] * (1.0 + _ROUNDING))
        return tf.concat(found, axis=-1)


class DynamicMatcher(matchers.Matcher):
    """Dynamic soft label assignment (Lyu et al. 2022, "RTMDet", arXiv 2212.07784, section 3.3).

    The cost of an anchor for a box has three terms, with the IoU y of the predicted box:

    * quality focal loss of the scores p, whose target is y for the class of the box and else 0,
    * `weight * -log(y)`,
    * `10^(d - 3)` for centers d strides apart.

    A box takes the k anchors of least cost, where k is the sum of its largest IoUs, rounded down,
    and at least 1. Candidates have their center inside of the box, or at most 1.5 strides from its
    center (Ge et al. 2021, "YOLOX", section 2.1). Of several boxes the one of least cost gets the
    anchor. A box without an anchor takes the nearest one, as in `AtssMatcher`.

        IoU of the candidates' predictions   0.9  0.8  0.5  0.1
        k = 2 (their sum is 2.3)             -> the first two, if class and place do not differ

    Args:
        most: number of IoUs that are summed, and most anchors of a box.
        class_weight: factor on the cost of the class.
        box_weight: factor on the cost of the box.
        static_steps: number of first steps in which the matcher is `AtssMatcher`.
    """

    needs_placement = True
    needs_predictions = True

    def __init__(
        self,
        most: int = 13,
        class_weight: float = 1.0,
        box_weight: float = 3.0,
        static_steps: int = 0,
    ):
        self._most = most
        self._class_weight = class_weight
        self._box_weight = box_weight
        self._static_steps = static_steps

    def match(
        self,
        similarity: tf.Tensor,
        valid: tf.Tensor,
        claiming: tf.Tensor,
        placement: Optional[matchers.Placement] = None,
    ) -> tf.Tensor:
        """Match anchors with the boxes that they cost least, of their takers: int32 [B, A]."""
        assert placement is not None
        if not self._static_steps:
            return self._match(valid, claiming, placement)
        return tf.cond(
            forward_pass.global_step() < self._static_steps,
            lambda: AtssMatcher().match(similarity, valid, claiming, placement),
            lambda: self._match(valid, claiming, placement),
        )

    def _match(
        self, valid: tf.Tensor, claiming: tf.Tensor, placement: matchers.Placement
    ) -> tf.Tensor:
        strides = tf.sqrt(placement.squared_distances()) / placement.scene.strides()
        candidates = (placement.inside() | (strides <= _RADIUS)) & valid[..., tf.newaxis]
        overlaps = tf.where(candidates, placement.predicted_overlaps(), 0.0)
        costs = self._class_weight * _class_costs(placement, overlaps)
        costs -= self._box_weight * tf.math.log(overlaps + _LEAST_OVERLAP)
        costs += tf.pow(10.0, tf.minimum(strides, _MOST_STRIDES) - _PLACE_OFFSET)
        closeness = tf.where(candidates, -costs, matchers.NEVER)
        most = tf.minimum(self._most, tf.shape(overlaps)[-1])
        total = tf.reduce_sum(tf.math.top_k(overlaps, most).values, axis=-1)
        # Truncated as `dynamic_ks` of YOLOX and MMDetection.
        last = tf.clip_by_value(tf.cast(total, tf.int32), 1, most) - 1
        nearest = tf.math.top_k(closeness, most).indices
        # By index, not by comparison with the k-th cost: ties gave a box more than `most` anchors.
        chosen = _mark(nearest, tf.sequence_mask(last + 1, most), tf.shape(closeness))
        matches = _most(tf.where(chosen, closeness, matchers.NEVER))
        return give_each_row_one(_distances(placement), claiming & valid, matches)


def give_each_row_one(costs: tf.Tensor, claiming: tf.Tensor, matches: tf.Tensor) -> tf.Tensor:
    """Give each claiming row without an anchor the one of least cost.

    An anchor may be taken from a row, which then takes another one; but not twice. So each row has
    an anchor in the end, if there are as many anchors as rows.

        costs of 2 rows, 3 anchors     matches before      after
            1.0  2.0  3.0              0  0  -1            1  0  -1
            1.0  4.0  5.0

    Args:
        costs: float32 [B, M, A].
        claiming: bool [B, M].
        matches: int32 [B, A].
    """
    rows = tf.shape(costs)[1]

    def find_rest(matches: tf.Tensor) -> tf.Tensor:
        own = tf.equal(matches[:, tf.newaxis], tf.range(rows)[:, tf.newaxis])
        return claiming & tf.logical_not(tf.reduce_any(own, axis=-1))

    def take(taken: tf.Tensor, matches: tf.Tensor) -> tuple:
        closeness = tf.where(taken[:, tf.newaxis], matchers.NEVER, -costs)
        forced = matchers.force(closeness, find_rest(matches), matches)
        # What a row takes was not its own.
        return taken | tf.not_equal(forced, matches), forced

    _, matches = tf.while_loop(
        lambda _, matches: tf.reduce_any(find_rest(matches)),
        take,
        (tf.zeros_like(matches, tf.bool), matches),
        maximum_iterations=rows,
    )
    return matches


def _distances(placement: matchers.Placement) -> tf.Tensor:
    """Compute how far anchors are from boxes, those outside of them most: float32 [B, M, A]."""
    # Anchors on both sides of a center are equally far, but for their last bits. Rounded, they are
    # ties, and which one is taken does not depend on the processor.
    costs = tf.round(placement.costs() / _COST_STEP)
    return costs * tf.where(placement.inside(), 1.0, _OUTSIDE)


def _class_costs(placement: matchers.Placement, overlaps: tf.Tensor) -> tf.Tensor:
    """Compute quality focal losses [B, M, A] for the targets of boxes and IoUs [B, M, A]."""
    assert placement.scene.predicted is not None
    logits = placement.scene.predicted.logits
    classes = placement.classes[..., -logits.shape[-1] :]
    classes = tf.math.divide_no_nan(classes, tf.reduce_sum(classes, axis=-1, keepdims=True))
    # Only the class of the box has a target: the other classes cost the same for all boxes.
    nothing = tf.reduce_sum(_quality_focal(logits, tf.zeros_like(logits)), axis=-1)
    own = tf.matmul(classes, logits, transpose_b=True)
    change = _quality_focal(own, overlaps) - _quality_focal(own, tf.zeros_like(own))
    return nothing[:, tf.newaxis] + change


def _quality_focal(logits: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """Compute quality focal losses with an exponent of 2, as the costs of RTMDet have them."""
    entropy = tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits)
    return entropy * tf.square(targets - tf.sigmoid(logits))


def _threshold(similarity: tf.Tensor, candidates: tf.Tensor) -> tf.Tensor:
    """Compute mean plus standard deviation of the candidates of each row: [B, M, 1]."""
    weights = tf.cast(candidates, tf.float32)
    count = tf.reduce_sum(weights, axis=-1, keepdims=True)
    mean = tf.math.divide_no_nan(tf.reduce_sum(similarity * weights, axis=-1, keepdims=True), count)
    squares = tf.reduce_sum(tf.square(similarity - mean) * weights, axis=-1, keepdims=True)
    return mean + tf.sqrt(tf.math.divide_no_nan(squares, count - 1.0))


def _mark(indices: tf.Tensor, wanted: tf.Tensor, shape: tf.Tensor) -> tf.Tensor:
    """Return bool [B, M, A], True at the wanted ones of the indices [B, M, k] of anchors."""
    rows, anchors = shape[0] * shape[1], shape[2]
    # Those that are not wanted mark a column more.
    columns = tf.where(wanted, indices, anchors)
    starts = tf.reshape(tf.range(rows), [shape[0], shape[1], 1]) * (anchors + 1)
    places = tf.reshape(starts + columns, [-1, 1])
    marks = tf.scatter_nd(places, tf.ones_like(places[:, 0]), [rows * (anchors + 1)])
    return tf.reshape(marks, [shape[0], shape[1], anchors + 1])[..., :anchors] > 0


def _most(values: tf.Tensor) -> tf.Tensor:
    """Return the row of the largest value of each anchor, `UNMATCHED` where all are `NEVER`."""
    values = tf.pad(values, [[0, 0], [0, 1], [0, 0]], constant_values=matchers.NEVER)
    best = tf.argmax(values, axis=1, output_type=tf.int32)
    wanted = tf.reduce_max(values, axis=1) > matchers.NEVER
    return tf.where(wanted, best, matchers.UNMATCHED)
