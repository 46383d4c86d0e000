"""Masks of objects in records, as PNGs or as numbers."""

from __future__ import annotations

import tensorflow as tf

from model_fns.structures import images
from protos import input_reader_pb2


def decode_masks(
    encoded: tf.Tensor, count: tf.Tensor, mask_type: int, image: tf.Tensor
) -> tf.Tensor:
    """Decode the masks of an image, which must have its size.

    Args:
        encoded: string [n], a PNG each; or numbers [n * height * width].
        count: int32 scalar, n.
        mask_type: `PNG_MASKS` or `NUMERICAL_MASKS` of the reader.
        image: [height, width, channels].

    Returns:
        uint8 [n, height, width], 0 or 1.
    """
    height, width, _ = tf.unstack(tf.shape(image))
    if mask_type == input_reader_pb2.NUMERICAL_MASKS:
        return tf.cast(tf.reshape(encoded, [count, height, width]) > 0, tf.uint8)

    def decoded(png: tf.Tensor) -> tf.Tensor:
        # A few bytes can claim any size, and would be decoded before the reshape refuses them.
        png = images.limit_pixels(png, height * width, 'a mask')
        mask = tf.image.decode_png(png, channels=1)
        return tf.cast(tf.reshape(mask, [height, width]) > 0, tf.uint8)

    masks = tf.cond(
        count > 0,  # `map_fn` cannot infer the shape of no masks
        lambda: tf.map_fn(
            decoded, encoded, fn_output_signature=tf.TensorSpec([None, None], tf.uint8)
        ),
        lambda: tf.zeros([0, height, width], tf.uint8),
    )
    return tf.reshape(masks, [count, height, width])
