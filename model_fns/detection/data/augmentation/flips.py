"""Augmentation steps that mirror images or rotate them by 90 degrees."""

from __future__ import annotations

import functools
from typing import NamedTuple, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.task import Example
from model_fns.augmentation import randomness
from model_fns.detection import fields
from model_fns.detection.boxes.family import find_family
from model_fns.detection.data.augmentation import steps
from model_fns.structures import images
from protos import augmentation_pb2


class _Map(NamedTuple):
    """Map of points: coordinates at these indices, times a sign, plus an offset."""

    indices: Sequence[int]
    signs: Sequence[float]
    offsets: Sequence[float]


# By the mirrored axis of the image; y comes before x.
_MIRRORED_POINTS = (_Map([0, 1], [-1, 1], [1, 0]), _Map([0, 1], [1, -1], [0, 1]))
_TURNED_POINTS = _Map([1, 0], [-1, 1], [1, 0])


def random_flip(
    example: Example,
    seed: tf.Tensor,
    axis: int,
    probability: float = 0.5,
    permutation: Sequence[int] = (),
) -> Example:
    """Mirror image and groundtruth at random.

    Args:
        example: any example.
        seed: int64 [2].
        axis: 0: top to bottom; 1: left to right.
        probability: probability of mirroring.
        permutation: index i of a mirrored object has its keypoint permutation[i]; required for
            examples with keypoints.

    Raises:
        errors.ConfigError: examples have keypoints, but there is no permutation of their number.
    """
    if not permutation and fields.KEYPOINTS in example:
        count = example[fields.KEYPOINTS].shape[1]
        raise errors.ConfigError(
            f'keypoint_flip_permutation: not set, but objects have {count} keypoints; expected the '
            'number of the keypoint that comes to each place in a mirrored image.'
        )
    flips = _happens(seed, probability)
    result = dict(example)
    result[fields.IMAGE] = images.reversed_where(flips, example[fields.IMAGE], axis)
    if fields.MASKS in example:
        result[fields.MASKS] = images.reversed_where(flips, example[fields.MASKS], axis + 1)
    boxes = example[fields.BOXES]
    result[fields.BOXES] = _chosen(find_family(boxes).flip(boxes, axis), boxes, flips)
    result.update(_moved_points(example, _MIRRORED_POINTS[axis], flips))
    return _permuted(result, permutation, 'keypoint_flip_permutation', flips)


def random_rotation90(
    example: Example,
    seed: tf.Tensor,
    probability: float = 0.5,
    permutation: Sequence[int] = (),
) -> Example:
    """Rotate image and groundtruth by 90 degrees, counterclockwise, at random.

    Args:
        example: any example.
        seed: int64 [2].
        probability: probability of rotating.
        permutation: index i of a rotated object has its keypoint permutation[i]; empty: keypoints
            keep their indices.

    Raises:
        errors.ConfigError: the permutation does not have the number of keypoints.
    """
    turns = _happens(seed, probability)
    return _permuted(quarter_turn(example, turns), permutation, 'keypoint_rot_permutation', turns)


def quarter_turn(example: Example, turns: tf.Tensor) -> Example:
    """Rotate image and groundtruth by 90 degrees, counterclockwise; keypoints keep their indices.

    Args:
        example: any example.
        turns: int32 scalar: 1 to rotate, 0 to return the example unchanged.
    """
    result = dict(example)
    # Transposing an image and reversing it top to bottom rotates it.
    image = _transposed(example[fields.IMAGE], [0, 1, 2], [1, 0, 2], turns)
    result[fields.IMAGE] = images.reversed_where(turns, image, 0)
    if fields.MASKS in example:
        masks = _transposed(example[fields.MASKS], [0, 1, 2], [0, 2, 1], turns)
        result[fields.MASKS] = images.reversed_where(turns, masks, 1)
    boxes = example[fields.BOXES]
    result[fields.BOXES] = _chosen(find_family(boxes).rotate90(boxes), boxes, turns)
    result.update(_moved_points(example, _TURNED_POINTS, turns))
    return result


@steps.BUILDERS.register('random_horizontal_flip')
def _build_horizontal(config: augmentation_pb2.RandomHorizontalFlip, where: str) -> steps.Step:
    return _build_flip(config, where, axis=1)


@steps.BUILDERS.register('random_vertical_flip')
def _build_vertical(config: augmentation_pb2.RandomVerticalFlip, where: str) -> steps.Step:
    return _build_flip(config, where, axis=0)


def _build_flip(config, where: str, axis: int) -> steps.Step:
    permutation = _checked_permutation(config, where, 'keypoint_flip_permutation')
    return functools.partial(
        random_flip, axis=axis, probability=config.probability, permutation=permutation
    )


@steps.BUILDERS.register('random_rotation90')
def _build_rotation90(config: augmentation_pb2.RandomRotation90, where: str) -> steps.Step:
    permutation = _checked_permutation(config, where, 'keypoint_rot_permutation')
    return functools.partial(
        random_rotation90, probability=config.probability, permutation=permutation
    )


def _checked_permutation(config, where: str, field: str) -> Sequence[int]:
    permutation = tuple(getattr(config, field))
    is_permutation = sorted(permutation) == list(range(len(permutation)))
    steps.check(is_permutation, where, config, field, 'each number from 0 on once')
    return permutation


def _happens(seed: tf.Tensor, probability: float) -> tf.Tensor:
    """Draw int32: 1 with a probability, else 0."""
    (uniform,) = randomness.uniforms(seed, 1)
    return tf.cast(uniform < probability, tf.int32)


def _transposed(
    tensor: tf.Tensor, order: Sequence[int], other: Sequence[int], happens: tf.Tensor
) -> tf.Tensor:
    """Transpose a tensor to the `other` order of axes if `happens` is 1."""
    # The order of axes is a tensor, so that there is no conditional for each of image and masks.
    transposed = tf.transpose(tensor, tf.gather([order, other], happens))
    # Sides of an image that may be exchanged are no longer static.
    shape = [
        size if before == after else None for size, before, after in zip(tensor.shape, order, other)
    ]
    return tf.ensure_shape(transposed, shape)


def _chosen(moved: tf.Tensor, values: tf.Tensor, happens: tf.Tensor) -> tf.Tensor:
    return tf.where(tf.equal(happens, 1), moved, values)


def _moved_points(example: Example, coordinates: _Map, happens: tf.Tensor) -> Example:
    """Transform keypoints [n, k, 2] if `happens` is 1; return nothing without keypoints."""
    if fields.KEYPOINTS not in example:
        return {}
    points = example[fields.KEYPOINTS]
    signs, offsets = np.float32(coordinates.signs), np.float32(coordinates.offsets)
    moved = tf.gather(points, coordinates.indices, axis=-1) * signs + offsets
    return {fields.KEYPOINTS: _chosen(moved, points, happens)}


def _permuted(
    example: Example, permutation: Sequence[int], field: str, happens: tf.Tensor
) -> Example:
    """Reorder keypoints [n, k, ...] and their visibilities if `happens` is 1."""
    if not permutation or fields.KEYPOINTS not in example:
        return example
    count = example[fields.KEYPOINTS].shape[1]
    if count != len(permutation):
        raise errors.ConfigError(
            f'{field}: {len(permutation)} numbers; expected as many as the keypoints of an object, '
            f'{count}.'
        )
    order = tf.gather([list(range(count)), list(permutation)], happens)
    result = dict(example)
    for name in (fields.KEYPOINTS, fields.KEYPOINT_VISIBILITIES):
        if name in example:
            result[name] = tf.gather(example[name], order, axis=1)
    return result
