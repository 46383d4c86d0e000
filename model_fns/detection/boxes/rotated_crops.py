"""Features inside rotated boxes, read on a grid that is turned with the box."""

from __future__ import annotations

import tensorflow as tf

from model_fns.layers import crops as box_crops

# Boxes whose crops are computed at once: each takes four gathers of its whole crop.
_BLOCK = 64


def crop(
    features: tf.Tensor, boxes: tf.Tensor, images: tf.Tensor, size: int, image_size: tf.Tensor
) -> tf.Tensor:
    """Return crops of boxes, by bilinear interpolation; 0 outside of the map.

    The corners of a box are those of its grid, and the corners of the image those of the map: with
    angles of 0 it is `crops.crop_and_resize`.

    Args:
        features: float [B, height, width, channels].
        boxes: float [n, 5], in pixels of the image.
        images: int32 [n]: the row of `features` that each box is on.
        size: rows and columns of a crop.
        image_size: (height, width) in pixels, float.

    Returns:
        [n, size, size, channels].
    """
    places = _grid(boxes, size) / tf.cast(tf.stack(image_size), features.dtype)
    last = tf.cast(tf.shape(features)[1:3] - 1, features.dtype)
    places = box_crops.snap_to_edges(places) * last

    def block(index: tf.Tensor, crops: tf.TensorArray):
        some = slice(index * _BLOCK, (index + 1) * _BLOCK)
        return index + 1, crops.write(index, _sampled(features, places[some], images[some]))

    blocks = tf.maximum((tf.shape(boxes)[0] + _BLOCK - 1) // _BLOCK, 1)  # one may be empty
    shape = [None, size, size, features.shape[-1]]
    crops = tf.TensorArray(features.dtype, size=blocks, infer_shape=False, element_shape=shape)
    _, crops = tf.while_loop(
        lambda index, _: index < blocks, block, (tf.constant(0), crops), parallel_iterations=1
    )
    return tf.ensure_shape(crops.concat(), shape)


def _grid(boxes: tf.Tensor, size: int) -> tf.Tensor:
    """Places [n, size, size, 2], y and x, from one side of each box [n, 5] to the other."""
    steps = tf.linspace(tf.constant(-0.5, boxes.dtype), tf.constant(0.5, boxes.dtype), size)
    down, along = steps[:, tf.newaxis], steps[tf.newaxis, :]
    cy, cx, height, width, angle = (
        one[:, tf.newaxis, tf.newaxis] for one in tf.unstack(boxes, axis=-1)
    )
    cosine, sine = tf.cos(angle), tf.sin(angle)
    y = cy + down * height * cosine + along * width * sine
    x = cx + along * width * cosine - down * height * sine
    return tf.stack([y, x], axis=-1)


def _sampled(features: tf.Tensor, places: tf.Tensor, images: tf.Tensor) -> tf.Tensor:
    """Return features [n, size, size, channels] at places in cells of the map."""
    last = tf.cast(tf.shape(features)[1:3] - 1, places.dtype)
    inside = tf.reduce_all(tf.logical_and(places >= 0.0, places <= last), axis=-1)
    low = tf.clip_by_value(tf.floor(places), 0.0, last)
    part = tf.clip_by_value(places - low, 0.0, 1.0)
    rows = tf.broadcast_to(images[:, tf.newaxis, tf.newaxis], tf.shape(places)[:3])
    total = tf.zeros([], features.dtype)
    for dy in (0, 1):
        for dx in (0, 1):
            cell = tf.minimum(low + [float(dy), float(dx)], last)
            at = tf.concat([rows[..., tf.newaxis], tf.cast(cell, tf.int32)], axis=-1)
            weights = [
                one if far else 1.0 - one for one, far in zip(tf.unstack(part, axis=-1), (dy, dx))
            ]
            total += tf.gather_nd(features, at) * (weights[0] * weights[1])[..., tf.newaxis]
    return tf.where(inside[..., tf.newaxis], total, tf.zeros([], features.dtype))
