"""Random crops and distortions of colors, as the preprocessing of TF-Slim has them."""

from __future__ import annotations

from typing import Callable, List, Sequence, Union

import numpy as np
import tensorflow as tf

from model_fns.structures.channels import change_colors

# (pixels in [0, 255], a number from [0, 1)) -> pixels.
Step = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def uniforms(seed: tf.Tensor, count: int) -> List[tf.Tensor]:
    """Return independent random float32 scalars from [0, 1)."""
    # The crop uses the seed itself; any other constant would do.
    other_seed = seed + np.array([0, 0x5851F42D4C957F2D], np.int64)
    # `tf.random.stateless_uniform` adds fifty operations to the graph, this one.
    return tf.unstack(tf.raw_ops.StatelessRandomUniform(shape=[count], seed=other_seed))


def scale_uniform(uniform: tf.Tensor, low: float, high: float) -> tf.Tensor:
    """Scale a number from [0, 1) to [low, high): float32, of the same shape."""
    return low + uniform * (high - low)


def integer(uniform: tf.Tensor, count: Union[int, tf.Tensor]) -> tf.Tensor:
    """Return an int32 from 0 to count - 1, of the shape of `uniform`."""
    # Draws are at most 1 - 2^-23, so that the product stays below `count` in float32.
    return tf.cast(uniform * tf.cast(count, tf.float32), tf.int32)


def random_box(image: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Return a crop of 5 % to 100 % of the area, with a width of 0.75 to 1.33 times the height.

    Args:
        image: [height, width, channels].
        seed: int [2], of the draw.

    Returns:
        The crop, of the type of the image: [height', width', channels].
    """
    # slim's numbers; Szegedy et al. 2015, section 6, has 8 % and 3/4 to 4/3. After 100 failed
    # attempts the kernel returns the whole image.
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
        tf.shape(image),
        np.array([[[0, 0, 1, 1]]], np.float32),
        seed,
        min_object_covered=0.1,
        aspect_ratio_range=(0.75, 1.33),
        area_range=(0.05, 1.0),
        max_attempts=100,
    )
    crop = tf.slice(image, begin, size)
    crop.set_shape([None, None, image.shape[-1]])
    return crop


def shift_brightness(pixels: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
    """Add a number from -32 to 32 to pixels in [0, 255]."""
    return change_colors(pixels, lambda colors: colors + scale_uniform(uniform, -32, 32))


def scale_saturation(pixels: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
    """Scale the saturation of [height, width, channels] by 0.5 to 1.5; gray pixels stay."""
    if pixels.shape[-1] == 1:
        return pixels
    scale = scale_uniform(uniform, 0.5, 1.5)
    return change_colors(
        pixels, lambda colors: tf.raw_ops.AdjustSaturation(images=colors, scale=scale)
    )


def shift_hue(pixels: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
    """Shift the hue of [height, width, channels] by -0.2 to 0.2 of its circle; gray stays."""
    if pixels.shape[-1] == 1:
        return pixels
    delta = scale_uniform(uniform, -0.2, 0.2)
    return change_colors(pixels, lambda colors: tf.raw_ops.AdjustHue(images=colors, delta=delta))


def scale_contrast(pixels: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Scale the distances of [height, width, channels] from the mean of each channel."""
    return change_colors(
        pixels,
        lambda colors: tf.raw_ops.AdjustContrastv2(images=colors, contrast_factor=factor),
    )


def vary_contrast(pixels: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
    """Scale the contrast of [height, width, channels] by 0.5 to 1.5."""
    return scale_contrast(pixels, scale_uniform(uniform, 0.5, 1.5))


# Which of the four comes first, second, third and fourth.
# The `color_ordering` 0 to 3 of slim's inception_preprocessing.
DISTORTION_ORDERS = (
    (shift_brightness, scale_saturation, shift_hue, vary_contrast),
    (scale_saturation, shift_brightness, vary_contrast, shift_hue),
    (vary_contrast, shift_hue, shift_brightness, scale_saturation),
    (shift_hue, scale_saturation, vary_contrast, shift_brightness),
)


def apply_steps(
    steps: Sequence[Step], pixels: tf.Tensor, uniforms: Sequence[tf.Tensor]
) -> tf.Tensor:
    """Apply steps to pixels [..., height, width, channels], each with a number from [0, 1)."""
    for step, uniform in zip(steps, uniforms):
        pixels = step(pixels, uniform)
    return pixels
