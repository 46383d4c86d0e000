from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import tensorflow as tf

from model_fns import layers
from model_fns.backbones import registry
from model_fns.backbones.searched import nasnet
from model_fns.layers import forward_pass
from tests.model_fns.backbones import recorded_backbones
from tests.model_fns.backbones.searched import slow_cells

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1

# Three sections of one cell each, so that each kind of previous map occurs.
TINY = nasnet.Architecture(cells=3, channels=8, stem_channels=5, second_stage=2)
SKIPPING = nasnet.Architecture(
    cells=6, channels=8, stem_channels=5, skips_reduction=True, second_stage=4
)
SMALL = nasnet.Architecture(cells=3, channels=4, stem_channels=6, strided_stem=False)


def test_variables_and_end_points_are_the_published_ones():
    recorded_backbones.check_variables('nasnet_mobile')


def _built(architecture, size, is_training=False, options=None, batch=2):
    options = options or registry.Options()
    graph = tf.Graph()
    with graph.as_default():
        tf1.train.create_global_step()
        images = tf1.placeholder(tf.float32, [batch, *size, 3])
        style = nasnet.nasnet_style(is_training, options, architecture)
        end_points = nasnet.nasnet(images, 4, style, options, architecture)
    return recorded_backbones.Built(graph, images, end_points)


@functools.cache
def _tiny_in_training():
    """TINY for 4 classes, with paths that are dropped; and its number of operations.

    (One test adds gradients to the graph. TensorFlow makes zeros of less than 1,000 elements in
    another way: there are 192 channels, and 6 images.)
    """
    built = _built(TINY, (67, 67), True, registry.Options(drop_path_keep_prob=0.5), batch=6)
    return built, len(built.graph.get_operations())


@functools.cache
def _tiny_values():
    return _values(_built(TINY, (35, 27)))


def _values(built):
    """End points of random images, with the images and the variables."""
    images = np.random.RandomState(0).uniform(-1.0, 1.0, built.images.shape).astype(np.float32)
    with tf1.Session(graph=built.graph) as session:
        recorded_backbones.set_weights(session)
        values = session.run(built.end_points, {built.images: images})
        variables = session.run(
            {v.op.name: v for v in built.graph.get_collection(tf1.GraphKeys.MODEL_VARIABLES)}
        )
    return values, images, variables


