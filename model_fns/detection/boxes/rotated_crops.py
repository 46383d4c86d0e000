"""Crops of features inside rotated boxes, sampled on a grid that rotates with the box."""

from __future__ import annotations

import tensorflow as tf

from model_fns.layers import crops as box_crops

# Boxes whose crops are computed at once; each needs four gathers of a whole crop.
_BLOCK = 64


def crop(
    features: tf.Tensor, boxes: tf.Tensor, images: tf.Tensor, size: int, image_size: tf.Tensor
) -> tf.Tensor:
    """Crop features inside boxes by bilinear interpolation; 0 outside of the map.

    The corners of a box are the corners of its grid, and the corners of the image those of the map.
    With angles of 0 the result is that of `crops.crop_and_resize`.

    Args:
        features: float [B, height, width, channels].
        boxes: float [n, 5], in pixels of the image.
        images: int32 [n]: the row of `features` that each box is on.
        size: rows and columns of a crop.
        image_size: (height, width) in pixels, float.

    Returns:
        [n, size, size, channels].
    """
    points = _grid(boxes, size) / tf.cast(tf.stack(image_size), features.dtype)
    last = tf.cast(tf.shape(features)[1:3] - 1, features.dtype)
    points = box_crops.snap_to_edges(points) * last

    def block(index: tf.Tensor, crops: tf.TensorArray):
        rows = slice(index * _BLOCK, (index + 1) * _BLOCK)
        return index + 1, crops.write(index, _sampled(features, points[rows], images[rows]))

    blocks = tf.maximum((tf.shape(boxes)[0] + _BLOCK - 1) // _BLOCK, 1)  # one may be empty
    shape = [None, size, size, features.shape[-1]]
    crops = tf.TensorArray(features.dtype, size=blocks, infer_shape=False, element_shape=shape)
    _, crops = tf.while_loop(
        lambda index, _: index < blocks, block, (tf.constant(0), crops), parallel_iterations=1
    )
    return tf.ensure_shape(crops.concat(), shape)


def _grid(boxes: tf.Tensor, size: int) -> tf.Tensor:
    """Compute grid points [n, size, size, 2], y and x, that span each box [n, 5]."""
    steps = tf.linspace(tf.constant(-0.5, boxes.dtype), tf.constant(0.5, boxes.dtype), size)
    down, along = steps[:, tf.newaxis], steps[tf.newaxis, :]
    cy, cx, height, width, angle = (
        value[:, tf.newaxis, tf.newaxis] for value in tf.unstack(boxes, axis=-1)
    )
    cosine, sine = tf.cos(angle), tf.sin(angle)
    y = cy + down * height * cosine + along * width * sine
    x = cx + along * width * cosine - down * height * sine
    return tf.stack([y, x], axis=-1)


def _sampled(features: tf.Tensor, points: tf.Tensor, images: tf.Tensor) -> tf.Tensor:
    """Sample features [n, size, size, channels] at points in cells of the map."""
    last = tf.cast(tf.shape(features)[1:3] - 1, points.dtype)
    inside = tf.reduce_all(tf.logical_and(points >= 0.0, points <= last), axis=-1)
    low = tf.clip_by_value(tf.floor(points), 0.0, last)
    part = tf.clip_by_value(points - low, 0.0, 1.0)
    rows = tf.broadcast_to(images[:, tf.newaxis, tf.newaxis], tf.shape(points)[:3])
    total = tf.zeros([], features.dtype)
    for dy in (0, 1):
        for dx in (0, 1):
            cell = tf.minimum(low + [float(dy), float(dx)], last)
            indices = tf.concat([rows[..., tf.newaxis], tf.cast(cell, tf.int32)], axis=-1)
            weights = [
                offset if far else 1.0 - offset
                for offset, far in zip(tf.unstack(part, axis=-1), (dy, dx))
            ]
            total += tf.gather_nd(features, indices) * (weights[0] * weights[1])[..., tf.newaxis]
    return tf.where(inside[..., tf.newaxis], total, tf.zeros([], features.dtype))
