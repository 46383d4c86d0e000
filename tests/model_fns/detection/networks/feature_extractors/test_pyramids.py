from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns import layers
from model_fns.backbones import registry
from model_fns.detection.networks.feature_extractors import extractor, pyramids
from tests.model_fns.detection import slow_networks
from tests.model_fns.detection.extractor_configs import check_padding, shapes_of
from tests.model_fns.detection.slow_networks import enlarged, layer, relu6

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1

STYLE = layers.LayerStyle(
    activation=tf.nn.relu6, batch_norm=layers.BatchNorm(scale=True), regularizer=layers.l2(0.1)
)
SETTINGS = extractor.Settings(style=STYLE, min_depth=4, padding='FIXED')
NETWORK = registry.Network(
    name='net', scope='net', features=None, style=None, feature_maps={4: 'a', 8: 'b', 16: 'c'}
)


def _end_points():
    random = np.random.RandomState(0)
    sizes = {'a': (9, 14, 3), 'b': (5, 7, 4), 'c': (3, 4, 5)}
    return {
        name: tf.constant(random.normal(size=[2, *size]), tf.float32)
        for name, size in sizes.items()
    }


@pytest.mark.parametrize('type_name', ['net', 'net_keras'])
@pytest.mark.parametrize('use_depthwise', [False, True])
def test_a_pyramid_equals_its_definition(use_depthwise, type_name):
    settings = dataclasses.replace(SETTINGS, use_depthwise=use_depthwise, type_name=type_name)
    with tf.Graph().as_default(), tf1.Session() as session:
        maps = list(_end_points().values())
        levels = pyramids.feature_pyramid(maps, settings, 6, ['up_1', 'up_2'])
        values = slow_networks.randomize(session)
        (fine, middle, coarse), actual = session.run([maps, levels])
    top = layer(coarse, values, 'fpn/projection_3')
    sum_2 = enlarged(top)[:, :5, :7] + layer(middle, values, 'fpn/projection_2')
    smoothed = relu6(layer(sum_2, values, 'fpn/smoothing_2'))
    # The sum itself is passed down; in the networks of TensorFlow 2 its smoothed version is.
    down = smoothed if type_name == 'net_keras' else sum_2
    sum_1 = enlarged(down)[:, :9, :14] + layer(fine, values, 'fpn/projection_1')
    up_1 = relu6(layer(top, values, 'fpn/up_1', stride=2))
    expected = [
        relu6(layer(sum_1, values, 'fpn/smoothing_1')),
        smoothed,
        top,
        up_1,
        relu6(layer(up_1, values, 'fpn/up_2', stride=2)),
    ]
    assert [one.shape[1:] for one in actual] == [
        (9, 14, 6),
        (5, 7, 6),
        (3, 4, 6),
        (2, 2, 6),
        (1, 1, 6),
    ]
    for level, (ours, slow) in enumerate(zip(actual, expected)):
        np.testing.assert_allclose(ours, slow, rtol=1e-4, atol=1e-3, err_msg=str(level))


@pytest.mark.parametrize(
    'pyramid, names, sizes',
    [
        (extractor.Pyramid(2, 4, 8), [], [9, 5, 3]),
        (extractor.Pyramid(3, 6, 8), ['bottom_up_21', 'bottom_up_22'], [5, 3, 2, 1]),
        (extractor.Pyramid(4, 4, 8), [], [3]),
        (extractor.Pyramid(2, 3, 8), [], [9, 5]),
        (None, [f'bottom_up_{number}' for number in (21, 22, 23)], [5, 3, 2, 1, 1]),
    ],
)
def test_levels_are_those_that_are_asked_for(pyramid, names, sizes):
    settings = dataclasses.replace(SETTINGS, pyramid=pyramid, depth_multiplier=0.5)
    with tf.Graph().as_default():
        maps = pyramids.tapped_pyramid(_end_points(), NETWORK, settings, 'bottom_up_{}', 21)
        scopes = {v.op.name.split('/')[2] for v in tf1.global_variables()}
    assert [one.shape[1] for one in maps] == sizes
    assert {one.shape[-1] for one in maps} == {4 if pyramid else 128}
    assert sorted(scope for scope in scopes if scope.startswith('bottom')) == names
    tapped = len(sizes) - len(names)
    assert sum(scope.startswith('projection_') for scope in scopes) == tapped
    assert sum(scope.startswith('smoothing_') for scope in scopes) == tapped - 1


@pytest.mark.parametrize(
    'pyramid, message',
    [
        (extractor.Pyramid(1, 4), r'fpn\.min_level: got 1; expected one of 2, 3, 4'),
        (extractor.Pyramid(5, 7), r'fpn\.min_level: got 5'),
        (extractor.Pyramid(3, 2), r'fpn\.max_level: got 2; expected min_level, 3, or more'),
    ],
)
def test_impossible_levels(pyramid, message):
    settings = dataclasses.replace(SETTINGS, pyramid=pyramid)
    with tf.Graph().as_default(), pytest.raises(errors.ConfigError, match=message):
        pyramids.tapped_pyramid(_end_points(), NETWORK, settings, 'x_{}', 1)


