"""Pointwise convolutions whose gradients are matrix products."""

from __future__ import annotations

import functools
from typing import Callable, Tuple, Union

import tensorflow as tf

from estimator_lib import environment
from model_fns.layers import forward_pass

Gradients = Tuple[tf.Tensor, tf.Tensor]

_NAME = 'PointwiseConv2D'
# Rows of so many float32 begin in the same set of a first-level cache: the product takes 1.2 to 1.5
# of the convolution's time for the gradient of weights.
_ALIASED = 1024


@functools.cache
def has_faster_products() -> bool:
    """Return whether products are known to be faster on this machine, which has no GPU."""
    processor = environment.find_processor()
    # With AVX-512, bfloat16 and GPUs products were not measured, so convolutions stay (58350766).
    known = processor is not None and processor.has_faster_products
    return known and not tf.config.list_physical_devices('GPU')


def pointwise_conv2d(inputs: tf.Tensor, weights: Union[tf.Variable, tf.Tensor]) -> tf.Tensor:
    """Apply a 1x1 convolution of stride 1, for training.

    Its gradients are matrix products. By measurement on a processor with AVX2, the gradients of
    convolutions take 0.9 to 1.6 of their time. The op itself stays a convolution: what reads a
    graph knows it, and TensorFlow fuses it with biases.

    Args:
        inputs: [batch, height, width, C].
        weights: [1, 1, C, D], of the type of the inputs.

    Returns:
        [batch, height, width, D].
    """
    if forward_pass.current() is not None:
        return _taped(inputs, tf.convert_to_tensor(weights))
    # `tf.custom_gradient` would put an op between the convolution and the biases, which are then
    # not fused. Tapes do not read this map.
    with tf.compat.v1.get_default_graph().gradient_override_map({'Conv2D': _NAME}):
        return tf.nn.conv2d(inputs, weights, 1, 'SAME')


@tf.RegisterGradient(_NAME)
def _of_op(op: tf.Operation, upstream: tf.Tensor) -> Gradients:
    inputs, weights = op.inputs
    return _gradients(inputs, weights, upstream)


@tf.custom_gradient
def _taped(
    inputs: tf.Tensor, weights: tf.Tensor
) -> Tuple[tf.Tensor, Callable[[tf.Tensor], Gradients]]:
    outputs = tf.nn.conv2d(inputs, weights, 1, 'SAME')
    return outputs, lambda upstream: _gradients(inputs, weights, upstream)


def _gradients(inputs: tf.Tensor, weights: tf.Tensor, upstream: tf.Tensor) -> Gradients:
    """Return the gradients of inputs X and weights W of the product X W: U W' and X' U.

    Args:
        inputs: [batch, height, width, C].
        weights: [1, 1, C, D].
        upstream: [batch, height, width, D], the gradient U of the outputs.
    """
    depth, outputs = weights.shape[2:]
    flat = tf.reshape(upstream, [-1, outputs])
    if _ALIASED in (depth, outputs):
        of_weights = tf.raw_ops.Conv2DBackpropFilter(
            input=inputs,
            filter_sizes=weights.shape,
            out_backprop=upstream,
            strides=[1] * 4,
            padding='SAME',
        )
    else:
        of_weights = tf.matmul(tf.reshape(inputs, [-1, depth]), flat, transpose_a=True)
    of_inputs = tf.matmul(flat, tf.reshape(weights, [depth, outputs]), transpose_b=True)
    shape = inputs.shape if inputs.shape.is_fully_defined() else tf.shape(inputs)
    return tf.reshape(of_inputs, shape), tf.reshape(of_weights, weights.shape)
