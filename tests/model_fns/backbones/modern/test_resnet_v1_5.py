import types
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from model_fns import layers
from model_fns.backbones import registry, resnet_blocks
from model_fns.backbones.modern import resnet_v1_5
from tests.model_fns.backbones import recorded_backbones, slow_layers

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1


@pytest.mark.parametrize(
    ('name', 'millions'),
    # torchvision's page of models, with 1000 classes.
    [('resnet_v1_5_18', 11.69), ('resnet_v1_5_34', 21.80), ('resnet_v1_5_50', 25.56)],
)
def test_parameter_counts_are_those_of_torchvision(name, millions):
    count = recorded_backbones.count_parameters(name, num_classes=1000)
    assert count / 1e6 == pytest.approx(millions, abs=0.005)


@pytest.mark.parametrize('unit', [resnet_v1_5.bottleneck_v1_5, resnet_v1_5.basic_v1_5])
def test_a_first_unit_by_its_definition(unit):
    random = np.random.RandomState(0)
    image = random.normal(size=[1, 6, 5, 8]).astype(np.float32)
    shape = resnet_blocks.Unit(depth=4, stride=2, rate=1, strides_first=True, is_first=True)
    with tf.Graph().as_default(), tf1.Session() as session:
        style = layers.LayerStyle(batch_norm=layers.BatchNorm(scale=True, epsilon=1e-5))
        outputs, _ = unit(tf.constant(image), shape, style)
        values = {
            variable.op.name: random.uniform(0.5, 1.5, variable.shape) - 1.0 * ('weights' in name)
            for variable in tf1.global_variables()
            for name in [variable.op.name]
        }
        for variable in tf1.global_variables():
            session.run(
                variable.initializer, {variable.initializer.inputs[1]: values[variable.op.name]}
            )
        actual = session.run(outputs)

    def convolve(inputs, scope, stride=1):
        convolved = slow_layers.conv2d(inputs, values[f'{scope}/weights'], stride)
        return slow_layers.batch_norm(convolved, values, f'{scope}/BatchNorm', 1e-5)

    # The 3x3 convolution strides: that of a bottleneck is its second, after one of each pixel.
    strides = (1, 2, 1) if unit is resnet_v1_5.bottleneck_v1_5 else (2, 1)
    residual = image
    for number, stride in enumerate(strides, start=1):
        residual = residual if number == 1 else slow_layers.relu(residual)
        residual = convolve(residual, f'conv{number}', stride)
    expected = slow_layers.relu(residual + convolve(image, 'shortcut', 2))
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


def _features(size, **options):
    graph = tf.Graph()
    tiny = {'resnet_v1_5_50': (1, 2, 1, 2)}
    with graph.as_default(), mock.patch.object(resnet_v1_5, 'UNITS', types.MappingProxyType(tiny)):
        images = tf1.placeholder(tf.float32, [1, size, size, 3])
        style = resnet_blocks.resnet_style(False, registry.Options())
        return resnet_v1_5.resnet_v1_5_features(
            images, style, registry.Options(depth_multiplier=0.1, **options), 'resnet_v1_5_50'
        )


def test_the_first_unit_of_a_block_strides():
    points = _features(64)
    scope = 'resnet_v1_5_50'
    sides = [int(points[f'{scope}/{name}'].shape[1]) for name in ('block1', 'block2', 'block4')]
    assert sides == [16, 8, 2]
    unit = f'{scope}/block2/unit_1/bottleneck_v1_5'
    assert [int(points[f'{unit}/conv{number}'].shape[1]) for number in (1, 2, 3)] == [16, 8, 8]


def test_units_behind_the_output_stride_are_atrous():
    points = _features(64, output_stride=8, multi_grid=(1, 2))
    assert points['resnet_v1_5_50/block4'].shape[1:3] == [8, 8]
    graph = points['resnet_v1_5_50/block4'].graph
    rates = [
        tuple(op.get_attr('dilations'))[1:3]
        for op in graph.get_operations()
        if op.type == 'Conv2D' and tuple(op.get_attr('dilations')) != (1, 1, 1, 1)
    ]
    # A first unit sees what its strided one does; the units after it are spread. The last unit of
    # block4 has twice its rate, by multi_grid.
    assert rates == [(2, 2), (8, 8)]
