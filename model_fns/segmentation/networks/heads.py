"""Heads of a network: classes of pixels and, optionally, centers, offsets and edges.

Variables of a head are `logits/<head>`; a head beside the semantic one has a 3x3 convolution of its
own before that, `<head>_head`.
"""

from __future__ import annotations

import dataclasses
from typing import Sequence, Tuple

import tensorflow as tf

from model_fns import layers
from model_fns.segmentation import fields
from protos import segmentation_pb2

tf1 = tf.compat.v1

# DeepLab's get_branch_logits.
_LOGITS_INITIALIZER = layers.truncated_normal(0.01)


@dataclasses.dataclass(frozen=True)
class Head:
    """One kind of output.

    Attributes:
        name: see `fields`.
        channels: of its logits.
        num_filters: channels of its own 3x3 convolution; 0: it has none.
    """

    name: str
    channels: int
    num_filters: int = 0

    @property
    def is_classes(self) -> bool:
        """True where the logits are those of classes; else they are values."""
        return self.name in (fields.SEMANTIC_HEAD, fields.EDGE_HEAD)

    @property
    def own_scope(self) -> str:
        """Variable scope of its own convolution."""
        return f'{self.name}_head'


def heads_from_config(config: segmentation_pb2.Segmentation, num_classes: int) -> Tuple[Head, ...]:
    """Return the semantic head, then the heads with a message in the config.

    Args:
        config: the model.
        num_classes: of the semantic head.
    """
    heads = [Head(fields.SEMANTIC_HEAD, num_classes)]
    if config.HasField('instance_center'):
        heads.append(Head(fields.INSTANCE_CENTER_HEAD, 1, config.instance_center.num_filters))
    if config.HasField('offset'):
        heads.append(Head(fields.OFFSET_HEAD, 2, config.offset.num_filters))
    if config.HasField('edge'):
        heads.append(Head(fields.EDGE_HEAD, config.edge.num_classes, config.edge.num_filters))
    return tuple(heads)


def logits(
    features: tf.Tensor,
    head: Head,
    style: layers.LayerStyle,
    *,
    kernel_size: int = 1,
    rates: Sequence[int] = (),
) -> tf.Tensor:
    """Build the logits of a head.

    Args:
        features: float32 [batch, height, width, channels].
        head: the parameters.
        style: of the head's own convolution; the logits use its linear form.
        kernel_size: of the logits layer.
        rates: the logits are the sum of such layers at these atrous rates; empty: one of rate 1.

    Returns:
        float32 [batch, height, width, head.channels].
    """
    if head.num_filters:
        features = layers.conv2d(features, head.num_filters, 3, style, head.own_scope)
    linear = style.linear().but(initializer=_LOGITS_INITIALIZER)
    with tf1.variable_scope('logits'):
        terms = [
            layers.conv2d(
                features,
                head.channels,
                kernel_size,
                linear,
                # The first one has no number, as in published checkpoints of several rates.
                f'{head.name}_{index}' if index else head.name,
                rate=rate,
            )
            for index, rate in enumerate(rates or (1,))
        ]
    return tf.add_n(terms) if len(terms) > 1 else terms[0]
