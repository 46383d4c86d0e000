"""Masks of boxes, pasted into their image.

A network predicts a small mask for each detection, which covers its box whatever the size of the
box. These functions paste it into the image. n is the number of masks, and their height and width
are those of the network's output. All functions take arrays or tensors, and return the same type.
"""

from __future__ import annotations

import math
from typing import Any, Iterable, Iterator, Optional, Sequence, Tuple, Union

import numpy as np
import tensorflow as tf

# An array or a tensor.
Values = Any
Side = Union[int, tf.Tensor]

# As published: the least side of a box, as a fraction of the image.
_LEAST_SIDE = 1e-4
# Tolerance in cells for pixels at the border of a box, because of rounding.
_ROUNDING = 1e-4
# Number of float32 pixels in memory at one time.
_BLOCK_PIXELS = 1 << 22
_HALF = 0.5  # pixels above it belong to the object
_MOST_CELLS = 512  # of a side of a joint mask
_EVEN_CELLS = 1 << 26  # of all masks of an image that have one size


def paste_masks(
    masks: Values, boxes: Values, height: Side, width: Side, threshold: Optional[float] = None
) -> Values:
    """Paste masks that cover their boxes into an image.

    The first and last rows and columns of a mask lie at the borders of its box, and those of an
    image at the borders of the image, as in the published evaluation. Values between them are
    interpolated linearly. Values outside of the box are 0. Tensors are pasted in blocks, so that
    memory is bounded except for the result, which a threshold makes small.

    Args:
        masks: float32 [..., mask height, mask width], in [0, 1].
        boxes: float32 [..., 4], normalized to the image; they may extend beyond it.
        height: height of the image, in pixels.
        width: width of the image, in pixels.
        threshold: values above it become 1 and others 0; None: values stay.

    Returns:
        [..., height, width]: float32, or uint8 with a threshold.

    Example:
        A mask [[1, 1], [1, 1]] of the box [0, 0, 1, 0.5] in an image of 2 x 3 pixels becomes
        [[1, 1, 0], [1, 1, 0]]: columns of pixels are at 0, 0.5 and 1.
    """
    if not tf.is_tensor(masks):
        return _pasted(masks, boxes, height, width, threshold)
    leading = tf.shape(masks)[:-2]
    side_by_side = masks.shape[-2:].as_list()
    flat = tf.reshape(masks, [-1, *side_by_side]), tf.reshape(boxes, [-1, 4])
    pasted = _paste_in_blocks(*flat, height, width, threshold)
    pasted = tf.reshape(pasted, tf.concat([leading, [height, width]], axis=0))
    known = [side if isinstance(side, int) else None for side in (height, width)]
    pasted.set_shape([*masks.shape[:-2], *known])
    return pasted


def binary_windows(
    masks: np.ndarray, boxes: np.ndarray, size: Sequence[int]
) -> Iterator[Tuple[int, int, np.ndarray]]:
    """Generate the binary masks of the parts of an image around each box.

    Args:
        masks: float32 [n, mask height, mask width], in [0, 1], or see `list_masks`.
        boxes: float32 [n, 4], normalized to the image.
        size: height and width of the image, in pixels.

    Yields:
        The first row and the first column of each mask's window, which contains its whole object,
        and the window: uint8, 1 where the pasted mask is above one half, as published.
    """
    height, width = (int(side) for side in size)
    for mask, box in zip(masks, boxes):
        rows = _weights(box[0], box[2], mask.shape[0], height, np)
        columns = _weights(box[1], box[3], mask.shape[1], width, np)
        (top, bottom), (left, right) = _span(rows), _span(columns)
        inside = rows[top:bottom] @ mask @ columns[left:right].T
        yield top, left, (inside > _HALF).astype(np.uint8)


def list_masks(masks: Iterable[np.ndarray]) -> np.ndarray:
    """Return masks as an array [n] of arrays, which may differ in size."""
    copies = [np.array(mask) for mask in masks]  # so that the outputs can be freed
    listed = np.empty(len(copies), object)
    for index, mask in enumerate(copies):
        listed[index] = mask
    return listed


def even_masks(listed: Union[np.ndarray, Sequence[np.ndarray]]) -> np.ndarray:
    """Return masks as one array, with the cells of the finest where memory allows.

    The values of coarser ones are interpolated between their cells.

    Args:
        listed: masks [height, width] each, which may differ in size: the result of `list_masks`.

    Returns:
        float32 [n, mask height, mask width]; without masks [0, 1, 1].
    """
    shapes = np.array([mask.shape for mask in listed] or [(1, 1)])
    least, most = shapes.min(axis=0), shapes.max(axis=0)
    share = _EVEN_CELLS / max(len(listed) * int(most.prod()), 1)
    cells = np.maximum(least, (most * min(share, 1.0) ** 0.5).astype(int))
    whole = np.array([0, 0, 1, 1], np.float32)
    even = np.zeros([len(listed), *cells], np.float32)
    for target, mask in zip(even, listed):
        target[:] = mask if target.shape == mask.shape else paste_masks(mask, whole, *cells)
    return even


