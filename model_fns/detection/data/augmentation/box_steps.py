"""Augmentation steps that only change boxes."""

from __future__ import annotations

import functools
from typing import NamedTuple, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.task import Example
from model_fns.augmentation import randomness
from model_fns.detection import fields
from model_fns.detection.boxes import axis_aligned as box_ops
from model_fns.detection.boxes.family import find_family
from model_fns.detection.data.augmentation import frames, steps
from protos import augmentation_pb2

# Least side of a box, because boxes without sides have no scale.
_MIN_SIDE = 1e-6


class Jitter(NamedTuple):
    """Parameters of the change of the distances of a box's edges from its center.

    Args:
        low: smallest change, as a multiple of the ratio.
        high: largest change, as a multiple of the ratio.
        shared: index of the random number that each of ymin, xmin, ymax, xmax uses.
    """

    low: float = -1.0
    high: float = 1.0
    shared: Tuple[int, ...] = (0, 1, 2, 3)


_SEPARATE, _SYMMETRIC, _SYMMETRIC_XY = (0, 1, 2, 3), (0, 1, 0, 1), (0, 0, 0, 0)
_Config = augmentation_pb2.RandomJitterBoxes
_DEFAULT = Jitter()
JITTERS = {
    _Config.DEFAULT: _DEFAULT,
    _Config.EXPAND: Jitter(low=0.0),
    _Config.SHRINK: Jitter(high=0.0),
    _Config.EXPAND_SYMMETRIC: Jitter(low=0.0, shared=_SYMMETRIC),
    _Config.SHRINK_SYMMETRIC: Jitter(high=0.0, shared=_SYMMETRIC),
    _Config.EXPAND_SYMMETRIC_XY: Jitter(low=0.0, shared=_SYMMETRIC_XY),
    _Config.SHRINK_SYMMETRIC_XY: Jitter(high=0.0, shared=_SYMMETRIC_XY),
}


def random_jitter_boxes(
    example: Example,
    seed: tf.Tensor,
    ratio: float = 0.05,
    jitter: Jitter = JITTERS[_Config.DEFAULT],
) -> Example:
    """Change the distance of each edge from the center of its box by a random fraction.

    Boxes stay in the image. A box that grows symmetrically keeps its center, and stops at the first
    edge of the image that it reaches.

    Args:
        example: any example.
        seed: int64 [2].
        ratio: largest change, as a fraction of the distance.
        jitter: parameters of the change.

    Raises:
        errors.ConfigError: the boxes are rotated.
    """
    boxes = example[fields.BOXES]
    if find_family(boxes) is not box_ops:
        raise errors.ConfigError(
            f'it moves the sides of axis-aligned boxes, of 4 numbers; boxes of {boxes.shape[-1]} '
            'numbers are rotated and not supported.'
        )
    ycenter, xcenter, height, width = box_ops.to_center_size(boxes)
    center = tf.stack([ycenter, xcenter], -1)
    half = tf.maximum(tf.abs(tf.stack([height, width], -1)), _MIN_SIDE) / 2
    draws = randomness.uniform_tensor(seed, tf.stack([tf.shape(boxes)[0], 4]))
    changes = randomness.between(draws, ratio * jitter.low, ratio * jitter.high)
    factors = 1.0 + tf.gather(changes, jitter.shared, axis=1)
    if jitter.shared != _SEPARATE:
        room = tf.maximum(tf.minimum(center, 1.0 - center), 0.0) / half
        room = tf.gather(room, [0, 1, 0, 1], axis=1)
        if jitter.shared == _SYMMETRIC_XY:
            room = tf.reduce_min(room, -1, keepdims=True)
        factors = tf.minimum(factors, room)
    center, half = tf.tile(center, [1, 2]), tf.tile(half, [1, 2])
    jittered = center + np.float32([-1, -1, 1, 1]) * half * factors
    return {**example, fields.BOXES: tf.clip_by_value(jittered, 0.0, 1.0)}


@steps.register('scale_boxes_to_pixel_coordinates')
def scale_boxes_to_pixel_coordinates(example: Example, seed: tf.Tensor) -> Example:
    """Scale normalized boxes and keypoints to pixels.

    Args:
        example: any example.
        seed: int64 [2], not used.
    """
    del seed
    size, boxes = tf.cast(frames.image_size(example), tf.float32), example[fields.BOXES]
    result = {**example, fields.BOXES: find_family(boxes).scale(boxes, size[0], size[1])}
    if fields.KEYPOINTS in example:
        result[fields.KEYPOINTS] = example[fields.KEYPOINTS] * size
    return result


@steps.BUILDERS.register('random_jitter_boxes')
def _build_jitter(config: augmentation_pb2.RandomJitterBoxes, where: str) -> steps.Step:
    del where
    jitter = JITTERS[config.jitter_mode]
    return functools.partial(random_jitter_boxes, ratio=config.ratio, jitter=jitter)
