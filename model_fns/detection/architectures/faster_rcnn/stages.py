"""Parts of a two-stage detector: the backbone, the first and the second stage."""

from __future__ import annotations

import dataclasses
from typing import Callable, FrozenSet, List, Optional, Union

import tensorflow as tf

from model_fns import layers
from model_fns.detection import fields
from model_fns.detection.architectures.faster_rcnn import (
    context_attention,
    extractors,
    position_sensitive,
    regions,
    sampling,
    second_stage,
    third_stage,
)
from model_fns.detection.boxes import anchors
from model_fns.detection.detections import post_processing, suppression

tf1 = tf.compat.v1

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
        """Compute the features of images; see `Extractor.features`."""
        mode = is_training, self.trains_batch_norm, self._style(is_training)
        return self.extractor.features(images, self.stride, *mode)

    def box_features(self, crops: tf.Tensor, is_training: bool) -> tf.Tensor:
        """Compute the features of boxes, always with the same variables."""
        mode = is_training, self.trains_batch_norm, self._style(is_training)
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
        masks: third stage, for masks of detections; None: there is none.
        instance_crops: crops of the first stage's features for the third stage; None: it has the
            features of boxes.
        outputs: optional outputs, among `fields.DETECTION_FEATURES`, `fields.CROPPED_FEATURES`
            and, with masks, `fields.REFRAMED_MASKS`.
    """

    crops: Optional[second_stage.Crops]
    build_head: Callable[[bool], Head]
    losses: second_stage.BoxLosses
    post_processor: post_processing.PostProcessor
    sampler: Optional[sampling.BalancedSampler] = None
    context: Optional[context_attention.ContextAttention] = None
    masks: Optional[third_stage.ThirdStage] = None
    instance_crops: Optional[second_stage.Crops] = None
    outputs: FrozenSet[str] = frozenset()

    @property
    def drops_features(self) -> bool:
        """True if training applies dropout before classification."""
        return getattr(self.build_head(False), 'keep_prob', 1.0) < 1.0

    @property
    def looks_again(self) -> bool:
        """True if inference computes features of detections, not only of proposals."""
        return self.masks is not None or bool(self.outputs - {fields.REFRAMED_MASKS})
