from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns import layers
from model_fns.backbones import registry, resnet_blocks

tf1 = tf.compat.v1


def _planned(units, output_stride=None, **settings):
    """What each unit is asked for, and the width of each block's output for an image of 64."""
    asked = []

    def unit(inputs, shape, style):
        asked.append((shape.depth, shape.stride, shape.rate))
        return resnet_blocks.subsample(inputs, shape.stride), {'part': inputs}

    options = registry.Options(output_stride=output_stride, **settings)
    with tf.Graph().as_default():
        end_points = resnet_blocks.stack_blocks(
            tf.zeros([1, 16, 16, 1]),
            resnet_blocks.make_blocks(units, options),
            unit,
            layers.LayerStyle(),
            'net',
            options,
        )
    widths = [int(end_points[f'net/block{i + 1}'].shape[1]) for i in range(len(units))]
    return asked, widths, list(end_points)


def test_strides_are_those_of_last_units():
    asked, widths, names = _planned([2, 1, 2, 2])
    assert asked == [
        (64, 1, 1),
        (64, 2, 1),
        (128, 2, 1),
        (256, 1, 1),
        (256, 2, 1),
        (512, 1, 1),
        (512, 1, 1),
    ]
    assert widths == [8, 4, 2, 2]
    assert names[:3] == ['net/block1/unit_1/unit/part', 'net/block1/unit_1/unit'] + [
        'net/block1/unit_2/unit/part'
    ]


@pytest.mark.parametrize(
    'output_stride, strides, rates',
    [
        (4, [1, 1, 1, 1], [1, 2, 4, 8]),
        (8, [2, 1, 1, 1], [1, 1, 2, 4]),
        (16, [2, 2, 1, 1], [1, 1, 1, 2]),
        (32, [2, 2, 2, 1], [1, 1, 1, 1]),
    ],
)
def test_strides_beyond_the_output_stride_become_rates(output_stride, strides, rates):
    asked, widths, _ = _planned([1, 1, 1, 1], output_stride)
    assert [stride for _, stride, _ in asked] == strides
    assert [rate for _, _, rate in asked] == rates
    assert widths[-1] == 64 // output_stride


def test_multi_grid_multiplies_the_rates_of_the_last_block():
    asked, _, _ = _planned([1, 1, 1, 3], 16, multi_grid=(1, 2, 4))
    assert [rate for _, _, rate in asked] == [1, 1, 1, 2, 4, 8]


def test_subsampling_after_a_block_leaves_its_end_point_large():
    asked, widths, _ = _planned([1, 1, 1, 1], subsample_after=True)
    assert [stride for _, stride, _ in asked] == [1, 1, 1, 1]
    assert widths == [16, 8, 4, 2]
    asked, widths, _ = _planned([1, 1, 1, 1], 8, subsample_after=True)
    assert [rate for _, _, rate in asked] == [1, 1, 2, 4]
    assert widths == [16, 8, 8, 8]


def test_wrong_options_are_named():
    with pytest.raises(errors.ConfigError, match='multi_grid: got 2 rates .1, 2.; .* 3: one'):
        resnet_blocks.make_blocks([3, 4, 6, 3], registry.Options(multi_grid=(1, 2)))
    with pytest.raises(errors.ConfigError, match='output_stride: got 2; .* 4 or more'):
        _planned([1, 1], 2)
    with pytest.raises(errors.ConfigError, match='output_stride: .* cannot have 12'):
        _planned([1, 1], 12)


def test_style_as_published():
    style = resnet_blocks.resnet_style(True, registry.Options())
    assert style.batch_norm == layers.BatchNorm(decay=0.997, epsilon=1e-5, scale=True)
    assert style.regularizer == layers.Regularizer('l2', 1e-4)
    with tf.Graph().as_default(), tf1.Session() as session:
        drawn = session.run(style.initializer([3, 3, 64, 32], (1, 2)))
    # He et al. 2015: variance 2 / fan in. 1.3 makes up for the tails cut at two deviations, which
    # leave 0.774 of a normal's variance.
    assert drawn.std() == pytest.approx(np.sqrt(1.3 * 0.774 * 2.0 / 576), rel=0.02)
    changed = registry.Options(weight_decay=0.0, batch_norm_decay=0.9, batch_norm_epsilon=0.1)
    style = resnet_blocks.resnet_style(True, changed)
    assert style.regularizer is None
    assert (style.batch_norm.decay, style.batch_norm.epsilon) == (0.9, 0.1)


@pytest.mark.parametrize('padding', ['SAME', 'FIXED'])
def test_pooling_of_the_root(padding):
    image = -np.arange(1.0, 17.0, dtype=np.float32).reshape([1, 4, 4, 1])
    with tf.Graph().as_default(), tf1.Session() as session:
        found = session.run(resnet_blocks.pool_root(tf.constant(image), padding))[0, ..., 0]
    # A border of zeros is higher than all of these; without one a window begins at its cell.
    expected = [[0, 0], [0, -6]] if padding == 'FIXED' else [[-1, -3], [-9, -11]]
    np.testing.assert_array_equal(found, expected)


def test_the_first_unit_of_a_block_knows_it():
    asked = []

    def unit(inputs, shape, style):
        asked.append(shape.is_first)
        return inputs, {}

    with tf.Graph().as_default():
        resnet_blocks.stack_blocks(
            tf.zeros([1, 4, 4, 1]),
            resnet_blocks.make_blocks([2, 1, 2]),
            unit,
            layers.LayerStyle(),
            'net',
        )
    assert asked == [True, False, True, True, False]
