"""Mosaics of four images."""

from __future__ import annotations

import functools
from typing import Callable, List, Sequence, Tuple

import tensorflow as tf

from estimator_lib.task import Example
from model_fns.augmentation import randomness
from model_fns.detection import fields
from model_fns.detection.data import examples
from model_fns.detection.data.augmentation import frames, steps
from model_fns.structures import images
from protos import augmentation_pb2

# (example, bool [2]: at the bottom and at the right, int32 [2]: its room) -> what is shown of it.
_CutOut = Callable[[Example, tf.Tensor, tf.Tensor], Example]

_SCALE_STEPS = 256  # of a factor of 2
_GRAY = 114  # the published color of what no image covers


def mosaic(
    group: Sequence[Example],
    seed: tf.Tensor,
    side: int = 0,
    min_area_inside: float = 0.1,
    probability: float = 1.0,
) -> Example:
    """Place four examples around a random point of a gray canvas.

    Bochkovskiy et al., "YOLOv4" (2020). The layout is that of its successors: each image is
    resized to fit in a quarter of the canvas, and touches the point with a corner. The point lies
    between a quarter and three quarters of each side.

    Args:
        group: four examples: at the top left, top right, bottom left, bottom right.
        seed: int64 [2].
        side: side of the canvas in pixels, at least 4; 0: the longer side of the first image.
        min_area_inside: boxes with a smaller fraction of their area on the canvas are dropped.
        probability: probability of a mosaic; otherwise the first example is returned.
    """
    happens, y, x = randomness.uniforms(seed, 3)
    if probability >= 1.0:
        return _placed(group, tf.stack([y, x]), side, min_area_inside)
    return tf.cond(
        happens < probability,
        lambda: _placed(group, tf.stack([y, x]), side, min_area_inside),
        lambda: dict(group[0]),
    )


