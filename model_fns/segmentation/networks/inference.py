"""Predictions for each pixel from the logits of one view of the images, or of several.

A view is the images at a scale, possibly mirrored. Probabilities of classes, heat maps of centers
and offsets are averaged over views.
"""

from __future__ import annotations

from typing import Dict, Mapping, Sequence

import tensorflow as tf

from model_fns.segmentation import fields
from model_fns.segmentation.networks import sizes
from model_fns.segmentation.networks.heads import Head

Values = Dict[str, tf.Tensor]  # by head: [batch, height, width, channels]

_OUTPUTS = {
    fields.SEMANTIC_HEAD: (fields.SEMANTIC_PREDICTIONS, fields.SEMANTIC_PROBABILITIES),
    fields.INSTANCE_CENTER_HEAD: (fields.INSTANCE_CENTERS,),
    fields.OFFSET_HEAD: (fields.CENTER_OFFSETS,),
    fields.EDGE_HEAD: (fields.EDGE_PREDICTIONS,),
}
# Output with the most probable class of a head.
_PREDICTIONS = {
    fields.SEMANTIC_HEAD: fields.SEMANTIC_PREDICTIONS,
    fields.EDGE_HEAD: fields.EDGE_PREDICTIONS,
}


def resized_values(
    heads: Sequence[Head], logits: Mapping[str, tf.Tensor], size: sizes.Size, image_size: sizes.Size
) -> Values:
    """Compute each head's values at the size of the output.

    Args:
        heads: of the network.
        logits: of one view, float32 [batch, h, w, channels] by head; offsets in pixels of the
            images.
        size: of the output.
        image_size: of the images.

    Returns:
        By head: probabilities of classes, heat maps, offsets in pixels of the output.
    """
    values = {}
    for head in heads:
        # As in DeepLab, logits are resized, not probabilities: boundaries are elsewhere otherwise.
        upsampled = sizes.resize(logits[head.name], size)
        if head.is_classes:
            upsampled = tf.nn.softmax(upsampled)
        elif head.name == fields.OFFSET_HEAD:
            upsampled = _scale_offsets(upsampled, size, image_size)
        values[head.name] = upsampled
    return values


def mean_of_mirrored(heads: Sequence[Head], values: Values) -> Values:
    """Compute the mean of a view and its mirror image.

    Args:
        heads: of the network.
        values: float32 [2 * batch, height, width, channels] by head: those of the images, then
            those of the mirrored images.

    Returns:
        The same, [batch, height, width, channels].
    """
    means = {}
    for head in heads:
        # The first half are the images: `Views.with_mirrored` appends the mirrored ones.
        straight, mirrored = tf.split(values[head.name], 2)
        mirrored = tf.reverse(mirrored, [2])
        if head.name == fields.OFFSET_HEAD:
            mirrored *= [1.0, -1.0]  # In a mirror image, right is left.
        means[head.name] = (straight + mirrored) * 0.5
    return means


def mean_of_views(views: Sequence[Values]) -> Values:
    """Compute the mean over views."""
    if len(views) == 1:
        return dict(views[0])
    weight = 1.0 / len(views)
    return {name: tf.add_n([view[name] for view in views]) * weight for name in views[0]}


def output_names(heads: Sequence[Head]) -> Sequence[str]:
    """Return the names in `fields` of the outputs of `predictions`."""
    names = []
    for head in heads:
        names += _OUTPUTS[head.name]
    return names


def predictions(heads: Sequence[Head], values: Values) -> Dict[str, tf.Tensor]:
    """Compute the outputs, named as in `fields`.

    Args:
        heads: of the network.
        values: float32 [batch, height, width, channels] by head, from `resized_values`.

    Returns:
        `SEMANTIC_PREDICTIONS`, `SEMANTIC_PROBABILITIES`, and those of the other heads.
    """
    outputs = {}
    for head in heads:
        value = values[head.name]
        if head.is_classes:
            outputs[_PREDICTIONS[head.name]] = tf.argmax(value, 3)
        if head.name == fields.SEMANTIC_HEAD:
            outputs[fields.SEMANTIC_PROBABILITIES] = value
        elif head.name == fields.INSTANCE_CENTER_HEAD:
            outputs[fields.INSTANCE_CENTERS] = value[..., 0]
        elif head.name == fields.OFFSET_HEAD:
            outputs[fields.CENTER_OFFSETS] = value
    return outputs


def predictions_before_resizing(
    heads: Sequence[Head], logits: Mapping[str, tf.Tensor], size: sizes.Size, image_size: sizes.Size
) -> Dict[str, tf.Tensor]:
    """Compute the outputs at the size of the logits, then resize them.

    Args:
        heads: of the network.
        logits: float32 [batch, h, w, channels] by head; offsets in pixels of the images.
        size: of the output.
        image_size: of the images.
    """
    values = {
        head.name: tf.nn.softmax(logits[head.name]) if head.is_classes else logits[head.name]
        for head in heads
    }
    small = predictions(heads, values)
    outputs = {}
    for name, value in small.items():
        if name in _PREDICTIONS.values():
            outputs[name] = sizes.resize(value[..., tf.newaxis], size, 'nearest')[..., 0]
        elif name == fields.INSTANCE_CENTERS:
            outputs[name] = sizes.resize(value[..., tf.newaxis], size)[..., 0]
        else:
            outputs[name] = sizes.resize(value, size)
    if fields.CENTER_OFFSETS in outputs:
        offsets = outputs[fields.CENTER_OFFSETS]
        outputs[fields.CENTER_OFFSETS] = _scale_offsets(offsets, size, image_size)
    return outputs


def _scale_offsets(offsets: tf.Tensor, size: sizes.Size, image_size: sizes.Size) -> tf.Tensor:
    """Convert offsets from pixels of the images to pixels of the output (corners are aligned)."""
    if sizes.same(size, image_size):
        return offsets
    factors = [
        tf.cast(side - 1, tf.float32) / tf.cast(tf.maximum(image_side - 1, 1), tf.float32)
        for side, image_side in zip(size, image_size)
    ]
    return offsets * tf.stack(factors)
