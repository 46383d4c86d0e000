from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from model_fns import layers
from model_fns.backbones import inception_resnet_v2, registry
from model_fns.backbones.inception_parts import Conv
from model_fns.backbones.inception_resnet_v2 import Repeat, Residual

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1

PLAIN = layers.LayerStyle(initializer=layers.ONES, activation=tf.nn.relu)


@pytest.mark.usefixtures('initial_values')
@pytest.mark.parametrize('activate, expected', [(True, [0.0, 6.2]), (False, [-2.2, 6.2])])
def test_residual_is_scaled_before_it_is_added(activate, expected):
    # The branch sums the channels, 2.8, to two channels; the projection sums those, 5.6; times
    # 3 / 28 that is 0.6, which is added to both.
    branches = ((Conv('Conv2d_1x1', 2),),)
    block = Residual('block', branches, scale=3.0 / 28.0, activate=activate)
    with tf.Graph().as_default(), tf1.Session() as session:
        inputs = tf.constant([-2.8, 5.6], shape=[1, 1, 1, 2])
        outputs = block.build(inputs, PLAIN, int)
        session.run(tf1.global_variables_initializer())
        np.testing.assert_allclose(session.run(outputs).ravel(), expected, rtol=1e-5)


def test_scales_are_the_published_ones():
    network = inception_resnet_v2._layers('VALID', atrous=False)
    repeats = [(layer.count, layer.block.scale) for layer in network if isinstance(layer, Repeat)]
    assert repeats == [(10, 0.17), (20, 0.10), (9, 0.20)]
    last = [layer for layer in network if isinstance(layer, Residual)]
    assert [(block.scale, block.activate) for block in last] == [(1.0, False)]


@pytest.mark.usefixtures('initial_values')
def test_atrous_block_sees_each_second_pixel():
    """On every second pixel it computes what the plain block computes of those pixels alone."""
    random = np.random.RandomState(3)
    inputs = random.standard_normal([1, 12, 10, 4]).astype(np.float32)
    with tf.Graph().as_default(), tf1.Session() as session:
        outputs = []
        for rate, image in ((2, inputs), (1, inputs[:, ::2, ::2])):
            block = Residual('block', inception_resnet_v2._block_17(rate), scale=0.1)
            with tf1.variable_scope('network', reuse=tf1.AUTO_REUSE):
                style = layers.LayerStyle()
                outputs.append(block.build(tf.constant(image), style, lambda channels: 4))
        session.run(tf1.global_variables_initializer())
        atrous, plain = session.run(outputs)
    np.testing.assert_allclose(atrous[:, ::2, ::2], plain, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    'output_stride, align, size',
    [(16, False, (6, 10)), (16, True, (9, 13)), (8, False, (11, 20)), (8, True, (17, 25))],
)
def test_output_stride_and_alignment_size_the_map(output_stride, align, size):
    network = inception_resnet_v2._layers('SAME' if align else 'VALID', atrous=output_stride == 8)
    with tf.Graph().as_default():
        outputs = tf.zeros([1, 130, 200, 3])
        for layer in network:
            if not isinstance(layer, Repeat):  # those keep the size
                outputs = layer.build(outputs, PLAIN, lambda channels: 1)
            if layer.end_point == 'Mixed_6a':
                break
    assert tuple(outputs.shape[1:3]) == size


def test_refuses_what_the_network_cannot_do():
    style = inception_resnet_v2.inception_resnet_v2_style(False, registry.Options())
    with tf.Graph().as_default():
        images = tf1.placeholder(tf.float32, [1, 75, 75, 3])
        with pytest.raises(ValueError, match='8 or 16: 32'):
            inception_resnet_v2.inception_resnet_v2_features(images, style, output_stride=32)
        with pytest.raises(ValueError, match='Conv2d_7b_1x1'):
            inception_resnet_v2.inception_resnet_v2_features(images, style, output_stride=8)
