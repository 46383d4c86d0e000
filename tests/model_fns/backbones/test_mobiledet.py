from __future__ import annotations

import math
import re

import numpy as np
import pytest
import tensorflow as tf

from model_fns import layers
from model_fns.backbones import mobiledet, registry
from model_fns.backbones.mobiledet import Architecture, Fused, Inverted, Tucker
from tests.model_fns.detection import slow_networks
from tests.model_fns.detection.slow_networks import layer, relu6

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1


def features(images, architecture, **options):
    style = mobiledet.mobiledet_style(False, registry.Options())
    return mobiledet.mobiledet_features(images, style, registry.Options(**options), architecture)


def _count(blocks):
    """Parameters of convolutions, by hand: (kind, input, output, kernel, expansion or ranks)."""
    total = 0
    for kind, inputs, outputs, kernel, expansion in blocks:
        if kind == 'tucker':
            first, second = expansion
            total += inputs * first + kernel**2 * first * second + second * outputs
        elif kind == 'fused':
            total += kernel**2 * inputs * inputs * expansion + inputs * expansion * outputs
        else:
            wide = inputs * expansion
            total += (inputs * wide if expansion > 1 else 0) + kernel**2 * wide + wide * outputs
    return total


def test_the_network_for_dsps_that_has_no_published_list():
    with tf.Graph().as_default():
        end_points = features(tf.zeros([1, 64, 96, 3]), mobiledet.DSP)
        variables = {v.op.name: list(v.shape) for v in tf1.global_variables()}
        penalties = len(tf1.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES))
    assert {name: tuple(value.shape[1:]) for name, value in end_points.items()} == {
        f'C{level}': (64 >> level, 96 >> level, count)
        for level, count in enumerate((24, 32, 64, 144, 240), start=1)
    }
    counts = {
        scope: len({name.split('/')[1] for name in variables if f'/{scope}' in name})
        for scope in ('IBNNoExpansion', 'FusedConv', 'TuckerConv')
    }
    assert counts == {'IBNNoExpansion': 1, 'FusedConv': 8, 'TuckerConv': 2}
    assert len({name for name in variables if re.search(r'/IBN(_\d+)?/Conv/weights', name)}) == 11
    blocks = [
        ('inverted', 32, 24, 3, 1),
        ('fused', 24, 32, 3, 4),
        ('fused', 32, 32, 3, 4),
        ('inverted', 32, 32, 3, 4),
        ('tucker', 32, 32, 3, (8, 24)),
        ('fused', 32, 64, 3, 8),
        ('inverted', 64, 64, 3, 4),
        ('fused', 64, 64, 3, 4),
        ('fused', 64, 64, 3, 4),
        ('fused', 64, 120, 3, 8),
        ('inverted', 120, 120, 3, 4),
        ('inverted', 120, 120, 3, 8),
        ('inverted', 120, 120, 3, 8),
        ('fused', 120, 144, 3, 8),
        ('inverted', 144, 144, 3, 8),
        ('inverted', 144, 144, 3, 8),
        ('inverted', 144, 144, 3, 8),
        ('inverted', 144, 160, 3, 4),
        ('inverted', 160, 160, 3, 4),
        ('fused', 160, 160, 3, 4),
        ('tucker', 160, 160, 3, (120, 120)),
        ('inverted', 160, 240, 3, 8),
    ]
    weights = [shape for name, shape in variables.items() if name.endswith('weights')]
    assert sum(map(math.prod, weights)) == 27 * 32 + _count(blocks)
    assert len(weights) == penalties == 1 + 2 + 8 * 2 + 2 * 3 + 11 * 3


TINY = Architecture(
    scope='Tiny',
    first_channels=8,
    stages=(
        (Inverted(8, 1, residual=False),),
        (Fused(16, 2, kernel_size=5, stride=2, residual=False), Fused(16, 3)),
        (Tucker(24, (0.5, 0.75), residual=False), Tucker(24)),
        (Inverted(16, 2, stride=2, residual=False), Inverted(16, 2, kernel_size=5)),
    ),
    activation=tf.nn.relu6,
    squeeze_excite=True,
)


def _layer(image, values, scope, stride=1):
    return layer(image, values, f'Tiny/{scope}', stride=stride, epsilon=0.01)


