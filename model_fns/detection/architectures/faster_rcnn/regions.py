"""First stage, which proposes boxes that may hold an object of any class.

B is the batch size, A the number of anchors, M that of groundtruth boxes, N that of proposals, and
K that of the values of a box. Boxes are in pixels of the padded input.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from model_fns import layers
from model_fns.detection.architectures.faster_rcnn import sampling
from model_fns.detection.boxes import axis_aligned, box_coders, matchers, similarities, targets
from model_fns.detection.boxes.anchors import Array, Size
from model_fns.detection.boxes.family import ModelBoxes
from model_fns.detection.detections import suppression
from model_fns.detection.losses import losses
from model_fns.detection.networks import box_predictors
from model_fns.layers import forward_pass

tf1 = tf.compat.v1

HEAD_SCOPE = 'FirstStageBoxPredictor'
_CONVOLUTION = 'Conv'

# The least overlap of positive anchors, and the bound of the overlap of negatives, as published.
MATCHED, UNMATCHED = 0.7, 0.3
_NOT_AN_OBJECT = np.array([1.0, 0.0], np.float32)  # the class target of an unmatched anchor


@dataclasses.dataclass(frozen=True)
class RegionHead:
    """Head with a convolution, then two 1x1 convolutions for box codes and logits of anchors.

    Several feature maps share the first convolution, but have separate 1x1 convolutions.

    Attributes:
        style: initial values, regularization and normalization.
        depth: channels of the first convolution.
        kernel_size: kernel size of the first convolution.
        rate: its atrous rate.
        code_size: number of values of a box code.
        activation: of the first convolution, whatever the hyperparameters, as published.
    """

    style: layers.LayerStyle
    depth: int = 512
    kernel_size: int = 3
    rate: int = 1
    code_size: int = axis_aligned.SIZE
    activation: Callable[[tf.Tensor], tf.Tensor] = tf.nn.relu6

    def predict(
        self, maps: Sequence[tf.Tensor], anchors_per_cell: Sequence[int]
    ) -> Tuple[tf.Tensor, tf.Tensor]:
        """Compute codes [B, A, K] and logits [B, A, 2] (background first), in order of anchors.

        Args:
            maps: feature maps, [B, height, width, channels] each.
            anchors_per_cell: number of anchors of a cell of each map.
        """
        if len(maps) == 1:
            return self._predict_map(maps[0], anchors_per_cell[0], HEAD_SCOPE)
        outputs = []
        with tf1.variable_scope(tf1.get_variable_scope(), reuse=tf1.AUTO_REUSE):
            for index, (features, per_cell) in enumerate(zip(maps, anchors_per_cell)):
                outputs.append(self._predict_map(features, per_cell, f'{HEAD_SCOPE}_{index}'))
        codes, logits = (tf.concat(values, axis=1) for values in zip(*outputs))
        return codes, logits

    def _predict_map(
        self, features: tf.Tensor, anchors_per_cell: int, head_scope: str
    ) -> Tuple[tf.Tensor, tf.Tensor]:
        hidden = layers.conv2d(
            features,
            self.depth,
            self.kernel_size,
            self.style.but(activation=self.activation),
            _CONVOLUTION,
            rate=self.rate,
        )
        outputs = []
        with tf1.variable_scope(head_scope):
            for scope, size in (('BoxEncodingPredictor', self.code_size), ('ClassPredictor', 2)):
                flat = layers.conv2d(hidden, anchors_per_cell * size, 1, self.style.linear(), scope)
                flat = layers.to_float32(flat)
                outputs.append(box_predictors.flatten_anchors(flat, size, anchors_per_cell))
        return outputs[0], outputs[1]


def rows_inside(anchors: Array, size: Size, where: str) -> Array:
    """Find the anchors that are inside of the input; they may touch its border.

    Args:
        anchors: float32 [A, 4]; rotated anchors by their enclosing axis-aligned boxes.
        size: height and width of the input.
        where: path of the config of anchors, for error messages.

    Returns:
        Indices, integers [A'].

    Raises:
        errors.ConfigError: no anchor is inside of an input of static size.
    """
    advice = (
        'no anchor is inside of the input, so there is nothing to learn from; expected smaller '
        'scales, or clip_anchors_to_image: true'
    )
    height, width = (tf.cast(side, tf.float32) if tf.is_tensor(side) else side for side in size)
    ymin, xmin, ymax, xmax = (anchors[:, side] for side in range(axis_aligned.SIZE))
    # The window is the padded input, as published: padding counts as a part of it.
    inside = (ymin >= 0) & (xmin >= 0) & (ymax <= height) & (xmax <= width)
    if not tf.is_tensor(inside):
        rows = np.flatnonzero(inside)
        if not len(rows):
            raise errors.ConfigError(f'{where}: at {height}x{width} pixels {advice}.')
        return rows
    check = tf.raw_ops.Assert(
        condition=tf.reduce_any(inside), data=[f'{where}: {advice}; height, width:', height, width]
    )
    with tf.control_dependencies([check]):
        return tf.where(inside)[:, 0]


@dataclasses.dataclass(frozen=True)
class RegionLosses:
    """Losses of the first stage: objectness and localization of anchors.

    Attributes:
        coder: coder of boxes.
        sampler: sampler of the counted anchors.
        localization_weight: factor of the localization loss.
        objectness_weight: factor of the objectness loss.
        family: family of the boxes.
        matched: least overlap of an anchor and a box for a match.
    """

    coder: box_coders.BoxCoder
    sampler: sampling.BalancedSampler
    localization_weight: float = 1.0
    objectness_weight: float = 1.0
    family: ModelBoxes = axis_aligned
    matched: float = MATCHED

    @property
    def assigner(self) -> targets.TargetAssigner:
        """Assigner of boxes to anchors."""
        return targets.TargetAssigner(
            similarities.iou(self.family),
            matchers.ArgMaxMatcher(self.matched, UNMATCHED, force_match_for_each_row=True),
            self.coder,
            family=self.family,
        )

    def targets(self, anchors: tf.Tensor, groundtruth: targets.Groundtruth) -> targets.Targets:
        """Assign targets to anchors, with a single class for all objects.

        Args:
            anchors: float32 [A, K].
            groundtruth: groundtruth with boxes in pixels.
        """
        objects = tf.ones_like(groundtruth.classes[..., :1])
        as_objects = dataclasses.replace(groundtruth, classes=objects)
        if groundtruth.labeled_classes is not None:
            # What may be an object of another class is neither an object nor background.
            known = tf.reduce_min(groundtruth.labeled_classes, axis=1, keepdims=True)
            as_objects = dataclasses.replace(as_objects, labeled_classes=known)
        return self.assigner.assign(anchors, as_objects, _NOT_AN_OBJECT)

    def __call__(
        self,
        codes: tf.Tensor,
        logits: tf.Tensor,
        anchors: tf.Tensor,
        groundtruth: targets.Groundtruth,
    ) -> Tuple[tf.Tensor, tf.Tensor]:
        """Compute the localization and the objectness loss, weighted scalars.

        Each is the mean over the images of the mean over an image's sampled anchors.

        Args:
            codes: float32 [B, A, K].
            logits: float32 [B, A, 2].
            anchors: float32 [A, K].
            groundtruth: groundtruth with boxes in pixels.
        """
        assigned = self.targets(anchors, groundtruth)
        positive = assigned.class_targets[..., 1] > 0
        candidates = assigned.class_weights[..., 0] > 0
        seed = forward_pass.step_seed('first_stage_minibatch')
        # Evaluations sample too, as published, so their losses of the first stage are those of a
        # sample.
        drawn = sampling.draws(seed, groundtruth.numbers(), tf.shape(anchors)[0])
        sampled = tf.cast(self.sampler.sample(positive, candidates, drawn), tf.float32)
        counts = tf.maximum(tf.reduce_sum(sampled, axis=1), 1.0)
        boxes = losses.smooth_l1()(codes, assigned.box_targets, assigned.box_weights * sampled)
        # As published, weights of boxes are ignored here.
        objectness = losses.softmax()(logits, assigned.class_targets, sampled[..., tf.newaxis])
        return (
            tf.reduce_mean(tf.reduce_sum(boxes, axis=1) / counts) * self.localization_weight,
            tf.reduce_mean(tf.reduce_sum(objectness, axis=1) / counts) * self.objectness_weight,
        )


@dataclasses.dataclass(frozen=True)
class Proposals:
    """Boxes that may hold an object, in descending order of scores, with zeros after the last.

    Attributes:
        boxes: float32 [B, N, K].
        scores: float32 [B, N, 2]: scores of background and object.
        counts: int32 [B].
    """

    boxes: tf.Tensor
    scores: tf.Tensor
    counts: tf.Tensor

    def sampled(
        self,
        sampler: sampling.BalancedSampler,
        assigned: targets.Targets,
        examples: tf.Tensor,
    ) -> Proposals:
        """Sample the proposals for the training of the second stage, in the same order.

        Args:
            sampler: sampler of at most N proposals.
            assigned: the second stage's targets of the proposals.
            examples: integers [B], a number for each example.
        """
        rows = tf.shape(self.boxes)[1]
        # As published, groundtruth boxes are not added to the proposals, unlike in Detectron.
        is_valid = tf.range(rows) < self.counts[:, tf.newaxis]
        candidates = is_valid & (tf.reduce_mean(assigned.class_weights, axis=-1) > 0)
        # Column 0 is background. Of several classes of an object the first one counts, as
        # published.
        positive = tf.argmax(assigned.class_targets, axis=-1) > 0
        drawn = sampling.draws(forward_pass.step_seed('second_stage_batch'), examples, rows)
        chosen = sampler.sample(positive, candidates, drawn)
        values = tf.concat([self.boxes, self.scores], axis=-1)
        values, counts = sampling.gather_first(chosen, values, sampler.size)
        boxes, scores = tf.split(values, [self.boxes.shape[-1], 2], axis=-1)
        return Proposals(boxes, scores, counts)


def propose(
    boxes: tf.Tensor,
    logits: tf.Tensor,
    rules: suppression.Rules,
    windows: Optional[tf.Tensor],
) -> Proposals:
    """Suppress overlapping boxes, and clip the rest to their images if the family allows it.

    Args:
        boxes: float32 [B, A, K], decoded.
        logits: float32 [B, A, 2].
        rules: rules of suppression; `max_total` is N.
        windows: float32 [B, 4] or [1, 4]: images without padding.
    """
    scores = tf.nn.softmax(logits)
    kept = suppression.suppress(boxes[:, :, tf.newaxis], scores[..., 1:], rules, windows)
    valid = tf.sequence_mask(kept.counts, rules.max_total)[..., tf.newaxis]
    kept_scores = tf.gather(scores, kept.anchors, batch_dims=1)
    return Proposals(kept.boxes, tf.where(valid, kept_scores, 0.0), kept.counts)
