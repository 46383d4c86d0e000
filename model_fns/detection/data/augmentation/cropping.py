"""Random crops that keep enough of some object."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Sequence, Tuple, Union

import numpy as np
import tensorflow as tf

from estimator_lib.task import Example
from model_fns.augmentation import randomness
from model_fns.detection import fields
from model_fns.detection.boxes.family import find_family
from model_fns.detection.data.augmentation import frames, steps
from protos import augmentation_pb2

Range = Tuple[float, float]

# The default of the kernel, which the published steps have too.
_MAX_ATTEMPTS = 100
_WHOLE = frames.Window(np.int32([0, 0, 0]), np.int32([-1, -1, -1]), np.float32([0, 0, 1, 1]))


@dataclasses.dataclass(frozen=True)
class Crop:
    """Parameters of a random window, and of the boxes in it.

    Attributes:
        min_object_covered: the window covers at least this fraction of some box.
        aspect_ratios: range of width over height.
        areas: range of the area, as a fraction of the area of the image.
        min_overlap: boxes with a smaller fraction inside the window are dropped.
        clips: True: the other boxes are clipped to the window.
        keep_probability: probability of an unchanged example.
    """

    min_object_covered: float = 1.0
    aspect_ratios: Range = (0.75, 1.33)
    areas: Range = (0.1, 1.0)
    min_overlap: float = 0.3
    clips: bool = True
    keep_probability: float = 0.0


# Liu et al., "SSD: Single Shot MultiBox Detector" (2016), section 2.2, as published with the
# detection API: one of these crops is drawn for each image.
SSD_CROPS = tuple(
    Crop(overlap, (0.5, 2.0), (0.1, 1.0), overlap, keep_probability=0.15)
    for overlap in (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
)


def random_crop(example: Example, seed: tf.Tensor, crops: Sequence[Crop]) -> Example:
    """Crop an example by one of several kinds of crops, drawn at random.

    The window is the whole image if a hundred attempts find no other.

    Args:
        example: any example.
        seed: int64 [2].
        crops: kinds of crops, equally probable.
    """
    return crop_as_drawn(example, seed, crops, draw(seed, len(crops)))


def draw(seed: tf.Tensor, count: int) -> tf.Tensor:
    """Draw the index of a kind of `random_crop`: int32 scalar from 0 to count - 1."""
    if count == 1:
        return tf.constant(0)
    (uniform,) = randomness.uniforms(randomness.stream_seed(seed, 1), 1)
    return randomness.integer(uniform, 0, count - 1)


def crop_as_drawn(
    example: Example, seed: tf.Tensor, crops: Sequence[Crop], drawn: tf.Tensor
) -> Example:
    """Crop an example by a kind of crop whose index is already drawn; see `random_crop`."""
    window, is_whole = _draw_window(example, seed, crops, drawn), None
    if any(crop.keep_probability for crop in crops):
        (uniform,) = randomness.uniforms(randomness.stream_seed(seed, 2), 1)
        is_whole = uniform < chosen([crop.keep_probability for crop in crops], drawn)
        window = frames.Window(*(tf.where(is_whole, *pair) for pair in zip(_WHOLE, window)))
    min_overlap = chosen([crop.min_overlap for crop in crops], drawn)
    clips = chosen([crop.clips for crop in crops], drawn)
    return frames.crop(example, window, min_overlap, clips, is_whole)


@steps.register(
    'random_crop_to_aspect_ratio',
    aspect_ratio='aspect_ratio',
    min_overlap='overlap_thresh',
    clips='clip_boxes',
)
def random_crop_to_aspect_ratio(
    example: Example,
    seed: tf.Tensor,
    aspect_ratio: float = 1.0,
    min_overlap: float = 0.3,
    clips: frames.Flag = True,
) -> Example:
    """Crop an example to the largest window of a ratio, at a random position.

    Args:
        example: any example.
        seed: int64 [2].
        aspect_ratio: width over height.
        min_overlap: boxes with a smaller fraction inside the window are dropped.
        clips: True: the other boxes are clipped to the window.
    """
    whole = frames.image_size(example)
    height, width = tf.unstack(tf.cast(whole, tf.float32))
    ratio_size = tf.stack([width / aspect_ratio, height * aspect_ratio])
    fitting = tf.maximum(tf.cast(tf.round(ratio_size), tf.int32), 1)
    size = tf.minimum(whole, fitting)
    (position,) = randomness.uniforms(seed, 1, 2)
    window = frames.pixel_window(randomness.integer(position, 0, whole - size), size, whole)
    return frames.crop(example, window, min_overlap, clips)


def ssd_crop_fixed_aspect_ratio(
    example: Example, seed: tf.Tensor, crops: Sequence[Crop], aspect_ratio: float
) -> Example:
    """Crop an example at random, then crop results of another ratio to the ratio.

    Args:
        example: any example.
        seed: int64 [2].
        crops: kinds of crops.
        aspect_ratio: width over height.
    """
    drawn = draw(seed, len(crops))
    example = crop_as_drawn(example, seed, crops, drawn)
    clips = chosen([crop.clips for crop in crops], drawn)
    seed = randomness.stream_seed(seed, 3)
    return random_crop_to_aspect_ratio(example, seed, aspect_ratio, clips=clips)


def chosen(values: Sequence[Any], drawn: tf.Tensor) -> Any:
    """Return the value at a drawn index; a plain value, not a tensor, if all values are equal."""
    return values[0] if len(set(values)) == 1 else tf.gather(list(values), drawn)


def build_crop(config) -> Crop:
    """Build the crop that a message with these fields describes.

    Args:
        config: a `RandomCropImage`, an `SSDRandomCropOperation` or another with their fields; the
            aspect ratios may be missing.
    """
    ratios = (1.0, 1.0)
    if 'min_aspect_ratio' in config.DESCRIPTOR.fields_by_name:
        ratios = (config.min_aspect_ratio, config.max_aspect_ratio)
    return Crop(
        config.min_object_covered,
        ratios,
        (config.min_area, config.max_area),
        config.overlap_thresh,
        config.clip_boxes,
        config.random_coef,
    )


def build_crops(config, default: Sequence[Crop]) -> Sequence[Crop]:
    """Build the crops of a message's `operations`; the default if it has none."""
    return tuple(map(build_crop, config.operations)) or default


