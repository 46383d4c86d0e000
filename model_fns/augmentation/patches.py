"""Augmentation steps that damage images: black squares, noise, compression."""

from __future__ import annotations

import functools
from typing import Tuple

import numpy as np
import tensorflow as tf

from estimator_lib.task import IMAGE, Example
from model_fns.augmentation import pixels, randomness, steps
from model_fns.structures import images
from protos import augmentation_pb2


@steps.register_image_step(
    'random_black_patches',
    most='max_black_patches',
    probability='probability',
    size_to_image='size_to_image_ratio',
)
def random_black_patches(
    example: Example,
    seed: tf.Tensor,
    most: int,
    probability: float,
    size_to_image: float,
) -> Example:
    """Draw black squares at random positions.

    Args:
        example: any example.
        seed: int64 [2].
        most: number of squares that may be drawn.
        probability: probability of each square.
        size_to_image: side of a square, as a fraction of the image's shorter side.
    """
    image, size = example[IMAGE], pixels.image_size(example)
    happens, ystart, xstart = randomness.uniforms(seed, 3, most)
    side = tf.cast(tf.cast(tf.reduce_min(size), tf.float32) * size_to_image, tf.int32)
    side = tf.where(happens < probability, side, 0)
    rows = _covered(ystart * (1.0 - size_to_image), side, size[0])
    columns = _covered(xstart * (1.0 - size_to_image), side, size[1])
    # Channels are columns here, so that no factor is repeated along them for each pixel.
    columns = tf.repeat(columns, image.shape[-1], 1)
    # The product counts the squares that cover each pixel, in one op for any number of squares.
    free = tf.equal(tf.matmul(rows, columns, transpose_a=True), 0.0)
    factors = tf.reshape(tf.cast(free, image.dtype), tf.shape(image))
    return {**example, IMAGE: image * factors}


def random_patch_gaussian(
    example: Example,
    seed: tf.Tensor,
    sizes: Tuple[int, int] = (1, 250),
    deviations: Tuple[float, float] = (0.0, 1.0),
    keep_probability: float = 0.0,
) -> Example:
    """Add Gaussian noise in one random square.

    Lopes et al., "Improving Robustness Without Sacrificing Accuracy with Patch Gaussian
    Augmentation" (2019).

    Args:
        example: any example.
        seed: int64 [2].
        sizes: range of the square's side, in pixels; its center is in the image.
        deviations: range of the noise's standard deviation, for pixels from 0 to 1.
        keep_probability: probability of an unchanged image.
    """
    keep, side_draw, deviation, y, x = randomness.uniforms(seed, 5)
    image, whole = pixels.to_float(example[IMAGE]), pixels.image_size(example)
    side = randomness.integer(side_draw, *sizes)
    begin = randomness.integer(tf.stack([y, x]), 0, whole - 1) - side // 2
    end = tf.minimum(begin + side, whole)
    begin = tf.maximum(begin, 0)
    lowest, highest = 0.0, 255.0
    if keep_probability:
        # An empty square without limits leaves the image unchanged.
        keeps = keep < keep_probability
        end = tf.where(keeps, begin, end)
        lowest, highest = tf.where(keeps, -np.inf, lowest), tf.where(keeps, np.inf, highest)
    shape = tf.concat([end - begin, [image.shape[-1]]], 0)
    noise = randomness.normal_tensor(randomness.stream_seed(seed, 1), shape)
    noise *= 255.0 * randomness.between(deviation, *deviations)
    noisy = image + images.surround(noise, begin, whole - end)
    return {**example, IMAGE: tf.clip_by_value(noisy, lowest, highest)}


def random_jpeg_quality(
    example: Example,
    seed: tf.Tensor,
    qualities: Tuple[int, int] = (0, 100),
    keep_probability: float = 0.0,
) -> Example:
    """Encode the image as JPEG of a random quality, and decode it.

    Args:
        example: any example.
        seed: int64 [2].
        qualities: range, in percent.
        keep_probability: probability of an unchanged image.
    """
    keep, uniform = randomness.uniforms(seed, 2)
    quality = randomness.integer(uniform, *qualities)
    image = example[IMAGE]
    if not keep_probability:
        return {**example, IMAGE: _through_jpeg(image, quality)}
    # This step uses a conditional because the codec costs more than all other steps.
    damaged = tf.cond(keep < keep_probability, lambda: image, lambda: _through_jpeg(image, quality))
    return {**example, IMAGE: damaged}


@steps.IMAGE_STEPS.register('random_patch_gaussian')
def _build_gaussian(config: augmentation_pb2.RandomPatchGaussian, where: str) -> steps.Step:
    del where
    return functools.partial(
        random_patch_gaussian,
        sizes=(config.min_patch_size, config.max_patch_size),
        deviations=(config.min_gaussian_stddev, config.max_gaussian_stddev),
        keep_probability=config.random_coef,
    )


@steps.IMAGE_STEPS.register('random_jpeg_quality')
def _build_jpeg(config: augmentation_pb2.RandomJpegQuality, where: str) -> steps.Step:
    del where
    return functools.partial(
        random_jpeg_quality,
        qualities=(config.min_jpeg_quality, config.max_jpeg_quality),
        keep_probability=config.random_coef,
    )


def _covered(start: tf.Tensor, side: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
    """Compute float32 [n, length]: 1 for the pixels of a line that interval i covers, else 0.

    Args:
        start: [n] in [0, 1), starts of the intervals, as fractions of the line.
        side: int32 [n], lengths of the intervals in pixels.
        length: int32 scalar, length of the line in pixels.
    """
    first = tf.cast(start * tf.cast(length, tf.float32), tf.int32)[:, tf.newaxis]
    pixels = tf.range(length)
    inside = tf.logical_and(pixels >= first, pixels < first + side[:, tf.newaxis])
    return tf.cast(inside, tf.float32)


def _through_jpeg(image: tf.Tensor, quality: tf.Tensor) -> tf.Tensor:
    whole_numbers = tf.saturate_cast(image, tf.uint8)
    # The quality of this op is a tensor; that of `tf.io.encode_jpeg` is fixed in the graph.
    encoded = tf.raw_ops.EncodeJpegVariableQuality(images=whole_numbers, quality=quality)
    decoded = tf.io.decode_jpeg(encoded, channels=image.shape[-1])
    return tf.cast(decoded, image.dtype)
