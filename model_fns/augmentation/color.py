"""Augmentation steps that change the colors of all pixels."""

from __future__ import annotations

import functools
from typing import Callable, Sequence, Tuple, TypeVar

import numpy as np
import tensorflow as tf

from estimator_lib.task import IMAGE, Example
from model_fns.augmentation import pixels, randomness, steps
from protos import augmentation_pb2

# (float32 image from 0 to 255, random number in [0, 1)) -> image.
_Change = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
_Builder = TypeVar('_Builder', bound=Callable[..., _Change])

# Weights of red, green and blue in the luminance (ITU-R BT.601), as TensorFlow rounds them.
_LUMINANCE = np.array([0.2989, 0.587, 0.114], np.float32)
_CHANNELS = 3
_TO_GRAY = np.tile(_LUMINANCE[:, np.newaxis], [1, _CHANNELS])


@steps.register_image_step('random_distort_color', order='color_ordering')
def random_distort_color(example: Example, seed: tf.Tensor, order: int) -> Example:
    """Change brightness, saturation, hue and contrast at random.

    Args:
        example: any example.
        seed: int64 [2].
        order: 0: the order above; 1: brightness, contrast, saturation, hue.
    """
    return _changed(example, seed, _DISTORTIONS[order])


@steps.register_image_step('adjust_gamma', gamma='gamma', gain='gain')
def adjust_gamma(example: Example, seed: tf.Tensor, gamma: float, gain: float) -> Example:
    """Compute gain * pixel^gamma, for pixels from 0 to 1.

    Args:
        example: any example.
        seed: int64 [2], not used.
        gamma: not negative.
        gain: a factor.
    """
    del seed
    image = pixels.to_float(example[IMAGE])
    return _with_image(example, _clip_to_range(gain * (image / 255.0) ** gamma * 255.0))


@steps.register_image_step('rgb_to_gray')
def rgb_to_gray(example: Example, seed: tf.Tensor) -> Example:
    """Set the three channels to their luminance.

    Args:
        example: any example.
        seed: int64 [2], not used.
    """
    del seed
    image = pixels.to_float(example[IMAGE])
    return _with_image(example, _mixed(image, _TO_GRAY))


@steps.register_image_step('random_rgb_to_gray', probability='probability')
def random_rgb_to_gray(example: Example, seed: tf.Tensor, probability: float) -> Example:
    """Set the three channels to their luminance at random.

    Args:
        example: any example.
        seed: int64 [2].
        probability: probability of the change.
    """
    (uniform,) = randomness.uniforms(seed, 1)
    image = pixels.to_float(example[IMAGE])
    # A choice between two matrices, because one for each pixel is slow (287c819e).
    mixture = tf.where(uniform < probability, _TO_GRAY, np.eye(_CHANNELS, dtype=np.float32))
    return _with_image(example, _mixed(image, mixture))


def mix_with_gray(image: tf.Tensor, share: float) -> tf.Tensor:
    """Mix an image with its luminance; a `share` above 1 amplifies colors.

    Args:
        image: float32 [height, width, 3].
        share: weight of the image; its luminance has the weight 1 - share.
    """
    return _mixed(image, (1.0 - share) * _TO_GRAY + share * np.eye(_CHANNELS, dtype=np.float32))


@steps.register_image_step('random_pixel_value_scale', smallest='minval', largest='maxval')
def random_pixel_value_scale(
    example: Example, seed: tf.Tensor, smallest: float, largest: float
) -> Example:
    """Multiply each value of each pixel by its own random factor.

    Args:
        example: any example.
        seed: int64 [2].
        smallest: smallest factor.
        largest: largest factor.
    """
    image = pixels.to_float(example[IMAGE])
    uniforms = randomness.uniform_tensor(seed, tf.shape(image))
    return _with_image(
        example, _clip_to_range(image * randomness.between(uniforms, smallest, largest))
    )


def normalize_image(
    example: Example, seed: tf.Tensor, source: Tuple[float, float], target: Tuple[float, float]
) -> Example:
    """Map pixel values linearly from one interval to another.

    Args:
        example: any example.
        seed: int64 [2], not used.
        source: two values that are mapped to those of the target.
        target: the two values of the target.
    """
    del seed
    scale = (target[1] - target[0]) / (source[1] - source[0])
    image = pixels.to_float(example[IMAGE])
    # Not clipped, as published: this step is for networks that expect another range.
    return _with_image(example, (image - source[0]) * scale + target[0])


