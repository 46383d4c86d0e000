from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns.backbones import registry
from model_fns.backbones.searched import deeplab
from tests.model_fns.backbones import recorded_backbones
from tests.model_fns.backbones.searched import slow_cells

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1


@pytest.fixture
def tiny(monkeypatch):
    """A way down and up of both cells, as `tiny_pnasnet` and `tiny_hnasnet`."""
    for name in ('pnasnet', 'hnasnet'):
        whole = deeplab.ARCHITECTURES[f'nas_{name}']
        levels = {8: (1, 1, 2)} if name == 'pnasnet' else {8: (0, 1, 2, 1)}
        monkeypatch.setitem(
            deeplab.ARCHITECTURES,
            f'tiny_{name}',
            whole._replace(levels=levels, output_stride=8),
        )


def _features(name, images, **options):
    options = registry.Options(**options)
    style = deeplab.nas_style(False, options)
    return deeplab.nas_features(images, style, options, name)


def _run(name, images, shape=None, **options):
    with tf.Graph().as_default(), tf1.Session() as session:
        inputs = tf1.placeholder(tf.float32, shape or images.shape)
        end_points = _features(name, inputs, **options)
        recorded_backbones.set_weights(session)
        values = session.run(end_points, {inputs: images})
        variables = session.run({v.op.name: v for v in tf1.global_variables()})
    return values, variables


def _images(*size):
    return np.random.RandomState(0).uniform(-1.0, 1.0, [2, *size, 3]).astype(np.float32)


def _stem(slow, images, scope):
    """Maps of stride 2 and 4; of images with odd sides."""
    first = slow.conv_norm(images, scope, 'conv0', 'conv0_bn', 2)
    second = slow.conv_norm(slow_cells.relu(first), scope, 'conv1', 'conv1_bn')
    return [second, slow.conv_norm(slow_cells.relu(second), scope, 'conv2', 'conv2_bn', 2)]


def _previous(slow, previous, current, scope, channels):
    previous = slow_cells.resize(previous, current.shape[1:3])
    if previous.shape[3] == channels:
        return previous
    return slow.conv_norm(slow_cells.relu(previous), scope, 'prev_1x1', 'prev_bn')


def test_pnasnet_computes_what_its_definition_says(tiny):
    images = _images(33, 49)
    values, variables = _run('tiny_pnasnet', images, stem_filters=3)
    slow = slow_cells.SlowCells(variables, 3)
    maps = _stem(slow, images, 'pnasnet')
    for number, (channels, stride) in enumerate(((6, 2), (6, 1), (12, 2))):
        scope = f'pnasnet/cell_{number}'
        previous = _previous(slow, maps[-2], maps[-1], scope, channels)
        maps.append(slow.pnasnet(maps[-1], previous, scope, channels, stride))
    _compare(values, maps)


def test_hierarchical_network_computes_what_its_definition_says(tiny):
    images = _images(33, 49)
    values, variables = _run('tiny_hnasnet', images, stem_filters=2)
    slow = slow_cells.SlowCells(variables, 2)
    maps = _stem(slow, images, 'hnasnet')
    sizes = ((9, 13), (9, 13), (5, 7), (5, 7))
    for number, (size, channels, stride) in enumerate(zip(sizes, (2, 4, 8, 4), (1, 2, 2, 1))):
        scope = f'hnasnet/cell_{number}'
        current = slow_cells.resize(maps[-1], size)
        previous = _previous(slow, maps[-2], current, scope, channels)
        maps.append(_hierarchical(slow, current, previous, scope, stride))
    _compare(values, maps)
    assert maps[-1].shape[1:] == (5, 7, 20)


def _hierarchical(slow, current, previous, scope, stride):
    """Figure 3 of Liu et al. 2019."""
    h, p = slow.conv_norm(slow_cells.relu(current), scope, '1x1', 'beginning_bn'), previous
    parts = [f'{scope}/comb_iter_{i}/{side}' for i in range(5) for side in ('left', 'right')]
    a = slow.atrous(p, 5, parts[0], stride) + slow.sep(h, 3, parts[1], stride)
    b = slow.sep(p, 3, parts[2], stride) + slow.atrous(h, 3, parts[3], stride)
    c = slow.sep(b, 3, parts[4]) + slow.sep(p, 3, parts[5], stride)
    d = slow.sep(c, 5, parts[6]) + slow.sep(a, 5, parts[7])
    e = slow.sep(b, 5, parts[8]) + slow.atrous(d, 5, parts[9])
    return np.concatenate([a, b, c, d, e], 3)


def _compare(values, maps):
    expected = {'Stem': maps[1], **{f'Cell_{i}': value for i, value in enumerate(maps[2:])}}
    expected['Features'] = slow_cells.relu(maps[-1])
    assert set(values) == set(expected)
    for name, value in expected.items():
        recorded_backbones.assert_close(values[name], value, 1e-4, name)


