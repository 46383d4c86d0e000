"""Convolutions and fully connected layers, all made by one function.

`_layer` owns what a layer does with its weights: it reads them, hands them to the layer's product,
and normalizes and activates what that gives. Where the style rounds, the weights are rounded before
the product, with batch norm folded into them.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Callable, Optional, Sequence, Tuple, Union

import tensorflow as tf

from model_fns.layers import forward_pass
from model_fns.layers.activations import activate
from model_fns.layers.folding import folded
from model_fns.layers.normalization import batch_norm
from model_fns.layers.pointwise import has_faster_products, pointwise_conv2d
from model_fns.layers.quantization import quantize_weights
from model_fns.layers.style import LayerStyle, Padding, Size
from model_fns.layers.weights import ZEROS, Initializer, Regularizer, variable

tf1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class _Product:
    """Linear part of a layer: the product of its input and one tensor of weights.

    Attributes:
        name: of the variable.
        shape: of the weights.
        initializer: of the weights.
        regularizer: of the weights.
        compute: (inputs, weights) -> outputs, all of the layer's compute type.
        scale_shape: the shape in which a number for each channel of the outputs multiplies weights.
    """

    name: str
    shape: Sequence[int]
    initializer: Initializer
    regularizer: Optional[Regularizer]
    compute: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
    scale_shape: Sequence[int]


def conv2d(
    inputs: tf.Tensor,
    num_outputs: int,
    kernel_size: Size,
    style: LayerStyle,
    scope: str,
    *,
    stride: Size = 1,
    rate: Size = 1,
    padding: Padding = 'SAME',
    use_bias: Optional[bool] = None,
    bias_initializer: Initializer = ZEROS,
    norm_scope: str = 'BatchNorm',
) -> tf.Tensor:
    """Build a convolution, then batch norm or bias, then activation.

    Args:
        inputs: [batch, height, width, channels]; channels static.
        num_outputs: output channels.
        kernel_size: height and width, or one number for both.
        style: initial values, regularization, normalization, activation, compute type.
        scope: name of the layer.
        stride: one number, or (vertical, horizontal).
        rate: atrous rate: distance between the kernel's taps, one number or (vertical, horizontal).
            Above 1 the stride is 1.
        padding: `SAME`, `VALID` or `FIXED`.
        use_bias: None: exactly when there is no batch norm.
        bias_initializer: initial value of the biases.
        norm_scope: name of batch norm in the layer's scope: uses of shared weights may each have
            their own.

    Returns:
        [batch, height', width', num_outputs] in the style's compute type.
    """
    kernel = _pair(kernel_size)
    how = (_pair(stride), _pair(rate), padding)
    product = _Product(
        'weights',
        [*kernel, inputs.shape[-1], num_outputs],
        style.initializer,
        style.regularizer,
        lambda values, weights: _convolve(values, weights, kernel, *how, style.is_training),
        [num_outputs],
    )
    with tf1.variable_scope(scope):
        return _layer(inputs, product, style, use_bias, bias_initializer, norm_scope)


def depthwise_conv2d(
    inputs: tf.Tensor,
    kernel_size: Size,
    style: LayerStyle,
    scope: str,
    *,
    stride: int = 1,
    rate: Size = 1,
    padding: Padding = 'SAME',
    depth_multiplier: int = 1,
    use_bias: Optional[bool] = None,
) -> tf.Tensor:
    """Build one convolution for each channel, then as in `conv2d`.

    Returns:
        [batch, height', width', channels * depth_multiplier] in the style's compute type.
    """
    product = _depthwise(inputs, kernel_size, style, stride, rate, padding, depth_multiplier)
    with tf1.variable_scope(scope):
        return _layer(inputs, product, style, use_bias)


def separable_conv2d(
    inputs: tf.Tensor,
    num_outputs: int,
    kernel_size: Size,
    style: LayerStyle,
    scope: str,
    *,
    stride: int = 1,
    rate: Size = 1,
    padding: Padding = 'SAME',
    depth_multiplier: int = 1,
    use_bias: Optional[bool] = None,
    bias_initializer: Initializer = ZEROS,
    norm_scope: str = 'BatchNorm',
) -> tf.Tensor:
    """Build a depthwise, then a pointwise convolution in one layer, with nothing between them.

    Its variables are `depthwise_weights`, `pointwise_weights` and what `conv2d` adds.

    Returns:
        [batch, height', width', num_outputs] in the style's compute type.
    """
    depthwise = _depthwise(inputs, kernel_size, style, stride, rate, padding, depth_multiplier)
    pointwise = _Product(
        'pointwise_weights',
        [1, 1, inputs.shape[-1] * depth_multiplier, num_outputs],
        style.pointwise_initializer or style.initializer,
        style.regularizer if style.regularize_pointwise else None,
        lambda values, weights: _convolve(
            values, weights, (1, 1), (1, 1), (1, 1), 'VALID', style.is_training
        ),
        [num_outputs],
    )
    with tf1.variable_scope(scope):
        # TensorFlow 1.15 named the ranges of the depthwise half after its op, `separable_conv2d`.
        between = style.linear().ranges_below('separable_conv2d')
        filtered = _layer(inputs, depthwise, between, use_bias=False)
        return _layer(filtered, pointwise, style, use_bias, bias_initializer, norm_scope)


def conv2d_transpose(
    inputs: tf.Tensor,
    num_outputs: int,
    kernel_size: Size,
    style: LayerStyle,
    scope: str,
    *,
    stride: int = 2,
    use_bias: Optional[bool] = None,
    bias_initializer: Initializer = ZEROS,
) -> tf.Tensor:
    """Build a transposed convolution with padding `SAME`, then as in `conv2d`.

    It is the gradient of a strided convolution: its weights are [height, width, outputs, inputs].

    Args:
        inputs: [batch, height, width, channels]; channels static.
        num_outputs: output channels.
        kernel_size: height and width, or one number for both.
        style: initial values, regularization, normalization, activation, compute type; such layers
            are not quantized.
        scope: name of the layer.
        stride: what both sides are multiplied by.
        use_bias: None: exactly when there is no batch norm.
        bias_initializer: initial value of the biases.

    Returns:
        [batch, stride * height, stride * width, num_outputs] in the style's compute type.
    """

    def compute(values: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        batch, height, width, _ = tf.unstack(tf.shape(values))
        shape = [batch, stride * height, stride * width, num_outputs]
        outputs = tf.nn.conv2d_transpose(values, weights, shape, stride, 'SAME')
        sides = [None if side is None else stride * side for side in values.shape[1:3]]
        # The op takes its shape as a tensor, and so loses the static sides.
        outputs.set_shape([values.shape[0], *sides, num_outputs])
        return outputs

    product = _Product(
        'weights',
        [*_pair(kernel_size), num_outputs, inputs.shape[-1]],
        style.initializer,
        style.regularizer,
        compute,
        # These weights are [height, width, outputs, inputs]: the outputs are not the last axis.
        [num_outputs, 1],
    )
    with tf1.variable_scope(scope):
        return _layer(inputs, product, style, use_bias, bias_initializer)


def fully_connected(
    inputs: tf.Tensor,
    num_outputs: int,
    style: LayerStyle,
    scope: str,
    *,
    bias_initializer: Initializer = ZEROS,
) -> tf.Tensor:
    """Build a matrix product on the last axis of [batch, channels], then as in `conv2d`."""
    product = _Product(
        'weights',
        [inputs.shape[-1], num_outputs],
        style.initializer,
        style.regularizer,
        tf.matmul,
        [num_outputs],
    )
    with tf1.variable_scope(scope):
        return _layer(inputs, product, style, bias_initializer=bias_initializer)


def _layer(
    inputs: tf.Tensor,
    product: _Product,
    style: LayerStyle,
    use_bias: Optional[bool] = None,
    bias_initializer: Initializer = ZEROS,
    norm_scope: str = 'BatchNorm',
) -> tf.Tensor:
    """Build a layer in the current scope: weights, product, bias, batch norm, activation."""
    folds = style.quantization is not None and style.batch_norm is not None
    weights = _weights(product, style)
    outputs = None if folds else product.compute(style.cast(inputs), style.cast(weights))
    if use_bias is None:
        # Convolutions of EfficientDet have biases before batch norm (`force_use_bias`).
        use_bias = style.force_bias or style.batch_norm is None
    biases = None
    if use_bias:
        channels = [math.prod(product.scale_shape)]
        biases = variable('biases', channels, bias_initializer, style.bias_regularizer)
    if folds:
        return activate(
            folded(
                inputs, weights, biases, product.compute, product.scale_shape, style, norm_scope
            ),
            style,
        )
    if biases is not None:
        outputs = tf.nn.bias_add(outputs, style.cast(biases))
    if style.batch_norm is not None:
        outputs = batch_norm(outputs, style.batch_norm, style.is_training, norm_scope)
    return activate(outputs, style)


def _weights(product: _Product, style: LayerStyle) -> Union[tf.Variable, tf.Tensor]:
    """Return the weights of a layer, rounded unless batch norm is to be folded into them first."""
    rounds = style.quantization is not None and style.batch_norm is None
    regularizer = product.regularizer
    weights = variable(
        product.name, product.shape, product.initializer, None if rounds else regularizer
    )
    if not rounds:
        return weights
    rounded = quantize_weights(weights, style.quantization, style.is_training, is_folded=False)
    if regularizer is not None:
        # As published: a loss of what the layer multiplies by.
        name = f'{tf1.get_variable_scope().name}/{product.name}'
        forward_pass.add_regularization_loss(name, lambda: regularizer(rounded))
    return rounded


def _depthwise(
    inputs: tf.Tensor,
    kernel_size: Size,
    style: LayerStyle,
    stride: int,
    rate: Size,
    padding: Padding,
    depth_multiplier: int,
) -> _Product:
    kernel = _pair(kernel_size)

    def compute(values: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        pads = _padding(padding, kernel, (stride, stride), _pair(rate))
        if not isinstance(pads, str):
            # Graph rewriting on CPUs fuses this op with what follows and loses its own padding.
            values, pads = tf.pad(values, pads), 'VALID'
        return tf.nn.depthwise_conv2d(
            values,
            weights,
            strides=[1, stride, stride, 1],
            padding=pads,
            dilations=_pair(rate),
        )

    return _Product(
        'depthwise_weights',
        [*kernel, inputs.shape[-1], depth_multiplier],
        style.depthwise_initializer or style.initializer,
        style.regularizer if style.regularize_depthwise else None,
        compute,
        # The outputs are ordered by channel, then by multiplier, as the last two axes of the
        # weights.
        [inputs.shape[-1], depth_multiplier],
    )


def _convolve(
    inputs: tf.Tensor,
    weights: tf.Tensor,
    kernel: Tuple[int, int],
    stride: Tuple[int, int],
    rate: Tuple[int, int],
    padding: Padding,
    is_training: bool,
) -> tf.Tensor:
    padding = _padding(padding, kernel, stride, rate)
    if is_training and not isinstance(padding, str):
        # oneDNN has no gradients of convolutions with paddings of their own: they fall to kernels
        # that are several times as slow, and in bfloat16 fifty times.
        inputs, padding = tf.pad(inputs, padding), 'VALID'
    if is_training and kernel == stride == (1, 1) and has_faster_products():
        return pointwise_conv2d(inputs, weights)
    # A kernel of one tap has no distance between taps.
    if rate == (1, 1) or kernel == (1, 1):
        return tf.nn.conv2d(inputs, weights, stride, padding)
    return _atrous_convolve(inputs, tf.convert_to_tensor(weights), rate, padding)


def _atrous_convolve(
    inputs: tf.Tensor, weights: tf.Tensor, rate: Tuple[int, int], padding: Padding
) -> tf.Tensor:
    """Apply an atrous convolution of stride 1 that is differentiable on every device.

    TensorFlow has no gradients of it on a CPU without oneDNN. Its replacement by space to batch
    takes up to 5 times as long as this. Here the gradient of the inputs is an atrous convolution
    itself, and that of the weights is a matrix product for each tap.
    """

    @tf.custom_gradient
    def convolve(image: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        def gradient(upstream: tf.Tensor) -> Sequence[tf.Tensor]:
            reaches = [(size - 1) * gap for size, gap in zip(kernel.shape[:2], rate)]
            pads = [(0, 0) if padding == 'VALID' else (one // 2, one - one // 2) for one in reaches]
            beyond = [(one - left, one - right) for one, (left, right) in zip(reaches, pads)]
            flipped = tf.transpose(tf.reverse(kernel, [0, 1]), [0, 1, 3, 2])
            spread = tf.nn.conv2d(_padded(upstream, beyond), flipped, 1, 'VALID', dilations=rate)
            return spread, _products_of_taps(_padded(image, pads), upstream, kernel.shape, rate)

        return tf.nn.conv2d(image, kernel, 1, padding, dilations=rate), gradient

    return convolve(inputs, weights)


def _products_of_taps(
    image: tf.Tensor, upstream: tf.Tensor, shape: Sequence[int], rate: Tuple[int, int]
) -> tf.Tensor:
    """Return the gradient of the weights of an atrous convolution without padding.

    Args:
        image: [B, height, width, C], what was convolved.
        upstream: [B, height', width', D], the gradient of its outputs.
        shape: of the weights.
        rate: of the convolution.
    """
    rows, columns, depth, outputs = shape
    _, height, width, _ = tf.unstack(tf.shape(upstream))
    flat = tf.reshape(upstream, [-1, outputs])
    products = []
    for row in range(rows):
        for column in range(columns):
            top, left = row * rate[0], column * rate[1]
            # One after the other, so that only one tap's copy of the image is held.
            with tf.control_dependencies(products[-1:]):
                seen = image[:, top : top + height, left : left + width]
            products.append(tf.matmul(tf.reshape(seen, [-1, depth]), flat, transpose_a=True))
    return tf.reshape(tf.stack(products), shape)


def _padded(images: tf.Tensor, pads: Sequence[Tuple[int, int]]) -> tf.Tensor:
    """Return images with rows above and below, and columns left and right, of zeros."""
    if not any(map(any, pads)):
        return images
    return tf.pad(images, [[0, 0], *pads, [0, 0]])


def _padding(
    padding: Padding, kernel: Sequence[int], stride: Tuple[int, int], rate: Tuple[int, int]
) -> Union[str, Sequence[Sequence[int]]]:
    if rate != (1, 1) and stride != (1, 1):
        raise ValueError(f'An atrous convolution has stride 1; got stride {stride}, rate {rate}.')
    if padding != 'FIXED' or stride == (1, 1):
        return 'SAME' if padding == 'FIXED' else padding  # At stride 1 these two are the same.
    # `conv2d_same` of TF-Slim's resnet_utils: the extra row of an even kernel is at the end.
    return [[0, 0]] + [[(size - 1) // 2, size // 2] for size in kernel] + [[0, 0]]


def _pair(value: Size) -> Tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])
