from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from model_fns.backbones import registry, resnet_blocks, resnet_v1
from tests.model_fns.backbones import recorded_backbones

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1


def _features(name, size, is_training=False, batch=2, style=None, **settings):
    graph = tf.Graph()
    with graph.as_default():
        images = tf1.placeholder(tf.float32, [batch, size, size, 3])
        style = style or resnet_blocks.resnet_style(is_training, registry.Options())
        end_points = resnet_v1.resnet_v1_features(images, style, registry.Options(**settings), name)
    return recorded_backbones.Built(graph, images, end_points)


def _variables(graph):
    return {
        variable.op.name: tuple(variable.shape)
        for variable in graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES)
    }


def test_second_stage_takes_options():
    options = registry.Options(strides_first=True, depth_multiplier=0.125)
    with tf.Graph().as_default():
        style = resnet_blocks.resnet_style(False, options)
        outputs = resnet_v1.resnet_v1_block4(tf.zeros([3, 7, 7, 8]), style, options, 'resnet_v1_50')
    assert outputs.shape == [3, 4, 4, 256]


@pytest.mark.parametrize(
    'settings, steps',
    [({'output_stride': 8}, (1, 2, 4, 4)), ({'subsample_after': True}, (2, 2, 2, 1))],
)
def test_larger_feature_maps_hold_the_strided_ones(settings, steps):
    # Atrous convolution and late subsampling compute the same values at more places.
    images = np.random.RandomState(0).normal(size=[1, 67, 67, 3]).astype(np.float32)
    results = []
    for changed in ({}, settings):
        built = _features('resnet_v1_18', 67, batch=1, depth_multiplier=0.125, **changed)
        with tf1.Session(graph=built.graph) as session:
            recorded_backbones.set_weights(session)
            blocks = {i: built.end_points[f'resnet_v1_18/block{i}'] for i in (1, 2, 3, 4)}
            results.append(session.run(blocks, {built.images: images}))
    strided, large = results
    for (index, expected), step in zip(strided.items(), steps):
        sampled = large[index][:, ::step, ::step]
        np.testing.assert_allclose(sampled, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.usefixtures('initial_values')
def test_atrous_training_differentiates():
    style = resnet_blocks.resnet_style(True, registry.Options())
    built = _features('resnet_v1_18', 33, style=style, output_stride=8, depth_multiplier=0.125)
    images = np.random.RandomState(0).normal(size=[2, 33, 33, 3])
    with built.graph.as_default(), tf1.Session() as session:
        last = built.end_points['resnet_v1_18/block4']
        gradients = tf.gradients(tf.reduce_sum(last * last), tf1.trainable_variables())
        session.run(tf1.global_variables_initializer())
        values = session.run(gradients, {built.images: images})
    assert all(np.isfinite(value).all() and np.any(value) for value in values)


def test_lite_units():
    built = _features('resnet_v1_18_beta', 65)
    kernels = {n: s for n, s in _variables(built.graph).items() if n.endswith('/weights')}
    block = 'resnet_v1_18/block1/unit_1/lite_bottleneck_v1'
    assert kernels[f'{block}/shortcut/weights'] == (1, 1, 128, 64)
    assert kernels[f'{block}/conv1/weights'] == (3, 3, 128, 64)
    assert kernels[f'{block}/conv2/weights'] == (3, 3, 64, 64)
    assert 'resnet_v1_18/block4/unit_2/lite_bottleneck_v1/conv2/weights' in kernels
    assert len(kernels) == 3 + 4 * (2 * 2 + 1)
    plain = _variables(_features('resnet_v1_18', 65).graph)
    assert f'{block}/shortcut/weights' not in plain
    assert plain['resnet_v1_18/conv1/weights'] == (7, 7, 3, 64)


@pytest.mark.parametrize('depth', [50, 101, 152, 200])
def test_depth_is_the_number_of_layers_with_weights(depth):
    # As the paper counts: the root, three in each unit, the logits.
    assert 3 * sum(resnet_v1.ARCHITECTURES[f'resnet_v1_{depth}'].units) + 2 == depth
    assert registry.NETWORKS.get(f'resnet_v1_{depth}').scope == f'resnet_v1_{depth}'


def test_classifier_honors_what_it_says():
    options = registry.Options(
        output_stride=8, multi_grid=(1, 2, 1), depth_multiplier=0.5, min_depth=48
    )
    built = recorded_backbones.build('resnet_v1_50', (64, 64), is_training=False, options=options)
    assert built.end_points['resnet_v1_50/block1'].shape == [2, 8, 8, 4 * 48]
    assert built.end_points['resnet_v1_50/block4'].shape == [2, 8, 8, 4 * 256]
