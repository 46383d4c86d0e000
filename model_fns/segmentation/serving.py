"""Features of served images, and outputs at the size of these images."""

from __future__ import annotations

from typing import Sequence

import tensorflow as tf

from estimator_lib.task import Features, Tensors
from model_fns.segmentation import fields
from model_fns.segmentation.data.preprocessing import ServedImages
from model_fns.segmentation.networks import sizes

# Outputs that are resized without interpolation.
_NEAREST = (
    fields.SEMANTIC_PREDICTIONS,
    fields.EDGE_PREDICTIONS,
    fields.INSTANCE_PREDICTIONS,
    fields.PANOPTIC_PREDICTIONS,
)


def serving_features(images: tf.Tensor, served: ServedImages) -> Features:
    """Build the features of served images.

    Args:
        images: uint8 [batch, height, width, 3], as sent.
        served: the same images, preprocessed.
    """
    batch = tf.shape(images)[0]
    return {
        fields.IMAGE: served.images,
        fields.ORIGINAL_SIZE: _tile_size(tf.shape(images)[1:3], batch),
        fields.RESIZED_SIZE: _tile_size(served.size, batch),
    }


def remove_padding(outputs: Tensors, features: Features) -> Tensors:
    """Remove the padding from outputs."""
    height, width = _common_size(features, fields.RESIZED_SIZE)
    return {name: value[:, :height, :width] for name, value in outputs.items()}


def image_mask(maps: tf.Tensor, true_image_shape: tf.Tensor) -> tf.Tensor:
    """Build a mask of the pixels that are not padding: bool [B, H, W].

    Args:
        maps: [B, H, W].
        true_image_shape: int32 [B, 3] or [B, 2], see `fields.TRUE_IMAGE_SHAPE`.
    """
    height, width = sizes.spatial_size(maps[..., tf.newaxis])
    rows = tf.sequence_mask(true_image_shape[:, 0], height)
    columns = tf.sequence_mask(true_image_shape[:, 1], width)
    return rows[:, :, tf.newaxis] & columns[:, tf.newaxis, :]


def restore_size(outputs: Tensors, features: Features) -> Tensors:
    """Resize outputs to the size of the images as sent."""
    served, original = (
        _common_size(features, name) for name in (fields.RESIZED_SIZE, fields.ORIGINAL_SIZE)
    )
    return {name: resize_output(name, value, served, original) for name, value in outputs.items()}


def resize_output(name: str, value: tf.Tensor, old: sizes.Size, new: sizes.Size) -> tf.Tensor:
    """Resize an output.

    Args:
        name: of the output: ids are not interpolated, and offsets are scaled.
        value: [batch, *old] or [batch, *old, channels].
        old: its size.
        new: size of the result.
    """
    is_map = value.shape.rank == 3
    maps = value[..., tf.newaxis] if is_map else value
    # A mean of two ids would be a third class.
    maps = sizes.resize(maps, new, 'nearest' if name in _NEAREST else 'bilinear')
    if name == fields.CENTER_OFFSETS:
        factors = [
            tf.cast(side - 1, tf.float32) / tf.cast(tf.maximum(old_side - 1, 1), tf.float32)
            for side, old_side in zip(new, old)
        ]
        maps *= tf.stack(factors)
    return maps[..., 0] if is_map else maps


def fit_outputs(outputs: Tensors, sizes_of_outputs: tf.Tensor, features: Features) -> Tensors:
    """Resize outputs to the size of features' images without padding, and pad them with zeros.

    Args:
        outputs: [B, H, W] or [B, H, W, C] each, padded at the bottom and right.
        sizes_of_outputs: int32 [B, 2], height and width of outputs without padding.
        features: have the images [B, height, width, channels].

    Returns:
        [B, height, width] or [B, height, width, C] each.
    """
    frame = sizes.spatial_size(features[fields.IMAGE])
    contents = image_contents(features)

    def fit(name: str, value: tf.Tensor) -> tf.Tensor:
        @tf.autograph.experimental.do_not_convert
        def fit_one(parts: Sequence[tf.Tensor]) -> tf.Tensor:
            one, size, content = parts
            part = one[tf.newaxis, : size[0], : size[1]]
            resized = resize_output(name, part, tf.unstack(size), tf.unstack(content))
            return pad(resized[0], frame)

        spec = tf.TensorSpec([None, None, *value.shape[3:]], value.dtype)
        return tf.map_fn(fit_one, (value, sizes_of_outputs, contents), fn_output_signature=spec)

    return {name: fit(name, value) for name, value in outputs.items()}


def image_contents(features: Features) -> tf.Tensor:
    """Return height and width of the features' images without padding: int32 [B, 2]."""
    if fields.RESIZED_SIZE in features:
        return features[fields.RESIZED_SIZE]
    return features[fields.TRUE_IMAGE_SHAPE][:, :2]


def pad(values: tf.Tensor, size: sizes.Size) -> tf.Tensor:
    """Pad [height, width, ..] with zeros at the bottom and right."""
    height, width = (side - tf.shape(values)[axis] for axis, side in enumerate(size))
    return tf.pad(values, [[0, height], [0, width], *([[0, 0]] * (values.shape.rank - 2))])


def _tile_size(size: tf.Tensor, batch: tf.Tensor) -> tf.Tensor:
    return tf.tile(size[tf.newaxis], tf.stack([batch, 1]))


def _common_size(features: Features, name: str) -> sizes.Size:
    """Return the height and width of all images; the op fails where they differ."""
    each = features[name]
    same = tf.reduce_all(tf.equal(each, each[:1]))
    message = 'the images of one request differ in size; expected images of one size, or one image'
    check = tf.raw_ops.Assert(condition=same, data=[message])
    with tf.control_dependencies([check]):
        height, width = tf.unstack(tf.reduce_max(each, axis=0))
    return height, width
