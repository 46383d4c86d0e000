"""Random distortions of an image: colors, blur, rotation.

The functions draw no random numbers: they take them as arguments, uniform in [0, 1). Channels
beside the colors keep their values, but are blurred and rotated.
"""

from __future__ import annotations

import math
from typing import Dict, Sequence

import numpy as np
import tensorflow as tf

from model_fns.structures.channels import change_colors


def shift_brightness(image: tf.Tensor, uniform: tf.Tensor, most: float) -> tf.Tensor:
    """Add up to `most` of the full range, either way, to all pixels of a float32 image.

    Returns:
        [height, width, channels].
    """
    shift = (2.0 * uniform - 1.0) * (255.0 * most)
    return change_colors(image, lambda colors: _clip_to_range(colors + shift))


def scale_contrast(image: tf.Tensor, uniform: tf.Tensor, most: float) -> tf.Tensor:
    """Multiply differences from each channel's mean by 1 / `most` to `most`.

    Returns:
        float32 [height, width, channels].
    """
    factor = _factor(uniform, most)

    def change(colors: tf.Tensor) -> tf.Tensor:
        return _clip_to_range(tf.raw_ops.AdjustContrastv2(images=colors, contrast_factor=factor))

    return change_colors(image, change)


def scale_saturation(image: tf.Tensor, uniform: tf.Tensor, most: float) -> tf.Tensor:
    """Multiply the saturation by 1 / `most` to `most`: float32 [height, width, channels]."""
    scale = _factor(uniform, most)

    def change(colors: tf.Tensor) -> tf.Tensor:
        return _clip_to_range(tf.raw_ops.AdjustSaturation(images=colors, scale=scale))

    return change_colors(image, change)


def blur_motion(image: tf.Tensor, direction: tf.Tensor, length: tf.Tensor, most: int) -> tf.Tensor:
    """Blur an image as the motion of a camera along a line does.

    A pixel becomes the mean of those on the line around it that are in the image.

    Args:
        image: float32 [height, width, channels].
        direction: uniform; gives the direction of the line.
        length: uniform; gives the length of the line, from 1 to `most` pixels.
        most: largest length in pixels.
    """
    kernel = _line(math.pi * direction, 1.0 + length * (most - 1.0), most // 2)[..., None, None]
    ones = tf.ones(tf.concat([[1], tf.shape(image)[:2], [1]], 0))
    per_channel = tf.tile(kernel, [1, 1, image.shape[-1], 1])
    # Divided by the same sums of ones: without, borders would become dark.
    sums = tf.nn.depthwise_conv2d(image[tf.newaxis], per_channel, [1, 1, 1, 1], 'SAME')
    return (sums / tf.nn.conv2d(ones, kernel, 1, 'SAME'))[0]


def rotate(
    image: tf.Tensor,
    ids: Dict[str, tf.Tensor],
    uniform: tf.Tensor,
    most_degrees: float,
    color: Sequence[float],
    fillers: Dict[str, int],
) -> Dict[str, tf.Tensor]:
    """Rotate an image and its ids around the center.

    Args:
        image: float32 [height, width, channels]; interpolated linearly.
        ids: int32 [height, width] by name; read at the nearest pixel.
        uniform: gives the angle; 0.5 is no rotation.
        most_degrees: largest angle in either direction.
        color: by channel, of the corners outside of the old image.
        fillers: ids in these corners, by name.

    Returns:
        The ids by name, and the image under ''.
    """
    angle = (2.0 * uniform - 1.0) * math.radians(most_degrees)
    size = tf.shape(image)[:2]
    cosine, sine = tf.cos(angle), tf.sin(angle)
    middle_y, middle_x = tf.unstack((tf.cast(size, tf.float32) - 1.0) / 2.0)
    # The transform maps a pixel of the result to the source, columns first.
    from_x = [cosine, -sine, middle_x - cosine * middle_x + sine * middle_y]
    from_y = [sine, cosine, middle_y - sine * middle_x - cosine * middle_y]
    transform = tf.stack([*from_x, *from_y, 0.0, 0.0])[tf.newaxis]

    def rotate_map(values: tf.Tensor, method: str, filler: float) -> tf.Tensor:
        return tf.raw_ops.ImageProjectiveTransformV3(
            images=values[tf.newaxis],
            transforms=transform,
            output_shape=size,
            fill_value=tf.constant(filler, tf.float32),
            interpolation=method,
            fill_mode='CONSTANT',
        )[0]

    # The kernel fills all channels with one value: subtract the color, so that 0 stands for it.
    color = np.array(color, np.float32)
    result = {'': rotate_map(image - color, 'BILINEAR', 0.0) + color}
    for name, values in ids.items():
        result[name] = rotate_map(values[..., tf.newaxis], 'NEAREST', fillers[name])[..., 0]
    return result


def _line(angle: tf.Tensor, length: tf.Tensor, radius: int) -> tf.Tensor:
    """Build the kernel of a line through the middle: [2 * radius + 1, 2 * radius + 1]."""
    y, x = np.mgrid[-radius : radius + 1, -radius : radius + 1].astype(np.float32)
    along = x * tf.cos(angle) + y * tf.sin(angle)
    across = y * tf.cos(angle) - x * tf.sin(angle)
    # A pixel weighs by its distance to the line, so that lengths between whole pixels differ.
    beyond = tf.maximum(tf.abs(along) - (length - 1.0) / 2.0, 0.0)
    return tf.maximum(1.0 - tf.sqrt(beyond**2 + across**2), 0.0)


def _factor(uniform: tf.Tensor, most: float) -> tf.Tensor:
    """Return a factor from 1 / most to most, below 1 as often as above."""
    # Uniform in the logarithm: halving and doubling are equally frequent.
    return tf.exp((2.0 * uniform - 1.0) * math.log(most))


def _clip_to_range(image: tf.Tensor) -> tf.Tensor:
    return tf.clip_by_value(image, 0.0, 255.0)
