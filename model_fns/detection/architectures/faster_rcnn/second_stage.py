"""Second stage: features of each proposal, its classes and boxes, and their losses.

B is the batch size, N the number of proposals of an image, C that of classes, M that of groundtruth
boxes, and K that of the values of a box. q is 1, or C for boxes by class. Boxes are in pixels of
the padded input.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib.task_interfaces.checkpoint_mapping import ClassAxis
from model_fns import layers
from model_fns.detection.architectures.faster_rcnn import pyramid
from model_fns.detection.boxes import axis_aligned, box_coders, matchers, similarities, targets
from model_fns.detection.boxes.family import ModelBoxes
from model_fns.detection.detections import suppression
from model_fns.detection.losses import losses, mining
from model_fns.layers import crops as box_crops

tf1 = tf.compat.v1

HEAD_SCOPE = 'SecondStageBoxPredictor'

# The least overlap of a proposal and its matched box, as published.
MATCHED = 0.5


def class_axes(num_classes: int, box_size: int) -> Dict[str, ClassAxis]:
    """Return the layers of the heads whose outputs are those of classes, see `ClassColumns`.

    Args:
        num_classes: C.
        box_size: K.
    """
    logits = ClassAxis(num_classes, before=1, repeats=True)
    codes = ClassAxis(num_classes, block=box_size, repeats=True)
    return {
        rf'{HEAD_SCOPE}/(ClassPredictor|class_predictions)/': logits,
        rf'{HEAD_SCOPE}/(BoxEncodingPredictor|refined_locations)/': codes,
    }


@dataclasses.dataclass(frozen=True)
class Alignment:
    """Sampling of axis-aligned boxes by RoIAlign; see `crops.roi_align`.

    Attributes:
        strides: stride of each map of features.
        ratio: rows and columns of samples of a bin.
        aligned: True: centers of pixels are at halves.
    """

    strides: Sequence[int]
    ratio: int = 2
    aligned: bool = True


@dataclasses.dataclass(frozen=True)
class Crops:
    """Crops of the features of boxes to one size.

    Attributes:
        size: number of rows and columns of samples of a box, including its borders, or of bins.
        pool_kernel: kernel size of max pooling of the samples.
        pool_stride: stride of max pooling.
        family: family of the boxes.
        alignment: RoIAlign; None: a box is sampled from one border to the other.
        maps: number of maps that boxes are cropped from, the finest ones; None: all.
    """

    size: int
    pool_kernel: int = 1
    pool_stride: int = 1
    family: ModelBoxes = axis_aligned
    alignment: Optional[Alignment] = None
    maps: Optional[int] = None

    def __call__(
        self,
        maps: Sequence[tf.Tensor],
        boxes: tf.Tensor,
        image_size: Tuple[tf.Tensor, tf.Tensor],
    ) -> tf.Tensor:
        """Crop features [B * N, side, side, channels] of boxes; 0 outside of a map.

        Args:
            maps: [B, height, width, channels] each. Several maps are the levels of a pyramid, and
                each box is cropped from one of them, see `pyramid.assign_levels`.
            boxes: float32 [B, N, K].
            image_size: height and width of the padded input, float32.
        """
        batch, count = tf.unstack(tf.shape(boxes)[:2])
        flat = tf.reshape(boxes, [-1, self.family.SIZE])
        return self.crop_rows(maps, flat, tf.repeat(tf.range(batch), count), image_size)

    def crop_rows(
        self,
        maps: Sequence[tf.Tensor],
        boxes: tf.Tensor,
        images: tf.Tensor,
        image_size: Tuple[tf.Tensor, tf.Tensor],
    ) -> tf.Tensor:
        """Crop features [R, side, side, channels] of boxes of any images.

        Args:
            maps: [B, height, width, channels] each: one map, or the levels of a pyramid.
            boxes: float32 [R, K].
            images: int32 [R]: index in the batch of each box.
            image_size: height and width of the padded input, float32.
        """

        def crop(level: int, boxes: tf.Tensor, images: tf.Tensor) -> tf.Tensor:
            if self.alignment is None:
                return self.family.crop(maps[level], boxes, images, self.size, image_size)
            return box_crops.roi_align(
                maps[level],
                boxes,
                images,
                self.size,
                self.alignment.strides[level],
                self.alignment.ratio,
                self.alignment.aligned,
            )

        maps = maps[: self.maps]
        if len(maps) == 1:
            crops = crop(0, boxes, images)
        else:
            levels = pyramid.assign_levels(self.family.area(boxes), len(maps))
            crops = pyramid.crop_by_level(crop, len(maps), levels, boxes, images)
        if (self.pool_kernel, self.pool_stride) == (1, 1):
            return crops
        return tf.nn.max_pool2d(crops, self.pool_kernel, self.pool_stride, 'VALID')


@dataclasses.dataclass(frozen=True)
class BoxHead:
    """Head for classes and boxes, from the mean of a proposal's features.

    Attributes:
        style: style of fully connected layers: initial values and regularization.
        num_classes: C.
        shared: True: one box per proposal; False: one for each class.
        keep_prob: keep probability of dropout; 1: there is no dropout.
        code_size: number of values of a box code.
    """

    style: layers.LayerStyle
    num_classes: int
    shared: bool = False
    keep_prob: float = 1.0
    code_size: int = axis_aligned.SIZE

    def predict(self, features: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
        """Compute codes float32 [n, q, K], and logits [n, C + 1], background first.

        Args:
            features: [n, height, width, channels].
        """
        # The published name of this node, which programs ask for as an additional output.
        pooled = tf.reduce_mean(features, [1, 2], name='AvgPool')
        boxes = 1 if self.shared else self.num_classes
        with tf1.variable_scope(HEAD_SCOPE):
            codes = self._layer(pooled, boxes * self.code_size, 'BoxEncodingPredictor')
            logits = self._layer(pooled, self.num_classes + 1, 'ClassPredictor')
        return tf.reshape(codes, [-1, boxes, self.code_size]), logits

    def _layer(self, features: tf.Tensor, num_outputs: int, scope: str) -> tf.Tensor:
        # As published, each of the two layers has its own mask.
        kept = layers.dropout(features, self.keep_prob, self.style.is_training, f'{scope}/dropout')
        outputs = layers.fully_connected(kept, num_outputs, self.style.linear(), scope)
        return layers.to_float32(outputs)


@dataclasses.dataclass(frozen=True)
class BoxLosses:
    """Losses of the second stage: classification and localization of proposals.

    Attributes:
        coder: coder of boxes.
        classification: classification loss of each proposal.
        reduction: selects and weights proposals.
        localization_weight: factor of the localization loss.
        classification_weight: factor of the classification loss.
        family: family of the boxes.
        matched: least overlap of a proposal and its matched box.
    """

    coder: box_coders.BoxCoder
    classification: losses.ClassificationLoss
    reduction: mining.Reduction
    localization_weight: float = 1.0
    classification_weight: float = 1.0
    family: ModelBoxes = axis_aligned
    matched: float = MATCHED

    def targets(self, proposals: tf.Tensor, groundtruth: targets.Groundtruth) -> targets.Targets:
        """Assign targets to proposals, with a column for background.

        Args:
            proposals: float32 [B, N, K].
            groundtruth: groundtruth with boxes in pixels.
        """
        assigner = targets.TargetAssigner(
            similarities.iou(self.family),
            matchers.ArgMaxMatcher(self.matched),
            self.coder,
            family=self.family,
        )
        background = np.eye(1, 1 + groundtruth.classes.shape[-1], dtype=np.float32)[0]
        return assigner.assign(proposals, groundtruth, background)

    def __call__(
        self,
        codes: tf.Tensor,
        logits: tf.Tensor,
        proposals: tf.Tensor,
        counts: tf.Tensor,
        groundtruth: targets.Groundtruth,
    ) -> Tuple[tf.Tensor, tf.Tensor]:
        """Compute the localization and the classification loss, weighted scalars.

        Each is the mean over the images of the mean over an image's proposals.

        Args:
            codes: float32 [B, N, q, K].
            logits: float32 [B, N, C + 1].
            proposals: float32 [B, N, K].
            counts: int32 [B]: number of proposals of each image.
            groundtruth: groundtruth with boxes in pixels.
        """
        assigned = self.targets(proposals, groundtruth)
        classes = tf.argmax(assigned.class_targets, axis=-1, output_type=tf.int32)
        # Background takes the codes of the first class, with a weight of 0. It has none of its own.
        class_codes = suppression.select_by_class(codes, tf.maximum(classes - 1, 0))
        valid = tf.cast(tf.sequence_mask(counts, tf.shape(logits)[1]), tf.float32)
        images = tf.cast(tf.shape(logits)[0], tf.float32)
        # An image may have no proposal: none reaches first_stage_nms_score_threshold.
        float_counts = tf.cast(tf.maximum(counts, 1), tf.float32)[:, tf.newaxis]
        weights = valid / (float_counts * images)
        # Always with a delta of 1, as published: the config has only weights for this loss.
        boxes = losses.smooth_l1()(
            class_codes, assigned.box_targets, assigned.box_weights * weights
        )
        classification_losses = self.classification(
            logits, assigned.class_targets, assigned.class_weights * weights[..., tf.newaxis]
        )
        # All images are mined. The Object Detection API 2.8 returns inside of its loop over images,
        # so that only the losses of the first one count.
        classification, localization = self.reduction.reduce(
            mining.AnchorLosses(classification_losses, boxes),
            assigned,
            lambda: self.family.enclosing_boxes(proposals),
        )
        return localization * self.localization_weight, classification * self.classification_weight