def join_masks(masks: Sequence[np.ndarray], boxes: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Join the masks of an object's parts, each in its own box.

    The mask of the whole has the finest cells of its parts. Each is the maximum of the parts that
    cover it.

    Args:
        masks: float32 [mask height, mask width] of each part, in [0, 1].
        boxes: float64 [n, 4] of the parts, in pixels.
        box: float64 [4], of the whole.

    Returns:
        float32 [mask height, mask width], the mask of the whole in its box.
    """
    cells = [
        _joint_cells(box[axis + 2] - box[axis], boxes[:, axis + 2] - boxes[:, axis], counts)
        for axis, counts in enumerate(zip(*(mask.shape for mask in masks)))
    ]
    sides = np.maximum(np.tile(box[2:] - box[:2], 2), _LEAST_SIDE)
    joint = np.zeros(cells, np.float32)
    for mask, own in zip(masks, (boxes - np.tile(box[:2], 2)) / sides):
        np.maximum(joint, paste_masks(mask, own.astype(np.float32), *cells), out=joint)
    return joint


def _joint_cells(side: float, sides: np.ndarray, counts: Sequence[int]) -> int:
    """Return the cells of a joint mask along an axis, of the parts' sides in pixels and cells."""
    finest = min(part / max(count - 1, 1) for part, count in zip(sides, counts))
    return min(math.ceil(side / max(finest, 1.0)) + 1, _MOST_CELLS)


def _span(weights: np.ndarray) -> Tuple[int, int]:
    """Return the range of the pixels of a side [pixels, cells] that a mask covers."""
    covered = np.flatnonzero(weights.any(axis=1))
    return (int(covered[0]), int(covered[-1]) + 1) if len(covered) else (0, 0)


def binary_batch(masks: tf.Tensor, boxes: tf.Tensor, sizes: tf.Tensor) -> tf.Tensor:
    """Paste masks into images of different sizes, padded with zeros to the largest.

    Args:
        masks: float32 [B, N, mask height, mask width].
        boxes: float32 [B, N, 4], each normalized to its image.
        sizes: int32 [B, 2], height and width of each image.

    Returns:
        uint8 [B, N, largest height, largest width]: 1 where a pasted mask is above one half.
    """
    largest = tf.reduce_max(sizes, axis=0)

    def paste_image(inputs: Tuple[tf.Tensor, tf.Tensor, tf.Tensor]) -> tf.Tensor:
        image_masks, image_boxes, size = inputs
        pasted = paste_masks(image_masks, image_boxes, *tf.unstack(size), _HALF)
        spare = largest - size
        return tf.pad(pasted, [[0, 0], [0, spare[0]], [0, spare[1]]])

    pasted = tf.map_fn(paste_image, (masks, boxes, sizes), fn_output_signature=tf.uint8)
    pasted.set_shape([*masks.shape[:2], None, None])
    return pasted


def _paste_in_blocks(
    masks: tf.Tensor, boxes: tf.Tensor, height: Side, width: Side, threshold: Optional[float]
) -> tf.Tensor:
    """Paste masks [n, ...] in blocks, so that the number of their pixels is bounded."""
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
    # Bilinear interpolation is a product for rows and one for columns. The published evaluation
    # crops the image out of each mask instead (`reframe_box_masks_to_image_masks`); only
    # rounding differs.
    pasted = rows @ masks @ _turned(columns)
    if threshold is None:
        return pasted
    above = pasted > threshold
    return tf.cast(above, tf.uint8) if ops is tf else above.astype(np.uint8)


def _turned(values: Values) -> Values:
    return tf.linalg.matrix_transpose(values) if tf.is_tensor(values) else values.swapaxes(-1, -2)


def _weights(near: Values, far: Values, cells: int, pixels: Side, ops: Any) -> Values:
    """Compute the weight of each cell in each pixel along one side: float32 [..., pixels, cells].

    Args:
        near: [...], position of the first cell of each mask: 0 is the first pixel, 1 the last.
        far: [...], position of the last cell.
        cells: number of cells of a mask.
        pixels: number of pixels of the image.
        ops: TensorFlow or NumPy.
    """
    if ops is tf:
        centers = tf.range(tf.cast(pixels, tf.float32))
        centers = centers / tf.cast(tf.maximum(pixels - 1, 1), tf.float32)
        # A single pixel is at the middle of the image, as `crop_and_resize` has it.
        centers += tf.cast(tf.equal(pixels, 1), tf.float32) / 2
    else:
        centers = np.arange(pixels, dtype=np.float32) / max(pixels - 1, 1) + (pixels == 1) / 2
    sides = ops.maximum(far - near, _LEAST_SIDE)
    positions = (centers - near[..., np.newaxis]) / sides[..., np.newaxis] * (cells - 1)
    inside = (positions >= -_ROUNDING) & (positions <= cells - 1 + _ROUNDING)
    distances = ops.abs(positions[..., np.newaxis] - np.arange(cells, dtype=np.float32))
    shares = ops.maximum(1.0 - distances, 0.0)
    return ops.where(inside[..., np.newaxis], shares, ops.zeros_like(shares))
