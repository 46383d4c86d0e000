"""Targets of anchors: the classes and boxes that they should predict."""

from __future__ import annotations

import dataclasses
from typing import Optional

import numpy as np
import tensorflow as tf

from model_fns.detection.boxes import axis_aligned, box_coders, matchers, similarities
from model_fns.detection.boxes.family import ModelBoxes


@dataclasses.dataclass(frozen=True)
class Groundtruth:
    """The boxes of a batch of images, padded to the same number.

    Attributes:
        boxes: float32 [B, M, SIZE of their family].
        classes: float32 [B, M, C], without background: one-hot, or several classes of a box.
        weights: float32 [B, M]; 0 for boxes that are ignored.
        valid: bool [B, M], False for padding.
        examples: integers [B], a number for each example that seeds random draws; None: the index
            in the batch.
        masks: uint8 [B, M', height, width], 0 or 1, of the padded input's size; None if masks are
            not read. M' is between 1 and M: at least the number of objects of the fullest image,
            but small enough to bound the memory of masks.
        mask_weights: float32 [B, M]; 0 for masks that are ignored; None: all masks count.
        keypoints: float32 [B, M, k, 2], y and x normalized as boxes are, NaN for keypoints that
            are not labeled; None if keypoints are not read.
        keypoint_visibilities: bool [B, M, k]; None if keypoints are not read.
        ignored_coverage: fraction of an anchor that an ignored box has to cover so that the anchor
            is no background; None: ignored boxes only keep their matches from being background.
        image_classes: float32 [B, C]: 1 for classes whose presence or absence is known; none in an
            image means all. None if they are not read.
        labeled_classes: float32 [B, C]: 1 for classes that were looked for. None: all were.
    """

    boxes: tf.Tensor
    classes: tf.Tensor
    weights: tf.Tensor
    valid: tf.Tensor
    examples: Optional[tf.Tensor] = None
    masks: Optional[tf.Tensor] = None
    mask_weights: Optional[tf.Tensor] = None
    keypoints: Optional[tf.Tensor] = None
    keypoint_visibilities: Optional[tf.Tensor] = None
    ignored_coverage: Optional[float] = None
    image_classes: Optional[tf.Tensor] = None
    labeled_classes: Optional[tf.Tensor] = None

    def numbers(self) -> tf.Tensor:
        """Return `examples`, or the indices in the batch: int32 [B]."""
        return tf.range(tf.shape(self.boxes)[0]) if self.examples is None else self.examples

    def trimmed(self) -> Groundtruth:
        """Remove the rows that are padding in every image of the batch.

        Valid rows come first, and a batch seldom has nearly as many boxes as it has rows.
        Masks are padded to fewer rows and stay as they are.
        """
        # Similarities are [B, M, A]: rows of padding would cost as much as boxes.
        count = tf.reduce_max(tf.reduce_sum(tf.cast(self.valid, tf.int32), axis=1))
        rows = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        for name in ('examples', 'masks', 'image_classes', 'labeled_classes', 'ignored_coverage'):
            del rows[name]
        return dataclasses.replace(
            self, **{name: values[:, :count] for name, values in rows.items() if values is not None}
        )


@dataclasses.dataclass(frozen=True)
class Targets:
    """Targets of the anchors of a batch, and their weights.

    Attributes:
        class_targets: float32 [B, A, C'], C' = C or, with a background column, C + 1.
        class_weights: float32 [B, A, C'].
        box_targets: float32 [B, A, K]; zeros where there is no box to predict.
        box_weights: float32 [B, A].
        matches: int32 [B, A]: the groundtruth row, `matchers.UNMATCHED` or `matchers.IGNORED`.
    """

    class_targets: tf.Tensor
    class_weights: tf.Tensor
    box_targets: tf.Tensor
    box_weights: tf.Tensor
    matches: tf.Tensor


