"""Functions of the pixels of examples, which steps of all tasks use."""

from __future__ import annotations

import tensorflow as tf

from estimator_lib.task import IMAGE, Example

# The gray of the published AutoAugment, `[128] * 3`.
GRAY = 128  # value of pixels from outside of the image


def image_size(example: Example) -> tf.Tensor:
    """Return height and width of the image, int32 [2]."""
    return tf.shape(example[IMAGE])[:2]


def to_float(image: tf.Tensor) -> tf.Tensor:
    """Convert the image to float32; pixels keep their values, 0 to 255.

    Returns:
        [height, width, channels].
    """
    return tf.cast(image, tf.float32)


def replace_part(image: tf.Tensor, begin: tf.Tensor, part: tf.Tensor) -> tf.Tensor:
    """Replace a rectangle of an image.

    Args:
        image: [height, width, channels].
        begin: int32 [2], first row and column of the rectangle.
        part: [rows, columns, channels] of the image's type; it lies inside the image.
    """
    (top, left), (bottom, right) = tf.unstack(begin), tf.unstack(begin + tf.shape(part)[:2])
    # Parts beside each other are copied; a choice for each pixel would take ten times as long.
    middle = tf.concat([image[top:bottom, :left], part, image[top:bottom, right:]], axis=1)
    replaced = tf.concat([image[:top], middle, image[bottom:]], axis=0)
    return tf.ensure_shape(replaced, image.shape)


def warp(
    pixels: tf.Tensor,
    back: tf.Tensor,
    origin: tf.Tensor,
    fill: float,
    interpolation: str = 'NEAREST',
) -> tf.Tensor:
    """Transform images by an affine map; their size stays.

    Args:
        pixels: [n, height, width, channels].
        back: float32 [2, 2]; the pixel p of the result, (y, x), is read at back p + origin.
        origin: float32 [2], in pixels.
        fill: value of pixels that are read outside of the image.
        interpolation: `NEAREST` or `BILINEAR`.
    """
    # The kernel expects x before y.
    rows = tf.reverse(tf.concat([back, origin[:, tf.newaxis]], 1), [0])
    rows = tf.gather(rows, [1, 0, 2], axis=1)
    warped = tf.raw_ops.ImageProjectiveTransformV3(
        images=pixels,
        transforms=tf.concat([tf.reshape(rows, [1, 6]), tf.zeros([1, 2])], 1),
        output_shape=tf.shape(pixels)[1:3],
        fill_value=fill,
        interpolation=interpolation,
        fill_mode='CONSTANT',
    )
    return tf.ensure_shape(warped, pixels.shape)
