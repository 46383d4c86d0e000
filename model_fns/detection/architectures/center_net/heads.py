"""Heads of a CenterNet: a small network for each kind of predicted value."""

from __future__ import annotations

import dataclasses
from typing import Optional, Sequence, Tuple

import tensorflow as tf

from model_fns import layers

tf1 = tf.compat.v1

SCOPE = 'PredictionHeads'


@dataclasses.dataclass(frozen=True)
class Head:
    """Head for one kind of value.

    Attributes:
        name: name of the values, which is their scope too; it may contain slashes.
        channels: number of values of each cell.
        bias: initial value of the biases of the last layer; None: 0.
        filters: channels of the convolutions before the last layer.
        kernels: kernel sizes of these convolutions.
    """

    name: str
    channels: int
    bias: Optional[float] = None
    filters: Tuple[int, ...] = (256,)
    kernels: Tuple[int, ...] = (3,)

    def output_scope(self, index: int) -> str:
        """Return the scope of the head's layers for the feature map of that index."""
        return f'{SCOPE}/{self.name}/output_{index}'


def layer_scope(number: int) -> str:
    """Return the scope of a layer of a head by its number, from 0."""
    return f'conv_{number + 1}'


def predict(
    head: Head, maps: Sequence[tf.Tensor], is_training: bool, separable: bool = False
) -> Sequence[tf.Tensor]:
    """Compute the head's values on each feature map; each map has separate weights.

    Args:
        head: the head.
        maps: [B, H, W, channels] each.
        is_training: True: batch norm uses the batch's statistics.
        separable: True: the convolutions before the last are separable.

    Returns:
        float32 [B, H, W, head.channels] for each map.
    """
    # Keras's defaults, as published: Glorot's initial values, biases, no batch norm, no
    # regularizer. The config has no hyperparameters for heads.
    style = layers.LayerStyle(is_training=is_training)
    last_bias = layers.ZEROS if head.bias is None else _constant(head.bias)
    convolve = layers.separable_conv2d if separable else layers.conv2d
    outputs = []
    for index, features in enumerate(maps):
        with tf1.variable_scope(head.output_scope(index)):
            for number, (depth, kernel) in enumerate(zip(head.filters, head.kernels)):
                features = convolve(features, depth, kernel, style, layer_scope(number))
            last = layer_scope(len(head.filters))
            linear = style.linear()
            values = layers.conv2d(
                features, head.channels, 1, linear, last, bias_initializer=last_bias
            )
        outputs.append(layers.to_float32(values))
    return outputs


def _constant(value: float) -> layers.Initializer:
    return layers.Initializer('constant', value, fan=None)
