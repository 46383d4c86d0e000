"""Augmentation steps that resize images."""

from __future__ import annotations

import functools

import tensorflow as tf

from estimator_lib.task import Example
from model_fns.augmentation import randomness
from model_fns.detection import fields
from model_fns.detection.data.augmentation import frames, steps
from model_fns.structures import images
from protos import augmentation_pb2

_METHODS = {
    augmentation_pb2.ResizeImage.AREA: 'area',
    augmentation_pb2.ResizeImage.BICUBIC: 'bicubic',
    augmentation_pb2.ResizeImage.BILINEAR: 'bilinear',
    augmentation_pb2.ResizeImage.NEAREST_NEIGHBOR: 'nearest',
}


def resize_image(
    example: Example, seed: tf.Tensor, height: int, width: int, method: str = 'bilinear'
) -> Example:
    """Resize an example to a fixed size.

    Args:
        example: any example.
        seed: int64 [2], not used.
        height: in pixels.
        width: in pixels.
        method: `bilinear`, `nearest`, `bicubic` or `area`, for the image.
    """
    del seed
    return frames.resize(example, (height, width), method)


@steps.register('random_image_scale', smallest='min_scale_ratio', largest='max_scale_ratio')
def random_image_scale(
    example: Example, seed: tf.Tensor, smallest: float, largest: float
) -> Example:
    """Resize an example by one random factor for both sides.

    Args:
        example: any example.
        seed: int64 [2].
        smallest: smallest factor.
        largest: largest factor.
    """
    (uniform,) = randomness.uniforms(seed, 1)
    factor = randomness.between(uniform, smallest, largest)
    size = frames.scaled_size(frames.image_size(example), factor)
    # Aligned corners, as in the published step.
    return frames.resize(example, size, align_corners=True)


@steps.register('random_resize_method', height='target_height', width='target_width')
def random_resize_method(example: Example, seed: tf.Tensor, height: int, width: int) -> Example:
    """Resize an example to a fixed size by a random method of `images.resize`.

    Args:
        example: any example.
        seed: int64 [2].
        height: in pixels.
        width: in pixels.
    """
    image = example[fields.IMAGE]
    (uniform,) = randomness.uniforms(seed, 1)
    # Methods are different kernels; a switch only runs the drawn one.
    resized = tf.switch_case(
        randomness.integer(uniform, 0, len(images.RESIZE_METHODS) - 1),
        [
            functools.partial(_resized, image, height, width, method)
            for method in images.RESIZE_METHODS
        ],
    )
    return {**frames.resize_masks(example, (height, width)), fields.IMAGE: resized}


@steps.register(
    'random_downscale_to_target_pixels',
    fewest='min_target_pixels',
    most='max_target_pixels',
    keep_probability='random_coef',
)
def random_downscale_to_target_pixels(
    example: Example,
    seed: tf.Tensor,
    fewest: int,
    most: int,
    keep_probability: float,
) -> Example:
    """Shrink the image to a random number of pixels, if it has more.

    Args:
        example: any example.
        seed: int64 [2].
        fewest: smallest number of pixels, height times width.
        most: largest number of pixels.
        keep_probability: probability of an unchanged example.
    """
    keep, uniform = randomness.uniforms(seed, 2)
    target = tf.cast(randomness.integer(uniform, fewest, most), tf.float32)
    size = frames.image_size(example)
    pixels = tf.cast(tf.reduce_prod(size), tf.float32)
    shrinks = tf.logical_and(keep >= keep_probability, pixels > target)
    smaller = frames.scaled_size(size, tf.sqrt(target / pixels))
    # The kernel passes on an image that already has the size.
    return frames.resize(example, tf.where(shrinks, smaller, size))


@steps.BUILDERS.register('resize_image')
def _build_resize(config: augmentation_pb2.ResizeImage, where: str) -> steps.Step:
    del where
    return functools.partial(
        resize_image,
        height=config.new_height,
        width=config.new_width,
        method=_METHODS[config.method],
    )


def _resized(image: tf.Tensor, height: int, width: int, method: str) -> tf.Tensor:
    return frames.to_float(images.resize(image, height, width, method))
