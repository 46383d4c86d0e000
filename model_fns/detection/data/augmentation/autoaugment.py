"""AutoAugment for detection: one of five learned pairs of operations, drawn for each image.

Zoph et al., "Learning Data Augmentation Strategies for Object Detection" (2019), table 6, with the
published meaning of magnitudes (0 to 10). Sizes are in pixels of the image before resizing, which
should have about the size of the network's input.
"""

from __future__ import annotations

import functools
import math
from typing import Callable, Sequence, Tuple

import tensorflow as tf

from estimator_lib.task import Example
from model_fns.augmentation import color, levels, randomness
from model_fns.detection import fields
from model_fns.detection.boxes.family import find_family
from model_fns.detection.data.augmentation import frames, steps
from protos import augmentation_pb2

# (example with a uint8 image, seed, number in [0, 1)) -> example.
_Operation = Callable[[Example, tf.Tensor, tf.Tensor], Example]

# `translate_const` 250, `translate_bbox_const` 120 and `cutout_const` 100 of the published program,
# times tenths of the magnitudes of the policy.
_TRANSLATION = 4 / 10 * 250  # pixels, of images
_BOX_TRANSLATION = 120  # pixels, of the content of boxes, times a tenth of the magnitude
_SHEAR = 2 / 10 * 0.3
_ROTATION = 10 / 10 * math.radians(30)
_CUTOUT = int(8 / 10 * 100)  # pixels, half of the side
_COLOR = 6 / 10 * 1.8 + 0.1
# Operations on the content of boxes are applied to each box with a third of their probability.
# The authors found it empirically, so that few neighboring boxes are distorted.
_PER_BOX = 1 / 3


def autoaugment_v0(example: Example, seed: tf.Tensor) -> Example:
    """Apply policy v0.

    If the image moves, boxes become the bounding boxes of the moved boxes, clipped to the image.
    Boxes that leave the image are dropped. Masks and keypoints move with their pixels. Keypoints
    that leave the image become invisible.

    Args:
        example: any example.
        seed: int64 [2].
    """
    image = tf.saturate_cast(tf.round(frames.to_float(example[fields.IMAGE])), tf.uint8)
    example = {**example, fields.IMAGE: image}
    (uniform,) = randomness.uniforms(randomness.stream_seed(seed, 1), 1)
    return tf.switch_case(
        randomness.integer(uniform, 0, len(_POLICY_V0) - 1),
        [functools.partial(_apply_in_order, example, seed, pair) for pair in _POLICY_V0],
    )


@steps.BUILDERS.register('autoaugment_image')
def _build(config: augmentation_pb2.AutoAugmentImage, where: str) -> steps.Step:
    is_known = config.policy_name == 'v0'
    steps.check(is_known, where, config, 'policy_name', "'v0', the one policy that is implemented")
    return autoaugment_v0


def _apply_in_order(
    example: Example, seed: tf.Tensor, operations: Sequence[Tuple[_Operation, float]]
) -> Example:
    """Apply operations in order, each with its probability."""
    for index, (operation, probability) in enumerate(operations):
        own_seed = randomness.stream_seed(seed, 2 + index)
        happens, uniform = randomness.uniforms(own_seed, 2)
        changed = functools.partial(operation, example, own_seed, uniform)
        example = tf.cond(happens < probability, changed, functools.partial(dict, example))
    return example


def _either_way(uniform: tf.Tensor, amount: float) -> tf.Tensor:
    """Return the amount or its negative, each with probability 1/2."""
    return tf.where(uniform < 0.5, -amount, amount)


def _translate_x(example: Example, seed: tf.Tensor, uniform: tf.Tensor) -> Example:
    del seed
    shift = tf.stack([0.0, _either_way(uniform, _TRANSLATION)])
    return frames.transform(example, tf.eye(2), shift)


def _shear_y(example: Example, seed: tf.Tensor, uniform: tf.Tensor) -> Example:
    """Shear the image along y: y becomes y - level * x."""
    del seed
    level = _either_way(uniform, _SHEAR)
    matrix = tf.stack([[1.0, -level], [0.0, 1.0]])
    return frames.transform(example, matrix, tf.zeros([2]))


def _rotate(example: Example, seed: tf.Tensor, uniform: tf.Tensor) -> Example:
    """Rotate the image about its center."""
    del seed
    angle = _either_way(uniform, _ROTATION)
    cos, sin = tf.cos(angle), tf.sin(angle)
    matrix = tf.stack([[cos, -sin], [sin, cos]])
    center = (tf.cast(frames.image_size(example), tf.float32) - 1.0) / 2.0
    return frames.transform(example, matrix, center - tf.linalg.matvec(matrix, center))


def _cutout(example: Example, seed: tf.Tensor, uniform: tf.Tensor) -> Example:
    """Draw a gray square around a random pixel, clipped to the image."""
    del uniform
    size = frames.image_size(example)
    (place,) = randomness.uniforms(randomness.stream_seed(seed, 3), 1, 2)
    center = randomness.integer(place, 0, size - 1)
    first, last = center - _CUTOUT, center + _CUTOUT - 1
    covered = _inside(example[fields.IMAGE], first, last)
    gray = tf.constant(frames.GRAY, tf.uint8)
    return {**example, fields.IMAGE: tf.where(covered, gray, example[fields.IMAGE])}