@pytest.mark.parametrize(
    'name', [pytest.param('tiny_pnasnet', marks=pytest.mark.published), 'tiny_hnasnet']
)
def test_sizes_that_are_not_known(tiny, name):
    images = _images(50, 41)
    known, _ = _run(name, images, stem_filters=2)
    unknown, _ = _run(name, images, shape=[None, None, None, 3], stem_filters=2)
    for point, value in known.items():
        recorded_backbones.assert_close(unknown[point], value, 1e-5, point)


@pytest.mark.parametrize(
    'name, strides',
    [
        pytest.param('nas_pnasnet', [8] * 4 + [16] * 8, marks=pytest.mark.published),
        ('nas_hnasnet', [4, 4, 4, 8, 16, 8, 16, 16, 32, 32, 16, 8]),
    ],
)
def test_strides_and_channels_of_the_cells(name, strides):
    network = registry.get_network(name, task='segmentation')
    with tf.Graph().as_default():
        images = tf1.placeholder(tf.float32, [1, 65, 129, 3])
        end_points = _features(name, images)
        variables = {variable.op.name.split('/')[0] for variable in tf1.global_variables()}
    assert variables == {name[4:]} == {network.scope}
    for stride, tap in network.segmentation.decoder_taps.items():
        assert end_points[tap].shape[1] == 64 // stride + 1
    assert sorted(network.segmentation.decoder_taps) == [4, 8, 16]
    detection_maps = registry.get_network(name, task='detection').feature_maps
    for stride, point in detection_maps.items():
        assert end_points[point].shape[1] == 64 // stride + 1
    assert max(detection_maps) == max(strides)
    assert end_points.pop('Stem').shape == [1, 17, 33, 128]
    # Five states of 20 channels at stride 4, and twice as many at twice the stride.
    expected = [[1, 64 // s + 1, 128 // s + 1, 5 * 20 * s // 4] for s in (*strides, strides[-1])]
    assert [value.shape.as_list() for value in end_points.values()] == expected
    assert list(end_points)[-1] == 'Features'


def test_cells_of_the_other_output_strides():
    levels = deeplab.ARCHITECTURES['nas_pnasnet'].levels
    assert [4 * 2**level for level in levels[8]] == [8] * 12
    assert [4 * 2**level for level in levels[32]] == [8] * 4 + [16] * 4 + [32] * 4


@pytest.mark.parametrize(
    'name, stride, known', [('nas_hnasnet', 16, '8'), ('nas_pnasnet', 4, '8, 16, 32')]
)
def test_output_strides_that_there_are_not(name, stride, known):
    message = f'output_stride: {name} cannot have {stride}; it can have {known}'
    with tf.Graph().as_default(), pytest.raises(errors.ConfigError, match=message):
        _features(name, tf.zeros([1, 65, 65, 3]), output_stride=stride)


@pytest.mark.usefixtures('initial_values')
def test_style_is_the_published_one():
    style = deeplab.nas_style(True, registry.Options())
    assert style.regularizer.weight == 4e-5 and style.regularize_depthwise
    assert (style.batch_norm.decay, style.batch_norm.epsilon) == (0.9997, 1e-3)
    assert style.batch_norm.scale
    drawn = style.initializer([3, 3, 64, 32], (1, 2)).numpy()
    # Uniform of variance 1 / 3 / (3 * 3 * 64): half as wide as sqrt(1 / 576) in both directions.
    assert 0.99 * math.sqrt(1 / 576) < np.abs(drawn).max() <= math.sqrt(1 / 576)
    np.testing.assert_allclose(drawn.std(), math.sqrt(1 / 3 / 576), rtol=0.02)


def test_training_drops_paths_over_the_steps(tiny):
    options = registry.Options(drop_path_keep_prob=0.5, drop_path_steps=10, stem_filters=2)
    with tf.Graph().as_default(), tf1.Session() as session:
        step = tf1.train.create_global_step()
        # Batch norm by the moving statistics, so that only what is dropped makes a difference.
        style = deeplab.nas_style(True, options).frozen()
        images = tf.constant(_images(33, 33))
        features = deeplab.nas_features(images, style, options, 'tiny_pnasnet')['Features']
        recorded_backbones.set_weights(session)
        values = []
        for number in (0, 10, 10):
            session.run(step.assign(number))
            values.append(session.run(features))
    whole, _ = _run('tiny_pnasnet', _images(33, 33), stem_filters=2)
    recorded_backbones.assert_close(values[0], whole['Features'], 1e-5, 'at the first step')
    np.testing.assert_array_equal(values[1], values[2])
    assert np.abs(values[1] - values[0]).max() > 0.1 * np.abs(values[0]).max()
