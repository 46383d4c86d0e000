"""Preprocessing of images by the published classification networks.

Each family has a fixed way for evaluation and a random one for training; which family a network was
trained with is part of the network. The numbers are slim's, under the same names; slim has no
`efficientnet`.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from typing import ClassVar, List, Optional, Sequence, Tuple, Type, Union

import numpy as np
import tensorflow as tf

from estimator_lib import errors, registry
from estimator_lib.task_interfaces.resizing import CENTRAL_CROP, Resize
from model_fns.backbones.registry import IMAGENET_STANDARDS
from model_fns.classification import pixel_steps
from model_fns.structures import images
from model_fns.structures.channels import THREE_COLORS, Channels

FAMILIES: registry.Registry[Type[Family]] = registry.Registry('preprocessing family')

MIRRORING = 'mirroring'

Size = Tuple[int, int]  # height, width

# Weights of red, green and blue in the luminance (ITU-R BT.601), as TensorFlow rounds them.
_LUMINANCE = np.array([0.2989, 0.587, 0.114], np.float32)


@dataclasses.dataclass(frozen=True)
class Family(abc.ABC):
    """Preprocessing from images to the input of a network.

    Args:
        use_grayscale: turn images of three channels into one of luminance.
        mirrors: mirror half of the images for training, where the family does.
        channels: of the images. Colors are varied alone; crops and mirroring move all channels.
    """

    use_grayscale: bool = False
    mirrors: bool = True
    channels: Channels = THREE_COLORS

    AUGMENTATIONS: ClassVar[Sequence[str]] = ()  # what `distort` varies, for people

    def augmentations(self) -> Sequence[str]:
        """Return the names of what training varies."""
        return [name for name in self.AUGMENTATIONS if self.mirrors or name != MIRRORING]

    def rule(self) -> Optional[Resize]:
        """Return the rule for programs beside files; None for one that they cannot follow."""
        return None

    def distort(self, image: tf.Tensor, height: int, width: int, seed: tf.Tensor) -> tf.Tensor:
        """Vary one image for training.

        Args:
            image: uint8 [any height, any width, channels], 3 channels or 1.
            height: of the result, in pixels.
            width: of the result.
            seed: int64 [2]; the variation is a function of it.

        Returns:
            [height, width, channels] of any numeric type: pixels from 0 to 255, for `finish`.
        """
        pixels = self._distort(image, (height, width), seed)
        pixels.set_shape([height, width, image.shape[-1]])
        return pixels

    def evaluate(self, image: tf.Tensor, height: int, width: int) -> tf.Tensor:
        """Convert an image, or a batch of images of one size, to the input of the network.

        Args:
            image: uint8 [any height, any width, channels] or [batch, any height, any width,
                channels], 3 channels or 1.
            height: of the result, in pixels.
            width: of the result.

        Returns:
            float32 [height, width, channels], or a batch of these.
        """
        pixels = self._frame(image, (height, width))
        pixels.set_shape([*image.shape[:-3], height, width, image.shape[-1]])
        return self.finish(pixels)

    def finish(self, pixels: tf.Tensor) -> tf.Tensor:
        """Convert images of the network's size to its input.

        Args:
            pixels: [.., height, width, channels] of any numeric type, from 0 to 255.

        Returns:
            float32 [.., height, width, channels], one channel where grayscale is used.
        """
        pixels = tf.cast(pixels, tf.float32)
        if self.use_grayscale and pixels.shape[-1] == 3:
            pixels = tf.reduce_sum(pixels * _LUMINANCE, -1, keepdims=True)
        return self.channels.normalize(pixels, self._normalize)

    @abc.abstractmethod
    def _distort(self, image: tf.Tensor, size: Size, seed: tf.Tensor) -> tf.Tensor:
        """Vary an image for training: pixels from 0 to 255, of any numeric type."""

    @abc.abstractmethod
    def _frame(self, image: tf.Tensor, size: Size) -> tf.Tensor:
        """Crop and resize images for evaluation: pixels from 0 to 255, of any numeric type."""

    def normalize(self, pixels: tf.Tensor) -> tf.Tensor:
        """Convert pixels to the input of the network.

        Args:
            pixels: float32 [.., height, width, channels] in [0, 255].
        """
        return self.channels.normalize(pixels, self._normalize)

    def denormalize(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return the pixels from which `normalize` computes these inputs.

        Where normalization removes brightness and contrast, they are not the original ones.

        Args:
            inputs: float32 [.., height, width, channels].
        """
        return self.channels.denormalize(inputs, self._denormalize)

    @abc.abstractmethod
    def _normalize(self, pixels: tf.Tensor) -> tf.Tensor:
        """Convert float pixels from 0 to 255 to the input of the network."""

    @abc.abstractmethod
    def _denormalize(self, inputs: tf.Tensor) -> tf.Tensor:
        """Invert `_normalize`."""

    def _mirror(self, image: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
        """Mirror left and right with a probability of one half, unless `mirrors` is false."""
        if not self.mirrors:
            return image
        # The list of axes is [1] or empty: no conditional is needed.
        return tf.reverse(image, tf.range(1, 1 + pixel_steps.integer(uniform, 2)))


def get_family(
    name: str,
    where: str = 'preprocessing',
    use_grayscale: bool = False,
    slow_color_distortion: bool = False,
    mirrors: bool = True,
    channels: Channels = THREE_COLORS,
) -> Family:
    """Return the preprocessing of that name.

    Args:
        name: `inception`, `efficientnet`, `vgg`, `lenet` or `cifarnet`.
        where: the config field that named it, for messages.
        use_grayscale: turn images of three channels into one of luminance.
        slow_color_distortion: the richer of the two distortions of `inception`.
        mirrors: mirror half of the images for training, where the family does.
        channels: of the images.

    Raises:
        errors.ConfigError: no such family, or one without a slow color distortion.
    """
    family = FAMILIES.get(name, where)
    if slow_color_distortion:
        if family is not Inception:
            raise errors.ConfigError(
                f'slow_color_distortion is true, but {where} is {name!r}, which has only one '
                f"color distortion; only 'inception' has two."
            )
        family = SlowInception
    return family(use_grayscale, mirrors, channels)


@FAMILIES.register('inception')
@dataclasses.dataclass(frozen=True)
class Inception(Family):
    """Crops of any size and shape, resized; pixels from -1 to 1.

    Args:
        central_fraction: the part of each side that evaluation keeps.
    """

    # slim's number: 224 of 256 pixels, as in Krizhevsky et al. 2012.
    central_fraction: float = 0.875

    AUGMENTATIONS = ('crops of any size and shape', MIRRORING, 'brightness', 'saturation')

    def _distort(self, image, size, seed):
        flip, brightness, saturation = pixel_steps.uniforms(seed, 3)
        crop = self._mirror(pixel_steps.random_box(image, seed), flip)
        pixels = images.resize(crop, *size)
        # slim's fast mode has one order of the two: its `num_distort_cases` is 1 there.
        pixels = pixel_steps.shift_brightness(pixels, brightness)
        return tf.clip_by_value(pixel_steps.scale_saturation(pixels, saturation), 0, 255)

    def rule(self) -> Optional[Resize]:
        """Return the central crop."""
        return Resize(CENTRAL_CROP, self.central_fraction)

    def _frame(self, image, size):
        whole = tf.shape(image)[-3:-1]
        length = tf.cast(whole, tf.float32)
        # tf.image.central_crop: the start is cut down, so that odd rests lengthen the crop.
        start = tf.cast((length - length * self.central_fraction) / 2, tf.int32)
        end = whole - start
        crop = image[..., start[0] : end[0], start[1] : end[1], :]
        return images.resize(crop, *size)

    def _normalize(self, pixels):
        return pixels * (2 / 255) - 1

    def _denormalize(self, inputs):
        return (inputs + 1) * (255 / 2)


@dataclasses.dataclass(frozen=True)
class SlowInception(Inception):
    """As `Inception`, trained with more variation.

    Hue and contrast vary as well as brightness and saturation, the four in one of four orders, and
    the resize is of one of four kinds.
    """

    AUGMENTATIONS = (*Inception.AUGMENTATIONS, 'hue', 'contrast', 'kinds of resizing')

    def _distort(self, image, size, seed):
        flip, method, order, *factors = pixel_steps.uniforms(seed, 7)
        crop = self._mirror(pixel_steps.random_box(image, seed), flip)
        pixels = tf.switch_case(
            pixel_steps.integer(method, len(images.RESIZE_METHODS)),
            [functools.partial(_resize, crop, size, name) for name in images.RESIZE_METHODS],
        )
        pixels = tf.switch_case(
            pixel_steps.integer(order, len(pixel_steps.DISTORTION_ORDERS)),
            [
                functools.partial(pixel_steps.apply_steps, steps, pixels, factors)
                for steps in pixel_steps.DISTORTION_ORDERS
            ],
        )
        return tf.clip_by_value(pixels, 0, 255)


@FAMILIES.register('efficientnet')
@dataclasses.dataclass(frozen=True)
class EfficientNet(Inception):
    """Colors of mean 0 and variance 1 on ImageNet, and its own crop in evaluation.

    Training crops as `Inception`. Evaluation takes the largest crop from the middle that has the
    result's shape, times size / (size + 32), and resizes it bicubically (the published
    `preprocess_for_eval`): 224 of 256 pixels for 224, 600 of 632 for 600.
    """

    # CROP_PADDING of the published preprocessing.py.
    MARGIN = 32

    def rule(self) -> Optional[Resize]:
        """Return None: the interpolation is bicubic."""
        return None

    def _frame(self, image, size):
        # In whole numbers, so that a crop does not lose a pixel to a rounded share.
        whole = tf.shape(image)[-3:-1]
        height, width = (side + self.MARGIN for side in size)
        is_high = whole[0] * width > whole[1] * height
        # The side that limits the crop, and the length that it stands for; products fit int32 up to
        # sides of three million pixels.
        part, of = tf.where(is_high, whole[1], whole[0]), tf.where(is_high, width, height)
        crop = tf.maximum(tf.constant(size) * part // of, 1)
        start = (whole - crop + 1) // 2
        end = start + crop
        pixels = image[..., start[0] : end[0], start[1] : end[1], :]
        return images.resize(pixels, *size, 'bicubic')

    def _normalize(self, pixels):
        mean, deviation = self._statistics(pixels)
        return (pixels - mean) / deviation

    def _denormalize(self, inputs):
        mean, deviation = self._statistics(inputs)
        return inputs * deviation + mean

    def _statistics(self, pixels: tf.Tensor) -> List[np.ndarray]:
        known = IMAGENET_STANDARDS.means, IMAGENET_STANDARDS.deviations
        return [_match_channels(one, pixels) for one in known]


@FAMILIES.register('vgg')
@dataclasses.dataclass(frozen=True)
class Vgg(Family):
    """A crop of an image with a fixed or random shorter side, minus the mean color.

    Args:
        short_side: length in evaluation. Training draws one from it to its double. None: as much
            larger than the result as 256 is than 224, so that the view is that of the published
            size.
    """

    short_side: Optional[int] = None

    AUGMENTATIONS = ('scales', 'crops', MIRRORING)
    # slim's vgg_preprocessing; the Object Detection API has a third decimal.
    MEAN = (123.68, 116.78, 103.94)

    def _distort(self, image, size, seed):
        side, row, column, flip = pixel_steps.uniforms(seed, 4)
        shortest = self._short_side(size)
        # slim draws from 256 to 512, both included, for 224 pixels.
        resized_size = _scaled_size(image, shortest + pixel_steps.integer(side, shortest + 1))
        rows, columns = tf.unstack(resized_size - size + 1)
        start = tf.stack([pixel_steps.integer(row, rows), pixel_steps.integer(column, columns)])
        return self._mirror(_resized_crop(image, resized_size, start, size), flip)

    def _frame(self, image, size):
        resized_size = _scaled_size(image, self._short_side(size))
        return _resized_crop(image, resized_size, (resized_size - size) // 2, size)

    def _normalize(self, pixels):
        return pixels - self._mean(pixels)

    def _denormalize(self, inputs):
        return inputs + self._mean(inputs)

    def _mean(self, pixels: tf.Tensor) -> np.ndarray:
        return _match_channels(self.MEAN, pixels)

    def _short_side(self, size: Size) -> int:
        return self.short_side or -(-max(size) * 256 // 224)


@FAMILIES.register('lenet')
@dataclasses.dataclass(frozen=True)
class Lenet(Family):
    """The middle of the image, padded where it is too small; pixels from -1 to 1. No variation."""

    def _distort(self, image, size, seed):
        del seed
        # slim's lenet_preprocessing varies nothing either.
        return self._frame(image, size)

    def _frame(self, image, size):
        return images.crop_or_pad(image, *size)

    def _normalize(self, pixels):
        # 128 and not 127.5, as published: white is 0.992.
        return (pixels - 128) / 128

    def _denormalize(self, inputs):
        return inputs * 128 + 128


@FAMILIES.register('cifarnet')
@dataclasses.dataclass(frozen=True)
class Cifarnet(Family):
    """The image at its own scale, with the mean of 0 and the variance of 1.

    Args:
        padding: how far a random crop may reach over each edge. It reaches further where the image
            is too small for the crop.
    """

    # slim's number, as in the CIFAR training of He et al. 2015, section 4.2.
    padding: int = 4

    AUGMENTATIONS = ('crops', MIRRORING, 'contrast')

    def _distort(self, image, size, seed):
        row, column, flip, contrast = pixel_steps.uniforms(seed, 4)
        spare = tf.shape(image)[:2] - size
        # `//` rounds down, so its negative rounds up: one pixel too many, not one too few.
        padding = tf.maximum(self.padding, -(spare // 2))
        rows, columns = tf.unstack(spare + 2 * padding + 1)
        start = (
            tf.stack([pixel_steps.integer(row, rows), pixel_steps.integer(column, columns)])
            - padding
        )
        crop = self._mirror(images.window(image, start, *size), flip)
        # slim also shifts the brightness, which `normalize` undoes exactly.
        return pixel_steps.scale_contrast(
            tf.cast(crop, tf.float32), pixel_steps.scale_uniform(contrast, 0.2, 1.8)
        )

    def _frame(self, image, size):
        return images.crop_or_pad(image, *size)

    def _normalize(self, pixels):
        mean, variance = tf.nn.moments(pixels, [-3, -2, -1], keepdims=True)
        num_values = pixels.shape[-3:].num_elements()
        # tf.image.per_image_standardization, which has the same bound for images of one color.
        return (pixels - mean) / tf.maximum(tf.sqrt(variance), 1 / math.sqrt(num_values))

    def _denormalize(self, inputs):
        # Brightness and contrast are gone: any others will do, such as those that use all values.
        low = tf.reduce_min(inputs, [-3, -2, -1], keepdims=True)
        high = tf.reduce_max(inputs, [-3, -2, -1], keepdims=True)
        return tf.math.divide_no_nan(inputs - low, high - low) * 255


def _match_channels(color: Sequence[float], pixels: tf.Tensor) -> np.ndarray:
    """Return the numbers of the colors, or their luminance where pixels have one channel."""
    # In float32, as the graph computes the luminance of pixels: equal colors become 0.
    values = np.array(color, np.float32)
    return values if pixels.shape[-1] == 3 else np.dot(values, _LUMINANCE)


def _resize(image: tf.Tensor, size: Size, method: str) -> tf.Tensor:
    return tf.cast(images.resize(image, *size, method), tf.float32)


def _scaled_size(image: tf.Tensor, short_side: Union[int, tf.Tensor]) -> tf.Tensor:
    """Compute the size of an image whose shorter side is resized to a length, int32 [2]."""
    size = tf.cast(tf.shape(image)[-3:-1], tf.float32)
    scale = tf.cast(short_side, tf.float32) / tf.reduce_min(size)
    # slim's rint of float32 numbers: with another rounding some sizes differ by a pixel.
    return tf.cast(tf.math.rint(size * scale), tf.int32)


def _resized_crop(
    image: tf.Tensor, resized_size: tf.Tensor, start: tf.Tensor, size: Size
) -> tf.Tensor:
    pixels = images.resize(image, resized_size[0], resized_size[1])
    end = start + size
    return pixels[..., start[0] : end[0], start[1] : end[1], :]
