"""Crops of features inside rotated boxes, sampled on a grid that rotates with the box."""

from __future__ import annotations

import tensorflow as tf

from model_fns.layers import crops as box_crops


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
    points = _grid(boxes, size) / tf.cast(tf.stack(image_size), boxes.dtype)
    # Each sample is a crop of one pixel.
    # The published branch rotates a copy of the whole map for each box instead.
    points = tf.reshape(points, [-1, 2])
    rows = tf.repeat(images, size * size)
    places = tf.concat([points, points], axis=-1)
    samples = box_crops.crop_and_resize(features, places, rows, (1, 1))
    return tf.reshape(samples, [-1, size, size, features.shape[-1]])


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