@pytest.mark.parametrize('skips', [False, True])
def test_computes_what_its_definition_says(skips):
    architecture = SKIPPING if skips else TINY
    values, images, variables = _values(_built(architecture, (35, 27))) if skips else _tiny_values()
    slow = slow_cells.SlowCells(variables, 8)
    stem = slow_cells.unpadded(images, variables['conv0/weights'])
    maps = [slow.norm(stem, 'conv0_bn')]
    maps.append(slow.nasnet_reduction(maps[0], None, 'cell_stem_0', 2))
    maps.append(slow.nasnet_reduction(maps[1], maps[0], 'cell_stem_1', 4))
    expected = {'Stem': maps[-1]}
    channels = 8
    for index in range(architecture.cells):
        previous = maps[-2]
        section, begins = divmod(index, architecture.cells // 3)
        if section and not begins:
            channels *= 2
            scope = f'reduction_cell_{section - 1}'
            maps.append(slow.nasnet_reduction(maps[-1], previous, scope, channels))
            expected[f'Reduction_Cell_{section - 1}'] = maps[-1]
            previous = previous if skips else maps[-2]
        maps.append(slow.nasnet_normal(maps[-1], previous, f'cell_{index}', channels))
        expected[f'Cell_{index}'] = maps[-1]
    pooled = expected['global_pool'] = slow_cells.relu(maps[-1]).mean((1, 2))
    logits = pooled @ variables['final_layer/FC/weights'] + variables['final_layer/FC/biases']
    expected[registry.LOGITS] = logits
    assert {*expected, 'Predictions'} == set(values)
    for name, value in expected.items():
        recorded_backbones.assert_close(values[name], value, 1e-4, name)


def test_stem_of_small_images():
    values, images, variables = _values(_built(SMALL, (12, 12)))
    slow = slow_cells.SlowCells(variables, 4)
    stem = slow.norm(slow_cells.convolve(images, variables['l1_stem_3x3/weights']), 'l1_stem_bn')
    recorded_backbones.assert_close(values['Stem'], stem, 1e-4, 'Stem')
    shapes = {name: value.shape[1:] for name, value in values.items()}
    # Six states of the first cell, of which one is the projected stem; then 4 and 6 states.
    assert shapes['Cell_0'] == (12, 12, 24)
    assert shapes['Reduction_Cell_0'] == (6, 6, 32) and shapes['Cell_1'] == (6, 6, 48)
    assert shapes['Cell_2'] == (3, 3, 96)
    assert variables['cell_0/cell_output/reduction_1/path_conv/weights'].shape == (1, 1, 6, 4)


@pytest.mark.usefixtures('initial_values')
def test_second_stage_goes_on_where_the_first_ends():
    style, options = nasnet.nasnet_style(False, registry.Options(), TINY), registry.Options()
    images = tf.random.stateless_uniform([1, 67, 67, 3], [1, 2], -1.0, 1.0)
    with forward_pass.VariableStore().forward_pass(0):
        whole = nasnet.nasnet_features(images, style, options, SKIPPING)
        first = nasnet.first_stage(images, style, options, SKIPPING)
        second = nasnet.second_stage(first, style, SKIPPING)
    both = np.concatenate([whole['Cell_2'], whole['Cell_3']], 3)
    recorded_backbones.assert_close(first, both, 1e-5, 'first stage')
    recorded_backbones.assert_close(second, tf.nn.relu(whole['Cell_5']), 1e-4, 'second stage')
    assert np.abs(second).max() > 0.0


def test_training_has_an_auxiliary_head_on_the_last_cell_before_the_second_reduction():
    built, _ = _tiny_in_training()
    assert built.end_points[registry.AUXILIARY_LOGITS].shape == [6, 4]
    shapes = {
        name: shape for name, (shape, _) in recorded_backbones.variables_of(built.graph).items()
    }
    # Cell_1: 67 -> 33 -> 17 -> 9 -> 5; one pool of 5; 16 channels in 6 states.
    assert shapes['aux_1/aux_logits/proj/weights'] == (1, 1, 96, 128)
    assert shapes['aux_1/aux_logits/Conv/weights'] == (1, 1, 128, 768)
    assert shapes['aux_1/aux_logits/FC/weights'] == (768, 4)
    assert registry.AUXILIARY_LOGITS not in _tiny_values()[0]


def test_gradients_reach_every_variable():
    built, _ = _tiny_in_training()
    with built.graph.as_default():
        heads = (registry.LOGITS, registry.AUXILIARY_LOGITS)
        loss = tf.add_n([tf.reduce_sum(built.end_points[head] ** 2) for head in heads])
        variables = tf1.trainable_variables()
        gradients = tf.gradients(loss, variables)
    assert not [v.op.name for v, gradient in zip(variables, gradients) if gradient is None]


def test_graph_does_not_grow_with_batch_or_classes():
    options = registry.Options(drop_path_keep_prob=0.5)
    with tf.Graph().as_default() as graph:
        tf1.train.create_global_step()
        style = nasnet.nasnet_style(True, options, TINY)
        images = tf1.placeholder(tf.float32, [16, 67, 67, 3])
        nasnet.nasnet(images, 50, style, options, TINY)
    assert len(graph.get_operations()) == _tiny_in_training()[1]


def test_sizes_that_are_not_known():
    expected, images, _ = _tiny_values()
    with tf.Graph().as_default(), tf1.Session() as session:
        inputs = tf1.placeholder(tf.float32, [None, None, None, 3])
        style = nasnet.nasnet_style(False, registry.Options(), TINY)
        end_points = nasnet.nasnet_features(inputs, style, registry.Options(), TINY)
        recorded_backbones.set_weights(session)
        found = session.run(end_points['Cell_2'], {inputs: images})
    recorded_backbones.assert_close(found, expected['Cell_2'], 1e-5, 'Cell_2')


def test_options():
    options = registry.Options(weight_decay=0.25, batch_norm_decay=0.5, batch_norm_epsilon=0.1)
    style = nasnet.nasnet_style(True, options, TINY)
    assert style.regularizer == layers.l2(0.25) and style.regularize_depthwise
    assert (style.batch_norm.decay, style.batch_norm.epsilon) == (0.5, 0.1)
    cifar = registry.get_network('nasnet_cifar').style(True, registry.Options())
    assert cifar.regularizer == layers.l2(5e-4)
    assert (cifar.batch_norm.decay, cifar.batch_norm.epsilon) == (0.9, 1e-5)
    large = registry.get_network('nasnet_large').style(True, registry.Options())
    assert large.regularizer == layers.l2(5e-5) and large.batch_norm.scale


@pytest.mark.usefixtures('initial_values')
def test_initial_weights_keep_the_variance_of_gradients():
    style = nasnet.nasnet_style(True, registry.Options(), TINY)
    drawn = style.initializer([3, 3, 64, 128], (1, 2)).numpy()
    # A normal of variance 1.3 * 2 / (3 * 3 * 128), cut at two standard deviations.
    expected = math.sqrt(2.6 / (9 * 128)) * layers.TRUNCATED_STDDEV
    np.testing.assert_allclose(drawn.std(), expected, rtol=0.01)


def test_final_end_point():
    style = nasnet.nasnet_style(False, registry.Options(), TINY)
    with tf.Graph().as_default():
        images = tf1.placeholder(tf.float32, [1, 35, 35, 3])
        options = registry.Options(final_endpoint='Reduction_Cell_0')
        end_points = nasnet.nasnet_features(images, style, options, TINY)
        assert list(end_points) == ['Stem', 'Cell_0', 'Reduction_Cell_0']
        with tf1.variable_scope('again'), pytest.raises(ValueError, match="No end point 'Cell_9'"):
            nasnet.nasnet_features(images, style, options.but(final_endpoint='Cell_9'), TINY)
