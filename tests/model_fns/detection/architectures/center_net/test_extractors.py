"""Feature extractors against the networks of Keras, and what is said of configs of others."""

import importlib

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.config.section import Section
from model_fns.backbones import registry, resnet_v2
from model_fns.detection.architectures.center_net import extractors
from model_fns.detection.networks.feature_extractors import general
from protos import center_net_pb2
from tests.model_fns.backbones import slow_layers

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1


def find(text, resizer='fixed_shape_resizer { height: 64 width: 96 }'):
    config = text_format.Parse(
        f'feature_extractor {{ {text} }} image_resizer {{ {resizer} }}', center_net_pb2.CenterNet()
    )
    return extractors.find(Section(config, 'model'))


def built(extractor, is_training=False, size=(32, 64)):
    """Return the shapes of the maps, and of the variables by name."""
    with tf.Graph().as_default() as graph:
        maps = extractor.extract(tf.zeros([1, *size, 3]), is_training)
        updates = len(graph.get_collection(tf1.GraphKeys.UPDATE_OPS))
        variables = {one.op.name: one.shape.as_list() for one in tf1.global_variables()}
        return [one.shape.as_list() for one in maps], variables, updates


def keras_network(units):
    """Build a preactivated network of Keras with some units in each block and random weights."""
    keras = importlib.import_module('keras.src.applications.resnet')
    # Keras 2 and 3 name it differently.
    stack2 = getattr(keras, 'stack2', None) or keras.stack_residual_blocks_v2

    def stack(features):
        strides = [2] * (len(units) - 1) + [1]
        for index, (count, stride) in enumerate(zip(units, strides)):
            width = 64 * 2**index
            features = stack2(features, width, count, stride, name=f'conv{index + 2}')
        return features

    network = keras.ResNet(stack, True, True, include_top=False, weights=None)
    random = np.random.RandomState(0)
    for variable in network.variables:
        shape = tuple(variable.shape)
        if len(shape) == 4:
            value = random.normal(size=shape) * np.sqrt(2 / np.prod(shape[:3]))
        else:
            is_scale = variable.name.partition(':')[0].endswith(('gamma', 'moving_variance'))
            value = random.uniform(0.5, 1.5, shape) if is_scale else random.normal(size=shape) / 10
        variable.assign(value.astype(np.float32))
    return network


def test_resnet_v2_is_that_of_keras(monkeypatch):
    """Its padding, its strides, and the order that its layers are counted in."""
    units = (2, 3, 2)
    monkeypatch.setitem(resnet_v2.ARCHITECTURES, 'resnet_v2_50', units)
    images = np.random.RandomState(1).normal(size=[1, 64, 64, 3]).astype(np.float32)
    network = keras_network(units)
    tap = network.get_layer(f'conv{len(units) + 1}_block{units[-1]}_out').output
    expected = tf.keras.Model(network.input, tap)(images).numpy()
    leaves = ('kernel', 'bias', 'gamma', 'beta', 'moving_mean', 'moving_variance')
    layers = [
        {
            leaf: getattr(one, leaf).numpy()
            for leaf in leaves
            if getattr(one, leaf, None) is not None
        }
        for one in network.layers
        if one.weights
    ]
    numbers = {name: number for number, name in enumerate(resnet_v2.keras_layers(units))}
    with tf.Graph().as_default(), tf1.Session() as session:
        with tf1.variable_scope('FeatureExtractor'):
            style = extractors.keras_style(extractors.Settings(), False, 1.001e-5)
            points = resnet_v2.resnet_v2_features(
                tf.constant(images),
                style.but(force_bias=False),
                registry.Options(pool_padding='FIXED'),
                'resnet_v2_50',
            )
        ours = [one for one in tf1.global_variables() if 'resnet_v2_50' in one.op.name]
        fed = {}
        for variable in ours:
            scope, _, leaf = variable.op.name.rpartition('/')
            layer = layers[numbers[scope.partition('resnet_v2_50/')[2]]]
            leaf = {'weights': 'kernel', 'biases': 'bias'}.get(leaf, leaf)
            fed[variable.initializer.inputs[1]] = layer[leaf]
        session.run([one.initializer for one in ours], fed)
        found = session.run(points[f'resnet_v2_50/block{len(units)}'])
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())


