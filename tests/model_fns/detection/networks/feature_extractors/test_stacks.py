from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns import layers
from model_fns.detection.networks.feature_extractors import extractor, stacks
from tests.model_fns.detection import slow_networks
from tests.model_fns.detection.slow_networks import layer, relu6

tf1 = tf.compat.v1

STYLE = layers.LayerStyle(activation=tf.nn.relu6, batch_norm=layers.BatchNorm(scale=True))
SETTINGS = extractor.Settings(style=STYLE, min_depth=4, padding='FIXED')
LAYOUT = (
    stacks.MapLayout('a/b'),
    stacks.MapLayout('c'),
    stacks.MapLayout(depth=16),
    stacks.MapLayout(depth=10, kernel_size=3),
)


def _maps(settings, layout=LAYOUT, sizes=((13, 9), (7, 5))):
    end_points = {
        'a/b': tf.constant(np.random.RandomState(0).normal(size=[2, *sizes[0], 3]), tf.float32),
        'c': tf.constant(np.random.RandomState(1).normal(size=[2, *sizes[1], 5]), tf.float32),
    }
    return end_points, stacks.stacked_maps(end_points, layout, settings)


def test_networks_of_tensorflow_2_stack_separable_convolutions_in_one_layer():
    settings = dataclasses.replace(SETTINGS, use_depthwise=True, type_name='net_keras')
    with tf.Graph().as_default(), tf1.Session() as session:
        end_points, maps = _maps(settings, LAYOUT[:3])
        values = slow_networks.randomize(session)
        tap, stacked = session.run([end_points['c'], maps[2]])
    expected = relu6(layer(tap, values, 'c_1_Conv2d_2_1x1_8'))
    expected = relu6(layer(expected, values, 'c_2_Conv2d_2_3x3_s2_16', stride=2))
    np.testing.assert_allclose(stacked, expected, rtol=1e-4, atol=1e-3)


def test_maps_with_odd_sides_are_padded_before_a_stacked_convolution():
    """A row and a column of zeros make 7 x 5 pixels 8 x 6, which SAME then pads after them only."""
    settings = dataclasses.replace(SETTINGS, padding='SAME', pad_stacked_maps=True)
    with tf.Graph().as_default(), tf1.Session() as session:
        end_points, maps = _maps(settings, LAYOUT[:3])
        values = slow_networks.randomize(session)
        tap, stacked = session.run([end_points['c'], maps[2]])
    half = relu6(layer(tap, values, 'c_1_Conv2d_2_1x1_8'))
    padded = np.pad(half, [(0, 0), (0, 2), (0, 2), (0, 0)])
    kernel = values['c_2_Conv2d_2_3x3_s2_16/weights']
    expected = np.zeros(stacked.shape)
    for row, column in np.ndindex(*stacked.shape[1:3]):
        window = padded[:, 2 * row : 2 * row + 3, 2 * column : 2 * column + 3]
        expected[:, row, column] = np.tensordot(window, kernel, 3)
    unit = {**values, 'unit/weights': np.eye(16)[np.newaxis, np.newaxis]}
    for name in ('gamma', 'beta', 'moving_mean', 'moving_variance'):
        norm = f'c_2_Conv2d_2_3x3_s2_16/BatchNorm/{name}'
        unit[f'unit/BatchNorm/{name}'] = values[norm]
    expected = relu6(layer(expected, unit, 'unit'))
    assert stacked.shape[1:3] == (4, 3)
    np.testing.assert_allclose(stacked, expected, rtol=1e-4, atol=1e-3)


def test_layout_names_taps_then_depths():
    layout = stacks.stack_layout(['x', 'y'], [64, 32])
    assert [(one.tap, one.depth, one.kernel_size) for one in layout] == [
        ('x', 0, 3),
        ('y', 0, 3),
        (None, 64, 3),
        (None, 32, 3),
    ]


