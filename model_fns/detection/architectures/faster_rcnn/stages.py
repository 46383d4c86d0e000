"""Parts of a two-stage detector: the backbone, the first and the second stage."""

from __future__ import annotations

import dataclasses
from typing import Callable, Dict, FrozenSet, List, Mapping, Optional, Tuple, Union

import tensorflow as tf

from estimator_lib.task_interfaces.checkpoint_mapping import ClassAxis
from model_fns import layers
from model_fns.detection import fields
from model_fns.detection.architectures.faster_rcnn import (
    context_attention,
    extractors,
    keypoint_heatmaps,
    position_sensitive,
    regions,
    sampling,
    second_stage,
    third_stage,
)
from model_fns.detection.boxes import anchors, targets
from model_fns.detection.detections import post_processing, suppression

tf1 = tf.compat.v1

MASK_LOSS = 'BoxClassifierLoss/mask_loss'
KEYPOINT_LOSS = 'BoxClassifierLoss/keypoint_loss'

Head = Union[second_stage.BoxHead, position_sensitive.PositionSensitiveHead]


@dataclasses.dataclass(frozen=True)
class Backbone:
    """Backbone in two stages.

    Attributes:
        extractor: extractor of features.
        stride: stride of the first stage's features.
        trains_batch_norm: True: training uses and updates statistics of the batch.
        build_style: is_training -> style of its layers; None: the published one.
    """

    extractor: extractors.Extractor
    stride: int = 16
    trains_batch_norm: bool = False
    build_style: Optional[Callable[[bool], layers.LayerStyle]] = None

    def features(self, images: tf.Tensor, is_training: bool) -> List[tf.Tensor]:
        """Compute the features of images; see `Extractor.features`.

        Returns:
            [B, height', width', channels'] each.
        """
        mode = is_training, self.trains_batch_norm, self._style(is_training)
        return self.extractor.features(images, self.stride, *mode)

    def box_features(self, crops: tf.Tensor, is_training: bool) -> tf.Tensor:
        """Compute the features of boxes, always with the same variables.

        Returns:
            [n, height', width', channels'].
        """
        mode = is_training, self.trains_batch_norm, self._style(is_training)
        # Masks compute features of detections a second time, with the layers of the proposals.
        with tf1.variable_scope(tf1.get_variable_scope(), reuse=tf1.AUTO_REUSE):
            return self.extractor.box_features(crops, *mode)

    def _style(self, is_training: bool) -> Optional[layers.LayerStyle]:
        return None if self.build_style is None else self.build_style(is_training)


@dataclasses.dataclass(frozen=True)
class FirstStage:
    """First stage, from features to proposals.

    Attributes:
        anchor_generator: generates anchors in pixels, for the maps of features.
        build_head: is_training -> head.
        rules: rules of the suppression of proposals.
        losses: losses of the anchors.
        clips_anchors: True: anchors are clipped to the input in training too; False: training
            ignores those that extend beyond it.
    """

    anchor_generator: anchors.AnchorGenerator
    build_head: Callable[[bool], regions.RegionHead]
    rules: suppression.Rules
    losses: regions.RegionLosses
    clips_anchors: bool = False


