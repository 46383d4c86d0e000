"""The one description of each network: which tasks have it, and where its feature maps are."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns.backbones import registry
from model_fns.layers import forward_pass
from tests.model_fns.backbones import recorded_backbones

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1

# Convolutions without padding make maps smaller than the image over the stride: sizes at 299
# pixels, from the tables of the papers.
UNPADDED = {8: 35, 16: 17, 32: 8}
# One of each family that is not listed; the others differ in width and depth. Those of large graphs
# are looked at where these are built anyway: pnasnet_mobile and nas_pnasnet in `searched`.
PADDED = (
    'mobilenet_v3_large_det',
    'mobiledet_cpu',
    'efficientnet_b0',
    'resnet_v1_18',
    'resnet_v2_50',
    'vgg_a',
    *(pytest.param(name, marks=pytest.mark.published) for name in ('xception_71', 'nasnet_cifar')),
)
# `test_published_networks` compares the end points of these with the lists.
LISTED = (
    'cifarnet',
    'inception_resnet_v2',
    'inception_v1',
    'inception_v2',
    'inception_v3',
    'inception_v4',
    'lenet',
    'mobilenet_v1',
    'mobilenet_v2_035',
    'mobilenet_v3_small',
    'nasnet_mobile',
)


def _maps(name, size, options=None):
    """The heights of the maps that a network's description names, by stride, and their depths."""
    network = registry.get_network(name, task='detection')
    options = options or registry.Options()
    with tf.Graph().as_default():
        images = tf1.placeholder(tf.float32, [1, size, size, network.image_channels])
        end_points = network.features(images, network.style(False, options), options)
        variables = tf1.global_variables()
    if network.scope:
        assert {variable.op.name.split('/')[0] for variable in variables} == {network.scope}
    return {stride: end_points[point].shape[1] for stride, point in network.feature_maps.items()}


@pytest.mark.parametrize('name', PADDED)
def test_feature_maps_have_their_stride(name):
    options = registry.Options(subsample_after='resnet' in name)
    maps = _maps(name, 64, options)
    assert maps == {stride: 64 // stride for stride in maps}
    assert max(maps) == (4 if name == 'nasnet_cifar' else 32)


@pytest.mark.parametrize('name', LISTED)
def test_listed_feature_maps_have_their_stride(name):
    listed = recorded_backbones.variable_list(name)
    sizes = {point: shape[1] for point, shape in listed['end_points'] if len(shape) == 4}
    maps = registry.get_network(name, task='detection').feature_maps
    found = {stride: sizes[point] for stride, point in maps.items()}
    if name in ('inception_v3', 'inception_v4', 'inception_resnet_v2'):
        assert found.items() >= UNPADDED.items()
    else:
        assert found == {stride: -(-listed['input'][0] // stride) for stride in maps}


@pytest.mark.parametrize(
    'name, task, message',
    [
        ('resnet_v1_18', 'classification', r"x: unknown backbone 'resnet_v1_18'; did you mean"),
        ('vgg_16', 'segmentation', r"x: unknown segmentation backbone 'vgg_16'"),
        ('mobilnet_v2', 'classification', r"did you mean 'mobilenet_v2'\?"),
    ],
)
def test_a_network_of_another_task_is_refused(name, task, message):
    with pytest.raises(errors.ConfigError, match=message):
        registry.get_network(name, 'x', task)


@pytest.mark.parametrize(
    'name, expected',
    [
        ('mobilenet_v1', [-1.0, 0.0, 1.0]),
        ('resnet_v1_50', [-123.68, 127.5 - 116.779, 255.0 - 103.939]),
        ('vgg_16', [-123.68, 127.5 - 116.779, 255.0 - 103.939]),
        ('efficientnet_b0', [-0.485 / 0.229, (0.5 - 0.456) / 0.224, (1 - 0.406) / 0.225]),
    ],
)
def test_normalization_by_hand(name, expected):
    normalized = registry.get_network(name).normalization(tf.constant([0.0, 127.5, 255.0]))
    np.testing.assert_allclose(normalized.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_means_are_those_of_colors():
    luminance = tf.constant([[3.0]])
    for name in ('resnet_v1_50', 'efficientnet_b0'):
        assert registry.get_network(name).normalization(luminance) is luminance
    assert registry.get_network('mobilenet_v1').normalization(luminance) == 3 * 2 / 255 - 1


@pytest.mark.parametrize(
    'name, channels, outputs, part',
    [
        ('resnet_v1_50', 1024, [2, 7, 7, 2048], 'block4'),
        ('inception_v2', 576, [2, 4, 4, 1024], 'Mixed_5'),
        ('inception_resnet_v2', 1088, [2, 3, 3, 1536], ''),  # without padding
    ],
)
def test_second_stages(name, channels, outputs, part):
    network = registry.get_network(name)
    with tf.Graph().as_default():
        crops = tf1.placeholder(tf.float32, [2, 7, 7, channels])
        style = network.style(False, registry.Options())
        assert network.second_stage(crops, style).shape == outputs
        names = [variable.op.name for variable in tf1.global_variables()]
    assert names and all(name.startswith(f'{network.scope}/{part}') for name in names)


@pytest.mark.parametrize('name', ['mobilenet_v1', 'mobilenet_v2', 'mobilenet_v3_large_det'])
def test_detection_has_its_own_style(name):
    network = registry.get_network(name, task='detection')
    style = network.detection_style(True, registry.Options())
    assert style.batch_norm.decay == 0.9997
    assert style.regularize_depthwise == (name == 'mobilenet_v1')


def test_options_that_changed():
    options = registry.Options(min_depth=8).but(multi_grid=(1, 2))
    assert options.changed() == ('min_depth', 'multi_grid')
    assert options.get('min_depth', 16) == 8 and options.get('weight_decay', 0.1) == 0.1


def test_a_name_is_registered_once():
    with pytest.raises(ValueError, match="backbone 'mobilenet_v2' is registered twice"):
        registry.add(registry.get_network('mobilenet_v2'))


@pytest.mark.usefixtures('initial_values')
@pytest.mark.parametrize(
    'name, dtype, bound',
    [
        # Not in float16: with untrained statistics its last maps are below that type's range.
        pytest.param('mobilenet_v3_small', 'bfloat16', 0.1, marks=pytest.mark.bfloat16),
        pytest.param('resnet_v1_18', 'bfloat16', 0.1, marks=pytest.mark.bfloat16),
        ('resnet_v1_18', 'float16', 0.05),
        pytest.param('cifarnet', 'bfloat16', 0.1, marks=pytest.mark.bfloat16),
        ('cifarnet', 'float16', 0.05),
    ],
)
def test_features_in_low_precision_follow_float32(name, dtype, bound):
    network = registry.get_network(name, task='detection')
    images = tf.constant(np.random.RandomState(0).uniform(-1.0, 1.0, [1, 33, 33, 3]), tf.float32)
    store = forward_pass.VariableStore()
    found = []
    for compute_dtype in (tf.float32, tf.as_dtype(dtype)):
        options = registry.Options(compute_dtype=compute_dtype)
        style = network.style(False, options).but(compute_dtype=compute_dtype)
        with store.forward_pass(0):
            end_points = network.features(images, style, options)
        last = end_points[max(network.feature_maps.items())[1]]
        assert {value.dtype for value in end_points.values()} == {compute_dtype}
        found.append(tf.cast(last, tf.float32).numpy())
    exact, rounded = found
    assert np.abs(exact).max() > 0.0
    np.testing.assert_allclose(rounded, exact, rtol=0, atol=bound * np.abs(exact).max())
    assert not np.array_equal(rounded, exact)
