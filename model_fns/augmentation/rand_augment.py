"""RandAugment: a few operations of one magnitude, drawn from fourteen.

Cubuk et al., "RandAugment: Practical Automated Data Augmentation with a Reduced Search Space"
(2019), section 3. Magnitudes go from 0 to 10, which are the ends of the ranges of Cubuk et al.,
"AutoAugment" (2019), table 6.
"""

from __future__ import annotations

import functools
import math
from typing import Callable, Sequence, Tuple

import tensorflow as tf

from estimator_lib.task import IMAGE, Example
from model_fns.augmentation import levels, pixels, randomness, steps
from protos import augmentation_pb2

# (example, float32 [2, 2] matrix, float32 [2] shift) -> example: moves the center of each pixel p,
# (y, x), to matrix p + shift.
Transform = Callable[[Example, tf.Tensor, tf.Tensor], Example]
# (example with a uint8 image, signed amount) -> example; the amount is in [-1, 1].
Operation = Callable[[Example, tf.Tensor], Example]

_MOST = 10.0  # the largest magnitude
_ANGLE = math.radians(30)
_SHEAR = 0.3
_TRANSLATION = 150 / 331  # of the side: 150 pixels of the published images
_CHANGE = 0.9  # factors of color, contrast, brightness and sharpness: 0.1 to 1.9
_LOST_BITS = 4


def rand_augment(
    example: Example,
    seed: tf.Tensor,
    transform: Transform,
    num_operations: int = 2,
    magnitude: float = 9.0,
) -> Example:
    """Apply random operations of one magnitude, each in a random direction.

    Args:
        example: any example; float images are rounded to uint8.
        seed: int64 [2].
        transform: moves the image and all that belongs to it.
        num_operations: number of operations that are drawn, with replacement.
        magnitude: 0 to 10.
    """
    image = example[IMAGE]
    rounded = tf.saturate_cast(tf.round(pixels.to_float(image)), tf.uint8)
    example = {**example, IMAGE: rounded}
    operations = build_operations(transform, magnitude / _MOST)
    kinds, signs = randomness.uniforms(seed, 2, num_operations)
    for index in range(num_operations):
        amount = tf.where(signs[index] < 0.5, -1.0, 1.0)
        # A switch runs the drawn operation alone.
        example = tf.switch_case(
            randomness.integer(kinds[index], 0, len(operations) - 1),
            [functools.partial(operation, example, amount) for _, operation in operations],
        )
        example[IMAGE] = tf.ensure_shape(example[IMAGE], image.shape)
    return example


def build_operations(transform: Transform, share: float) -> Sequence[Tuple[str, Operation]]:
    """Build the operations of a magnitude, with their names.

    Args:
        transform: moves the image and all that belongs to it.
        share: the magnitude, from 0 to 1.
    """
    # From table 6: thresholds of 256 (nothing) to 0, and 8 to 4 bits.
    threshold = round(256 * (1.0 - share))
    bits = 8 - round(_LOST_BITS * share)

    def change_image(function: Callable[[tf.Tensor], tf.Tensor]) -> Operation:
        return lambda example, sign: {**example, IMAGE: function(example[IMAGE])}

    def enhance(function: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]) -> Operation:
        def change(example: Example, sign: tf.Tensor) -> Example:
            return {**example, IMAGE: function(example[IMAGE], 1.0 + sign * (_CHANGE * share))}

        return change

    def moved(place: Callable[[tf.Tensor, tf.Tensor], Tuple[tf.Tensor, tf.Tensor]]) -> Operation:
        def move(example: Example, sign: tf.Tensor) -> Example:
            size = tf.cast(pixels.image_size(example), tf.float32)
            return transform(example, *place(sign * share, size))

        return move

    return (
        ('identity', lambda example, sign: dict(example)),
        ('auto_contrast', change_image(levels.auto_contrast)),
        ('equalize', change_image(levels.equalize)),
        ('solarize', change_image(functools.partial(levels.solarize, threshold=threshold))),
        ('posterize', change_image(functools.partial(levels.posterize, bits=bits))),
        ('color', enhance(levels.change_color)),
        ('contrast', enhance(levels.change_contrast)),
        ('brightness', enhance(levels.change_brightness)),
        ('sharpness', enhance(levels.change_sharpness)),
        ('rotate', moved(_rotation)),
        ('shear_x', moved(functools.partial(_shear, axis=1))),
        ('shear_y', moved(functools.partial(_shear, axis=0))),
        ('translate_x', moved(functools.partial(_translation, axis=1))),
        ('translate_y', moved(functools.partial(_translation, axis=0))),
    )


def build(config: augmentation_pb2.RandAugment, where: str, transform: Transform) -> steps.Step:
    """Build the step of a config; see `rand_augment`."""
    del where
    return functools.partial(
        rand_augment,
        transform=transform,
        num_operations=config.num_operations,
        magnitude=config.magnitude,
    )


def _rotation(amount: tf.Tensor, size: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
    """Return the map of a rotation about the center."""
    cosine, sine = tf.cos(amount * _ANGLE), tf.sin(amount * _ANGLE)
    matrix = tf.stack([tf.stack([cosine, sine]), tf.stack([-sine, cosine])])
    center = (size - 1.0) / 2.0
    return matrix, center - tf.linalg.matvec(matrix, center)


def _shear(amount: tf.Tensor, size: tf.Tensor, axis: int) -> Tuple[tf.Tensor, tf.Tensor]:
    """Return the map that moves y by x (axis 0), or x by y (axis 1), times an amount."""
    del size
    other = tf.one_hot([1 - axis], 2) * (amount * _SHEAR)
    rows = tf.concat([tf.zeros([axis, 2]), other, tf.zeros([1 - axis, 2])], axis=0)
    return tf.eye(2) + rows, tf.zeros([2])


def _translation(amount: tf.Tensor, size: tf.Tensor, axis: int) -> Tuple[tf.Tensor, tf.Tensor]:
    """Return the map that moves along an axis by a part of its side, in whole pixels."""
    shift = tf.round(amount * _TRANSLATION * size[axis])
    return tf.eye(2), tf.one_hot(axis, 2) * shift