def _slow_inverted(image, values, scope, stride=1):
    filtered = image
    if f'Tiny/{scope}/Conv_1/weights' in values:
        filtered = relu6(_layer(image, values, f'{scope}/Conv'))
    filtered = relu6(_layer(filtered, values, f'{scope}/SeparableConv2d', stride))
    means = filtered.mean((1, 2), keepdims=True)
    hidden = relu6(_layer(means, values, f'{scope}/SqueezeExcite/Conv'))
    gate = 1 / (1 + np.exp(-_layer(hidden, values, f'{scope}/SqueezeExcite/Conv_1')))
    last = 'Conv_1' if f'Tiny/{scope}/Conv_1/weights' in values else 'Conv'
    return _layer(filtered * gate, values, f'{scope}/{last}')


def _slow_chain(image, values, scope, stride=1):
    """Convolutions one after the other, the last one linear; the stride is the first one's."""
    names = [n for n in ('Conv', 'Conv_1', 'Conv_2') if f'Tiny/{scope}/{n}/weights' in values]
    for index, name in enumerate(names):
        image = _layer(image, values, f'{scope}/{name}', stride if index == 0 else 1)
        image = relu6(image) if name != names[-1] else image
    return image


def test_blocks_equal_their_definition():
    # Of odd size, so that both sides are padded alike at stride 2.
    images = np.random.RandomState(0).normal(size=[2, 17, 9, 3]).astype(np.float32)
    with tf.Graph().as_default(), tf1.Session() as session:
        end_points = features(tf.constant(images), TINY)
        values = slow_networks.randomize(session)
        actual = session.run(end_points)
    first = relu6(_layer(images, values, 'Conv', stride=2))
    c1 = _slow_inverted(first, values, 'IBNNoExpansion')
    c2 = _slow_chain(c1, values, 'FusedConv', stride=2)
    c2 = c2 + _slow_chain(c2, values, 'FusedConv_1')
    c3 = _slow_chain(c2, values, 'TuckerConv')
    c3 = c3 + _slow_chain(c3, values, 'TuckerConv_1')
    c4 = _slow_inverted(c3, values, 'IBN', stride=2)
    c4 = c4 + _slow_inverted(c4, values, 'IBN_1')
    for name, slow in (('C1', c1), ('C2', c2), ('C3', c3), ('C4', c4)):
        assert actual[name].shape == slow.shape
        scale = np.abs(slow).max()
        np.testing.assert_allclose(actual[name] / scale, slow / scale, atol=1e-4, err_msg=name)
    # Ranks are shares of the channels, to the nearest multiple of 8: 16 / 2, 3 / 4 of 24.
    assert values['Tiny/TuckerConv/Conv_1/weights'].shape == (3, 3, 8, 16)
    assert values['Tiny/TuckerConv_1/Conv_1/weights'].shape == (3, 3, 8, 8)


def test_a_factor_scales_every_block():
    with tf.Graph().as_default():
        end_points = features(tf.zeros([1, 64, 64, 3]), mobiledet.GPU, depth_multiplier=0.5)
    assert [value.shape[-1] for value in end_points.values()] == [8, 16, 32, 64, 192]


@pytest.mark.usefixtures('initial_values')
def test_initial_weights_have_the_spread_of_their_inputs():
    architecture = Architecture(
        'Tiny', 64, ((Inverted(64, 8, kernel_size=5, residual=False),),), squeeze_excite=False
    )
    with tf.Graph().as_default(), tf1.Session() as session:
        features(tf.zeros([1, 8, 8, 3]), architecture)
        session.run(tf1.global_variables_initializer())
        values = session.run({v.op.name: v for v in tf1.trainable_variables()})
    for name, inputs in (('Conv/weights', 64), ('SeparableConv2d/depthwise_weights', 25)):
        value = values[f'Tiny/IBN/{name}']
        assert value.std() == pytest.approx(math.sqrt(2.0 / inputs), rel=0.02)
        assert np.abs(value).max() <= 2 * math.sqrt(2.0 / inputs) / layers.TRUNCATED_STDDEV


def test_style_listens_to_options():
    style = mobiledet.mobiledet_style(
        True, registry.Options(weight_decay=0.5, batch_norm_decay=0.25, batch_norm_epsilon=0.125)
    )
    assert style.regularizer == layers.l2(0.5)
    assert (style.batch_norm.decay, style.batch_norm.epsilon) == (0.25, 0.125)
