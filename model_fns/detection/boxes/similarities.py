"""Similarities of groundtruth boxes and anchors."""

from __future__ import annotations

from typing import Callable, Optional

import tensorflow as tf

from estimator_lib.config.section import Section
from model_fns.detection.boxes import rotated
from model_fns.detection.boxes.family import Boxes
from protos import target_assignment_pb2

# For boxes of K values: (groundtruth [B, M, K], anchors [A, K] or [B, A, K], scores [B, M] or None)
# -> [B, M, A].
Similarity = Callable[[tf.Tensor, tf.Tensor, Optional[tf.Tensor]], tf.Tensor]


def iou(family: Boxes) -> Similarity:
    """Build the similarity that is intersection over union."""
    return lambda groundtruth, anchors, scores=None: family.pairwise_iou(groundtruth, anchors)


def ioa(family: Boxes) -> Similarity:
    """Build the similarity that is intersection over the area of the anchor."""
    return lambda groundtruth, anchors, scores=None: family.pairwise_ioa(groundtruth, anchors)


def negative_squared_distance(
    groundtruth: tf.Tensor, anchors: tf.Tensor, scores: Optional[tf.Tensor] = None
) -> tf.Tensor:
    """Compute minus the squared Euclidean distance of the values of the boxes.

    Returns:
        [..., N, A] of [..., N, K] and [..., A, K].
    """
    del scores
    first = groundtruth[..., :, tf.newaxis, :]
    second = anchors[..., tf.newaxis, :, :]
    return -tf.reduce_sum(tf.math.squared_difference(first, second), axis=-1)


def thresholded_iou(family: Boxes, threshold: float) -> Similarity:
    """Build a similarity: the score of the groundtruth box if the IoU is above a threshold, else 0.

    Args:
        family: family of the boxes.
        threshold: in [0, 1].

    Raises:
        ValueError: the similarity is called without scores.
    """

    def compare(
        groundtruth: tf.Tensor, anchors: tf.Tensor, scores: Optional[tf.Tensor] = None
    ) -> tf.Tensor:
        if scores is None:
            raise ValueError('thresholded IoU needs the scores of the groundtruth boxes')
        near = family.pairwise_iou(groundtruth, anchors) > threshold
        return tf.where(near, scores[..., tf.newaxis], tf.zeros([]))

    return compare


def within_angle(similarity: Similarity, most: float) -> Similarity:
    """Build a similarity of rotated boxes that is 0 if the angle of their long sides is too large.

    Args:
        similarity: similarity of boxes in their long edge form.
        most: the largest angle, in radians; from pi / 2 on it has no effect.
    """

    def compare(
        groundtruth: tf.Tensor, anchors: tf.Tensor, scores: Optional[tf.Tensor] = None
    ) -> tf.Tensor:
        # The published branch gives such pairs an IoU of -1, and so ignores their anchors in
        # training.
        first, second = groundtruth[..., :, tf.newaxis, 4], anchors[..., tf.newaxis, :, 4]
        near = tf.abs(rotated.wrap(first - second)) <= most
        return tf.where(near, similarity(groundtruth, anchors, scores), tf.zeros([]))

    return compare


def build_similarity(
    section: Section[target_assignment_pb2.RegionSimilarityCalculator], family: Boxes
) -> Similarity:
    """Build the similarity that a config describes.

    Args:
        section: configuration message.
        family: family of the boxes.

    Raises:
        errors.ConfigError: the message is empty.
    """
    config = section.message
    kind = config.WhichOneof('region_similarity')
    if kind == 'iou_similarity':
        if config.iou_similarity.HasField('max_angle_difference'):
            return within_angle(iou(family), config.iou_similarity.max_angle_difference)
        return iou(family)
    if kind == 'ioa_similarity':
        return ioa(family)
    if kind == 'neg_sq_dist_similarity':
        return negative_squared_distance
    if kind == 'thresholded_iou_similarity':
        return thresholded_iou(family, config.thresholded_iou_similarity.iou_threshold)
    known = ', '.join(sorted(field.name for field in config.DESCRIPTOR.fields))
    raise section.error('', f'empty; expected one of {known}.')
