"""Augmentation steps that place images on larger canvases, possibly after a crop."""

from __future__ import annotations

import dataclasses
import functools
from typing import Optional, Sequence, Tuple, Union

import tensorflow as tf

from estimator_lib.task import Example
from model_fns.augmentation import randomness
from model_fns.detection import fields
from model_fns.detection.data.augmentation import cropping, frames, steps
from protos import augmentation_pb2

# A value for each channel, 0 to 255; None: the mean color of the image.
Color = Optional[Tuple[float, ...]]
Ratios = Tuple[float, float]

_CHANNELS = 3
_SMALLEST, _LARGEST = (1.0, 1.0), (2.0, 2.0)


@dataclasses.dataclass(frozen=True)
class Canvas:
    """Parameters of a random canvas.

    Attributes:
        smallest: smallest height and width, as multiples of those of the uncropped image.
        largest: largest height and width, as multiples of those of the uncropped image.
        color: color of the canvas.
    """

    smallest: Ratios = _SMALLEST
    largest: Ratios = _LARGEST
    color: Color = None


# All crops of SSD except the first, each on a canvas of up to twice the image's sides.
SSD_CROPS = cropping.SSD_CROPS[1:]


def random_pad(
    example: Example,
    seed: tf.Tensor,
    smallest: Sequence[int] = (0, 0),
    largest: Optional[Sequence[int]] = None,
    color: Color = None,
) -> Example:
    """Place the image at a random position of a canvas of random size.

    Args:
        example: any example.
        seed: int64 [2].
        smallest: smallest height and width of the canvas, in pixels; never below the image's.
        largest: largest height and width of the canvas; None: twice the image's.
        color: color of the canvas.
    """
    if largest is None:
        largest = 2 * frames.image_size(example)
    return _pad_at_random(example, seed, smallest, largest, [color])


def random_absolute_pad(
    example: Example, seed: tf.Tensor, most: Sequence[int], color: Color = None
) -> Example:
    """Place the image on a canvas that is larger by up to `most` rows and columns."""
    whole = frames.image_size(example)
    return _pad_at_random(example, seed, whole, whole + most, [color])


def random_crop_pad(
    example: Example,
    seed: tf.Tensor,
    crops: Sequence[cropping.Crop],
    canvases: Sequence[Canvas],
) -> Example:
    """Crop an example, then place it on a canvas whose size is relative to the uncropped image.

    Args:
        example: any example.
        seed: int64 [2].
        crops: the kinds of crops, one of which is drawn.
        canvases: canvas of each kind of crop.
    """
    drawn = cropping.draw(seed, len(crops))
    whole = tf.cast(frames.image_size(example), tf.float32)
    smallest = whole * cropping.chosen([canvas.smallest for canvas in canvases], drawn)
    largest = whole * cropping.chosen([canvas.largest for canvas in canvases], drawn)
    return _pad_at_random(
        cropping.crop_as_drawn(example, seed, crops, drawn),
        randomness.stream_seed(seed, 3),
        tf.cast(smallest, tf.int32),
        tf.cast(largest, tf.int32),
        [canvas.color for canvas in canvases],
        drawn,
    )


def random_crop_pad_fixed_aspect_ratio(
    example: Example,
    seed: tf.Tensor,
    crops: Sequence[cropping.Crop],
    aspect_ratio: float,
    smallest: Ratios = _SMALLEST,
    largest: Ratios = _LARGEST,
) -> Example:
    """Crop an example, then place it at the top left of a black canvas of one ratio.

    Args:
        example: any example.
        seed: int64 [2].
        crops: the kinds of crops, one of which is drawn.
        aspect_ratio: width over height of the canvas.
        smallest: smallest height and width of the canvas as multiples of the crop's, if the ratio
            allows.
        largest: largest height and width, likewise.
    """
    example = cropping.random_crop(example, seed, crops)
    (uniform,) = randomness.uniforms(randomness.stream_seed(seed, 3), 1)
    whole = frames.image_size(example)
    sides = tf.cast(whole, tf.float32)
    # The smallest canvas of the ratio that the crop fits in.
    fitting = tf.maximum(sides, tf.reverse(sides, [0]) * [1 / aspect_ratio, aspect_ratio])
    most = tf.reduce_min(tf.maximum(sides * largest, fitting) / fitting)
    least = tf.minimum(most, tf.reduce_max(tf.maximum(sides * smallest, fitting) / fitting))
    # Rounding may take a pixel away, so that the crop would not fit in: see the maximum below.
    size = tf.round(fitting * randomness.between(uniform, least, most))
    return frames.pad(example, tf.zeros([2], tf.int32), tf.maximum(tf.cast(size, tf.int32), whole))


