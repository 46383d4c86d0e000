"""Random erasing of a rectangle."""

from __future__ import annotations

import functools
from typing import Tuple

import tensorflow as tf

from estimator_lib.task import IMAGE, Example
from model_fns.augmentation import pixels, randomness, steps
from protos import augmentation_pb2

_ATTEMPTS = 10  # after which the image stays; the paper's loop has no end


def random_erasing(
    example: Example,
    seed: tf.Tensor,
    probability: float = 0.5,
    areas: Tuple[float, float] = (0.02, 0.4),
    ratios: Tuple[float, float] = (0.3, 1 / 0.3),
) -> Example:
    """Fill a random rectangle with random values.

    Zhong et al., "Random Erasing Data Augmentation" (2020), algorithm 1, with a random value for
    each channel of each pixel.

    Args:
        example: any example.
        seed: int64 [2].
        probability: probability of a rectangle.
        areas: range of the rectangle's area, as a fraction of the image's.
        ratios: range of the rectangle's height over its width.
    """
    # The defaults are those of the paper's experiments: p 0.5, areas 0.02 to 0.4, ratios from 0.3.
    image, whole = example[IMAGE], pixels.image_size(example)
    happens, y, x = randomness.uniforms(seed, 3)
    # All attempts are drawn at once, so that the graph has no loop.
    draws = randomness.uniforms(randomness.stream_seed(seed, 1), 2, _ATTEMPTS)
    area = tf.cast(tf.reduce_prod(whole), tf.float32) * randomness.between(draws[0], *areas)
    ratio = randomness.between(draws[1], *ratios)
    sizes = tf.cast(tf.sqrt(tf.stack([area * ratio, area / ratio], axis=1)), tf.int32)
    # The first size that fits; none: an empty rectangle. Row `_ATTEMPTS` is the empty one.
    fits = tf.concat([tf.reduce_all(sizes < whole, axis=1), [True]], axis=0)
    sizes = tf.concat([sizes, [[0, 0]]], axis=0)
    size = tf.gather(sizes, tf.argmax(tf.cast(fits, tf.int32), output_type=tf.int32))
    size = tf.where(happens < probability, size, 0)
    begin = randomness.integer(tf.stack([y, x]), 0, whole - size)
    noise = _noise(randomness.stream_seed(seed, 2), size, image)
    return {**example, IMAGE: pixels.replace_part(image, begin, noise)}


def _noise(seed: tf.Tensor, size: tf.Tensor, image: tf.Tensor) -> tf.Tensor:
    """Draw whole numbers from 0 to 255, of the image's type: [*size, channels]."""
    shape = tf.concat([size, [image.shape[-1]]], axis=0)
    count = tf.reduce_prod(shape)
    # Four numbers are the bytes of one.
    words = tf.raw_ops.StatelessRandomUniformFullInt(
        shape=(count + 3)[tf.newaxis] // 4, seed=seed, dtype=tf.uint32
    )
    numbers = tf.reshape(tf.bitcast(words, tf.uint8), [-1])[:count]
    return tf.cast(tf.reshape(numbers, shape), image.dtype)


@steps.IMAGE_STEPS.register('random_erasing')
def _build(config: augmentation_pb2.RandomErasing, where: str) -> steps.Step:
    del where
    return functools.partial(
        random_erasing,
        probability=config.probability,
        areas=(config.min_area, config.max_area),
        ratios=(config.min_aspect_ratio, config.max_aspect_ratio),
    )
