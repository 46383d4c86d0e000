"""How alike a groundtruth box and an anchor are."""

from __future__ import annotations

from typing import Callable, Optional

import tensorflow as tf

from estimator_lib import errors
from model_fns.detection.boxes import axis_aligned as box_ops
from protos import target_assignment_pb2

# (groundtruth [B, M, 4], anchors [A, 4] or [B, A, 4], scores [B, M] or None) -> [B, M, A].
Similarity = Callable[[tf.Tensor, tf.Tensor, Optional[tf.Tensor]], tf.Tensor]


def iou(
    groundtruth: tf.Tensor, anchors: tf.Tensor, scores: Optional[tf.Tensor] = None
) -> tf.Tensor:
    """Intersection over union."""
    del scores
    return box_ops.pairwise_iou(groundtruth, anchors)


def ioa(
    groundtruth: tf.Tensor, anchors: tf.Tensor, scores: Optional[tf.Tensor] = None
) -> tf.Tensor:
    """Intersection over the anchor's area."""
    del scores
    return box_ops.pairwise_ioa(groundtruth, anchors)


def negative_squared_distance(
    groundtruth: tf.Tensor, anchors: tf.Tensor, scores: Optional[tf.Tensor] = None
) -> tf.Tensor:
    """Minus the squared Euclidean distance of the four coordinates."""
    del scores
    first = groundtruth[..., :, tf.newaxis, :]
    second = anchors[..., tf.newaxis, :, :]
    return -tf.reduce_sum(tf.math.squared_difference(first, second), axis=-1)


def thresholded_iou(threshold: float) -> Similarity:
    """The groundtruth box's score where the IoU is above a threshold, else 0.

    Args:
        threshold: in [0, 1].
    """

    def compare(
        groundtruth: tf.Tensor, anchors: tf.Tensor, scores: Optional[tf.Tensor] = None
    ) -> tf.Tensor:
        if scores is None:
            raise ValueError('thresholded IoU needs the scores of the groundtruth boxes')
        near = box_ops.pairwise_iou(groundtruth, anchors) > threshold
        return tf.where(near, scores[..., tf.newaxis], tf.zeros([]))

    return compare


def build_similarity(config: target_assignment_pb2.RegionSimilarityCalculator) -> Similarity:
    """The similarity that a config describes.

    Raises:
        errors.ConfigError: it describes none.
    """
    kind = config.WhichOneof('region_similarity')
    simple = {
        'iou_similarity': iou,
        'ioa_similarity': ioa,
        'neg_sq_dist_similarity': negative_squared_distance,
    }
    if kind in simple:
        return simple[kind]
    if kind == 'thresholded_iou_similarity':
        return thresholded_iou(config.thresholded_iou_similarity.iou_threshold)
    raise errors.ConfigError(
        f'similarity_calculator: empty; expected {", ".join(sorted(simple))} or '
        'thresholded_iou_similarity.'
    )
