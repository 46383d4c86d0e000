from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from model_fns import layers

tf1 = tf.compat.v1


@pytest.mark.parametrize('static', [True, False])
@pytest.mark.parametrize(
    'rate, padding', [(2, 'SAME'), (3, 'FIXED'), (2, 'VALID'), ((1, 3), 'SAME')]
)
def test_atrous_convolution_is_that_of_a_kernel_with_holes(rate, padding, static):
    images = np.random.RandomState(0).normal(size=[2, 9, 8, 3]).astype(np.float32)
    with tf.Graph().as_default(), tf1.Session() as session:
        style = layers.LayerStyle(activation=None)
        inputs = tf1.placeholder(tf.float32, images.shape if static else [None, None, None, 3])
        actual = layers.conv2d(inputs, 4, 3, style, 'layer', rate=rate, padding=padding)
        weights = tf1.trainable_variables()[0]
        expected = tf.nn.conv2d(
            inputs, _with_holes(weights, rate), 1, 'VALID' if padding == 'VALID' else 'SAME'
        )
        upstream = tf.cos(tf.cumsum(tf.ones_like(expected), 2))
        gradients = [tf.gradients(y, [inputs, weights], upstream) for y in (actual, expected)]
        session.run(tf1.global_variables_initializer())
        values, (ours, theirs) = session.run([(actual, expected), gradients], {inputs: images})
    np.testing.assert_allclose(*values, rtol=1e-4, atol=1e-5)
    for mine, other in zip(ours, theirs):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize('rate', [(1, 3), (4, 2)])
def test_depthwise_rates_may_differ(rate):
    images = np.random.RandomState(0).normal(size=[2, 11, 9, 3]).astype(np.float32)
    with tf.Graph().as_default(), tf1.Session() as session:
        style = layers.LayerStyle(activation=None)
        actual = layers.depthwise_conv2d(tf.constant(images), 3, style, 'layer', rate=rate)
        weights = tf1.trainable_variables()[0]
        expected = tf.nn.depthwise_conv2d(images, _with_holes(weights, rate), [1, 1, 1, 1], 'SAME')
        gradients = [tf.gradients(tf.square(y), weights)[0] for y in (actual, expected)]
        session.run(tf1.global_variables_initializer())
        values = session.run([actual, expected, *gradients])
    np.testing.assert_allclose(*values[:2], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(*values[2:], rtol=1e-4, atol=1e-4)


def _with_holes(weights, rate):
    """[3, 3, in, out] with rate - 1 zeros between the taps."""
    places = []
    for step in (rate, rate) if isinstance(rate, int) else rate:
        place = np.zeros([2 * step + 1, 3], np.float32)
        place[[0, step, 2 * step], [0, 1, 2]] = 1.0
        places.append(place)
    return tf.einsum('ya,xb,abio->yxio', *places, weights)


def test_a_stride_and_a_rate_are_refused():
    with tf.Graph().as_default(), pytest.raises(ValueError, match='stride .2, 2., rate .2, 2.'):
        layers.conv2d(tf.zeros([1, 8, 8, 1]), 1, 3, layers.LayerStyle(), 'x', stride=2, rate=2)