def scaled_mosaic(
    group: Sequence[Example],
    seed: tf.Tensor,
    size: Tuple[int, int] = (0, 0),
    scales: Tuple[float, float] = (0.5, 1.5),
    min_area_inside: float = 0.1,
    probability: float = 1.0,
) -> Example:
    """Place four examples of about their own size around a random point of a gray canvas.

    Ge et al., "YOLOX" (2021), section 2.1: the images fit in the canvas, times a random scale, so
    that the parts beside the point are seen. The point is that of a mosaic of twice the sides of
    the canvas, of which the middle is cut out after scaling; a point outside moves to the edge.
    With a scale of 1 it lies anywhere in the canvas, with 0.5 in the middle half of each side.

    Args:
        group: four examples: at the top left, top right, bottom left, bottom right.
        seed: int64 [2].
        size: height and width of the canvas in pixels; 0: those of the first image.
        scales: smallest and largest scale.
        min_area_inside: boxes with a smaller fraction of their area on the canvas are dropped.
        probability: probability of a mosaic; otherwise the first example is returned.
    """
    happens, y, x, scale = randomness.uniforms(seed, 4)

    def place() -> Example:
        # In quarters of a canvas objects have half of their size, which cost 0.4 mAP (7b09ff29).
        own = frames.image_size(group[0])
        canvas = tf.stack([side or own[axis] for axis, side in enumerate(size)])
        # Whole numbers, so that rounding cannot lose a pixel.
        low, high = (round(each * _SCALE_STEPS) for each in scales)
        fit = tf.maximum(canvas * randomness.integer(scale, low, high) // _SCALE_STEPS, 1)
        center = (canvas - fit) // 2 + randomness.integer(tf.stack([y, x]), 0, fit)
        center = tf.clip_by_value(center, 1, canvas - 1)
        return _join(
            group,
            center,
            canvas,
            functools.partial(_cut_to_scale, fit=fit, min_area_inside=min_area_inside),
        )

    if probability >= 1.0:
        return place()
    return tf.cond(happens < probability, place, lambda: dict(group[0]))


@steps.MIXERS.register('mosaic')
def _build(config: augmentation_pb2.Mosaic, where: str) -> steps.Mixer:
    if config.keep_sizes:
        steps.check(not config.output_size, where, config, 'output_size', '0 with keep_sizes')
        for field in ('canvas_height', 'canvas_width'):
            is_right = getattr(config, field) == 0 or getattr(config, field) >= 4
            steps.check(is_right, where, config, field, '0, or at least 4 pixels')
        scaled = functools.partial(
            scaled_mosaic,
            size=(config.canvas_height, config.canvas_width),
            scales=(config.min_scale, config.max_scale),
            min_area_inside=config.min_area_inside,
            probability=config.probability,
        )
        return steps.Mixer(scaled, num_examples=4)
    is_right = config.output_size == 0 or config.output_size >= 4
    steps.check(is_right, where, config, 'output_size', '0, or at least 4 pixels')
    combine = functools.partial(
        mosaic,
        side=config.output_size,
        min_area_inside=config.min_area_inside,
        probability=config.probability,
    )
    return steps.Mixer(combine, num_examples=4)


def _placed(
    group: Sequence[Example], point: tf.Tensor, side: int, min_area_inside: float
) -> Example:
    """Build the mosaic around a point: float32 [2] in [0, 1), of the canvas's middle half."""
    canvas = tf.constant(side) if side else _canvas_side(group[0])
    center = randomness.integer(point, canvas // 4, canvas - canvas // 4)
    return _join(
        group,
        center,
        tf.stack([canvas, canvas]),
        functools.partial(_shrink, half=canvas // 2, min_area_inside=min_area_inside),
    )


def _canvas_side(example: Example) -> tf.Tensor:
    return tf.maximum(tf.reduce_max(frames.image_size(example)), 4)


def _join(
    group: Sequence[Example], center: tf.Tensor, canvas: tf.Tensor, cut_out: _CutOut
) -> Example:
    """Join parts of four examples around a point of a gray canvas.

    Args:
        group: four examples.
        center: int32 [2], the point where the quarters meet.
        canvas: int32 [2], height and width of the canvas.
        cut_out: cuts the part of an example that a quarter shows.
    """
    tiles = []
    pictures: List[tf.Tensor] = []
    for index, example in enumerate(group):
        is_second = tf.constant(divmod(index, 2)) > 0
        room = tf.where(is_second, canvas - center, center)
        cut = cut_out(example, is_second, room)
        shown = frames.image_size(cut)
        begin = tf.where(is_second, center, center - shown)
        before = tf.where(is_second, 0, room - shown)
        image = cut[fields.IMAGE]
        gray = tf.fill([image.shape[-1]], tf.constant(_GRAY, image.dtype))
        pictures.append(images.surround(image, before, room - shown - before, gray))
        tiles.append(frames.pad_labels(cut, begin, canvas))
    rows = [tf.concat(pictures[:2], axis=1), tf.concat(pictures[2:], axis=1)]
    return {**examples.join_boxes(tiles), fields.IMAGE: tf.concat(rows, axis=0)}


def _shrink(
    example: Example,
    is_second: tf.Tensor,
    room: tf.Tensor,
    half: tf.Tensor,
    min_area_inside: float,
) -> Example:
    """Resize an example so that it fits in half of the canvas, and cut what leaves the room.

    Args:
        example: any example.
        is_second: bool [2]: whether it is at the bottom and at the right.
        room: int32 [2]: height and width of its quarter.
        half: int32 scalar: half of the side of the canvas.
        min_area_inside: boxes with a smaller fraction of their area on the canvas are dropped.
    """
    whole = frames.image_size(example)
    # Whole numbers, so that rounding cannot lose a pixel.
    size = tf.maximum(whole * half // tf.reduce_max(whole), 1)
    resized = _resize(example, size)
    shown = tf.minimum(size, room)
    # The first of two images ends at the center, and the second begins there.
    window = frames.pixel_window(tf.where(is_second, 0, size - shown), shown, size)
    return frames.crop(resized, window, min_area_inside, True)


def _cut_to_scale(
    example: Example,
    is_second: tf.Tensor,
    room: tf.Tensor,
    fit: tf.Tensor,
    min_area_inside: float,
) -> Example:
    """Cut what the room shows of an example that would fit in a rectangle, and resize it.

    Args:
        example: any example.
        is_second: bool [2]: whether it is at the bottom and at the right.
        room: int32 [2]: height and width of its quarter.
        fit: int32 [2]: height and width of the rectangle.
        min_area_inside: boxes with a smaller fraction of their area on the canvas are dropped.
    """
    whole = frames.image_size(example)
    # The scale is a fraction: that of the heights, or of the widths where it is less.
    is_high = fit[0] * whole[1] <= fit[1] * whole[0]
    scaled, own = (tf.where(is_high, each[0], each[1]) for each in (fit, whole))
    seen = tf.minimum(whole, (room * own + scaled - 1) // scaled)
    shown = tf.clip_by_value(seen * scaled // own, 1, room)
    window = frames.pixel_window(tf.where(is_second, 0, whole - seen), seen, whole)
    return _resize(frames.crop(example, window, min_area_inside, True), shown)


def _resize(example: Example, size: tf.Tensor) -> Example:
    """Resize an example; the image keeps its type."""
    image = example[fields.IMAGE]
    resized = frames.resize(example, size)
    if image.dtype == tf.uint8:
        resized[fields.IMAGE] = tf.saturate_cast(tf.round(resized[fields.IMAGE]), tf.uint8)
    return resized