def test_published_types_are_known():
    others = {f'{name}_fpn' for name in general.NETWORKS}
    assert others < set(extractors.EXTRACTORS)
    assert set(extractors.EXTRACTORS) - others == {
        *(f'hourglass_{depth}' for depth in (10, 20, 32, 52, 100, 104)),
        *(f'resnet_v1_{depth}_fpn' for depth in (18, 34, 50, 101)),
        *('resnet_v2_50', 'resnet_v2_101'),
        *('mobilenet_v2', 'mobilenet_v2_fpn', 'mobilenet_v2_fpn_sep_conv'),
    }


def test_small_resnets_have_three_levels_more():
    maps, variables, updates = built(find('type: "resnet_v1_18_fpn"'), is_training=True)
    assert maps == [[1, 8, 16, 64]]
    scope = 'FeatureExtractor/resnet_v1_18'
    unit = f'{scope}/block1/unit_1/basic_v2'
    assert variables[f'{unit}/shortcut/weights'] == [1, 1, 64, 64]
    assert variables[f'{unit}/conv2/weights'] == [3, 3, 64, 64]
    assert f'{unit}/conv2/biases' not in variables
    assert f'{scope}/block2/unit_2/basic_v2/shortcut/weights' not in variables
    assert variables['FeatureExtractor/fpn/smoothing_1/weights'] == [3, 3, 256, 128]
    # The last normalization of the backbone has variables, and no statistics to follow.
    assert f'{scope}/postnorm/gamma' in variables
    assert updates == 2 * (8 * 3 + 3)


def test_mobilenets():
    text = 'type: "mobilenet_v2_fpn_sep_conv" depth_multiplier: 0.25 use_separable_conv: true'
    maps, variables, _ = built(find(f'{text} upsampling_interpolation: "bilinear"'))
    assert maps == [[1, 8, 16, 24]]
    assert variables['FeatureExtractor/MobilenetV2/Conv_1/weights'] == [1, 1, 80, 320]
    assert variables['FeatureExtractor/fpn/top/weights'] == [1, 1, 320, 64]
    # Strides 16, 8 and 4: the second of these is block 5, the first block 9.
    laterals = [variables[f'FeatureExtractor/fpn/lateral_{index}/weights'] for index in (1, 2, 3)]
    assert laterals == [[1, 1, 16, 64], [1, 1, 8, 32], [1, 1, 8, 24]]
    assert variables['FeatureExtractor/fpn/smoothing_3/depthwise_weights'] == [3, 3, 24, 1]
    assert variables['FeatureExtractor/fpn/smoothing_3/pointwise_weights'] == [1, 1, 24, 24]
    maps, variables, _ = built(find('type: "mobilenet_v2" depth_multiplier: 1.5'))
    assert maps == [[1, 8, 16, 64]]
    assert variables['FeatureExtractor/MobilenetV2/Conv_1/weights'][-1] == 1280
    assert variables['FeatureExtractor/upsampling/conv_1/weights'] == [1, 1, 1280, 256]
    assert variables['FeatureExtractor/upsampling/transposed_3/weights'] == [3, 3, 64, 64]


