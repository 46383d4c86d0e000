"""Masks of boxes, brought into the frame of their image.

A network gives each detection a small mask that covers its box, whatever size the box has. Here it
is laid over the image: n is the number of masks, their height and width are those of the network's
answer. All functions take arrays or tensors, and answer in kind.
"""

from __future__ import annotations

from typing import Any, Iterator, Optional, Sequence, Tuple, Union

import numpy as np
import tensorflow as tf

# An array or a tensor.
Values = Any
Side = Union[int, tf.Tensor]

# As published: a box without area is given this much of the image.
_LEAST_SIDE = 1e-4
# Cells by which rounding may put a pixel at a box's border outside of it.
_ROUNDING = 1e-4
# Of float32 that are held at one time.
_BLOCK_PIXELS = 1 << 22
_HALF = 0.5  # what is more is object


def paste_masks(
    masks: Values, boxes: Values, height: Side, width: Side, threshold: Optional[float] = None
) -> Values:
    """Return masks that cover an image, of masks that cover their boxes.

    The first and last rows and columns of a mask lie at the borders of its box, and those of an
    image at its own, as in the published evaluation; between them values are interpolated linearly;
    outside of the box they are 0. Tensors are laid over the image in blocks: beside the answer,
    which a threshold makes small, memory is bounded.

    Args:
        masks: float32 [..., mask height, mask width], in [0, 1].
        boxes: float32 [..., 4], normalized to the image; they may reach over it.
        height: of the image, in pixels.
        width: of the image, in pixels.
        threshold: None: values are as they are; else 1 where they are more than it, and 0.

    Returns:
        [..., height, width]: float32, or uint8 with a threshold.

    Example:
        a mask [[1, 1], [1, 1]] of the box [0, 0, 1, 0.5] in an image of 2 x 3 pixels gives
        [[1, 1, 0], [1, 1, 0]]: columns of pixels are at 0, 0.5 and 1.
    """
    if not tf.is_tensor(masks):
        return _pasted(masks, boxes, height, width, threshold)
    leading = tf.shape(masks)[:-2]
    side_by_side = masks.shape[-2:].as_list()
    flat = tf.reshape(masks, [-1, *side_by_side]), tf.reshape(boxes, [-1, 4])
    pasted = _in_blocks(*flat, height, width, threshold)
    pasted = tf.reshape(pasted, tf.concat([leading, [height, width]], axis=0))
    known = [side if isinstance(side, int) else None for side in (height, width)]
    pasted.set_shape([*masks.shape[:-2], *known])
    return pasted


def binary_windows(
    masks: np.ndarray, boxes: np.ndarray, size: Sequence[int]
) -> Iterator[Tuple[int, int, np.ndarray]]:
    """What masks show of an image, and where, without what is around their boxes.

    Args:
        masks: float32 [n, mask height, mask width], in [0, 1].
        boxes: float32 [n, 4], normalized to the image.
        size: height and width of the image, in pixels.

    Yields:
        The first row and the first column of each mask's window, which holds all of its object, and
        the window: uint8, 1 where the pasted mask is above a half, as published.
    """
    height, width = (int(side) for side in size)
    for mask, box in zip(masks, boxes):
        rows = _weights(box[0], box[2], mask.shape[0], height, np)
        columns = _weights(box[1], box[3], mask.shape[1], width, np)
        (top, bottom), (left, right) = _span(rows), _span(columns)
        inside = rows[top:bottom] @ mask @ columns[left:right].T
        yield top, left, (inside > _HALF).astype(np.uint8)


def binary_masks(masks: np.ndarray, boxes: np.ndarray, size: Sequence[int]) -> np.ndarray:
    """Return the masks of `binary_windows` in the whole image: bool [n, height, width]."""
    whole = np.zeros([len(masks), int(size[0]), int(size[1])], bool)
    for mask, (top, left, window) in zip(whole, binary_windows(masks, boxes, size)):
        height, width = window.shape
        mask[top : top + height, left : left + width] = window
    return whole


def _span(weights: np.ndarray) -> Tuple[int, int]:
    """From where to where a side's pixels [pixels, cells] have something of a mask."""
    places = np.flatnonzero(weights.any(axis=1))
    return (int(places[0]), int(places[-1]) + 1) if len(places) else (0, 0)


