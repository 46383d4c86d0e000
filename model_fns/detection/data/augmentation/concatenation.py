"""Concatenation of images with themselves."""

from __future__ import annotations

import tensorflow as tf

from estimator_lib.task import Example
from model_fns.augmentation import randomness
from model_fns.detection import fields
from model_fns.detection.boxes.family import find_family
from model_fns.detection.data.augmentation import frames, steps


@steps.register(
    'random_self_concat_image',
    vertical_probability='concat_vertical_probability',
    horizontal_probability='concat_horizontal_probability',
)
def random_self_concat(
    example: Example,
    seed: tf.Tensor,
    vertical_probability: float,
    horizontal_probability: float,
) -> Example:
    """Repeat the image with its objects below, and to the right.

    Example:
        An image of 4 x 6 pixels with the box [0, 0, 1, 0.5] and a copy below have 8 x 6 pixels and
        the boxes [0, 0, 0.5, 0.5] and [0.5, 0, 1, 0.5].

    Args:
        example: any example.
        seed: int64 [2].
        vertical_probability: probability of a copy below.
        horizontal_probability: probability of a copy to the right, of both rows if there is a copy
            below.
    """
    (draws,) = randomness.uniforms(seed, 1, 2)
    happens = draws < [vertical_probability, horizontal_probability]
    repeats = 1 + tf.cast(happens, tf.int32)
    copies = tf.reduce_prod(repeats)
    index = tf.range(copies)
    # Row and column of each copy in the grid of copies.
    cells = tf.stack([index // repeats[1], index % repeats[1]], 1)
    result = dict(example)
    for name in fields.PER_BOX:
        if name in example:
            ones = tf.ones([example[name].shape.rank - 1], tf.int32)
            result[name] = tf.tile(example[name], tf.concat([[copies], ones], 0))
    result[fields.IMAGE] = tf.tile(example[fields.IMAGE], tf.concat([repeats, [1]], 0))
    cell_of_box = tf.repeat(cells, tf.shape(example[fields.BOXES])[0], axis=0)
    shift, scale = tf.cast(cell_of_box, tf.float32), tf.cast(repeats, tf.float32)
    # The canvas as a window in the frame of each copy, so that it works for all families of boxes.
    boxes, windows = result[fields.BOXES], tf.concat([-shift, scale - shift], 1)
    result[fields.BOXES] = find_family(boxes).change_frame(boxes, windows)
    if fields.KEYPOINTS in example:
        points = result[fields.KEYPOINTS] + shift[:, tf.newaxis]
        result[fields.KEYPOINTS] = points / scale
    if fields.MASKS in example:
        size = frames.image_size(example)
        result[fields.MASKS] = _place_in_cells(result[fields.MASKS], cell_of_box, repeats, size)
    return result


def _place_in_cells(
    masks: tf.Tensor, cells: tf.Tensor, repeats: tf.Tensor, size: tf.Tensor
) -> tf.Tensor:
    """Place masks [n, height, width] in their cells of a grid; the other cells are 0.

    Args:
        masks: masks of the size of one cell.
        cells: int32 [n, 2], row and column in the grid.
        repeats: int32 [2], number of rows and columns of the grid.
        size: int32 [2], height and width of a cell.
    """
    rows = tf.equal(cells[:, :1], tf.range(repeats[0]))  # [n, rows]
    columns = tf.equal(cells[:, 1:], tf.range(repeats[1]))
    here = tf.logical_and(rows[:, :, tf.newaxis], columns[:, tf.newaxis, :])
    spread = tf.where(
        here[:, :, tf.newaxis, :, tf.newaxis],
        masks[:, tf.newaxis, :, tf.newaxis, :],
        tf.zeros([], masks.dtype),
    )
    return tf.reshape(spread, tf.concat([[-1], repeats * size], 0))
