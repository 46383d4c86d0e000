"""Rotations of images and groundtruth about the center, by any angle or by 90 degrees."""

from __future__ import annotations

import functools
from typing import Tuple

import tensorflow as tf

from estimator_lib.task import Example
from model_fns.augmentation import randomness
from model_fns.detection import fields
from model_fns.detection.boxes.family import find_family
from model_fns.detection.data import examples
from model_fns.detection.data.augmentation import flips, frames, steps
from protos import augmentation_pb2

_WHOLE = (0.0, 0.0, 1.0, 1.0)


def random_rotation(
    example: Example,
    seed: tf.Tensor,
    angles: Tuple[float, float],
    min_area_inside: float = 0.7,
    probability: float = 1.0,
) -> Example:
    """Rotate image and groundtruth by a random angle; the size stays.

    Objects are dropped if their center or too much of their area is outside afterwards. Rotated
    boxes rotate. Axis-aligned boxes become the boxes that enclose the rotated boxes, clipped to the
    image. Keypoints outside become unlabeled.

    Args:
        example: any example.
        seed: int64 [2].
        angles: the least and the largest angle, in radians, clockwise.
        min_area_inside: the least fraction of an object's area that must stay inside.
        probability: probability of rotating.
    """
    happens, uniform = randomness.uniforms(seed, 2)
    angle = randomness.between(uniform, *angles)
    return tf.cond(
        happens < probability,
        functools.partial(rotated, example, angle, min_area_inside),
        functools.partial(dict, example),
    )


def random_quarter_turns(example: Example, seed: tf.Tensor, probability: float = 1.0) -> Example:
    """Rotate image and groundtruth by 0, 90, 180 or 270 degrees, equally probable.

    Args:
        example: any example.
        seed: int64 [2].
        probability: probability of rotating.
    """
    happens, uniform = randomness.uniforms(seed, 2)
    count = randomness.integer(uniform, 0, 3)
    for turn in range(3):
        # Up to three quarter turns, each of which is exact; a warp by 180 degrees would resample.
        turns = tf.logical_and(happens < probability, count > turn)
        example = flips.quarter_turn(example, tf.cast(turns, tf.int32))
    return example


def rotated(example: Example, angle: tf.Tensor, min_area_inside: float) -> Example:
    """Rotate an example about the center of its image; see `random_rotation`.

    Args:
        example: any example.
        angle: float32 scalar, radians, clockwise.
        min_area_inside: the least fraction of an object's area that must stay inside.
    """
    image, size = example[fields.IMAGE], tf.cast(frames.image_size(example), tf.float32)
    cosine, sine = tf.cos(angle), tf.sin(angle)
    # Acts on points (y, x): a clockwise rotation as seen, since y points downwards.
    matrix = tf.stack([tf.stack([cosine, sine]), tf.stack([-sine, cosine])])
    # Boxes are about edges of pixels, and `warp` is about their centers, half a pixel away.
    center = size / 2.0
    shift = center - tf.linalg.matvec(matrix, center)
    back, pixel_center = tf.transpose(matrix), (size - 1.0) / 2.0
    origin = pixel_center - tf.linalg.matvec(back, pixel_center)
    float_image = frames.to_float(image)[tf.newaxis]
    pixels = frames.warp(float_image, back, origin, frames.GRAY, 'BILINEAR')[0]
    if image.dtype == tf.uint8:
        pixels = tf.saturate_cast(tf.round(pixels), tf.uint8)
    boxes, family = example[fields.BOXES], find_family(example[fields.BOXES])
    boxes = family.transform(family.scale(boxes, size[0], size[1]), matrix, shift)
    boxes = family.scale(boxes, 1.0 / size[0], 1.0 / size[1])
    kept = _is_visible(boxes, min_area_inside)
    boxes = family.clip_to_window(boxes, tf.constant(_WHOLE))
    result = {**example, fields.IMAGE: pixels, fields.BOXES: boxes}
    if fields.MASKS in example:
        masks = example[fields.MASKS][..., tf.newaxis]
        result[fields.MASKS] = frames.warp(masks, back, origin, 0.0)[..., 0]
    if fields.KEYPOINTS in example:
        points = tf.linalg.matvec(matrix, example[fields.KEYPOINTS] * size) + shift
        result.update(frames.with_points(example, points / size, frames.inside(points / size)))
    return examples.keep_boxes(result, kept)


def _is_visible(boxes: tf.Tensor, min_area_inside: float) -> tf.Tensor:
    """Check which boxes have their center and enough of their area in the image: bool [n]."""
    family = find_family(boxes)
    bounds = family.enclosing_boxes(boxes)
    centers = (bounds[:, :2] + bounds[:, 2:]) / 2.0
    inside = tf.reduce_all(tf.logical_and(centers >= 0.0, centers <= 1.0), axis=1)
    visible = family.area_inside(boxes, tf.constant(_WHOLE))
    # Rounding may make the visible area slightly less than the whole area.
    enough = visible >= (min_area_inside - 1e-5) * family.area(boxes)
    return tf.logical_and(inside, tf.logical_and(enough, visible > 0.0))


@steps.BUILDERS.register('random_rotation')
def _build(config: augmentation_pb2.RandomRotation, where: str) -> steps.Step:
    del where
    if config.by_quarter_turns:
        return functools.partial(random_quarter_turns, probability=config.probability)
    return functools.partial(
        random_rotation,
        angles=(config.min_angle, config.max_angle),
        min_area_inside=config.min_area_inside,
        probability=config.probability,
    )