@pytest.mark.usefixtures('initial_values')
def test_a_level_is_enlarged_added_and_smoothed():
    random = np.random.RandomState(0)
    fine, coarse = (random.normal(size=[1, side, side, 2]).astype(np.float32) for side in (4, 2))
    levels = [np.zeros([1, 16, 16, 2], np.float32), np.zeros([1, 8, 8, 2], np.float32)]
    with tf.Graph().as_default(), tf1.Session() as session:
        kind = extractors.EXTRACTORS.get('mobilenet_v2_fpn')
        maps = [tf.constant(one) for one in (*levels, fine, coarse)]
        kind.up(maps, extractors.Settings(), False)
        session.run(tf1.global_variables_initializer())
        graph = tf1.get_default_graph()
        values = session.run({one.op.name: one for one in tf1.global_variables()})
        first = graph.get_tensor_by_name('fpn/smoothing_1/Relu:0')
        found = session.run(first)
    top = coarse @ values['fpn/top/weights'][0, 0]
    summed = top.repeat(2, axis=1).repeat(2, axis=2) + fine @ values['fpn/lateral_1/weights'][0, 0]
    expected = slow_layers.conv2d(summed, values['fpn/smoothing_1/weights']) / np.sqrt(1.001)
    np.testing.assert_allclose(found, slow_layers.relu(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    'text, settings, expected',
    [
        ('hourglass_10', '', [10, 20, 30]),
        (
            'hourglass_10',
            'bgr_ordering: true channel_means: [1, 2, 3] channel_stds: [1, 2, 4]',
            [29, 9, 1.75],
        ),
        ('resnet_v2_50', '', [10 / 127.5 - 1, 20 / 127.5 - 1, 30 / 127.5 - 1]),
        ('resnet_v1_50_fpn', '', [30 - 103.939, 20 - 116.779, 10 - 123.68]),
        ('efficientnetv2_s_fpn', '', [10 / 127.5 - 1, 20 / 127.5 - 1, 30 / 127.5 - 1]),
    ],
)
def test_pixels(text, settings, expected):
    with tf.Graph().as_default(), tf1.Session() as session:
        extractor = find(f'type: "{text}" {settings}')
        found = session.run(extractor.preprocess(tf.constant([[[[10.0, 20.0, 30.0]]]])))
    np.testing.assert_allclose(found[0, 0, 0], expected, rtol=1e-5)


@pytest.mark.parametrize('name', ['resnet_v1_5_18', 'convnext_tiny'])
def test_networks_of_today_have_a_pyramid(name):
    extractor = find(f'type: "{name}_fpn"')
    with tf.Graph().as_default() as graph:
        images = tf1.placeholder(tf.float32, [1, 64, 96, 3])
        (features,) = extractor.extract(extractor.preprocess(images), is_training=True)
        assert not graph.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)
        names = {variable.op.name for variable in tf1.global_variables()}
    assert features.shape == [1, 16, 24, 64]
    scope = f'FeatureExtractor/{extractor.base_scope}/'
    assert any(each.startswith(scope) for each in names)
    # They start from weights by name, unlike the residual networks of Keras.
    assert not extractor.kind.is_resnet


def test_the_decay_of_statistics_is_that_of_the_type_or_of_the_config():
    style = extractors.keras_style(extractors.Settings(), True)
    assert style.batch_norm.decay == 0.99
    decay = find('type: "hourglass_10" batch_norm_decay: 0.75').settings.applied(style)
    assert decay.batch_norm.decay == 0.75


@pytest.mark.parametrize(
    'text, resizer, message',
    [
        (
            'type: "hourglas_10"',
            'fixed_shape_resizer { height: 64 width: 64 }',
            "model.feature_extractor.type: unknown feature extractor 'hourglas_10'",
        ),
        (
            'type: "hourglass_104" depth_multiplier: 0.5',
            'fixed_shape_resizer { height: 128 width: 128 }',
            'model.feature_extractor.depth_multiplier: hourglass_104 has none; expected a type tha',
        ),
        (
            'type: "hourglass_104"',
            'fixed_shape_resizer { height: 128 width: 500 }',
            'fixed_shape_resizer.width: 500; expected a multiple of 128, 512 say.',
        ),
        (
            'type: "resnet_v2_50"',
            'keep_aspect_ratio_resizer { min_dimension: 64 max_dimension: 64 }',
            'keep_aspect_ratio_resizer: inputs of any size, and the feature extractor needs multi',
        ),
        (
            'type: "resnet_v2_50"',
            'pad_to_multiple_resizer { multiple: 32 convert_to_grayscale: true }',
            'pad_to_multiple_resizer.convert_to_grayscale: true; images have three channels here',
        ),
    ],
)
def test_what_does_not_fit_is_said(text, resizer, message):
    with pytest.raises(errors.ConfigError) as caught:
        find(text, resizer)
    assert message in str(caught.value)


def test_basic_units_are_counted():
    assert resnet_v2.basic_v2.__name__ == 'basic_v2'
    counts = {scope: sum(units) for scope, units in extractors.BASIC_UNITS.items()}
    # Two convolutions a unit, the root's, and the layer of a classifier.
    assert {scope: 2 * count + 2 for scope, count in counts.items()} == {
        'resnet_v1_18': 18,
        'resnet_v1_34': 34,
    }
