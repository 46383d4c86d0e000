"""Hourglasses: their depth, and one against its definition."""

import numpy as np
import pytest
import tensorflow as tf

from model_fns.detection.architectures.center_net import hourglass
from tests.model_fns.backbones import recorded_backbones, slow_layers

tf1 = tf.compat.v1


@pytest.mark.parametrize('name', hourglass.ARCHITECTURES)
def test_a_network_is_named_by_the_layers_on_its_longest_way(name):
    one = hourglass.ARCHITECTURES[name]
    # Two layers a residual block, down and up again in each stage; one layer behind each hourglass.
    of_hourglass = 1 + sum(4 * count for count in one.blocks[:-1]) + 2 * one.blocks[-1]
    between = 3 * (one.hourglasses - 1)
    assert 3 + of_hourglass * one.hourglasses + between == int(name.partition('_')[2])
    assert len(one.blocks) == len(one.channels)


def test_both_sides_are_multiples_of_the_innermost_stride():
    strides = {name: one.stride for name, one in hourglass.ARCHITECTURES.items()}
    assert (strides['hourglass_10'], strides['hourglass_104']) == (8, 128)


def _normalized(image, values, scope):
    return slow_layers.batch_norm(image, values, f'{scope}/BatchNorm', 1e-5)


def _convolved(image, values, scope, stride=1):
    return _normalized(slow_layers.conv2d(image, values[f'{scope}/weights'], stride), values, scope)


def _block(image, values, scope, stride=1):
    inner = slow_layers.relu(_convolved(image, values, f'{scope}/conv_block', stride))
    inner = _convolved(inner, values, f'{scope}/conv')
    projected = f'{scope}/skip/weights' in values
    return slow_layers.relu(
        inner + (_convolved(image, values, f'{scope}/skip', stride) if projected else image)
    )


def test_two_hourglasses_equal_their_definition():
    shape = hourglass.Architecture(2, (3, 4), (1, 2), hourglasses=2)
    images = np.random.RandomState(0).normal(size=[1, 16, 24, 3]).astype(np.float32)
    with tf.Graph().as_default(), tf1.Session() as session:
        style = hourglass.hourglass_style(is_training=False)
        outputs = hourglass.hourglass_features(tf.constant(images), shape, style)
        recorded_backbones.set_weights(session)
        values = {one.op.name: one for one in tf1.global_variables()}
        found, values = session.run([outputs, values])
    first = slow_layers.relu(_convolved(images, values, 'downsample_input/conv_block', 2))
    first = _block(first, values, 'downsample_input/residual_block', 2)

    def passed(features, index):
        scope = f'hourglass_network/{index}'
        beside = _block(features, values, f'{scope}/encoder_block1/0')
        inner = _block(features, values, f'{scope}/encoder_block2/0', 2)
        for number in range(2):
            inner = _block(inner, values, f'{scope}/inner_block/{number}')
        inner = _block(inner, values, f'{scope}/decoder_block/0')
        summed = beside + inner.repeat(2, axis=1).repeat(2, axis=2)
        return slow_layers.relu(_convolved(summed, values, f'output_conv/{index}'))

    expected = [passed(first, 0)]
    between = slow_layers.relu(
        _convolved(first, values, 'intermediate_conv1/0')
        + _convolved(expected[0], values, 'intermediate_conv2/0')
    )
    expected.append(passed(_block(between, values, 'intermediate_residual/0'), 1))
    assert 'hourglass_network/0/encoder_block1/0/skip/weights' not in values
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
