"""Layers after the backbone: their common style, and the split separable convolution."""

from __future__ import annotations

import tensorflow as tf

from model_fns import layers

# Initializers of the two parts of a separable convolution.
# Both are defaults of DeepLab's split_separable_conv2d.
_DEPTHWISE = layers.truncated_normal(0.33)
_POINTWISE = layers.truncated_normal(0.06)

# That of DeepLab; the backbones, which are published by themselves, have another one.
BATCH_NORM_EPSILON = 1e-5


def head_style(
    *,
    is_training: bool,
    fine_tune_batch_norm: bool,
    weight_decay: float,
    batch_norm_decay: float,
    bounded_activation: bool = False,
) -> layers.LayerStyle:
    """Build the published style of all layers after the backbone.

    Args:
        is_training: whether dropout is active.
        fine_tune_batch_norm: whether batch norm uses the batch's statistics in training, and
            updates the moving ones.
        weight_decay: factor of the L2 regularizer of all weights but the depthwise ones.
        batch_norm_decay: fraction of the moving statistics that an update keeps.
        bounded_activation: ReLU6 instead of ReLU.
    """
    activation: layers.Activation = tf.nn.relu6 if bounded_activation else tf.nn.relu
    style = layers.LayerStyle(
        is_training=is_training,
        # slim's default: DeepLab's arg scope names no initializer of these layers.
        initializer=layers.XAVIER,
        depthwise_initializer=_DEPTHWISE,
        regularizer=layers.l2(weight_decay),
        activation=activation,
        batch_norm=layers.BatchNorm(
            decay=batch_norm_decay,
            epsilon=BATCH_NORM_EPSILON,
            scale=True,
        ),
    )
    return style if fine_tune_batch_norm else style.frozen()


def split_separable_conv2d(
    features: tf.Tensor,
    num_outputs: int,
    style: layers.LayerStyle,
    scope: str,
    *,
    kernel_size: int = 3,
    rate: layers.Size = 1,
) -> tf.Tensor:
    """Build a depthwise and a 1x1 convolution, each with normalization and activation.

    Args:
        features: float32 [batch, height, width, channels].
        num_outputs: output channels.
        style: of both.
        scope: the two are `<scope>_depthwise` and `<scope>_pointwise`.
        kernel_size: of the depthwise convolution.
        rate: atrous rate of the depthwise convolution, or (vertical, horizontal).

    Returns:
        float32 [batch, height, width, num_outputs].
    """
    filtered = layers.depthwise_conv2d(
        features, kernel_size, style, f'{scope}_depthwise', rate=rate
    )
    pointwise = style.but(initializer=_POINTWISE)
    return layers.conv2d(filtered, num_outputs, 1, pointwise, f'{scope}_pointwise')


def conv3x3(
    features: tf.Tensor,
    num_outputs: int,
    style: layers.LayerStyle,
    scope: str,
    *,
    separable: bool,
    rate: int = 1,
) -> tf.Tensor:
    """Convolve [B, height, width, C] plainly, or separably by `split_separable_conv2d`."""
    if separable:
        return split_separable_conv2d(features, num_outputs, style, scope, rate=rate)
    return layers.conv2d(features, num_outputs, 3, style, scope, rate=rate)
