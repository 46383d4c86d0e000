from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from model_fns.backbones import registry
from model_fns.backbones.searched import nasnet, pnasnet
from model_fns.layers import forward_pass
from tests.model_fns.backbones import recorded_backbones
from tests.model_fns.backbones.searched import slow_cells

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1

TINY = nasnet.Architecture(
    cells=3, channels=8, stem_channels=5, normal=pnasnet.CELL, reduction=None, second_stage=2
)


@pytest.mark.parametrize(
    'name, millions',
    [pytest.param('pnasnet_large', 86.1, marks=pytest.mark.published), ('pnasnet_mobile', 5.1)],
)
def test_parameters_are_those_of_the_paper(name, millions):
    built = recorded_backbones.build(name, (64, 64), False, num_classes=1001)
    assert round(recorded_backbones.parameters_of(built.graph) / 1e6, 1) == millions
    maps = registry.get_network(name, task='detection').feature_maps
    assert {stride: built.end_points[point].shape[1] for stride, point in maps.items()} == {
        stride: 64 // stride for stride in maps
    }
    assert max(maps) == 32
    if name == 'pnasnet_mobile':  # 27 channels are 13 and 14, as slim's factorized_reduction has it
        shapes = recorded_backbones.variables_of(built.graph)
        paths = [shapes[f'cell_stem_1/path{index}_conv/weights'][0][-1] for index in (1, 2)]
        assert paths == [13, 14]


def test_computes_what_its_definition_says():
    images = np.random.RandomState(0).uniform(-1.0, 1.0, [2, 35, 27, 3]).astype(np.float32)
    style = nasnet.nasnet_style(False, registry.Options(), TINY)
    with tf.Graph().as_default(), tf1.Session() as session:
        end_points = nasnet.nasnet_features(tf.constant(images), style, registry.Options(), TINY)
        recorded_backbones.set_weights(session)
        values = session.run(end_points)
        variables = session.run({v.op.name: v for v in tf1.global_variables()})
    slow = slow_cells.SlowCells(variables, 8)
    stem = slow_cells.unpadded(images, variables['conv0/weights'])
    maps = [slow.norm(stem, 'conv0_bn')]
    for scope, channels, stride in (
        ('cell_stem_0', 2, 2),
        ('cell_stem_1', 4, 2),
        ('cell_0', 8, 1),
        ('cell_1', 16, 2),
        ('cell_2', 32, 2),
    ):
        previous = maps[-2] if maps[1:] else None
        matched = slow.nasnet_previous(maps[-1], previous, scope, channels)
        maps.append(slow.pnasnet(maps[-1], matched, scope, channels, stride))
    assert list(values) == ['Stem', 'Cell_0', 'Cell_1', 'Cell_2']
    for value, expected, name in zip(values.values(), maps[2:], values):
        recorded_backbones.assert_close(value, expected, 1e-4, name)
    assert [value.shape[1:] for value in values.values()] == [
        (5, 4, 20),
        (5, 4, 40),
        (3, 2, 80),
        (2, 1, 160),
    ]


def test_stages_of_a_detector():
    network = registry.get_network('pnasnet_large')
    style = network.style(True, registry.Options())
    with tf.Graph().as_default() as graph:
        crops = tf1.placeholder(tf.float32, [None, 17, 17, 4320])
        outputs = network.second_stage(crops, style.frozen())
        scopes = {variable.op.name.split('/')[0] for variable in tf1.global_variables()}
        strided = graph.get_tensor_by_name('cell_8/comb_iter_4/right/1x1/Conv2D:0')
        assert not tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)
    assert outputs.shape.as_list() == [None, 9, 9, 4320]
    assert scopes == {'cell_8', 'cell_9', 'cell_10', 'cell_11'}
    assert strided.shape.as_list() == [None, 9, 9, 864]
    drawn = [op for op in graph.get_operations() if op.type == 'StatelessRandomUniformV2']
    assert sum('drop_path' in op.name for op in drawn) == 4


@pytest.mark.usefixtures('initial_values')
def test_second_stage_goes_on_where_the_first_ends():
    architecture = dataclasses.replace(TINY, cells=6, second_stage=4)
    style, options = nasnet.nasnet_style(False, registry.Options(), TINY), registry.Options()
    images = tf.random.stateless_uniform([1, 67, 67, 3], [1, 2], -1.0, 1.0)
    store = forward_pass.VariableStore()
    with store.forward_pass(0):
        whole = nasnet.nasnet_features(images, style, options, architecture)
        first = nasnet.first_stage(images, style, options, architecture)
        second = nasnet.second_stage(first, style, architecture)
    both = np.concatenate([whole['Cell_2'], whole['Cell_3']], 3)
    recorded_backbones.assert_close(first, both, 1e-5, 'first stage')
    recorded_backbones.assert_close(second, tf.nn.relu(whole['Cell_5']), 1e-4, 'second stage')
    assert np.abs(second).max() > 0.0
