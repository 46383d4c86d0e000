"""The layers that all networks are made of: thin, and named as published checkpoints name them.

A layer is a function of a tensor, explicit sizes, and a `LayerStyle`, which says how weights are
drawn and penalised and what follows a convolution. Variables of a layer with scope `x`:

    x/weights, x/depthwise_weights, x/pointwise_weights, x/biases
    x/BatchNorm/{gamma,beta,moving_mean,moving_variance}

Initial values and dropout depend on the graph's seed, the layer's name and the global step, by
stateless ops, so that a network draws the same numbers whatever was built before it, and a resumed
run draws what the uninterrupted one would have.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, Optional, Sequence, Tuple, Union

import tensorflow as tf

from model_fns.weights import (  # noqa: F401  A network's file needs this one import.
    HE_NORMAL,
    ONES,
    TRUNCATED_STDDEV,
    XAVIER,
    ZEROS,
    Initializer,
    Penalty,
    l2,
    seed_of,
    truncated_normal,
    variable,
)

tf1 = tf.compat.v1

Size = Union[int, Tuple[int, int]]
# 'FIXED' pads (kernel - 1) / 2 on each side whatever the stride, as the ResNets do; 'SAME' pads
# what TensorFlow's rule for the input's size asks for.
Padding = str


@dataclasses.dataclass(frozen=True)
class BatchNorm:
    """Normalisation over a batch (Ioffe and Szegedy 2015).

    Attributes:
        decay: share of the old moving statistics that an update keeps, [0, 1].
        epsilon: added to the variance.
        center: whether there is a beta.
        scale: whether there is a gamma.
        train: whether training uses and updates batch statistics; else the moving ones are used.
        inplace_update: update the moving statistics whenever the layer is computed, instead of
            through `UPDATE_OPS`.
    """

    decay: float = 0.999
    epsilon: float = 0.001
    center: bool = True
    scale: bool = False
    train: bool = True
    inplace_update: bool = False


@dataclasses.dataclass(frozen=True)
class LayerStyle:
    """What the layers of one network have in common.

    Attributes:
        is_training: whether dropout drops and batch norm uses the batch's statistics.
        initializer: of convolution and fully connected weights.
        depthwise_initializer: of depthwise weights; None: as `initializer`.
        penalty: on convolution and fully connected weights.
        penalize_depthwise: whether it holds for depthwise weights too.
        bias_penalty: on biases.
        activation: after normalisation; None for none.
        batch_norm: None: no normalisation, and biases instead.
        force_bias: biases even before batch norm.
    """

    is_training: bool = False
    initializer: Initializer = XAVIER
    depthwise_initializer: Optional[Initializer] = None
    penalty: Optional[Penalty] = None
    penalize_depthwise: bool = False
    bias_penalty: Optional[Penalty] = None
    activation: Optional[Callable[[tf.Tensor], tf.Tensor]] = tf.nn.relu
    batch_norm: Optional[BatchNorm] = None
    force_bias: bool = False

    def but(self, **changes: object) -> LayerStyle:
        """The same style with some attributes changed."""
        return dataclasses.replace(self, **changes)

    def linear(self) -> LayerStyle:
        """The style of logits: no normalisation, no activation, hence biases."""
        return self.but(batch_norm=None, activation=None)


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
) -> tf.Tensor:
    """Convolution, then batch norm or bias, then activation.

    Args:
        inputs: float32 [batch, height, width, channels]; channels static.
        num_outputs: output channels.
        kernel_size: height and width, or one number for both.
        style: initial values, penalties, normalisation, activation.
        scope: name of the layer.
        stride: one number, or (vertical, horizontal).
        rate: atrous rate: distance between the kernel's taps, one number or (vertical, horizontal).
            Above 1 the stride is 1.
        padding: `SAME`, `VALID` or `FIXED`.
        use_bias: None: exactly when there is no batch norm.
        bias_initializer: first value of the biases.

    Returns:
        float32 [batch, height', width', num_outputs].
    """
    with tf1.variable_scope(scope):
        kernel = _pair(kernel_size)
        weights = variable(
            'weights',
            [*kernel, inputs.shape[-1], num_outputs],
            style.initializer,
            style.penalty,
        )
        outputs = _convolve(inputs, weights, _pair(stride), _pair(rate), padding)
        return _finish(outputs, style, use_bias, bias_initializer)


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
    """One convolution for each channel, then as in `conv2d`.

    Returns:
        float32 [batch, height', width', channels * depth_multiplier].
    """
    with tf1.variable_scope(scope):
        outputs = _depthwise(inputs, kernel_size, style, stride, rate, padding, depth_multiplier)
        return _finish(outputs, style, use_bias, ZEROS)


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
) -> tf.Tensor:
    """Depthwise then pointwise convolution in one layer, with nothing between the two.

    Its variables are `depthwise_weights`, `pointwise_weights` and what `conv2d` adds.

    Returns:
        float32 [batch, height', width', num_outputs].
    """
    with tf1.variable_scope(scope):
        outputs = _depthwise(inputs, kernel_size, style, stride, rate, padding, depth_multiplier)
        weights = variable(
            'pointwise_weights',
            [1, 1, outputs.shape[-1], num_outputs],
            style.initializer,
            style.penalty,
        )
        outputs = tf.nn.conv2d(outputs, weights, strides=1, padding='SAME')
        return _finish(outputs, style, use_bias, bias_initializer)


def fully_connected(
    inputs: tf.Tensor,
    num_outputs: int,
    style: LayerStyle,
    scope: str,
    *,
    bias_initializer: Initializer = ZEROS,
) -> tf.Tensor:
    """Matrix product on the last axis of [batch, channels], then as in `conv2d`."""
    with tf1.variable_scope(scope):
        weights = variable(
            'weights', [inputs.shape[-1], num_outputs], style.initializer, style.penalty
        )
        return _finish(tf.matmul(inputs, weights), style, None, bias_initializer)


def batch_norm(
    inputs: tf.Tensor, settings: BatchNorm, is_training: bool, scope: str = 'BatchNorm'
) -> tf.Tensor:
    """Batch norm over all axes but the last.

    In training the moving statistics follow as moving <- decay * moving + (1 - decay) * batch,
    with the unbiased variance (N / (N - 1)), through `UPDATE_OPS`.

    Args:
        inputs: float32 [batch, height, width, channels] or [batch, channels].
        settings: decay, epsilon, and which variables there are.
        is_training: whether the batch's statistics are used, where `settings.train` agrees.
        scope: name of the layer.
    """
    channels = [inputs.shape[-1]]
    with tf1.variable_scope(scope):
        gamma = variable('gamma', channels, ONES) if settings.scale else tf.ones(channels)
        beta = variable('beta', channels, ZEROS) if settings.center else tf.zeros(channels)
        mean = variable('moving_mean', channels, ZEROS, trainable=False)
        variance = variable('moving_variance', channels, ONES, trainable=False)
        image = inputs if inputs.shape.rank == 4 else inputs[:, tf.newaxis, tf.newaxis, :]
        if not (is_training and settings.train):
            outputs = _fused_batch_norm(image, gamma, beta, mean, variance, settings, False).y
        else:
            fused = _fused_batch_norm(image, gamma, beta, mean, variance, settings, True)
            updates = [
                mean.assign(fused.batch_mean, read_value=False),
                variance.assign(fused.batch_variance, read_value=False),
            ]
            outputs = _after_updates(fused.y, updates, settings.inplace_update)
        return outputs if inputs.shape.rank == 4 else tf.squeeze(outputs, [1, 2])


def dropout(inputs: tf.Tensor, keep_prob: float, is_training: bool, scope: str) -> tf.Tensor:
    """Keeps each value with that probability, divided by it; in training only.

    What is dropped depends on the graph's seed, the layer's place in the graph and the global step.
    """
    if not is_training or keep_prob >= 1.0:
        return inputs
    with tf1.name_scope(scope) as name:
        graph_seed, name_hash = seed_of(name)
        step = tf1.train.get_global_step()
        step = tf.constant(0, tf.int64) if step is None else tf.cast(step, tf.int64)
        seed = tf.stack([tf.constant(graph_seed ^ (name_hash << 20), tf.int64), step])
        uniform = tf.random.stateless_uniform(tf.shape(inputs), seed)
        return tf.where(uniform < keep_prob, inputs * (1.0 / keep_prob), tf.zeros_like(inputs))


def divisible_channels(channels: float, divisor: int = 8, at_least: Optional[int] = None) -> int:
    """Channels rounded to a multiple of the divisor, never down by more than a tenth.

    The rounding rule of the MobileNets (V2 and later).
    """
    at_least = divisor if at_least is None else at_least
    rounded = max(at_least, int(channels + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * channels else rounded


def _convolve(
    inputs: tf.Tensor,
    weights: tf.Variable,
    stride: Tuple[int, int],
    rate: Tuple[int, int],
    padding: Padding,
) -> tf.Tensor:
    kernel = weights.shape.as_list()[:2]
    padding = _padding(padding, kernel, stride, rate)
    if rate == (1, 1) or kernel == [1, 1]:
        return tf.nn.conv2d(inputs, weights, stride, padding)
    return _atrous_convolve(inputs, tf.convert_to_tensor(weights), rate, padding)


def _atrous_convolve(
    inputs: tf.Tensor, weights: tf.Tensor, rate: Tuple[int, int], padding: Padding
) -> tf.Tensor:
    """Convolution of stride 1 with gaps between the taps, differentiable on every device.

    The kernel is the faster way forwards, but its gradient is missing on a CPU without oneDNN: the
    gradient is that of the same convolution written as space-to-batch.
    """

    @tf.custom_gradient
    def convolve(image: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        def gradient(upstream: tf.Tensor) -> Sequence[tf.Tensor]:
            same = tf1.nn.with_space_to_batch(
                image,
                rate,
                padding,
                lambda batch, _, inner: tf.nn.conv2d(batch, kernel, 1, inner),
                filter_shape=kernel.shape,
            )
            return tf.gradients(same, [image, kernel], upstream)

        return tf.nn.conv2d(image, kernel, 1, padding, dilations=rate), gradient

    return convolve(inputs, weights)


def _depthwise(
    inputs: tf.Tensor,
    kernel_size: Size,
    style: LayerStyle,
    stride: int,
    rate: Size,
    padding: Padding,
    depth_multiplier: int,
) -> tf.Tensor:
    kernel = _pair(kernel_size)
    weights = variable(
        'depthwise_weights',
        [*kernel, inputs.shape[-1], depth_multiplier],
        style.depthwise_initializer or style.initializer,
        style.penalty if style.penalize_depthwise else None,
    )
    padding = _padding(padding, kernel, (stride, stride), _pair(rate))
    if not isinstance(padding, str):
        # Graph rewriting on CPUs fuses this op with what follows and loses its explicit padding.
        inputs, padding = tf.pad(inputs, padding), 'VALID'
    return tf.nn.depthwise_conv2d(
        inputs,
        weights,
        strides=[1, stride, stride, 1],
        padding=padding,
        dilations=_pair(rate),
    )


def _finish(
    outputs: tf.Tensor,
    style: LayerStyle,
    use_bias: Optional[bool],
    bias_initializer: Initializer,
) -> tf.Tensor:
    """Bias, batch norm and activation."""
    if use_bias is None:
        use_bias = style.force_bias or style.batch_norm is None
    if use_bias:
        biases = variable('biases', [outputs.shape[-1]], bias_initializer, style.bias_penalty)
        outputs = tf.nn.bias_add(outputs, biases)
    if style.batch_norm is not None:
        outputs = batch_norm(outputs, style.batch_norm, style.is_training)
    return outputs if style.activation is None else style.activation(outputs)


def _fused_batch_norm(
    image: tf.Tensor,
    gamma: tf.Tensor,
    beta: tf.Tensor,
    mean: tf.Variable,
    variance: tf.Variable,
    settings: BatchNorm,
    is_training: bool,
) -> tf.Tensor:
    # The kernel computes the new moving statistics itself when it is given the old ones and the
    # weight of the new (a weight of 1 would mean: forget the old ones, and is refused with them).
    factor = 1.0 - settings.decay if is_training else 1.0
    forget = is_training and factor == 1.0
    return tf.raw_ops.FusedBatchNormV3(
        x=image,
        scale=gamma,
        offset=beta,
        mean=tf.zeros([0]) if forget else mean,
        variance=tf.zeros([0]) if forget else variance,
        epsilon=settings.epsilon,
        exponential_avg_factor=factor,
        is_training=is_training,
    )


def _after_updates(outputs: tf.Tensor, updates: Sequence[tf.Operation], inplace: bool) -> tf.Tensor:
    if inplace:
        with tf.control_dependencies(updates):
            return tf.identity(outputs)
    for update in updates:
        tf1.add_to_collection(tf1.GraphKeys.UPDATE_OPS, update)
    return outputs


def _padding(
    padding: Padding, kernel: Sequence[int], stride: Tuple[int, int], rate: Tuple[int, int]
) -> Union[str, Sequence[Sequence[int]]]:
    if rate != (1, 1) and stride != (1, 1):
        raise ValueError(f'An atrous convolution has stride 1; got stride {stride}, rate {rate}.')
    if padding != 'FIXED' or stride == (1, 1):
        return 'SAME' if padding == 'FIXED' else padding  # At stride 1 these two are the same.
    return [[0, 0]] + [[(size - 1) // 2, size // 2] for size in kernel] + [[0, 0]]


def _pair(value: Size) -> Tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])
