from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from model_fns import layers
from model_fns.layers import activations

tf1 = tf.compat.v1

INPUTS = [-4.0, -3.0, -1.0, 0.0, 1.0, 4.0]


def run(build, ranges=None):
    """What `build()` computes, with ranges by their scope; and the scopes of all ranges."""
    with tf.Graph().as_default(), tf1.Session() as session:
        tensors = build()
        session.run(tf1.global_variables_initializer())
        for one in tf1.global_variables():
            scope, _, end = one.op.name.rpartition('/')
            if scope in (ranges or {}):
                session.run(one.assign((ranges[scope])[end == 'max']))
        scopes = {one.op.name.rpartition('/')[0] for one in tf1.global_variables()}
        return session.run(tensors), scopes


@pytest.mark.parametrize(
    'function, expected',
    [
        (layers.hard_swish, [0.0, 0.0, -1.0 / 3.0, 0.0, 2.0 / 3.0, 4.0]),
        (layers.hard_sigmoid, [0.0, 0.0, 0.33334, 0.50001, 0.66668, 1.00002]),
    ],
)
def test_hard_activations_by_hand(function, expected):
    values, _ = run(lambda: function(tf.constant(INPUTS)))
    np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-7)


def test_gelu_by_hand():
    values, _ = run(lambda: layers.gelu(tf.constant(INPUTS)))
    # The normal distribution's share below x is (1 + erf(x / sqrt(2))) / 2.
    expected = [x * 0.5 * (1.0 + math.erf(x / math.sqrt(2.0))) for x in INPUTS]
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)


def test_the_gradient_of_gelu_in_training_by_hand():
    style = layers.LayerStyle(activation=layers.gelu, is_training=True)

    def build():
        inputs = tf.constant(INPUTS)
        outputs = activations.activate(inputs, style)
        return outputs, tf.gradients(outputs, inputs, [2.0 * tf.ones_like(inputs)])[0]

    (outputs, gradient), _ = run(build)
    shares = [0.5 * (1.0 + math.erf(x / math.sqrt(2.0))) for x in INPUTS]
    np.testing.assert_allclose(outputs, np.multiply(INPUTS, shares), rtol=1e-5, atol=1e-6)
    # (x F(x))' = F(x) + x f(x) with the density f(x) = exp(-x^2 / 2) / sqrt(2 pi).
    densities = [math.exp(-x * x / 2.0) / math.sqrt(2.0 * math.pi) for x in INPUTS]
    expected = 2.0 * (np.array(shares) + np.multiply(INPUTS, densities))
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)


def activated(activation, **changes):
    settings = layers.Quantization(**changes)
    style = layers.LayerStyle(activation=activation, quantization=settings)

    def build():
        with tf1.variable_scope('net/conv'):
            return activations.activate(tf.constant(INPUTS), style)

    return build


def test_what_follows_a_relu_is_rounded_and_else_what_comes_before():
    # Ranges of 25.5: values are tenths.
    ranges = {'net/conv/act_quant': (0.0, 25.5)}
    found, scopes = run(activated(tf.nn.relu6), ranges)
    np.testing.assert_allclose(found, [0, 0, 0, 0, 1.0, 4.0], atol=1e-6)
    assert scopes == set(ranges)
    ranges = {'net/conv/act_quant': (-1.0, 24.5)}
    for activation, expected in (
        (None, [-1, -1, -1, 0, 1, 4]),
        (tf.sigmoid, 1 / (1 + np.exp([1.0, 1, 1, 0, -1, -4]))),
    ):
        found, scopes = run(activated(activation), ranges)
        np.testing.assert_allclose(found, expected, atol=1e-6)
        assert scopes == set(ranges)


def test_each_step_of_a_hard_swish_is_rounded():
    build = activated(layers.hard_swish, gate='act_quant_1')
    ranges = {
        'net/conv/conv_quant': (-5.0, 20.5),  # tenths
        'net/act_quant_1': (0.0, 25.5),
        'net/conv/hard_swish/mul/activation_Mul_quant': (-10.0, 245.0),  # ones
        'net/conv/hard_swish/mul_1/activation_Mul_quant': (-1.0, 24.5),
    }
    found, scopes = run(build, ranges)
    assert scopes == set(ranges)
    # x relu6(x + 3) = 0, 0, -2, 0, 4, 24; a sixth of it, in tenths.
    np.testing.assert_allclose(found, [0, 0, -0.3, 0, 0.7, 4.0], atol=1e-5)


def test_each_step_of_a_hard_sigmoid_is_rounded():
    ranges = {
        'net/conv/conv_quant': (-5.0, 20.5),
        'net/act_quant': (0.0, 25.5),
        'net/conv/mul/activation_Mul_quant': (0.0, 25.5),
    }
    found, scopes = run(activated(layers.hard_sigmoid), ranges)
    assert scopes == set(ranges)
    np.testing.assert_allclose(found, [0, 0, 0.3, 0.5, 0.7, 1.0], atol=1e-5)