def test_projections_have_biases_and_the_rest_batch_norm():
    with tf.Graph().as_default():
        pyramids.feature_pyramid(list(_end_points().values()), SETTINGS, 6, ['up'])
        names = {v.op.name for v in tf1.global_variables()}
        assert len(tf1.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)) == 6
    assert {name.split('/')[1] for name in names if name.endswith('biases')} == {
        'projection_1',
        'projection_2',
        'projection_3',
    }
    assert {name.split('/')[1] for name in names if name.endswith('gamma')} == {
        'smoothing_1',
        'smoothing_2',
        'up',
    }


@pytest.mark.parametrize('shape', [[2, 3, 4, 1], [None, None, None, 1]])
@pytest.mark.parametrize('factor', [2, 4])
def test_enlarging_repeats_values(shape, factor):
    image = np.arange(24, dtype=np.float32).reshape(2, 3, 4, 1)
    with tf.Graph().as_default(), tf1.Session() as session:
        holder = tf1.placeholder(tf.float32, shape)
        value = session.run(layers.enlarge(holder, factor), {holder: image})
    np.testing.assert_array_equal(value, enlarged(image, factor))


def test_a_pyramid_of_unknown_size_is_cut_to_the_finer_map():
    fine, coarse = np.zeros([1, 5, 7, 3], np.float32), np.zeros([1, 3, 4, 3], np.float32)
    with tf.Graph().as_default(), tf1.Session() as session:
        maps = [tf1.placeholder(tf.float32, [1, None, None, 3]) for _ in range(2)]
        levels = pyramids.feature_pyramid(maps, SETTINGS, 4, [])
        slow_networks.randomize(session)
        values = session.run(levels, dict(zip(maps, (fine, coarse))))
    assert [value.shape for value in values] == [(1, 5, 7, 4), (1, 3, 4, 4)]


@pytest.mark.parametrize(
    'kind, lite, last, coarse, fine',
    [
        ('ssd_mobilenet_v1_fpn', False, 512, 'Conv2d_14', 64),
        ('ssd_mobilenet_v1_fpn', True, 128, 'Conv2d_14', 64),
        ('ssd_mobilenet_v2_fpn', False, 640, 'Conv2d_20', 24),
        ('ssd_mobilenet_v2_fpn', True, 128, 'Conv2d_20', 24),
        ('ssd_resnet50_v1_fpn', False, 1024, 'block5', 128),
    ],
)
def test_pyramids(kind, lite, last, coarse, fine):
    fields = f"""type: '{kind}' depth_multiplier: 0.5 min_depth: 24
        use_depthwise: {str(lite).lower()}
        fpn {{ min_level: 2 max_level: 6 additional_layer_depth: 80 }}"""
    explicit = 'resnet' not in kind and lite
    fields += f' use_explicit_padding: {str(explicit).lower()}'
    made = shapes_of(fields, (160, 192))
    sizes = [(40, 48), (20, 24), (10, 12), (5, 6), (3, 3)]
    assert made.maps == [(*size, 40) for size in sizes]
    by_name = {name.split('/', 1)[1]: shape for name, shape in made.variables.items()}
    # Projections are numbered from the finest, whatever its level.
    assert by_name['fpn/projection_4/weights'] == (1, 1, last, 40)
    assert by_name['fpn/projection_1/weights'] == (1, 1, fine, 40)
    kernel = 'depthwise_weights' if lite else 'weights'
    assert by_name[f'fpn/bottom_up_{coarse}/{kernel}'] == (3, 3, 40, 1 if lite else 40)
    assert by_name[f'fpn/smoothing_3/{kernel}'] == (3, 3, 40, 1 if lite else 40)
    if explicit:
        check_padding(made.graph)


def test_pooling_pyramids():
    made = shapes_of("type: 'ssd_mobilenet_v1_ppn' num_layers: 3", (64, 96))
    assert made.maps == [(4, 6, 512), (2, 3, 512), (1, 2, 512)]
    made = shapes_of("type: 'ssd_resnet50_v1_ppn'", (300, 300))
    assert made.maps == [(size, size, 1024) for size in (19, 10, 5, 3, 2, 1)]
    assert made.variables['resnet_v1_50/Base_Conv2d_1x1_1024/weights'] == (1, 1, 1024, 1024)
    # The last block is in published checkpoints, and not used here.
    assert 'resnet_v1_50/block4/unit_3/bottleneck_v1/conv3/weights' in made.variables