class TargetAssigner:
    """Assigner of targets to anchors, by matching anchors with groundtruth boxes.

    Example:
        A box [0, 0, 1, 0.8] of class 1 of 2 and the weight 0.5 overlaps the anchor [0, 0, 1, 1] by
        an IoU of 0.8. From a threshold of 0.5 on the anchor gets the row 0, the class targets
        (0, 0, 1) after a column of background, the box targets (0, 0, 0, -0.2) of a
        `MeanStddevBoxCoder(1.0)` and the weight 0.5. Another anchor gets -1, the class targets
        (1, 0, 0) with the weight 1, and no box targets.

    Args:
        similarity: computes the similarities of boxes and anchors, one of `similarities`.
        matcher: gives each anchor a row of a box, or none.
        box_coder: encodes the matched boxes.
        negative_class_weight: class weight of an unmatched anchor.
        family: family of the boxes.
    """

    def __init__(
        self,
        similarity: similarities.Similarity,
        matcher: matchers.Matcher,
        box_coder: box_coders.BoxCoder,
        negative_class_weight: float = 1.0,
        family: ModelBoxes = axis_aligned,
    ):
        self._similarity = similarity
        self._matcher = matcher
        self._box_coder = box_coder
        self._negative_class_weight = negative_class_weight
        self._family = family

    @property
    def threshold(self) -> Optional[float]:
        """The least similarity of a match; see `matchers.Matcher`."""
        return self._matcher.threshold

    @property
    def needs_scene(self) -> bool:
        """Return whether `assign` needs a scene."""
        return self._matcher.needs_placement

    @property
    def needs_predictions(self) -> bool:
        """Return whether the scene needs predictions."""
        return self._matcher.needs_predictions

    def best_similarity(self, anchors: tf.Tensor, boxes: tf.Tensor) -> tf.Tensor:
        """Compute the similarity of each box [M, SIZE] and its most similar anchor: [M]."""
        similarity = self._similarity(boxes[tf.newaxis], anchors, tf.ones_like(boxes[:, 0])[None])
        return tf.reduce_max(similarity[0], axis=-1)

    def assign(
        self,
        anchors: tf.Tensor,
        groundtruth: Groundtruth,
        background: np.ndarray,
        scene: Optional[matchers.Scene] = None,
    ) -> Targets:
        """Compute the targets of a batch.

        Args:
            anchors: float32 [A, SIZE], or [B, A, SIZE] if each image has its own.
            groundtruth: groundtruth of B images.
            background: float32 [C'], the class target of an unmatched anchor. With C' = C + 1 the
                first column is background; with C' = C there is no such column.
            scene: the feature maps of the anchors; None where `needs_scene` is false.
        """
        groundtruth = groundtruth.trimmed()
        classes = _with_background_column(groundtruth.classes, len(background))
        boxes = groundtruth.boxes[..., : self._family.SIZE]
        # Published: the score of a box is 1 minus its background column, which is 0 in groundtruth.
        # Only `thresholded_iou` reads scores.
        similarity = self._similarity(boxes, anchors, 1.0 - classes[..., 0])
        placement = None
        if scene is not None:
            placement = matchers.Placement(scene, boxes, classes, anchors, self._family)
        # A box of weight 0 forces no match. It may get anchors by overlap, which then have no loss.
        matches = self._matcher.match(
            similarity, groundtruth.valid, groundtruth.weights > 0, placement
        )
        matched, ignored = matches >= 0, tf.equal(matches, matchers.IGNORED)
        if groundtruth.ignored_coverage:
            ignored |= self._is_covered(anchors, boxes, groundtruth)
        # One gather for class targets, box and weight of a row.
        rows = tf.concat(
            [classes, groundtruth.boxes, groundtruth.weights[..., tf.newaxis]], axis=-1
        )
        gathered = _gather_rows(rows, matches)
        matched_classes, boxes, weights = tf.split(
            gathered, [classes.shape[-1], groundtruth.boxes.shape[-1], 1], axis=-1
        )
        weights = tf.where(matched, weights[..., 0], 0.0)
        negative = tf.where(ignored, 0.0, self._negative_class_weight)[..., tf.newaxis]
        if groundtruth.labeled_classes is not None:
            # An object of a class that was not looked for may be anywhere: its column has no target
            # there.
            negative *= _known_columns(groundtruth.labeled_classes, len(background))
        class_weights = tf.where(matched[..., tf.newaxis], weights[..., tf.newaxis], negative)
        class_targets = tf.where(
            matched[..., tf.newaxis], matched_classes, tf.constant(background, tf.float32)
        )
        codes = self._box_coder.encode(boxes, anchors)
        return Targets(
            class_targets=class_targets,
            class_weights=tf.broadcast_to(class_weights, tf.shape(class_targets)),
            # The code of an empty box may be infinite, so it is replaced and not multiplied by 0.
            box_targets=tf.where(matched[..., tf.newaxis], codes, tf.zeros([])),
            box_weights=weights,
            matches=matches,
        )

    def _is_covered(
        self, anchors: tf.Tensor, boxes: tf.Tensor, groundtruth: Groundtruth
    ) -> tf.Tensor:
        """Return whether an ignored box covers enough of an anchor: bool [B, A]."""
        is_ignored = groundtruth.valid & (groundtruth.weights <= 0.0)
        coverage = self._family.pairwise_ioa(boxes, anchors)
        covers = (coverage >= groundtruth.ignored_coverage) & is_ignored[..., tf.newaxis]
        return tf.reduce_any(covers, axis=1)


def _with_background_column(classes: tf.Tensor, columns: int) -> tf.Tensor:
    extra = columns - classes.shape[-1]
    if extra not in (0, 1):
        raise ValueError(f'{columns} columns of targets for {classes.shape[-1]} classes')
    return tf.pad(classes, [[0, 0], [0, 0], [extra, 0]])


def _known_columns(labeled: tf.Tensor, columns: int) -> tf.Tensor:
    """Return which class targets of an unmatched anchor are known: float32 [B, 1, columns].

    Of an image in which not all classes were looked for, background is not known. With a column of
    background, [1, 0] becomes [0, 1, 0], and [1, 1] becomes [1, 1, 1].

    Args:
        labeled: float32 [B, C], 1 for each class that was looked for in the image.
        columns: C, or C + 1 with a column of background.
    """
    if columns > labeled.shape[-1]:
        labeled = tf.concat([tf.reduce_min(labeled, axis=1, keepdims=True), labeled], axis=1)
    return labeled[:, tf.newaxis]


def _gather_rows(rows: tf.Tensor, matches: tf.Tensor) -> tf.Tensor:
    """Gather rows [B, M, n] at matches [B, A] (row 0 for unmatched anchors): [B, A, n]."""
    # A batch without a single box has no row 0 to gather.
    rows = tf.pad(rows, [[0, 0], [0, 1], [0, 0]])
    return tf.gather(rows, tf.maximum(matches, 0), batch_dims=1)
