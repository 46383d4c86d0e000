"""Named layers in NumPy on random weights, which extractors and heads are checked against."""

from __future__ import annotations

from typing import Dict, Optional

import numpy as np
import tensorflow as tf

from tests.model_fns.backbones import slow_layers

tf1 = tf.compat.v1

Values = Dict[str, np.ndarray]


def randomize(session: tf1.Session) -> Values:
    """Assign random values to every variable of the session's graph; return them by name."""
    random = np.random.RandomState(0)
    variables = session.graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES)
    values = {}
    for variable in variables:
        value = random.normal(0.0, 0.5, variable.shape.as_list()).astype(np.float32)
        positive = variable.op.name.endswith(('gamma', 'moving_variance'))
        values[variable.op.name] = np.abs(value) + 0.5 if positive else value
    feeds = {v.initializer.inputs[1]: values[v.op.name] for v in variables}
    session.run([v.initializer for v in variables], feeds)
    return values


def layer(
    image: np.ndarray,
    values: Values,
    scope: str,
    *,
    stride: int = 1,
    norm: Optional[str] = None,
    epsilon: float = 0.001,
) -> np.ndarray:
    """Compute a convolution, depthwise if it has such weights, then biases or batch norm, if any.

    Args:
        image: [batch, height, width, channels]; padding is (kernel - 1) / 2 on each side.
        values: of all variables.
        scope: of the layer.
        stride: in both directions.
        norm: scope of the batch norm; None: in the layer's scope.
        epsilon: of batch norm.
    """
    image = image.astype(np.float64)
    if f'{scope}/depthwise_weights' in values:
        image = depthwise(image, values[f'{scope}/depthwise_weights'], stride)
        stride = 1
    for name in ('weights', 'pointwise_weights'):
        if f'{scope}/{name}' in values:
            image = slow_layers.conv2d(image, values[f'{scope}/{name}'], stride)
    if f'{scope}/biases' in values:
        image = image + values[f'{scope}/biases']
    norm = norm or f'{scope}/BatchNorm'
    if f'{norm}/gamma' in values:
        image = slow_layers.batch_norm(image, values, norm, epsilon)
    return image


def depthwise(image: np.ndarray, weights: np.ndarray, stride: int = 1) -> np.ndarray:
    """Convolve each channel with one filter, with a padding of (kernel - 1) / 2 on each side.

    Args:
        image: [batch, height, width, channels].
        weights: [kernel, kernel, channels, 1].
        stride: in both directions.
    """
    channels = [
        slow_layers.conv2d(image[..., index : index + 1], weights[:, :, index : index + 1], stride)
        for index in range(image.shape[-1])
    ]
    return np.concatenate(channels, axis=-1)


def relu6(image: np.ndarray) -> np.ndarray:
    """Cut to [0, 6]."""
    return np.clip(image, 0.0, 6.0)


def enlarged(image: np.ndarray, factor: int = 2) -> np.ndarray:
    """Repeat each value in both directions."""
    return image.repeat(factor, axis=1).repeat(factor, axis=2)
