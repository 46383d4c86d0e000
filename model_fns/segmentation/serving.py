"""From what a server sends to the network's input, and from its outputs back to that size."""

from __future__ import annotations

import tensorflow as tf

from estimator_lib.task import Features, Tensors
from model_fns.segmentation import fields
from model_fns.segmentation.data.preprocessing import ServedImages
from model_fns.segmentation.networks import sizes

# Features of served images, int32 [batch, 2]: height and width as they were sent, and after the
# resize range. All images of a request have the same.
ORIGINAL_SIZE = 'original_size'
RESIZED_SIZE = 'resized_size'

# Outputs that are no mixture of neighbors.
_NEAREST = (
    fields.SEMANTIC_PREDICTIONS,
    fields.EDGE_PREDICTIONS,
    fields.INSTANCE_PREDICTIONS,
    fields.PANOPTIC_PREDICTIONS,
)


def features_of(images: tf.Tensor, served: ServedImages) -> Features:
    """Features of served images.

    Args:
        images: uint8 [batch, height, width, 3], as they were sent.
        served: the same as the network takes them.
    """
    batch = tf.shape(images)[0]
    return {
        fields.IMAGE: served.images,
        ORIGINAL_SIZE: _for_each(tf.shape(images)[1:3], batch),
        RESIZED_SIZE: _for_each(served.size, batch),
    }


def without_padding(outputs: Tensors, features: Features) -> Tensors:
    """Outputs of the padded images, cut to what is image."""
    height, width = _common_size(features, RESIZED_SIZE)
    return {name: value[:, :height, :width] for name, value in outputs.items()}


def image_mask(maps: tf.Tensor, true_image_shape: tf.Tensor) -> tf.Tensor:
    """Returns which pixels are no padding: bool [B, H, W].

    Args:
        maps: [B, H, W].
        true_image_shape: int32 [B, 3] or [B, 2], see `fields.TRUE_IMAGE_SHAPE`.
    """
    height, width = sizes.size_of(maps[..., tf.newaxis])
    rows = tf.sequence_mask(true_image_shape[:, 0], height)
    columns = tf.sequence_mask(true_image_shape[:, 1], width)
    return rows[:, :, tf.newaxis] & columns[:, tf.newaxis, :]


def at_original_size(outputs: Tensors, features: Features) -> Tensors:
    """Outputs of resized images, at the size of the images as they were sent."""
    served, original = (_common_size(features, name) for name in (RESIZED_SIZE, ORIGINAL_SIZE))
    return {name: resized(name, value, served, original) for name, value in outputs.items()}


def resized(name: str, value: tf.Tensor, old: sizes.Size, new: sizes.Size) -> tf.Tensor:
    """An output at another size.

    Args:
        name: of the output: ids are not mixed, and offsets are in pixels.
        value: [batch, *old] or [batch, *old, channels].
        old: its size.
        new: that of the result.
    """
    is_map = value.shape.rank == 3
    maps = value[..., tf.newaxis] if is_map else value
    maps = sizes.resize(maps, new, 'nearest' if name in _NEAREST else 'bilinear')
    if name == fields.CENTER_OFFSETS:
        factors = [
            tf.cast(side - 1, tf.float32) / tf.cast(tf.maximum(old_side - 1, 1), tf.float32)
            for side, old_side in zip(new, old)
        ]
        maps *= tf.stack(factors)
    return maps[..., 0] if is_map else maps


def _for_each(size: tf.Tensor, batch: tf.Tensor) -> tf.Tensor:
    return tf.tile(size[tf.newaxis], tf.stack([batch, 1]))


def _common_size(features: Features, name: str) -> sizes.Size:
    """Height and width, which must be those of each image."""
    each = features[name]
    same = tf.reduce_all(tf.equal(each, each[:1]))
    message = 'the images of one request differ in size; expected images of one size, or one image'
    check = tf.raw_ops.Assert(condition=same, data=[message])
    with tf.control_dependencies([check]):
        height, width = tf.unstack(tf.reduce_max(each, axis=0))
    return height, width
