import types
from unittest import mock

import pytest

from model_fns.backbones import registry
from model_fns.backbones.hub_weights import family, resnet
from model_fns.backbones.modern import resnet_v1_5
from tests.model_fns.backbones.hub_weights import drawn_weights, recorded_weights

# Logits of torchvision 0.29's `ResNet(block, [1, 2, 1, 1], num_classes=10)`, see `drawn_weights`.
BOTTLENECKS = """
    0.70241 1.55206 -0.40607 -0.21407 2.17387 0.74274 -0.15422 0.57872 0.34608 0.79733
    3.04373 4.36599 -0.36180 -0.68926 6.68546 2.77787 -0.23324 1.26416 0.21614 3.15702
"""
BASIC = """
    1.54897 0.61914 -0.43161 -0.41629 2.90591 0.45564 0.82299 0.16704 -1.38624 -1.64751
    4.75051 1.43448 -1.56895 -0.23425 8.92234 1.40444 3.03099 -0.21018 -3.01071 -4.43447
"""
UNITS = (1, 2, 1, 1)


def shapes(deep):
    """List the tensors of torchvision's ResNet with these units."""

    def list_tensors():
        yield 'conv1.weight', (64, 3, 7, 7)
        yield from drawn_weights.norm('bn1', 64)
        inputs = 64
        for index, count in enumerate(UNITS):
            width = 64 * 2**index
            outputs = 4 * width if deep else width
            kernels = [(width, 1), (width, 3), (outputs, 1)] if deep else [(width, 3), (width, 3)]
            for unit in range(count):
                name = f'layer{index + 1}.{unit}'
                depth = inputs
                for number, (channels, kernel) in enumerate(kernels, start=1):
                    yield f'{name}.conv{number}.weight', (channels, depth, kernel, kernel)
                    yield from drawn_weights.norm(f'{name}.bn{number}', channels)
                    depth = channels
                if inputs != outputs:
                    yield f'{name}.downsample.0.weight', (outputs, inputs, 1, 1)
                    yield from drawn_weights.norm(f'{name}.downsample.1', outputs)
                inputs = outputs
        yield from drawn_weights.layer('fc', (10, inputs))

    return dict(list_tensors())


@pytest.mark.parametrize(
    ('deep', 'name', 'expected'),
    [(True, 'resnet_v1_5_50', BOTTLENECKS), (False, 'resnet_v1_5_18', BASIC)],
)
def test_logits_are_those_of_torchvision(deep, name, expected):
    tensors = drawn_weights.draw(shapes(deep))
    units = types.MappingProxyType({name: UNITS})
    sizes = {(sum(UNITS), deep): int(name.rpartition('_')[2])}
    with mock.patch.object(resnet_v1_5, 'UNITS', units), mock.patch.object(resnet, '_SIZES', sizes):
        recorded_weights.check_drawn(name, tensors, (65, 97), expected)


@pytest.mark.parametrize(
    ('model', 'units', 'deep'),
    [
        ('resnet18', (2, 2, 2, 2), False),
        ('resnet34', (3, 4, 6, 3), False),
        ('resnet50', (3, 4, 6, 3), True),
        ('resnet101', (3, 4, 23, 3), True),
        ('resnet152', (3, 8, 36, 3), True),
    ],
)
def test_a_model_is_known_by_its_units(model, units, deep):
    modules = {
        f'layer{layer}.{unit}.conv{number}': (64, 64, 1, 1)
        for layer, count in enumerate(units, start=1)
        for unit in range(count)
        for number in range(1, 4 if deep else 3)
    }
    modules['layer2.0.downsample.1'] = (512,)
    found = resnet.RESNET.scopes(modules)
    kind = 'bottleneck_v1_5' if deep else 'basic_v1_5'
    name = resnet.RESNET.networks[model]
    assert registry.get_network(name).scope == name
    assert found['layer4.1.conv2'] == f'{name}/block4/unit_2/{kind}/conv2'
    assert found['layer2.0.downsample.1'] == f'{name}/block2/unit_1/{kind}/shortcut/BatchNorm'
    assert set(modules) < set(found)


@pytest.mark.parametrize('name', ['layer1.0.se.fc1.weight', 'layer1.0.conv1.weight'])
def test_another_network(name):
    with pytest.raises(family.UnknownNameError, match='^layer1'):
        family.map_tensors(resnet.RESNET, {name: (64, 64, 1, 1)})
