"""One inverted residual of each kind against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from model_fns import layers
from model_fns.backbones import mobilenet_parts, registry
from model_fns.backbones.mobilenet_parts import Channels, Convolution, InvertedResidual

tf1 = tf.compat.v1

# A layer's batch norm at its initial values: a mean of 0, a variance of 1.
NORM = 1.0 / np.sqrt(1.001)


def _relu(x):
    return np.maximum(x, 0.0)


def _hard_swish(x):
    return x * np.clip(x + 3.0, 0.0, 6.0) / 6.0


def _filter(images, weights, stride, depthwise):
    """A convolution whose output is ceil(size / stride), for odd sizes and kernels."""
    reach = weights.shape[0] // 2
    padded = np.pad(images, [(0, 0), (reach, reach), (reach, reach), (0, 0)])
    rows, columns = (-(-size // stride) for size in images.shape[1:3])
    outputs = 0.0
    for y in range(weights.shape[0]):
        for x in range(weights.shape[1]):
            seen = padded[:, y : y + rows * stride : stride, x : x + columns * stride : stride]
            seen = seen[:, :rows, :columns]
            tap = weights[y, x]
            outputs = outputs + (seen * tap[:, 0] if depthwise else seen @ tap)
    return outputs


def _expected(images, weights, block, activate):
    """The block's output and parts; `weights` by name within its scope."""
    parts, values = {}, images
    if 'expand/weights' in weights:
        stride = block.stride if block.fused else 1
        values = activate(NORM * _filter(values, weights['expand/weights'], stride, False))
        parts['expansion_output'] = values
    if not block.fused:
        kernel = weights['depthwise/depthwise_weights']
        values = activate(NORM * _filter(values, kernel, block.stride, True))
        parts['depthwise_output'] = values
    if block.squeeze_excite:
        means = values.mean((1, 2), keepdims=True)
        hidden = _relu(means @ weights['squeeze_excite/Conv/weights'][0, 0])
        gate = hidden @ weights['squeeze_excite/Conv_1/weights'][0, 0]
        values = values * np.clip(gate + 3.0, 0.0, 6.0) / 6.0
    values = NORM * _filter(values, weights['project/weights'], 1, False)
    if block.residual and values.shape == images.shape:
        values = values + images
    parts['output'] = values
    return parts


BLOCKS = {
    'no_expansion': InvertedResidual(1, 16),
    'relu': InvertedResidual(6, 8, activation=tf.nn.relu),
    'not_residual': InvertedResidual(6, 8, residual=False),
    'stride_2': InvertedResidual(2.5, 24, 5, stride=2, activation=layers.hard_swish),
    'squeeze_excite': InvertedResidual(4, 8, 5, activation=layers.hard_swish, squeeze_excite=True),
    'fused_stride_2': InvertedResidual(4, 16, 3, stride=2, fused=True),
    'fused': InvertedResidual(8, 8, 3, fused=True),
}


@pytest.mark.parametrize('block', BLOCKS.values(), ids=BLOCKS)  # a function's text has its address
@pytest.mark.parametrize('padding', ['SAME', 'FIXED'])
def test_inverted_residual(block, padding):
    images = np.random.RandomState(0).normal(size=[2, 7, 9, 8]).astype(np.float32)
    activate = _relu if block.activation is tf.nn.relu else _hard_swish
    style = layers.LayerStyle(batch_norm=layers.BatchNorm())
    with tf.Graph().as_default(), tf1.Session() as session:
        end_points = mobilenet_parts.mobilenet_features(
            tf.constant(images), [block], style, registry.Options(padding=padding), 'net'
        )
        session.run(tf1.global_variables_initializer())
        values = session.run(end_points)
        prefix = 'net/expanded_conv/'
        weights = {v.op.name[len(prefix) :]: session.run(v) for v in tf1.global_variables()}
    expected = _expected(images, weights, block, activate)
    assert set(values) == {'layer_1'} | {f'layer_1/{part}' for part in expected}
    assert 'project/BatchNorm/gamma' in weights  # Batch norm has a scale whatever the style says.
    for part, value in expected.items():
        np.testing.assert_allclose(values[f'layer_1/{part}'], value, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(values['layer_1'], values['layer_1/output'])


def test_activations_by_hand():
    inputs = [-4.0, -3.0, -1.5, 0.0, 1.5, 3.0, 5.0]
    with tf.Graph().as_default(), tf1.Session() as session:
        swish, sigmoid = session.run(
            [
                layers.hard_swish(tf.constant(inputs)),
                layers.hard_sigmoid(tf.constant(inputs)),
            ]
        )
    np.testing.assert_allclose(swish, [0, 0, -0.375, 0, 1.125, 3, 5], rtol=1e-6)
    np.testing.assert_allclose(sigmoid, [0, 0, 0.25, 0.5, 0.75, 1, 1], rtol=1e-4)


def test_channels_by_hand():
    half = Channels(depth_multiplier=0.5, min_depth=16)
    assert [half(channels) for channels in (16, 24, 32, 88, 320)] == [16, 16, 16, 48, 160]


def test_scopes_and_end_points_of_a_network():
    network = [
        Convolution(8, 3, 2, tf.nn.relu),
        InvertedResidual(1, 8),
        InvertedResidual(2, 8),
        Convolution(24, 1, 1, tf.nn.relu),
    ]
    style = layers.LayerStyle(batch_norm=layers.BatchNorm())
    with tf.Graph().as_default():
        end_points = mobilenet_parts.mobilenet_features(
            tf.zeros([1, 8, 8, 3]), network, style, registry.PUBLISHED, 'net'
        )
        scopes = {v.op.name.split('/')[1] for v in tf1.global_variables()}
    assert scopes == {'Conv', 'expanded_conv', 'expanded_conv_1', 'Conv_1'}
    assert [name for name in end_points if '/' not in name] == [f'layer_{i}' for i in (1, 2, 3, 4)]
