from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from model_fns.backbones import registry, resnet_blocks, resnet_v2
from tests.model_fns.backbones import recorded_backbones, slow_layers

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1


@pytest.mark.parametrize('channels, stride', [(3, 1), (8, 2)])
def test_unit_equals_its_definition(channels, stride):
    inputs = np.random.RandomState(1).normal(size=[2, 5, 7, channels]).astype(np.float32)
    with tf.Graph().as_default(), tf1.Session() as session:
        style = resnet_blocks.resnet_style(False, registry.Options())
        shape = resnet_blocks.Unit(depth=2, stride=stride, rate=1)
        outputs, _ = resnet_v2.bottleneck_v2(tf.constant(inputs), shape, style)
        recorded_backbones.set_weights(session)
        names = {variable.op.name: variable for variable in tf1.global_variables()}
        actual, values = session.run([outputs, names])
    expected = _slow_unit(inputs, values, stride)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def _slow_unit(inputs, values, stride):
    def normalize(image, scope):
        return slow_layers.relu(slow_layers.batch_norm(image, values, scope, 1e-5))

    def linear(image, scope, stride=1):
        return slow_layers.conv2d(image, values[f'{scope}/weights'], stride)

    preact = normalize(inputs, 'preact')
    if 'shortcut/weights' in values:
        shortcut = linear(preact, 'shortcut', stride) + values['shortcut/biases']
    else:
        shortcut = inputs[:, ::stride, ::stride]
    residual = normalize(linear(preact, 'conv1'), 'conv1/BatchNorm')
    residual = normalize(linear(residual, 'conv2', stride), 'conv2/BatchNorm')
    return shortcut + linear(residual, 'conv3') + values['conv3/biases']


def test_logits_are_of_the_normalized_last_sum():
    options = registry.Options(depth_multiplier=0.125)
    built = recorded_backbones.build('resnet_v2_50', (33, 33), is_training=False, options=options)
    images = np.random.RandomState(0).normal(size=[2, 33, 33, 3]) * 50
    with tf1.Session(graph=built.graph) as session:
        recorded_backbones.set_weights(session)
        with built.graph.as_default():
            names = {variable.op.name: variable for variable in tf1.global_variables()}
        points, values = session.run([built.end_points, names], {built.images: images})
    normal = slow_layers.batch_norm(
        points['resnet_v2_50/block4'], values, 'resnet_v2_50/postnorm', 1e-5
    )
    pooled = slow_layers.relu(normal).mean((1, 2))
    weights = values['resnet_v2_50/logits/weights'][0, 0]
    expected = pooled @ weights + values['resnet_v2_50/logits/biases']
    np.testing.assert_allclose(points[registry.LOGITS], expected, rtol=1e-4, atol=1e-4)
    root = points['resnet_v2_50/conv1']
    assert root.min() < 0  # neither normalized nor activated


@pytest.mark.parametrize('depth', [50, 101, 152, 200])
def test_depth_is_the_number_of_layers_with_weights(depth):
    # As the paper counts: the root, three in each unit, the logits.
    name = f'resnet_v2_{depth}'
    assert 3 * sum(resnet_v2.ARCHITECTURES[name]) + 2 == depth
    assert registry.NETWORKS.get(name).logits_scopes == (f'{name}/logits',)


def test_output_stride_and_multi_grid():
    options = registry.Options(output_stride=16, multi_grid=(1, 2, 4), depth_multiplier=0.125)
    built = recorded_backbones.build('resnet_v2_50', (65, 65), is_training=False, options=options)
    assert built.end_points['resnet_v2_50/block4'].shape == [2, 5, 5, 256]
    rates = [
        op.get_attr('dilations')[1]
        for op in built.graph.get_operations()
        if op.type == 'Conv2D' and '/block4/' in op.name and '/conv2/' in op.name
    ]
    assert rates == [2, 4, 8]


@pytest.mark.parametrize('is_first', [True, False])
def test_basic_unit_equals_its_definition(is_first):
    inputs = np.random.RandomState(1).normal(size=[2, 5, 7, 3]).astype(np.float32)
    with tf.Graph().as_default(), tf1.Session() as session:
        style = resnet_blocks.resnet_style(False, registry.Options())
        stride = 1 if is_first else 2
        shape = resnet_blocks.Unit(depth=3, stride=stride, rate=1, is_first=is_first)
        outputs, _ = resnet_v2.basic_v2(tf.constant(inputs), shape, style)
        recorded_backbones.set_weights(session)
        names = {variable.op.name: variable for variable in tf1.global_variables()}
        actual, values = session.run([outputs, names])

    def normalize(image, scope):
        return slow_layers.relu(slow_layers.batch_norm(image, values, scope, 1e-5))

    preact = normalize(inputs, 'preact')
    shortcut = inputs[:, ::stride, ::stride]
    if is_first:
        weights, biases = values['shortcut/weights'], values['shortcut/biases']
        shortcut = slow_layers.conv2d(preact, weights) + biases
    inner = slow_layers.conv2d(preact, values['conv1/weights'])
    inner = slow_layers.conv2d(normalize(inner, 'conv1/BatchNorm'), values['conv2/weights'], stride)
    expected = shortcut + normalize(inner, 'conv2/BatchNorm')
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
    assert ('shortcut/weights' in values) == is_first
