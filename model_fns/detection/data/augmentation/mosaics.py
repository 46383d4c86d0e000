"""Mosaics of four images."""

from __future__ import annotations

import functools
from typing import List, Sequence, Tuple

import tensorflow as tf

from estimator_lib.task import Example
from model_fns.augmentation import randomness
from model_fns.detection import fields
from model_fns.detection.data import examples
from model_fns.detection.data.augmentation import frames, steps
from model_fns.structures import images
from protos import augmentation_pb2

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


@steps.MIXERS.register('mosaic')
def _build(config: augmentation_pb2.Mosaic, where: str) -> steps.Mixer:
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
    tiles = []
    pictures: List[tf.Tensor] = []
    for index, example in enumerate(group):
        tile, picture = _tile(example, divmod(index, 2), center, canvas, min_area_inside)
        tiles.append(tile)
        pictures.append(picture)
    rows = [tf.concat(pictures[:2], axis=1), tf.concat(pictures[2:], axis=1)]
    return {**examples.join_boxes(tiles), fields.IMAGE: tf.concat(rows, axis=0)}


def _canvas_side(example: Example) -> tf.Tensor:
    return tf.maximum(tf.reduce_max(frames.image_size(example)), 4)


def _tile(
    example: Example,
    quarter: Tuple[int, int],
    center: tf.Tensor,
    canvas: tf.Tensor,
    min_area_inside: float,
) -> Tuple[Example, tf.Tensor]:
    """Resize and crop an example for one of the quarters.

    Args:
        example: any example.
        quarter: (0 for top or 1 for bottom, 0 for left or 1 for right).
        center: int32 [2], the point where the quarters meet.
        canvas: int32 scalar, side of the canvas.
        min_area_inside: boxes with a smaller fraction of their area on the canvas are dropped.

    Returns:
        The example whose labels are on the canvas, and the image of the quarter.
    """
    whole = frames.image_size(example)
    # Whole numbers, so that rounding cannot lose a pixel.
    size = tf.maximum(whole * (canvas // 2) // tf.reduce_max(whole), 1)
    image = example[fields.IMAGE]
    resized = frames.resize(example, size)
    if image.dtype == tf.uint8:
        resized[fields.IMAGE] = tf.saturate_cast(tf.round(resized[fields.IMAGE]), tf.uint8)
    is_second = tf.constant(quarter) > 0
    room = tf.where(is_second, canvas - center, center)
    shown = tf.minimum(size, room)
    # The first of two images ends at the center, and the second begins there.
    first_shown = tf.where(is_second, 0, size - shown)
    window = frames.pixel_window(first_shown, shown, size)
    cut = frames.crop(resized, window, min_area_inside, True)
    begin = tf.where(is_second, center, center - shown)
    origin = tf.where(is_second, center, 0)
    gray = tf.fill([image.shape[-1]], tf.constant(_GRAY, image.dtype))
    picture = images.surround(
        cut[fields.IMAGE], begin - origin, room - shown - (begin - origin), gray
    )
    return frames.pad_labels(cut, begin, tf.stack([canvas, canvas])), picture