def binary_batch(masks: tf.Tensor, boxes: tf.Tensor, sizes: tf.Tensor) -> tf.Tensor:
    """What masks show of images that differ in size, with zeros beside and below the smaller ones.

    Args:
        masks: float32 [B, N, mask height, mask width].
        boxes: float32 [B, N, 4], each normalized to its image.
        sizes: int32 [B, 2], height and width of each image.

    Returns:
        uint8 [B, N, largest height, largest width]: 1 where a pasted mask is above a half.
    """
    largest = tf.reduce_max(sizes, axis=0)

    def of_one(one: Tuple[tf.Tensor, tf.Tensor, tf.Tensor]) -> tf.Tensor:
        own, boxes, (height, width) = one[0], one[1], tf.unstack(one[2])
        pasted = paste_masks(own, boxes, height, width, _HALF)
        spare = largest - one[2]
        return tf.pad(pasted, [[0, 0], [0, spare[0]], [0, spare[1]]])

    pasted = tf.map_fn(of_one, (masks, boxes, sizes), fn_output_signature=tf.uint8)
    pasted.set_shape([*masks.shape[:2], None, None])
    return pasted


def _in_blocks(
    masks: tf.Tensor, boxes: tf.Tensor, height: Side, width: Side, threshold: Optional[float]
) -> tf.Tensor:
    """`_pasted` of masks [n, ...], so many at one time that their pixels stay bounded."""
    count = tf.shape(masks)[0]
    most = tf.maximum(_BLOCK_PIXELS // tf.maximum(height * width, 1), 1)
    blocks = tf.maximum(-(-count // most), 1)
    size = -(-count // blocks)
    spare = [[0, blocks * size - count]]
    blocked = (
        tf.reshape(tf.pad(masks, spare + [[0, 0]] * 2), [blocks, size, *masks.shape[1:]]),
        tf.reshape(tf.pad(boxes, spare + [[0, 0]]), [blocks, size, 4]),
    )
    pasted = tf.map_fn(
        lambda block: _pasted(*block, height, width, threshold),
        blocked,
        parallel_iterations=1,
        fn_output_signature=tf.float32 if threshold is None else tf.uint8,
    )
    return tf.reshape(pasted, [blocks * size, height, width])[:count]


def _pasted(
    masks: Values, boxes: Values, height: Side, width: Side, threshold: Optional[float]
) -> Values:
    ops = tf if tf.is_tensor(masks) else np
    rows = _weights(boxes[..., 0], boxes[..., 2], masks.shape[-2], height, ops)
    columns = _weights(boxes[..., 1], boxes[..., 3], masks.shape[-1], width, ops)
    pasted = rows @ masks @ _turned(columns)
    if threshold is None:
        return pasted
    above = pasted > threshold
    return tf.cast(above, tf.uint8) if ops is tf else above.astype(np.uint8)


def _turned(values: Values) -> Values:
    return tf.linalg.matrix_transpose(values) if tf.is_tensor(values) else values.swapaxes(-1, -2)


def _weights(near: Values, far: Values, cells: int, pixels: Side, ops: Any) -> Values:
    """How much of each cell there is in each pixel along one side: float32 [..., pixels, cells].

    Args:
        near: [...], where the first cell of each mask is: 0 is the first pixel, 1 the last.
        far: [...], where the last cell is.
        cells: of a mask.
        pixels: of the image.
        ops: TensorFlow or NumPy.
    """
    if ops is tf:
        places = tf.range(tf.cast(pixels, tf.float32))
        places = places / tf.cast(tf.maximum(pixels - 1, 1), tf.float32)
        places += tf.cast(tf.equal(pixels, 1), tf.float32) / 2
    else:
        places = np.arange(pixels, dtype=np.float32) / max(pixels - 1, 1) + (pixels == 1) / 2
    sides = ops.maximum(far - near, _LEAST_SIDE)
    positions = (places - near[..., np.newaxis]) / sides[..., np.newaxis] * (cells - 1)
    inside = (positions >= -_ROUNDING) & (positions <= cells - 1 + _ROUNDING)
    distances = ops.abs(positions[..., np.newaxis] - np.arange(cells, dtype=np.float32))
    shares = ops.maximum(1.0 - distances, 0.0)
    return ops.where(inside[..., np.newaxis], shares, ops.zeros_like(shares))
