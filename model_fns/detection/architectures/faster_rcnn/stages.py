"""What the parts of a two-stage detector are made of: the backbone, the first and second stage."""

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
    """The network in two stages.

    Attributes:
        extractor: which.
        stride: of the first stage's features.
        trains_batch_norm: whether training uses and updates statistics of the batch.
        style_for: is_training -> style of its layers; None: the published one.
    """

    extractor: extractors.Extractor
    stride: int = 16
    trains_batch_norm: bool = False
    style_for: Optional[Callable[[bool], layers.LayerStyle]] = None

    def features(self, images: tf.Tensor, is_training: bool) -> List[tf.Tensor]:
        """See `Extractor.features`."""
        mode = is_training, self.trains_batch_norm, self._style(is_training)
        return self.extractor.features(images, self.stride, *mode)

    def box_features(self, crops: tf.Tensor, is_training: bool) -> tf.Tensor:
        """See `Extractor.box_features`; each time by the same variables."""
        mode = is_training, self.trains_batch_norm, self._style(is_training)
        with tf1.variable_scope(tf1.get_variable_scope(), reuse=tf1.AUTO_REUSE):
            return self.extractor.box_features(crops, *mode)

    def _style(self, is_training: bool) -> Optional[layers.LayerStyle]:
        return None if self.style_for is None else self.style_for(is_training)


@dataclasses.dataclass(frozen=True)
class FirstStage:
    """From features to proposals.

    Attributes:
        anchor_generator: in pixels, for the maps of the features.
        head_for: is_training -> head.
        rules: which proposals are kept.
        losses: of the anchors.
        clips_anchors: anchors are cut off at the input in training too; else those that reach over
            it are left out.
    """

    anchor_generator: anchors.AnchorGenerator
    head_for: Callable[[bool], regions.RegionHead]
    rules: suppression.Rules
    losses: regions.RegionLosses
    clips_anchors: bool = False


@dataclasses.dataclass(frozen=True)
class SecondStage:
    """From proposals to detections.

    Attributes:
        crops: of the first stage's features; None: the second part of the backbone runs on whole
            images, and the head pools what it needs.
        head_for: is_training -> head.
        losses: of the proposals.
        post_processor: raw predictions to detections.
        sampler: of the proposals that are learned from; None: all.
        context: attention of proposals to features of other images; None: there is none.
        masks: of detections; None: there are none.
        outputs: those of `fields.DETECTION_FEATURES`, `fields.CROPPED_FEATURES` and, with masks,
            `fields.REFRAMED_MASKS` that are given.
    """

    crops: Optional[second_stage.Crops]
    head_for: Callable[[bool], Head]
    losses: second_stage.BoxLosses
    post_processor: post_processing.PostProcessor
    sampler: Optional[sampling.BalancedSampler] = None
    context: Optional[context_attention.ContextAttention] = None
    masks: Optional[third_stage.ThirdStage] = None
    outputs: FrozenSet[str] = frozenset()

    @property
    def drops_features(self) -> bool:
        """Whether training drops features before they are classified."""
        return getattr(self.head_for(False), 'keep_prob', 1.0) < 1.0

    @property
    def looks_again(self) -> bool:
        """Whether inference computes features of detections, not of proposals alone."""
        return self.masks is not None or bool(self.outputs - {fields.REFRAMED_MASKS})
