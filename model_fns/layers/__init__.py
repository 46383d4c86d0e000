"""Layers of all networks: thin, and named as published checkpoints name them.

A layer is a function of a tensor, explicit sizes, and a `LayerStyle`. The style sets initial values
and regularization of weights, normalization and activation after a convolution, and the compute
type. Variables of a layer with scope `x`, all float32:

    x/weights, x/depthwise_weights, x/pointwise_weights, x/biases
    x/BatchNorm/{gamma,beta,moving_mean,moving_variance}
    x/LayerNorm/{gamma,beta}

Initial values and dropout depend on the seed of the graph or store, the layer's name and the global
step, by stateless ops. Therefore a network draws the same numbers whatever was built before it, and
a resumed run draws the numbers of an uninterrupted one.

Layers with weights are in `weighted`, batch norm and layer norm in `normalization`, sums and other
operations between layers in `combining`. Networks use these instead of plain operators, so that the
types and ranges of the style apply to them too.
"""

from model_fns.layers.activations import gelu, hard_sigmoid, hard_swish
from model_fns.layers.combining import (
    add,
    concat,
    divisible_channels,
    dropout,
    enlarge,
    global_mean,
    multiply,
    resize,
    to_float32,
)
from model_fns.layers.normalization import batch_norm, layer_norm
from model_fns.layers.quantization import GATED, PLAIN_SUM, Quantization
from model_fns.layers.style import Activation, BatchNorm, LayerStyle, Padding, Size
from model_fns.layers.weighted import (
    conv2d,
    conv2d_transpose,
    depthwise_conv2d,
    fully_connected,
    separable_conv2d,
)
from model_fns.layers.weights import (
    HE_NORMAL,
    ONES,
    TRUNCATED_STDDEV,
    XAVIER,
    ZEROS,
    Initializer,
    Regularizer,
    l2,
    truncated_normal,
    variable,
)

__all__ = [
    'GATED',
    'HE_NORMAL',
    'ONES',
    'PLAIN_SUM',
    'TRUNCATED_STDDEV',
    'XAVIER',
    'ZEROS',
    'Activation',
    'BatchNorm',
    'Initializer',
    'LayerStyle',
    'Padding',
    'Quantization',
    'Regularizer',
    'Size',
    'add',
    'batch_norm',
    'concat',
    'conv2d',
    'conv2d_transpose',
    'depthwise_conv2d',
    'divisible_channels',
    'dropout',
    'enlarge',
    'fully_connected',
    'gelu',
    'global_mean',
    'hard_sigmoid',
    'hard_swish',
    'l2',
    'layer_norm',
    'multiply',
    'resize',
    'separable_conv2d',
    'to_float32',
    'truncated_normal',
    'variable',
]
