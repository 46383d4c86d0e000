"""Functions of the levels of uint8 images, as the operations of Pillow of the same names.

Images are [height, width, 3].
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from model_fns.augmentation import color

_LEVELS = 256
# Weights of a pixel and its neighbors where the image is smoothed, times 13.
_SMOOTH = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]], np.float32)


def equalize(image: tf.Tensor) -> tf.Tensor:
    """Replace the values of each channel by their rank, spread over all levels."""
    channels = image.shape[-1]
    # The values of channel c are counted in the bins from 256 c on.
    values = tf.cast(image, tf.int32) + _LEVELS * np.arange(channels, dtype=np.int32)
    counts = tf.math.bincount(values, minlength=_LEVELS * channels, maxlength=_LEVELS * channels)
    counts = tf.reshape(counts, [channels, _LEVELS])
    total = tf.reduce_sum(counts, 1, keepdims=True)
    below = tf.cumsum(counts, 1, exclusive=True)
    highest = tf.reduce_max(tf.where(counts > 0, tf.range(_LEVELS), 0), 1, keepdims=True)
    step = (total - tf.gather(counts, highest, batch_dims=1)) // (_LEVELS - 1)
    ranks = tf.minimum((below + step // 2) // tf.maximum(step, 1), _LEVELS - 1)
    table = tf.where(step > 0, ranks, tf.range(_LEVELS))
    equalized = tf.gather(tf.reshape(table, [-1]), values)
    return tf.cast(equalized, tf.uint8)


def auto_contrast(image: tf.Tensor) -> tf.Tensor:
    """Stretch the values of each channel to 0 to 255; channels of one value stay."""
    numbers = tf.cast(image, tf.float32)
    low = tf.reduce_min(numbers, axis=[0, 1])
    high = tf.reduce_max(numbers, axis=[0, 1])
    stretched = tf.math.divide_no_nan((numbers - low) * 255.0, high - low)
    return tf.where(high > low, tf.cast(stretched, tf.uint8), image)


def solarize(image: tf.Tensor, threshold: int) -> tf.Tensor:
    """Invert the values from a threshold on, 0 to 256."""
    return tf.where(tf.cast(image, tf.int32) < threshold, image, 255 - image)


def posterize(image: tf.Tensor, bits: int) -> tf.Tensor:
    """Keep the highest bits of each value, 0 to 8 of them."""
    return tf.bitwise.bitwise_and(image, tf.constant(256 - 2 ** (8 - bits), tf.uint8))


def change_color(image: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Multiply the distance of each pixel from its luminance."""
    numbers = tf.cast(image, tf.float32)
    return _extrapolate(color.mix_with_gray(numbers, 0.0), numbers, factor)


def change_contrast(image: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Multiply the distance of each pixel from the mean luminance of the image."""
    numbers = tf.cast(image, tf.float32)
    mean = tf.round(tf.reduce_mean(color.mix_with_gray(numbers, 0.0)))
    return _extrapolate(mean, numbers, factor)


def change_brightness(image: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Multiply all values."""
    return _extrapolate(tf.constant(0.0), tf.cast(image, tf.float32), factor)


def change_sharpness(image: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Multiply the distance of each pixel from the smoothed image; the border stays."""
    numbers = tf.cast(image, tf.float32)
    kernel = np.tile(_SMOOTH[..., np.newaxis, np.newaxis], [1, 1, image.shape[-1], 1])
    # Sums of whole numbers, which are exact in any order.
    sums = tf.nn.depthwise_conv2d(numbers[tf.newaxis], kernel, [1, 1, 1, 1], 'SAME')[0]
    height, width = tf.unstack(tf.shape(image)[:2])
    rows, columns = tf.range(height), tf.range(width)
    in_rows = tf.logical_and(rows > 0, rows < height - 1)
    in_columns = tf.logical_and(columns > 0, columns < width - 1)
    inside = tf.logical_and(in_rows[:, tf.newaxis], in_columns)[..., tf.newaxis]
    smooth = tf.where(inside, sums / _SMOOTH.sum(), numbers)
    return _extrapolate(smooth, numbers, factor)


def _extrapolate(start: tf.Tensor, image: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Compute start + factor * (image - start), rounded to uint8."""
    return tf.saturate_cast(tf.round(start + factor * (image - start)), tf.uint8)
