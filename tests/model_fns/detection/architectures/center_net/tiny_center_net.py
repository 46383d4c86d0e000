"""Groundtruth of two images, and the parts of a CenterNet that are learned on it."""

import numpy as np
import tensorflow as tf

from model_fns.detection.architectures.center_net import heads, keypoints, objects
from model_fns.detection.boxes.targets import Groundtruth
from model_fns.detection.losses import losses
from model_fns.detection.losses.heatmap_losses import PenaltyReducedFocalLoss

NUM_CLASSES = 3
HEIGHT, WIDTH = 12, 16  # of the grid
# Of each box: in cells, its class from 0, its weight. Rows beyond `COUNTS` are padding.
BOXES = np.array(
    [
        [[1, 2, 7, 6.5], [0.5, 4, 11, 15], [2, 2.25, 6, 6], [0, 0, 0, 0]],
        [[3, 1, 9.75, 12], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]],
    ],
    np.float32,
)
CLASSES = np.array([[0, 2, 0, 0], [1, 0, 0, 0]])
WEIGHTS = np.array([[1, 1, 0.5, 0], [1, 0, 0, 0]], np.float32)
COUNTS = (3, 1)
# In cells; of images with boxes of classes 0 and 2 alone.
POINTS = np.full([2, 4, 3, 2], np.nan, np.float32)
POINTS[0, 0] = [[2.5, 3.25], [np.nan, np.nan], [6.9, 0.1]]
POINTS[0, 2] = [[4, 4], [11.5, 15.5], [3.75, 2.5]]
POINTS[0, 1] = [[5, 5], [6, 6], [7, 7]]  # of another class than the task's
# What of the input of 48 x 64 pixels is image.
TRUE_SHAPES = np.array([[48, 64, 3], [41, 50, 3]], np.int32)
SHAPES = (
    (objects.CENTER, NUM_CLASSES),
    (objects.SIZE, 2),
    (objects.OFFSET, 2),
    ('pose/keypoint/heatmap', 2),
    ('pose/keypoint/regression', 4),
)


def groundtruth():
    sides = np.array([HEIGHT, WIDTH], np.float32)
    valid = np.arange(4) < np.array(COUNTS)[:, np.newaxis]
    return Groundtruth(
        boxes=tf.constant(BOXES / np.tile(sides, 2)),
        classes=tf.constant(
            np.eye(NUM_CLASSES, dtype=np.float32)[CLASSES] * valid[..., np.newaxis]
        ),
        weights=tf.constant(WEIGHTS),
        valid=tf.constant(valid),
        keypoints=tf.constant(POINTS / sides),
    )


def of_objects(**changes):
    settings = {
        'num_classes': NUM_CLASSES,
        'center_loss': PenaltyReducedFocalLoss(2.0, 4.0),
        'box_loss': losses.l1,
        'center_weight': 1.5,
        'size_weight': 0.1,
        'offset_weight': 2.0,
        'least_overlap': 0.6,
        'max_detections': 5,
        'peak_window': 3,
        'center_head': heads.Head(objects.CENTER, NUM_CLASSES),
        'size_head': heads.Head(objects.SIZE, 2),
        'offset_head': heads.Head(objects.OFFSET, 2),
    }
    return objects.Objects(**{**settings, **changes})


def keypoint_task(**changes):
    """Build the task of the keypoints 2 and 0 of an example's three, for the first class."""
    settings = {
        'name': 'pose',
        'class_index': 0,
        'keypoints': (2, 0),
        'deviations': (0.5, 2.0),
        'heatmap_loss': PenaltyReducedFocalLoss(2.0, 4.0),
        'point_loss': losses.l1,
        'heatmap_weight': 3.0,
        'offset_weight': 0.5,
        'regression_weight': 0.25,
        'radius': 2,
        'own_offsets': True,
        'heatmap_head': heads.Head('pose/keypoint/heatmap', 2),
        'offset_head': heads.Head('pose/keypoint/offset', 4),
        'regression_head': heads.Head('pose/keypoint/regression', 4),
    }
    return keypoints.KeypointTask(**{**settings, **changes})


def predictions(own_offsets=True, maps=2, seed=0):
    """Return arrays [2, HEIGHT, WIDTH, channels] by head, for two feature maps."""
    random = np.random.RandomState(seed)
    shapes = [*SHAPES, ('pose/keypoint/offset', 4 if own_offsets else 2)]
    return {
        name: [
            random.normal(size=[2, HEIGHT, WIDTH, channels]).astype(np.float32) for _ in range(maps)
        ]
        for name, channels in shapes
    }


def constants(arrays):
    return {name: [tf.constant(one) for one in maps] for name, maps in arrays.items()}


def run(build):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        return session.run(build())
