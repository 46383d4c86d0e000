from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.config.section import Section
from model_fns.detection.boxes import axis_aligned, rotated, similarities
from protos import target_assignment_pb2

tf1 = tf.compat.v1

GROUNDTRUTH = [[[0, 0, 2, 2], [0, 0, 1, 4]]]
ANCHORS = [[1, 1, 3, 3], [0, 0, 2, 2], [5, 5, 5, 5]]


def compare(kind, scores=None, **options):
    config = target_assignment_pb2.RegionSimilarityCalculator()
    message = getattr(config, kind)
    message.SetInParent()
    for name, value in options.items():
        setattr(message, name, value)
    with tf.Graph().as_default(), tf1.Session() as session:
        similarity = similarities.build_similarity(Section(config, 'here'), axis_aligned)(
            tf.constant(GROUNDTRUTH, tf.float32),
            tf.constant(ANCHORS, tf.float32),
            None if scores is None else tf.constant(scores, tf.float32),
        )
        return session.run(similarity)


def test_iou():
    np.testing.assert_allclose(
        compare('iou_similarity'), [[[1 / 7, 1, 0], [0, 1 / 3, 0]]], rtol=1e-6
    )


def test_ioa():
    np.testing.assert_allclose(
        compare('ioa_similarity'), [[[1 / 4, 1, 0], [0, 1 / 2, 0]]], rtol=1e-6
    )


def test_negative_squared_distance():
    np.testing.assert_array_equal(
        compare('neg_sq_dist_similarity'), [[[-4, 0, -68], [-7, -5, -67]]]
    )


@pytest.mark.parametrize(
    ('threshold', 'expected'),
    [(0.5, [[0, 0.7, 0], [0, 0, 0]]), (0.1, [[0.7, 0.7, 0], [0, 0.4, 0]]), (1.0, np.zeros([2, 3]))],
)
def test_thresholded_iou(threshold, expected):
    found = compare('thresholded_iou_similarity', [[0.7, 0.4]], iou_threshold=threshold)
    np.testing.assert_allclose(found, [expected])


def test_thresholded_iou_needs_scores():
    with pytest.raises(ValueError, match='needs the scores'):
        compare('thresholded_iou_similarity')


def test_an_empty_config():
    with pytest.raises(errors.ConfigError, match='^here.similarity: empty; expected one of ioa_'):
        similarities.build_similarity(
            Section(target_assignment_pb2.RegionSimilarityCalculator(), 'here.similarity'),
            axis_aligned,
        )


def test_rotated_boxes_within_an_angle():
    config = target_assignment_pb2.RegionSimilarityCalculator()
    config.iou_similarity.max_angle_difference = 0.5
    similarity = similarities.build_similarity(Section(config, 'here'), rotated)
    boxes = tf.constant([[[10.0, 10, 4, 8, 1.5]]])
    # Turned by 0.4, by 0.6, and to the other side of a right angle: 0.2 away.
    anchors = tf.constant([[10.0, 10, 4, 8, 1.1], [10, 10, 4, 8, 0.9], [10, 10, 4, 8, -1.4416]])
    found = similarity(boxes, anchors, None)[0, 0].numpy()
    expected = rotated.pairwise_iou(boxes, anchors)[0, 0].numpy()
    np.testing.assert_allclose(found, [expected[0], 0, expected[2]])
    assert np.all(expected > 0.5)
