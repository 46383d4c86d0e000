"""Functions of the levels of uint8 images, as the operations of Pillow of the same names.

Images are [height, width, 3].
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from model_fns.augmentation import color, pixels

_LEVELS = 256


def equalize(image: tf.Tensor) -> tf.Tensor:
    """Replace the values of each channel by their rank, spread over all levels.

    Returns:
        uint8 [height, width, channels].
    """
    channels = image.shape[-1]
    # The values of channel c are counted in the bins from 256 c on.
    values = tf.cast(image, tf.int32) + _LEVELS * np.arange(channels, dtype=np.int32)
    counts = tf.math.bincount(values, minlength=_LEVELS * channels, maxlength=_LEVELS * channels)
    counts = tf.reshape(counts, [channels, _LEVELS])
    total = tf.reduce_sum(counts, 1, keepdims=True)
    below = tf.cumsum(counts, 1, exclusive=True)
    highest = tf.reduce_max(tf.where(counts > 0, tf.range(_LEVELS), 0), 1, keepdims=True)
    # As `ImageOps.equalize`: the highest level does not count, and both divisions round down.
    step = (total - tf.gather(counts, highest, batch_dims=1)) // (_LEVELS - 1)
    ranks = tf.minimum((below + step // 2) // tf.maximum(step, 1), _LEVELS - 1)
    table = tf.where(step > 0, ranks, tf.range(_LEVELS))
    equalized = tf.gather(tf.reshape(table, [-1]), values)
    return tf.cast(equalized, tf.uint8)


def auto_contrast(image: tf.Tensor) -> tf.Tensor:
    """Stretch the values of each channel to 0 to 255; channels of one value stay.

    Returns:
        uint8 [height, width, channels].
    """
    height, width, channels = tf.unstack(tf.shape(image))
    # Channels beside each other in lines: a last dimension of 3 would take several times as long.
    lines = tf.cast(tf.reshape(image, [height, width * channels]), tf.float32)
    low = tf.reduce_min(tf.reshape(tf.reduce_min(lines, 0), [width, channels]), 0)
    high = tf.reduce_max(tf.reshape(tf.reduce_max(lines, 0), [width, channels]), 0)
    differs = high > low
    factor = tf.where(differs, 255.0 / tf.where(differs, high - low, 1.0), 1.0)
    start = tf.where(differs, low, 0.0)
    stretched = (lines - tf.tile(start, [width])) * tf.tile(factor, [width])
    # `ImageOps.autocontrast` truncates instead: levels differ by at most one.
    return tf.reshape(tf.cast(tf.round(stretched), tf.uint8), tf.shape(image))


def solarize(image: tf.Tensor, threshold: int) -> tf.Tensor:
    """Invert the values from a threshold on, 0 to 256: uint8 [height, width, channels]."""
    if threshold > 255:
        return image
    # Inverting is an exclusive or with 255. A choice for each pixel would take ten times as long.
    bright = tf.cast(image >= tf.constant(threshold, tf.uint8), tf.uint8)
    return tf.bitwise.bitwise_xor(image, bright * tf.constant(255, tf.uint8))


def posterize(image: tf.Tensor, bits: int) -> tf.Tensor:
    """Keep the highest bits of each value, 0 to 8 of them: uint8 [height, width, channels]."""
    return tf.bitwise.bitwise_and(image, tf.constant(256 - 2 ** (8 - bits), tf.uint8))


def change_color(image: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Multiply the distance of each pixel from its luminance: uint8 [height, width, 3]."""
    numbers = tf.cast(image, tf.float32)
    return _extrapolate(color.mix_with_gray(numbers, 0.0), numbers, factor)


def change_contrast(image: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Multiply the distance of each pixel from the mean luminance of the image.

    Returns:
        uint8 [height, width, 3].
    """
    numbers = tf.cast(image, tf.float32)
    # `ImageEnhance.Contrast` rounds the mean to a level too.
    mean = tf.round(tf.reduce_mean(color.mix_with_gray(numbers, 0.0)))
    return _extrapolate(mean, numbers, factor)


def change_brightness(image: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Multiply all values: uint8 [height, width, channels]."""
    return _extrapolate(tf.constant(0.0), tf.cast(image, tf.float32), factor)


def change_sharpness(image: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Multiply the distance of each pixel from the smoothed image; the border stays.

    A smoothed pixel is the mean of 3 x 3 pixels, where its own weight is 5.

    Returns:
        uint8 [height, width, channels].
    """
    numbers = tf.cast(image, tf.float32)
    # Sums of whole numbers, which are exact in any order: over columns, then over rows.
    lines = numbers[:, :-2] + numbers[:, 1:-1] + numbers[:, 2:]
    sums = lines[:-2] + lines[1:-1] + lines[2:] + 4.0 * numbers[1:-1, 1:-1]
    # `ImageFilter.SMOOTH`, which leaves the border as it is.
    smooth = pixels.replace_part(numbers, tf.ones([2], tf.int32), sums / 13.0)
    return _extrapolate(smooth, numbers, factor)


def _extrapolate(start: tf.Tensor, image: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Compute start + factor * (image - start), rounded to uint8."""
    # Saturated: factors above 1 leave the range, and a plain cast would wrap around.
    return tf.saturate_cast(tf.round(start + factor * (image - start)), tf.uint8)