@pytest.mark.parametrize('use_depthwise', [False, True])
def test_taps_are_passed_on_and_stacked_upon(use_depthwise):
    settings = dataclasses.replace(SETTINGS, use_depthwise=use_depthwise, depth_multiplier=0.5)
    with tf.Graph().as_default(), tf1.Session() as session:
        end_points, maps = _maps(settings)
        assert maps[:2] == [end_points['a/b'], end_points['c']]
        values = slow_networks.randomize(session)
        tap, *stacked = session.run(maps[1:])
    expected = tap
    # Half of the depth, then the depth; both halved by the factor, but not below 4.
    for value, index, half, depth in zip(stacked, (2, 3), (4, 4), (8, 5)):
        expected = relu6(layer(expected, values, f'c_1_Conv2d_{index}_1x1_{half}'))
        scope = f'c_2_Conv2d_{index}_3x3_s2_{depth}'
        if use_depthwise:
            expected = relu6(layer(expected, values, f'{scope}_depthwise', stride=2))
        expected = relu6(layer(expected, values, scope, stride=1 if use_depthwise else 2))
        assert expected.shape[-1] == depth
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-4)
    assert [one.shape[1:3] for one in stacked] == [(4, 3), (2, 2)]


@pytest.mark.parametrize('padding', ['SAME', 'FIXED'])
def test_a_kernel_of_two_reaches_the_last_row(padding):
    layout = (*LAYOUT[:2], *[stacks.MapLayout(depth=8, kernel_size=2)] * 2)
    settings = dataclasses.replace(SETTINGS, padding=padding)
    with tf.Graph().as_default():
        _, maps = _maps(settings, layout, sizes=((9, 9), (9, 5)))
        names = {v.op.name: v.shape for v in tf1.trainable_variables()}
    assert names['c_2_Conv2d_2_2x2_s2_8/weights'][:2] == (2, 2)
    assert [tuple(one.shape[1:3]) for one in maps[2:]] == [(5, 3), (3, 2)]


@pytest.mark.parametrize('count', [1, 2, 3])
def test_num_layers_leaves_out_the_last_maps(count):
    with tf.Graph().as_default():
        _, maps = _maps(dataclasses.replace(SETTINGS, num_layers=count))
        variables = tf1.global_variables()
    assert len(maps) == count
    assert len(variables) == (10 if count == 3 else 0)


@pytest.mark.parametrize('count', [0, -1, 7])
def test_an_impossible_number_of_layers(count):
    message = f'num_layers: got {count}; expected 1 to 4'
    with tf.Graph().as_default(), pytest.raises(errors.ConfigError, match=message):
        _maps(dataclasses.replace(SETTINGS, num_layers=count))


def test_the_default_number_of_layers_fits_a_shorter_layout():
    with tf.Graph().as_default():
        assert len(_maps(SETTINGS)[1]) == 4


def test_pooled_maps_hold_the_largest_value_of_each_window():
    image = np.random.RandomState(0).normal(size=[2, 5, 6, 3])
    with tf.Graph().as_default(), tf1.Session() as session:
        maps = session.run(stacks.pooled_maps(tf.constant(image), 4))
    assert [one.shape[1:3] for one in maps] == [(5, 6), (3, 3), (2, 2), (1, 1)]
    np.testing.assert_array_equal(maps[0], image)
    # The last row and column of an odd size are windows of their own.
    for y, x in ((0, 0), (1, 2), (2, 1)):
        window = image[:, 2 * y : 2 * y + 2, 2 * x : 2 * x + 2]
        np.testing.assert_array_equal(maps[1][:, y, x], window.max((1, 2)))
    np.testing.assert_array_equal(maps[3][:, 0, 0], image.max((1, 2)))


def test_no_pooled_maps():
    with tf.Graph().as_default(), pytest.raises(errors.ConfigError, match='num_layers: got 0'):
        stacks.pooled_maps(tf.zeros([1, 4, 4, 1]), 0)