@dataclasses.dataclass(frozen=True)
class ThirdStage:
    """Third stage, from boxes to their masks and keypoints; there is at least one of them.

    Attributes:
        masks: head and loss of masks; None: there are none.
        keypoints: head and loss of keypoints; None: there are none.
        crops: crops of the first stage's features for the heads; None: they have the features of
            the second stage.
    """

    masks: Optional[third_stage.Masks] = None
    keypoints: Optional[keypoint_heatmaps.Keypoints] = None
    crops: Optional[second_stage.Crops] = None

    @property
    def loss_names(self) -> Tuple[str, ...]:
        """Names of the values of `losses`."""
        parts = ((MASK_LOSS, self.masks), (KEYPOINT_LOSS, self.keypoints))
        return tuple(name for name, part in parts if part is not None)

    @property
    def outputs(self) -> FrozenSet[str]:
        """Names of `fields` of its outputs."""
        parts = (
            (fields.DETECTION_MASKS, self.masks),
            (fields.DETECTION_KEYPOINTS, self.keypoints),
        )
        return frozenset(name for name, part in parts if part is not None)

    @property
    def is_by_row(self) -> bool:
        """True if in training the predictions of a row do not depend on the other rows."""
        parts = [part for part in (self.masks, self.keypoints) if part is not None]
        return all(third_stage.is_by_row(part.build_head(True).style) for part in parts)

    def predict(self, features: tf.Tensor, is_training: bool) -> Dict[str, tf.Tensor]:
        """Compute the logits of boxes, by the names of `fields`.

        Args:
            features: [R, height, width, channels].
            is_training: True: batch norm uses the batch's statistics.
        """
        logits = {}
        if self.masks is not None:
            logits[fields.MASK_LOGITS] = self.masks.build_head(is_training).predict(features)
        if self.keypoints is not None:
            head = self.keypoints.build_head(is_training)
            logits[fields.KEYPOINT_LOGITS] = head.predict(features)
        return logits

    def losses(
        self,
        predictions: Mapping[str, tf.Tensor],
        assigned: targets.Targets,
        groundtruth: targets.Groundtruth,
    ) -> Dict[str, tf.Tensor]:
        """Compute the weighted losses, scalars by the names of `loss_names`.

        Args:
            predictions: logits, their rows and their boxes.
            assigned: the second stage's targets of the boxes.
            groundtruth: groundtruth in pixels, with masks and keypoints.
        """
        rows, boxes = predictions[fields.INSTANCE_ROWS], predictions[fields.INSTANCE_BOXES]
        values = {}
        if self.masks is not None:
            values[MASK_LOSS] = self.masks.loss(
                predictions[fields.MASK_LOGITS], rows, boxes, assigned, groundtruth
            )
        if self.keypoints is not None:
            values[KEYPOINT_LOSS] = self.keypoints.loss(
                predictions[fields.KEYPOINT_LOGITS], rows, boxes, assigned, groundtruth
            )
        return values

    def detect(
        self, logits: Mapping[str, tf.Tensor], boxes: tf.Tensor, classes: tf.Tensor
    ) -> Dict[str, tf.Tensor]:
        """Compute the masks and keypoints of detections, by the names of `fields`.

        Args:
            logits: float32 [R, ...] of the boxes, from `predict`.
            boxes: float32 [R, 4], in pixels.
            classes: int32 [R], from 0.

        Returns:
            Values [R, ...]; keypoints in pixels.
        """
        values = {}
        if self.masks is not None:
            values[fields.DETECTION_MASKS] = third_stage.probabilities(
                logits[fields.MASK_LOGITS], classes
            )
        if self.keypoints is not None:
            found = keypoint_heatmaps.find(logits[fields.KEYPOINT_LOGITS], boxes)
            values[fields.DETECTION_KEYPOINTS], values[fields.DETECTION_KEYPOINT_SCORES] = found
        return values


@dataclasses.dataclass(frozen=True)
class SecondStage:
    """Second stage, from proposals to detections.

    Attributes:
        crops: crops of the first stage's features; None: the second part of the backbone runs on
            whole images, and the head pools its features.
        build_head: is_training -> head.
        losses: losses of the proposals.
        post_processor: converts raw predictions to detections.
        sampler: sampler of the proposals in training; None: all are used.
        context: attention of proposals to features of other images; None: there is none.
        third: third stage, for masks and keypoints of detections; None: there is none.
        outputs: optional outputs, among `fields.DETECTION_FEATURES`, `fields.CROPPED_FEATURES`
            and, with masks, `fields.REFRAMED_MASKS`.
    """

    crops: Optional[second_stage.Crops]
    build_head: Callable[[bool], Head]
    losses: second_stage.BoxLosses
    post_processor: post_processing.PostProcessor
    sampler: Optional[sampling.BalancedSampler] = None
    context: Optional[context_attention.ContextAttention] = None
    third: Optional[ThirdStage] = None
    outputs: FrozenSet[str] = frozenset()

    def class_axes(self, num_classes: int, code_size: int) -> Dict[str, ClassAxis]:
        """Return the layers whose outputs are those of classes, see `ClassColumns`."""
        masks = None if self.third is None else self.third.masks
        of_masks = {} if masks is None else masks.build_head(False).class_axes()
        return {**second_stage.class_axes(num_classes, code_size), **of_masks}

    @property
    def drops_features(self) -> bool:
        """True if training applies dropout before classification."""
        return getattr(self.build_head(False), 'keep_prob', 1.0) < 1.0

    @property
    def looks_again(self) -> bool:
        """True if inference computes features of detections, not only of proposals."""
        return self.third is not None or bool(self.outputs - {fields.REFRAMED_MASKS})