@steps.BUILDERS.register('random_crop_image')
def _build_random_crop(config: augmentation_pb2.RandomCropImage, where: str) -> steps.Step:
    del where
    return functools.partial(random_crop, crops=(build_crop(config),))


@steps.BUILDERS.register('ssd_random_crop')
def _build_ssd_crop(config: augmentation_pb2.SSDRandomCrop, where: str) -> steps.Step:
    del where
    return functools.partial(random_crop, crops=build_crops(config, SSD_CROPS))


@steps.BUILDERS.register('ssd_random_crop_fixed_aspect_ratio')
def _build_ssd_fixed(
    config: augmentation_pb2.SSDRandomCropFixedAspectRatio, where: str
) -> steps.Step:
    del where
    ratio = config.aspect_ratio
    crops = [
        dataclasses.replace(crop, aspect_ratios=(ratio, ratio))
        for crop in build_crops(config, SSD_CROPS)
    ]
    return functools.partial(ssd_crop_fixed_aspect_ratio, crops=crops, aspect_ratio=ratio)


def _draw_window(
    example: Example, seed: tf.Tensor, crops: Sequence[Crop], drawn: tf.Tensor
) -> frames.Window:
    """Draw a window of the drawn kind of crop."""
    ranges = [(crop.aspect_ratios, crop.areas) for crop in crops]
    different = sorted(set(ranges))
    covered = chosen([crop.min_object_covered for crop in crops], drawn)
    windows = [
        _sample(example, seed, aspect_ratios, areas, covered) for aspect_ratios, areas in different
    ]
    if len(windows) == 1:
        return windows[0]
    # The ranges are attributes of the kernel, not inputs. So each distinct pair needs a kernel.
    used = tf.gather([different.index(pair) for pair in ranges], drawn)
    return frames.Window(*(tf.gather(tf.stack(part), used) for part in zip(*windows)))


def _sample(
    example: Example,
    seed: tf.Tensor,
    aspect_ratios: Range,
    areas: Range,
    min_object_covered: Union[float, tf.Tensor],
) -> frames.Window:
    boxes = example[fields.BOXES]
    bounds = find_family(boxes).enclosing_boxes(boxes)
    begin, size, share = tf.raw_ops.StatelessSampleDistortedBoundingBox(
        image_size=tf.shape(example[fields.IMAGE]),
        # The kernel refuses coordinates outside of [0, 1], and rotated boxes may be partly outside.
        bounding_boxes=tf.clip_by_value(bounds, 0.0, 1.0)[tf.newaxis],
        min_object_covered=min_object_covered,
        seed=seed,
        aspect_ratio_range=aspect_ratios,
        area_range=areas,
        max_attempts=_MAX_ATTEMPTS,
        # Without it the kernel fails for images without objects.
        use_image_if_no_bounding_boxes=True,
    )
    return frames.Window(begin, size, tf.reshape(share, [4]))