def subtract_channel_mean(example: Example, seed: tf.Tensor, means: Sequence[float]) -> Example:
    """Subtract one number from each channel.

    Args:
        example: any example.
        seed: int64 [2], not used.
        means: number of each channel.
    """
    del seed
    return _with_image(example, pixels.to_float(example[IMAGE]) - np.array(means, np.float32))


@steps.IMAGE_STEPS.register('normalize_image')
def _build_normalize(config: augmentation_pb2.NormalizeImage, where: str) -> steps.Step:
    differ = config.original_minval != config.original_maxval
    steps.check(differ, where, config, 'original_maxval', 'a number that is not original_minval')
    return functools.partial(
        normalize_image,
        source=(config.original_minval, config.original_maxval),
        target=(config.target_minval, config.target_maxval),
    )


@steps.IMAGE_STEPS.register('subtract_channel_mean')
def _build_subtract(config: augmentation_pb2.SubtractChannelMean, where: str) -> steps.Step:
    is_right = len(config.means) == _CHANNELS
    steps.check(is_right, where, config, 'means', f'{_CHANNELS} numbers')
    return functools.partial(subtract_channel_mean, means=list(config.means))


def _register_change(name: str, **parameters: str) -> Callable[[_Builder], _Builder]:
    """Return a decorator that registers a step of one change; see `steps.register`."""

    def add(build: _Builder) -> _Builder:
        def step(example: Example, seed: tf.Tensor, **values: float) -> Example:
            return _changed(example, seed, [build(**values)])

        steps.register_image_step(name, **parameters)(step)
        return build

    return add


@_register_change('random_adjust_brightness', most='max_delta')
def _brightness(most: float) -> _Change:
    """Build a change that adds one number to all pixels.

    Args:
        most: largest absolute value of the number, for pixels from 0 to 1.
    """
    return lambda image, uniform: image + randomness.between(uniform, -255 * most, 255 * most)


@_register_change('random_adjust_contrast', smallest='min_delta', largest='max_delta')
def _contrast(smallest: float, largest: float) -> _Change:
    """Build a change that scales the distance of pixels from the mean of their channel."""

    def change(image: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
        factor = randomness.between(uniform, smallest, largest)
        return tf.raw_ops.AdjustContrastv2(images=image, contrast_factor=factor)

    return change


@_register_change('random_adjust_hue', most='max_delta')
def _hue(most: float) -> _Change:
    """Build a change that rotates the hue.

    Args:
        most: largest rotation in both directions; 1 is the whole circle.
    """

    def change(image: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
        # Hue and saturation do not depend on whether pixels end at 255 or at 1.
        return tf.raw_ops.AdjustHue(images=image, delta=randomness.between(uniform, -most, most))

    return change


@_register_change('random_adjust_saturation', smallest='min_delta', largest='max_delta')
def _saturation(smallest: float, largest: float) -> _Change:
    """Build a change that multiplies the saturation by a factor."""

    def change(image: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
        scale = randomness.between(uniform, smallest, largest)
        return tf.raw_ops.AdjustSaturation(images=image, scale=scale)

    return change


# The published `random_distort_color`, after the preprocessing of Inception; order 0 and order 1.
_DISTORTIONS = (
    (_brightness(32 / 255), _saturation(0.5, 1.5), _hue(0.2), _contrast(0.5, 1.5)),
    (_brightness(32 / 255), _contrast(0.5, 1.5), _saturation(0.5, 1.5), _hue(0.2)),
)


def _changed(example: Example, seed: tf.Tensor, changes: Sequence[_Change]) -> Example:
    """Apply changes in order, and clip pixels to their range after each."""
    image = pixels.to_float(example[IMAGE])
    for change, uniform in zip(changes, randomness.uniforms(seed, len(changes))):
        image = _clip_to_range(change(image, uniform))
    return _with_image(example, image)


def _mixed(image: tf.Tensor, mixture: tf.Tensor) -> tf.Tensor:
    """Multiply [..., channels] by a matrix [channels, channels]."""
    pixels = tf.matmul(tf.reshape(image, [-1, _CHANNELS]), mixture)
    mixed = tf.reshape(pixels, tf.shape(image))
    mixed.set_shape(image.shape)
    return mixed


def _clip_to_range(image: tf.Tensor) -> tf.Tensor:
    return tf.clip_by_value(image, 0.0, 255.0)


def _with_image(example: Example, image: tf.Tensor) -> Example:
    return {**example, IMAGE: image}