def _more_color(example: Example, seed: tf.Tensor, uniform: tf.Tensor) -> Example:
    """Amplify the difference of colors from the luminance."""
    del seed, uniform
    vivid = color.mix_with_gray(frames.to_float(example[fields.IMAGE]), _COLOR)
    return {**example, fields.IMAGE: tf.saturate_cast(vivid, tf.uint8)}


def _equalize(example: Example, seed: tf.Tensor, uniform: tf.Tensor) -> Example:
    """Replace the values of each channel by their rank, spread over all levels."""
    del seed, uniform
    return {**example, fields.IMAGE: levels.equalize(example[fields.IMAGE])}


def _translate_boxes(
    example: Example, seed: tf.Tensor, uniform: tf.Tensor, magnitude: float, probability: float
) -> Example:
    """Move the content of some boxes up or down, one box after another; boxes stay."""
    boxes = example[fields.BOXES]
    shift = _either_way(uniform, magnitude / 10 * _BOX_TRANSLATION)
    count = tf.shape(boxes)[0]
    draws = randomness.uniform_tensor(randomness.stream_seed(seed, 3), tf.stack([2, count]))
    happens = draws[0] < probability * _PER_BOX
    # Boxes may overlap, and the last one is seen whole: no box should always be that one.
    order = tf.argsort(draws[1])
    chosen = tf.boolean_mask(tf.gather(boxes, order), tf.gather(happens, order))
    corners = _pixel_corners(chosen, frames.image_size(example))

    moving = {
        name: example[name]
        for name in (fields.IMAGE, fields.MASKS, fields.KEYPOINTS, fields.KEYPOINT_VISIBILITIES)
        if name in example
    }
    whole = tf.cast(frames.image_size(example), tf.float32)

    def move(index: tf.Tensor, state: Example) -> Tuple[tf.Tensor, Example]:
        box, rows = corners[index], tf.cast(shift, tf.int32)
        moved = {fields.IMAGE: _move_content(state[fields.IMAGE], box, rows, frames.GRAY)}
        if fields.MASKS in state:
            masks = state[fields.MASKS][..., tf.newaxis]
            moved[fields.MASKS] = _move_content(masks, box, rows, 0)[..., 0]
        if fields.KEYPOINTS in state:
            moved.update(_move_points(state, box, rows, whole))
        return index + 1, moved

    _, moving = tf.while_loop(
        lambda index, _: index < tf.shape(corners)[0],
        move,
        [tf.constant(0), moving],
        parallel_iterations=1,
    )
    return {**example, **moving}


def _pixel_corners(boxes: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Compute int32 [n, 4]: first row and column, last row and column of boxes."""
    bounds = find_family(boxes).enclosing_boxes(boxes)
    corners = tf.cast(bounds * tf.cast(tf.tile(size, [2]), tf.float32), tf.int32)
    return tf.clip_by_value(corners, 0, tf.tile(size, [2]) - 1)


def _move_content(images: tf.Tensor, corners: tf.Tensor, shift: tf.Tensor, fill: int) -> tf.Tensor:
    """Move the content of one box down by `shift` rows, and fill the rest of the box.

    Args:
        images: uint8 [..., height, width, channels].
        corners: int32 [4], see `_pixel_corners`.
        shift: int32 scalar, rows.
        fill: a number.
    """
    height = tf.shape(images)[-3]
    sources = tf.range(height) - shift
    from_box = tf.logical_and(sources >= corners[0], sources <= corners[2])
    content = tf.gather(images, tf.clip_by_value(sources, 0, height - 1), axis=-3)
    moved = tf.where(from_box[:, tf.newaxis, tf.newaxis], content, tf.constant(fill, images.dtype))
    return tf.where(_inside(images, corners[:2], corners[2:]), moved, images)


def _move_points(state: Example, corners: tf.Tensor, shift: tf.Tensor, size: tf.Tensor) -> Example:
    """Move keypoints as `_move_content` moves pixels; those that leave the box become invisible."""
    points = state[fields.KEYPOINTS]
    first = tf.cast(corners[:2], tf.float32) / size
    last = tf.cast(corners[2:] + 1, tf.float32) / size
    moved = points + tf.stack([tf.cast(shift, tf.float32) / size[0], 0.0])

    moves = frames.inside(points, first, last)
    stays = tf.logical_or(tf.logical_not(moves), frames.inside(moved, first, last))
    return frames.with_points(state, tf.where(moves[..., tf.newaxis], moved, points), stays)


def _inside(image: tf.Tensor, first: tf.Tensor, last: tf.Tensor) -> tf.Tensor:
    """Check which pixels lie from the first row and column to the last: bool [height, width, 1]."""
    size = tf.shape(image)[-3:-1]
    rows, columns = tf.range(size[0]), tf.range(size[1])
    in_rows = tf.logical_and(rows >= first[0], rows <= last[0])
    in_columns = tf.logical_and(columns >= first[1], columns <= last[1])
    return tf.logical_and(in_rows[:, tf.newaxis], in_columns)[..., tf.newaxis]


def _translate_y_in_boxes(magnitude: float, probability: float) -> Tuple[_Operation, float]:
    operation = functools.partial(_translate_boxes, magnitude=magnitude, probability=probability)
    return operation, 1.0


_POLICY_V0 = (
    ((_translate_x, 0.6), (_equalize, 0.8)),
    (_translate_y_in_boxes(2, 0.2), (_cutout, 0.8)),
    # Sharpness with probability 0, and a horizontal shear of magnitude 0: no operation.
    (),
    ((_shear_y, 1.0), _translate_y_in_boxes(6, 0.6)),
    ((_rotate, 0.6), (_more_color, 1.0)),
)
