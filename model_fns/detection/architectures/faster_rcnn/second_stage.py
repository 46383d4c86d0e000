"""The second stage: features of each proposal, its classes and boxes, and their losses.

B is the batch size, N the number of proposals of an image, C that of classes, M that of
groundtruth boxes, q is 1, or C where boxes are by class, K the number of numbers of a box. Boxes
are in pixels of the padded input.
"""

from __future__ import annotations

import dataclasses
from typing import Sequence, Tuple

import numpy as np
import tensorflow as tf

from model_fns import layers
from model_fns.detection.architectures.faster_rcnn import pyramid
from model_fns.detection.boxes import axis_aligned, box_coders, matchers, similarities, targets
from model_fns.detection.boxes.family import Boxes, ModelBoxes
from model_fns.detection.detections import suppression
from model_fns.detection.losses import losses, mining

tf1 = tf.compat.v1

HEAD_SCOPE = 'SecondStageBoxPredictor'

# The least overlap of a proposal and the box that it is matched with, as published.
MATCHED = 0.5


@dataclasses.dataclass(frozen=True)
class Crops:
    """How the features of a box are brought to one size.

    Attributes:
        size: rows and columns at which a box is sampled, its borders included.
        pool_kernel: of the largest values that are taken of the samples.
        pool_stride: of the same.
        family: of the boxes.
    """

    size: int
    pool_kernel: int = 1
    pool_stride: int = 1
    family: ModelBoxes = axis_aligned

    def __call__(
        self,
        maps: Sequence[tf.Tensor],
        boxes: tf.Tensor,
        image_size: Tuple[tf.Tensor, tf.Tensor],
    ) -> tf.Tensor:
        """Return features [B * N, side, side, channels] of boxes; outside of a map they are 0.

        Args:
            maps: [B, height, width, channels] each; of several, the levels of a pyramid, each box
                is read from one, see `pyramid.level_of`.
            boxes: float32 [B, N, K].
            image_size: height and width of the padded input, float32.
        """
        batch, count = tf.unstack(tf.shape(boxes)[:2])
        flat = tf.reshape(boxes, [-1, self.family.SIZE])
        return self.of_rows(maps, flat, tf.repeat(tf.range(batch), count), image_size)

    def of_rows(
        self,
        maps: Sequence[tf.Tensor],
        boxes: tf.Tensor,
        images: tf.Tensor,
        image_size: Tuple[tf.Tensor, tf.Tensor],
    ) -> tf.Tensor:
        """Return features [R, side, side, channels] of boxes of any images.

        Args:
            maps: see above.
            boxes: float32 [R, K].
            images: int32 [R]: the place in the batch of each.
            image_size: height and width of the padded input, float32.
        """

        def crop(features: tf.Tensor, boxes: tf.Tensor, images: tf.Tensor) -> tf.Tensor:
            return self.family.crop(features, boxes, images, self.size, image_size)

        if len(maps) == 1:
            crops = crop(maps[0], boxes, images)
        else:
            levels = pyramid.level_of(self.family.area(boxes), len(maps))
            crops = pyramid.by_level(crop, maps, levels, boxes, images)
        if (self.pool_kernel, self.pool_stride) == (1, 1):
            return crops
        return tf.nn.max_pool2d(crops, self.pool_kernel, self.pool_stride, 'VALID')


@dataclasses.dataclass(frozen=True)
class BoxHead:
    """Classes and boxes from the mean of a proposal's features.

    Attributes:
        style: of fully connected layers: initial values and regularization.
        num_classes: C.
        shared: one box for a proposal, not one for each class.
        keep_prob: of a feature in training; 1: there is no dropout.
        code_size: numbers of a box's code.
    """

    style: layers.LayerStyle
    num_classes: int
    shared: bool = False
    keep_prob: float = 1.0
    code_size: int = axis_aligned.SIZE

    def predict(self, features: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
        """Return codes float32 [n, q, K], and logits [n, C + 1], background first.

        Args:
            features: [n, height, width, channels].
        """
        pooled = tf.reduce_mean(features, [1, 2], name='AvgPool')
        boxes = 1 if self.shared else self.num_classes
        with tf1.variable_scope(HEAD_SCOPE):
            codes = self._layer(pooled, boxes * self.code_size, 'BoxEncodingPredictor')
            logits = self._layer(pooled, self.num_classes + 1, 'ClassPredictor')
        return tf.reshape(codes, [-1, boxes, self.code_size]), logits

    def _layer(self, features: tf.Tensor, num_outputs: int, scope: str) -> tf.Tensor:
        kept = layers.dropout(features, self.keep_prob, self.style.is_training, f'{scope}/dropout')
        outputs = layers.fully_connected(kept, num_outputs, self.style.linear(), scope)
        return layers.to_float32(outputs)


@dataclasses.dataclass(frozen=True)
class BoxLosses:
    """What the second stage learns: the class of each proposal, and where its object is exactly.

    Attributes:
        coder: of boxes.
        classification: of each proposal.
        reduction: which proposals count.
        localization_weight: factor of the loss of boxes.
        classification_weight: factor of the loss of classes.
        family: of the boxes.
        matched: the least overlap of a proposal and the box that it is matched with.
    """

    coder: box_coders.BoxCoder
    classification: losses.ClassificationLoss
    reduction: mining.Reduction
    localization_weight: float = 1.0
    classification_weight: float = 1.0
    family: Boxes = axis_aligned
    matched: float = MATCHED

    def targets(self, proposals: tf.Tensor, groundtruth: targets.Groundtruth) -> targets.Targets:
        """What each proposal should have predicted, with a column for background.

        Args:
            proposals: float32 [B, N, K].
            groundtruth: boxes in pixels.
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
        """Return the losses of boxes and of classes, weighted scalars.

        Each is the mean over the images of the mean over an image's proposals.

        Args:
            codes: float32 [B, N, q, K].
            logits: float32 [B, N, C + 1].
            proposals: float32 [B, N, K].
            counts: int32 [B]: how many of them there are.
            groundtruth: boxes in pixels.
        """
        assigned = self.targets(proposals, groundtruth)
        classes = tf.argmax(assigned.class_targets, axis=-1, output_type=tf.int32)
        of_class = suppression.select_by_class(codes, tf.maximum(classes - 1, 0))
        valid = tf.cast(tf.sequence_mask(counts, tf.shape(logits)[1]), tf.float32)
        images = tf.cast(tf.shape(logits)[0], tf.float32)
        of_counts = tf.cast(tf.maximum(counts, 1), tf.float32)[:, tf.newaxis]
        weights = valid / (of_counts * images)
        boxes = losses.smooth_l1()(of_class, assigned.box_targets, assigned.box_weights * weights)
        of_classes = self.classification(
            logits, assigned.class_targets, assigned.class_weights * weights[..., tf.newaxis]
        )
        classification, localization = self.reduction.reduce(
            mining.AnchorLosses(of_classes, boxes),
            assigned,
            lambda: self.family.enclosing_boxes(proposals),
        )
        return localization * self.localization_weight, classification * self.classification_weight
