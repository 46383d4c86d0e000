from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf

from model_fns.backbones import mobilenet_parts, mobilenet_v3, registry
from tests.model_fns.backbones import recorded_backbones

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1


def _features(images, architecture, **options):
    style = mobilenet_parts.mobilenet_style(False, registry.Options())
    return mobilenet_v3.mobilenet_v3_features(
        architecture, images, style, registry.Options(**options)
    )


# Tables 3 and 4 of the paper and the published list of checkpoints, in millions.
@pytest.mark.parametrize(
    'name, depth_multiplier, millions',
    [
        ('mobilenet_v3_large', 0.75, 4.0),
        pytest.param('mobilenet_v3_large_minimalistic', 1.0, 3.9, marks=pytest.mark.published),
        pytest.param('mobilenet_v3_small', 0.75, 2.0, marks=pytest.mark.published),
        ('mobilenet_edgetpu', 1.0, 4.1),
    ],
)
def test_parameter_counts_of_the_paper(name, depth_multiplier, millions):
    options = registry.Options(depth_multiplier=depth_multiplier)
    count = recorded_backbones.count_parameters(name, num_classes=1001, options=options)
    assert count / 1e6 == pytest.approx(millions, abs=0.09)


def test_minimalistic_networks_have_small_filters_and_no_gates():
    full = recorded_backbones.variables_of(
        recorded_backbones.build('mobilenet_v3_small', (32, 32), False).graph
    )
    minimal = recorded_backbones.build('mobilenet_v3_small_minimalistic', (32, 32), False)
    assert recorded_backbones.variables_of(minimal.graph) == {
        name: ((3, 3, *shape[2:]) if 'depthwise_weights' in name else shape, trainable)
        for name, (shape, trainable) in full.items()
        if '/squeeze_excite/' not in name
    }
    kinds = {operation.type for operation in minimal.graph.get_operations()}
    assert 'Relu' in kinds and 'Relu6' not in kinds


def test_edgetpu_is_a_classifier_too():
    built = recorded_backbones.build('mobilenet_edgetpu_075', (32, 32), True)
    shapes = {name: value.shape.as_list() for name, value in built.end_points.items()}
    assert shapes['layer_24'] == [2, 1, 1, 1280] and shapes['layer_23'] == [2, 1, 1, 144]
    assert shapes[registry.LOGITS] == [2, 11]
    assert 'layer_3/depthwise_output' not in shapes
    variables = recorded_backbones.variables_of(built.graph)
    assert variables['MobilenetEdgeTPU/expanded_conv_1/expand/weights'] == ((3, 3, 16, 128), True)
    assert 'MobilenetEdgeTPU/expanded_conv/expand/weights' not in variables


def test_the_embedding_is_not_rounded_as_the_features_are():
    network = registry.get_network('mobilenet_v3_small')
    options = registry.Options(depth_multiplier=0.75, channel_divisor=24)
    with tf.Graph().as_default() as graph:
        style = network.style(False, options)
        network.build(tf.zeros([1, 32, 32, 3]), 11, style, options)
    shapes = {name: shape for name, (shape, _) in recorded_backbones.variables_of(graph).items()}
    assert shapes['MobilenetV3/Conv/weights'] == (3, 3, 3, 24)  # of 12
    assert shapes['MobilenetV3/Conv_2/weights'] == (1, 1, 432, 1024)  # no multiple of 24


def test_segmentation_variants_have_a_narrow_end():
    """Expanded and output channels of the last layers, as published."""
    expected = {
        'LARGE': {13: (672, 112), 14: (336, 80), 15: (480, 80), 16: (480, 80), 17: (None, 480)},
        'SMALL': {9: (144, 48), 10: (144, 48), 11: (288, 48), 12: (288, 48), 13: (None, 288)},
    }
    for name, channels in expected.items():
        architecture = getattr(mobilenet_v3, f'{name}_SEGMENTATION')
        with tf.Graph().as_default():
            end_points = _features(tf.zeros([1, 65, 65, 3]), architecture, output_stride=16)
            for index, (expanded, output) in channels.items():
                layer = f'layer_{index}'
                assert end_points[layer].shape[-1] == output
                if expanded:
                    assert end_points[f'{layer}/expansion_output'].shape[-1] == expanded
            assert end_points[architecture.last_end_point].shape[1:3] == [5, 5]


@pytest.mark.parametrize(
    'architecture',
    [mobilenet_v3.SMALL_MINIMALISTIC, mobilenet_v3.EDGETPU],
    ids=['minimalistic', 'edgetpu'],
)
def test_atrous_features_hold_the_strided_ones(architecture):
    recorded_backbones.check_atrous_features(
        functools.partial(_features, architecture=architecture, depth_multiplier=0.25),
        8,
        architecture.last_end_point,
    )


@pytest.mark.usefixtures('initial_values')
def test_every_variable_gets_a_gradient():
    options = registry.Options(depth_multiplier=0.2)
    built = recorded_backbones.build('mobilenet_v3_small', (40, 33), True, options=options)
    with built.graph.as_default(), tf1.Session() as session:
        loss = tf.reduce_mean(tf.square(built.end_points[registry.LOGITS]))
        gradients = tf.gradients(loss, tf1.trainable_variables())
        session.run(tf1.global_variables_initializer())
        images = np.random.RandomState(0).uniform(-1.0, 1.0, [2, 40, 33, 3])
        assert np.std(session.run(gradients[0], {built.images: images})) > 0.0
    assert None not in gradients
