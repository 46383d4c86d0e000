"""Square crops of random scale: the augmentations of CenterNet and EfficientDet."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from estimator_lib.task import Example
from model_fns.augmentation import randomness
from model_fns.detection.data.augmentation import frames, steps


@steps.register(
    'random_square_crop_by_scale',
    max_border='max_border',
    smallest='scale_min',
    largest='scale_max',
    num_scales='num_scales',
)
def random_square_crop_by_scale(
    example: Example,
    seed: tf.Tensor,
    max_border: int,
    smallest: float,
    largest: float,
    num_scales: int,
) -> Example:
    """Crop an example to a square of random size and position; the outside is black.

    Zhou et al., "Objects as Points" (2019), after CornerNet.

    Args:
        example: any example.
        seed: int64 [2].
        max_border: the window's center keeps this distance from the image's edges, in pixels;
            halved until it is at most half of the side.
        smallest: smallest side, as a multiple of the image's longer side.
        largest: largest side, likewise.
        num_scales: number of equally spaced multiples to draw from.
    """
    whole = frames.image_size(example)
    scale_draws, position = randomness.uniforms(seed, 2, 2)
    multiples = np.linspace(smallest, largest, num_scales, dtype=np.float32)
    multiple = tf.gather(multiples, randomness.integer(scale_draws[0], 0, num_scales - 1))
    side = tf.maximum(frames.scaled_size(tf.reduce_max(whole), multiple), 2)
    border = _border(max_border, whole)
    begin = randomness.integer(position, border, whole - border) - side // 2
    inside = tf.maximum(begin, 0)
    size = tf.minimum(begin + side, whole) - inside
    example = frames.crop(example, frames.pixel_window(inside, size, whole), 0.0, True)
    return frames.pad(example, inside - begin, tf.stack([side, side]))


@steps.register(
    'random_scale_crop_and_pad_to_square',
    side='output_size',
    smallest='scale_min',
    largest='scale_max',
)
def random_scale_crop_and_pad_to_square(
    example: Example,
    seed: tf.Tensor,
    side: int,
    smallest: float,
    largest: float,
) -> Example:
    """Resize by a random factor, then crop, or pad with black at the bottom and right.

    Tan et al., "EfficientDet" (2020).

    Args:
        example: any example.
        seed: int64 [2].
        side: side of the result, in pixels.
        smallest: smallest longer side of the resized image, as a multiple of `side`.
        largest: largest longer side, likewise.
    """
    factor, position = randomness.uniforms(seed, 2, 2)
    whole = frames.image_size(example)
    longest = tf.cast(tf.reduce_max(whole), tf.float32)
    factor = side * randomness.between(factor[0], smallest, largest) / longest
    scaled = frames.scaled_size(whole, factor)
    example = frames.resize(example, scaled)
    size = tf.minimum(scaled, side)
    begin = randomness.integer(position, 0, scaled - size)
    example = frames.crop(example, frames.pixel_window(begin, size, scaled), 0.0, True)
    return frames.pad(example, tf.zeros([2], tf.int32), tf.constant([side, side]))


def _border(most: int, size: tf.Tensor) -> tf.Tensor:
    """Compute int32 [2]: `most`, halved until it is at most half of each side."""
    halvings = [most >> power for power in range(max(most, 1).bit_length() + 1)]
    # Halvings decrease, so the index of the first one that fits is the number of misfits.
    # At exactly half of a side the published step stops too; the loop of CornerNet continues.
    misfits = 2 * np.int32(halvings)[:, np.newaxis] > size
    return tf.gather(np.int32(halvings), tf.reduce_sum(tf.cast(misfits, tf.int32), 0))
