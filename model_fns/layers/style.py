"""Settings that the layers of one network share."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Optional, Tuple, Union

import tensorflow as tf

from model_fns.layers.quantization import BEFORE_SUM, OUTPUTS, Quantization
from model_fns.layers.weights import XAVIER, Initializer, Regularizer

Activation = Callable[[tf.Tensor], tf.Tensor]
Size = Union[int, Tuple[int, int]]
# 'FIXED' pads (kernel - 1) / 2 on each side whatever the stride, as the ResNets do; 'SAME' pads
# what TensorFlow's rule for the input's size asks for.
Padding = str


@dataclasses.dataclass(frozen=True)
class BatchNorm:
    """Normalization over a batch (Ioffe and Szegedy 2015).

    Attributes:
        decay: what an update keeps of the old moving statistics, [0, 1].
        epsilon: added to the variance.
        center: whether there is a beta.
        scale: whether there is a gamma.
        train: whether training uses and updates batch statistics; else the moving ones are used.
        inplace_update: update the moving statistics whenever the layer is computed, instead of
            through `UPDATE_OPS`.
        synchronized: batch statistics are those of the batches of all replicas of a distribution
            strategy together; else of a replica's own.
    """

    # Defaults of TF-Slim's `batch_norm`, and of `Hyperparams.batch_norm` of the published API.
    decay: float = 0.999
    epsilon: float = 0.001
    center: bool = True
    scale: bool = False
    train: bool = True
    inplace_update: bool = False
    synchronized: bool = False


@dataclasses.dataclass(frozen=True)
class LayerStyle:
    """Settings that the layers of one network share.

    Attributes:
        is_training: whether dropout drops and batch norm uses the batch's statistics.
        initializer: of convolution and fully connected weights.
        depthwise_initializer: of depthwise weights; None: as `initializer`.
        pointwise_initializer: of the pointwise weights of separable convolutions; None: as
            `initializer`.
        regularizer: of convolution and fully connected weights.
        regularize_depthwise: whether it holds for depthwise weights too.
        regularize_pointwise: whether it holds for pointwise weights of separable convolutions.
        bias_regularizer: of biases.
        activation: after normalization; None for none.
        batch_norm: None: no normalization, and biases instead.
        force_bias: biases even before batch norm.
        compute_dtype: in which layers multiply, add and activate: `tf.float32`, `tf.bfloat16` or
            `tf.float16`. Variables, the statistics of batch norm and losses stay float32.
        quantization: how weights and outputs are rounded; None: they are not.
    """

    is_training: bool = False
    initializer: Initializer = XAVIER
    depthwise_initializer: Optional[Initializer] = None
    pointwise_initializer: Optional[Initializer] = None
    regularizer: Optional[Regularizer] = None
    # Depthwise weights are so few that they need little or no decay (Howard et al. 2017,
    # MobileNets, section 3.2).
    regularize_depthwise: bool = False
    # Keras models of the Object Detection API have no L2 loss of these weights, and their own
    # initial values.
    regularize_pointwise: bool = True
    bias_regularizer: Optional[Regularizer] = None
    activation: Optional[Activation] = tf.nn.relu
    batch_norm: Optional[BatchNorm] = None
    force_bias: bool = False
    compute_dtype: tf.DType = tf.float32
    quantization: Optional[Quantization] = None

    def but(self, **changes: Any) -> LayerStyle:
        """Return the same style with some attributes changed."""
        return dataclasses.replace(self, **changes)

    def linear(self) -> LayerStyle:
        """Return the style of logits: no normalization, no activation, hence biases."""
        return self.but(batch_norm=None, activation=None)

    def frozen(self) -> LayerStyle:
        """Return this style with batch norm that uses its moving statistics and keeps them.

        Gamma and beta are trained as before, as in the published detectors. The optimizer decides
        by names of variables what else is frozen.
        """
        return self.with_batch_norm(train=False)

    def with_batch_norm(self, **changes: Any) -> LayerStyle:
        """Return this style with some attributes of its batch norm changed, where it has one."""
        if self.batch_norm is None:
            return self
        return self.but(batch_norm=dataclasses.replace(self.batch_norm, **changes))

    def ranges_as(self, scope: str, shares_weights: bool = False) -> LayerStyle:
        """Return this style for layers in the current variable scope, with other names of ranges.

        Args:
            scope: the whole scope that replaces the current one in the names.
            shares_weights: whether the layers share their variables with layers that are named
                after the current scope. Weights without folded batch norm then have one range,
                named after that scope.
        """
        if self.quantization is None:
            return self
        return self.but(quantization=self.quantization.named(scope, shares_weights))

    def ranges_below(self, scope: str) -> LayerStyle:
        """Return the same style, with the names of ranges one scope deeper than the current one."""
        outer = tf.compat.v1.get_variable_scope().name
        return self.ranges_as(f'{outer}/{scope}' if outer else scope)

    def with_sum_range(self) -> LayerStyle:
        """Return this style for a layer whose output is a term of a sum with an activation."""
        if self.quantization is None:
            return self
        return self.but(quantization=self.quantization.but(output=BEFORE_SUM))

    def gate_number(self, number: int) -> LayerStyle:
        """Return this style for the layer with gates of that number, from 0, in its scope."""
        if self.quantization is None:
            return self
        name = f'{OUTPUTS}_{number}' if number else OUTPUTS
        return self.but(quantization=self.quantization.but(gate=name))

    def cast(self, values: tf.Tensor) -> tf.Tensor:
        """Cast values to the type that layers compute in; no op where they have it.

        Returns:
            A tensor of the same shape.
        """
        return values if values.dtype == self.compute_dtype else tf.cast(values, self.compute_dtype)