@steps.BUILDERS.register('random_pad_image')
def _build_pad(config: augmentation_pb2.RandomPadImage, where: str) -> steps.Step:
    for side in ('min_image', 'max_image'):
        both = f'{side}_height', f'{side}_width'
        for name, other in (both, both[::-1]):
            is_right = config.HasField(name) or not config.HasField(other)
            steps.check(is_right, where, config, name, f'a number of pixels, as {other} is set')
    smallest = (config.min_image_height, config.min_image_width)
    largest = None
    if config.HasField('max_image_height'):
        largest = (config.max_image_height, config.max_image_width)
        for side, low, high in zip(('height', 'width'), smallest, largest):
            expected = f'at least min_image_{side}, {low}'
            steps.check(low <= high, where, config, f'max_image_{side}', expected)
    color = _color(config, where)
    return functools.partial(random_pad, smallest=smallest, largest=largest, color=color)


@steps.BUILDERS.register('random_absolute_pad_image')
def _build_absolute_pad(config: augmentation_pb2.RandomAbsolutePadImage, where: str) -> steps.Step:
    most = (config.max_height_padding, config.max_width_padding)
    return functools.partial(random_absolute_pad, most=most, color=_color(config, where))


@steps.BUILDERS.register('random_crop_pad_image')
def _build_crop_pad(config: augmentation_pb2.RandomCropPadImage, where: str) -> steps.Step:
    canvas = Canvas(*_ratios(config, where), _color(config, where))
    crops = (cropping.build_crop(config),)
    return functools.partial(random_crop_pad, crops=crops, canvases=(canvas,))


@steps.BUILDERS.register('ssd_random_crop_pad')
def _build_ssd_crop_pad(config: augmentation_pb2.SSDRandomCropPad, where: str) -> steps.Step:
    crops = cropping.build_crops(config, SSD_CROPS)
    canvases = [
        Canvas(
            *_ratios(operation, f'{where}.operations[{index}]'),
            (operation.pad_color_r, operation.pad_color_g, operation.pad_color_b),
        )
        for index, operation in enumerate(config.operations)
    ]
    canvases = canvases or [Canvas()] * len(crops)
    return functools.partial(random_crop_pad, crops=crops, canvases=canvases)


@steps.BUILDERS.register('ssd_random_crop_pad_fixed_aspect_ratio')
def _build_ssd_fixed(
    config: augmentation_pb2.SSDRandomCropPadFixedAspectRatio, where: str
) -> steps.Step:
    smallest, largest = _ratios(config, where)
    return functools.partial(
        random_crop_pad_fixed_aspect_ratio,
        crops=cropping.build_crops(config, cropping.SSD_CROPS),
        aspect_ratio=config.aspect_ratio,
        smallest=smallest,
        largest=largest,
    )


def _ratios(config, where: str) -> Tuple[Ratios, Ratios]:
    """Return the smallest and the largest canvas of a message."""
    names = 'min_padded_size_ratio', 'max_padded_size_ratio'
    smallest, largest = (steps.check_count(config, where, name, 2) for name in names)
    smallest, largest = smallest or _SMALLEST, largest or _LARGEST
    in_order = all(low <= high for low, high in zip(smallest, largest))
    expected = f'numbers not below {names[0]}, {steps.shown(smallest)}'
    steps.check(in_order, where, config, names[1], expected)
    return smallest, largest


def _color(config, where: str) -> Color:
    return tuple(steps.check_count(config, where, 'pad_color', _CHANNELS)) or None


def _pad_at_random(
    example: Example,
    seed: tf.Tensor,
    smallest: Union[Sequence[int], tf.Tensor],
    largest: Union[Sequence[int], tf.Tensor],
    colors: Sequence[Color],
    drawn: Union[int, tf.Tensor] = 0,
) -> Example:
    """Place the image on a random canvas of the drawn color; see `random_pad`."""
    whole = frames.image_size(example)
    # A canvas below the size of the image would need a crop, which this step does not do.
    low = tf.maximum(smallest, whole)
    size_draw, position_draw = randomness.uniforms(seed, 2, 2)
    size = randomness.integer(size_draw, low, tf.maximum(largest, low))
    begin = randomness.integer(position_draw, 0, size - whole)
    image = example[fields.IMAGE]
    # The image stays uint8 where the color allows: a quarter of the memory of float32.
    if not _are_whole_numbers(colors):
        image = frames.to_float(image)
    color = _drawn_color(image, colors, drawn)
    return frames.pad({**example, fields.IMAGE: image}, begin, size, color)


def _are_whole_numbers(colors: Sequence[Color]) -> bool:
    values = [value for color in colors for value in color or ()]
    return all(value == int(value) and 0 <= value <= 255 for value in values)


def _drawn_color(image: tf.Tensor, colors: Sequence[Color], drawn: tf.Tensor) -> tf.Tensor:
    """Return the drawn color in the image's type."""
    if colors[0] is not None:
        color = tf.cast(cropping.chosen(colors, drawn), image.dtype)
        return tf.pad(color, [[0, image.shape[-1] - _CHANNELS]])  # further channels: 0
    mean = tf.reduce_mean(frames.to_float(image), [0, 1])
    return tf.cast(tf.round(mean), image.dtype) if image.dtype.is_integer else mean
