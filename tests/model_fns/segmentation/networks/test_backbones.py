from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns.backbones import efficientnet, registry
from model_fns.layers import weighted
from model_fns.segmentation.networks import backbones
from tests.model_fns.backbones import recorded_backbones, slow_layers

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1

RESNETS = tuple(f'resnet_v1_{size}{end}' for size in (101, 18, 50) for end in ('', '_beta'))
MOBILENETS = ('mobilenet_v2', 'mobilenet_v3_large_seg', 'mobilenet_v3_small_seg')
SEARCHED = ('nas_hnasnet', 'nas_pnasnet')
XCEPTIONS = ('xception_41', 'xception_65', 'xception_71')

RESNETS_V1_5 = tuple(f'resnet_v1_5_{size}' for size in (101, 152, 18, 34, 50))
RESNETS_V2 = tuple(f'resnet_v2_{size}' for size in (101, 152, 200, 50))
EFFICIENTNETS = tuple(f'efficientnet_b{size}' for size in range(8))
CONVNEXTS = tuple(f'convnext_{size}' for size in ('base', 'small', 'tiny'))
EFFICIENTNETS_V2 = tuple(f'efficientnetv2_{size}' for size in ('b0', 'b1', 'b2', 'b3', 'm', 's'))

# (channels of the features, of the decoder taps at output strides 4, 8 and 16).
CHANNELS = {
    'convnext_tiny': (768, 96, 192, 384),
    'efficientnet_b0': (320, 24, 40, 112),
    'efficientnetv2_b0': (192, 32, 48, 112),
    'mobilenet_v2': (320, 144, 192, 576),
    'mobilenet_v3_large_seg': (480, 72, 120, 672),
    'mobilenet_v3_small_seg': (288, 16, 88, 144),
    'resnet_v1_18': (512, 64, 128, 256),
    'resnet_v1_50_beta': (2048, 256, 512, 1024),
    'resnet_v1_5_18': (512, 64, 128, 256),
    'resnet_v2_50': (2048, 256, 512, 1024),
    'xception_41': (2048, 256, 728, 1024),
}
# Of the taps at output stride 2, where there are any.
HALF = {
    'efficientnet_b0': 16,
    'mobilenet_v2': 16,
    'mobilenet_v3_small_seg': 16,
    'resnet_v1_50_beta': 128,
    'resnet_v2_50': 64,
}


def _build(name, options=None, is_training=False, shape=(2, 129, 129, 3), bounded=False):
    backbone = backbones.get_backbone(name)
    graph = tf.Graph()
    with graph.as_default():
        images = tf1.placeholder(tf.float32, shape)
        _, end_points = backbone.build(images, is_training, options, bounded)
    return recorded_backbones.Built(graph, images, end_points)


def test_knows_the_networks_of_the_published_models():
    assert registry.network_names('segmentation') == (
        *CONVNEXTS,
        *EFFICIENTNETS,
        *EFFICIENTNETS_V2,
        *MOBILENETS,
        *SEARCHED,
        *sorted((*RESNETS, *RESNETS_V1_5)),
        *RESNETS_V2,
        *XCEPTIONS,
    )


@pytest.mark.parametrize('name', CHANNELS)
def test_features_and_decoder_taps(name):
    backbone = backbones.get_backbone(name)
    with tf.Graph().as_default() as graph:
        options = registry.Options(output_stride=32)
        features, end_points = backbone.build(tf.zeros([2, 129, 193, 3]), False, options)
    channels, *tapped = CHANNELS[name]
    assert features.shape == [2, 5, 7, channels]
    taps = [end_points[backbone.decoder_tap(stride)] for stride in (4, 8, 16)]
    assert [tap.shape.as_list() for tap in taps] == [
        [2, 128 // stride + 1, 192 // stride + 1, depth]
        for stride, depth in zip((4, 8, 16), tapped)
    ]
    if name in HALF:
        assert end_points[backbone.decoder_tap(2)].shape == [2, 65, 97, HALF[name]]
    scopes = {variable.split('/')[0] for variable in recorded_backbones.variables_of(graph)}
    assert scopes == {backbone.scope}


def test_blocks_of_an_efficientnet_are_atrous_behind_the_output_stride():
    size = efficientnet.SIZES['efficientnet_b0']
    blocks = efficientnet.list_blocks(size, output_stride=8)
    # Stacks 3 and 5 stride in their first blocks, in the published network.
    shapes = {block.name: (block.stride, block.rate) for block in blocks}
    assert shapes['stack_2/block_0'] == (2, 1) and shapes['stack_3/block_0'] == (1, 1)
    assert shapes['stack_3/block_1'] == shapes['stack_5/block_0'] == (1, 2)
    assert shapes['stack_5/block_1'] == shapes['stack_6/block_0'] == (1, 4)
    assert {rate for _, rate in shapes.values()} == {1, 2, 4}
    assert all(block.rate == 1 for block in efficientnet.list_blocks(size))


def test_features_of_a_resnet_v2_are_normalized():
    """A block gives sums, which heads cannot read: negative ones count too."""
    built = _build('resnet_v2_50', registry.Options(depth_multiplier=0.125), shape=(1, 33, 33, 3))
    with tf1.Session(graph=built.graph) as session:
        recorded_backbones.set_weights(session)
        last, sums = (built.end_points[f'resnet_v2_50/{name}'] for name in ('postnorm', 'block4'))
        images = np.random.RandomState(0).uniform(-99, 99, [1, 33, 33, 3])
        last, sums = session.run((last, sums), {built.images: images})
        values = {one.op.name: session.run(one) for one in tf1.global_variables('.*postnorm')}
    expected = slow_layers.batch_norm(sums, values, 'resnet_v2_50/postnorm', 1e-5)
    np.testing.assert_allclose(last, np.maximum(expected, 0), rtol=1e-3, atol=1e-4)
    assert (sums < 0).any()


@pytest.mark.parametrize('name', ['mobilenet_v3_small_seg', 'resnet_v1_18_beta', 'xception_41'])
def test_output_stride_and_sizes_that_are_not_known(name):
    shape = (None, None, None, 3)
    for stride, height in ((None, 5), (8, 9)):
        built = _build(name, registry.Options(output_stride=stride), shape=shape)
        with tf1.Session(graph=built.graph) as session:
            recorded_backbones.set_zeros(session)
            last = built.end_points[backbones.get_backbone(name).last_end_point]
            assert last.shape.as_list()[1:3] == [None, None]
            assert last.shape[3] is not None
            value = session.run(last, {built.images: np.zeros([1, 65, 33, 3])})
        assert value.shape[1:3] == (height, height // 2 + 1)


def test_frozen_batch_norm_has_no_updates():
    built = _build('resnet_v1_18', is_training=False)
    assert not built.graph.get_collection(tf1.GraphKeys.UPDATE_OPS)


def test_depth_multiplier_rounds_as_published():
    # Channels times the factor, rounded to whole numbers; multiples of 8 only at a factor of 1.
    built = _build('mobilenet_v2', registry.Options(depth_multiplier=0.35))
    depths = [built.end_points[f'layer_{i}'].shape[3] for i in (1, 2, 3, 5, 8, 12, 15, 18)]
    assert depths == [11, 6, 8, 11, 22, 34, 56, 112]
    built = _build('mobilenet_v2', registry.Options(depth_multiplier=0.1, min_depth=6))
    assert [built.end_points[f'layer_{i}'].shape[3] for i in (1, 2, 8)] == [6, 6, 6]
    built = _build('mobilenet_v3_small_seg', registry.Options(depth_multiplier=0.5))
    assert built.end_points['layer_13'].shape[3] == 144


@pytest.mark.parametrize(
    'name, classifier, factor',
    [
        ('mobilenet_v2', 'mobilenet_v2_035', 0.35),
        pytest.param('mobilenet_v2', 'mobilenet_v2_140', 1.4, marks=pytest.mark.published),
    ],
)
def test_a_divisor_of_8_gives_the_variables_of_a_classifier(name, classifier, factor):
    built = _build(name, registry.Options(depth_multiplier=factor, channel_divisor=8))
    with tf.Graph().as_default() as graph:
        network = registry.get_network(classifier)
        options = registry.Options()
        network.build(tf.zeros([1, 64, 64, 3]), 3, network.style(False, options), options)
        of_classifier = _shapes(graph)
    own = _shapes(built.graph)
    assert own and own.items() <= of_classifier.items()
    # What is left: the last layer and the logits.
    left = {name.split('/')[1] for name in of_classifier.keys() - own.keys()}
    assert left == {'Conv_1', 'Logits'}


def test_any_other_divisor():
    # Of 11.2, 5.6 and 22.4 channels: up where rounding would lose more than a tenth.
    options = registry.Options(depth_multiplier=0.35, channel_divisor=5)
    built = _build('mobilenet_v2', options)
    assert [built.end_points[f'layer_{i}'].shape[3] for i in (1, 2, 8)] == [15, 10, 25]
    options = registry.Options(depth_multiplier=0.1, channel_divisor=8, min_depth=16)
    built = _build('mobilenet_v3_large_seg', options)
    assert [built.end_points[f'layer_{i}'].shape[3] for i in (1, 2)] == [16, 16]


def _shapes(graph):
    variables = graph.get_collection(tf1.GraphKeys.MODEL_VARIABLES)
    return {variable.op.name: tuple(variable.shape) for variable in variables}


@pytest.mark.parametrize('name', [*EFFICIENTNETS, *RESNETS_V2])
def test_normalization_is_that_of_the_classifier(name):
    backbone, network = backbones.get_backbone(name), registry.get_network(name)
    pixels = tf.constant([backbone.mean_pixel, [0.0] * 3, [255.0] * 3])
    normalized = backbone.normalize(pixels).numpy()
    np.testing.assert_array_equal(normalized, network.normalization(pixels))
    np.testing.assert_allclose(normalized[0], 0.0, atol=1e-5)


@pytest.mark.parametrize('name', [*MOBILENETS, *SEARCHED, *RESNETS, *XCEPTIONS])
def test_padding_is_the_middle_of_the_normalized_range(name):
    backbone = backbones.get_backbone(name)
    pixels = np.array([backbone.mean_pixel, [0.0] * 3, [255.0] * 3], np.float32)
    with tf1.Session(graph=tf.Graph()) as session, session.graph.as_default():
        mean, black, white = session.run(backbone.normalize(tf.constant(pixels)))
    if name in ('resnet_v1_18', 'resnet_v1_50', 'resnet_v1_101'):
        np.testing.assert_allclose(black, [-123.15, -115.90, -103.06], rtol=1e-6)
        np.testing.assert_allclose(white - black, 255.0, rtol=1e-6)
        assert backbone.weight_decay == 1e-4
    else:
        np.testing.assert_allclose([black, white], [[-1.0] * 3, [1.0] * 3], atol=1e-6)
    if name == 'resnet_v1_18':
        assert backbone.mean_pixel == (127.5, 127.5, 127.5)
    else:
        np.testing.assert_allclose(mean, 0.0, atol=1e-5)


@pytest.mark.parametrize(
    'name, decay, epsilon',
    [
        ('mobilenet_v2', 0.997, 1e-3),
        ('mobilenet_v3_large_seg', 0.997, 1e-3),
        ('resnet_v1_18_beta', 0.95, 1e-5),
        ('xception_41', 0.9997, 1e-3),
    ],
)
def test_published_batch_norm_unless_the_config_says(monkeypatch, name, decay, epsilon):
    seen = []

    def spy(inputs, settings, is_training, scope='BatchNorm'):
        seen.append((settings.decay, settings.epsilon, settings.scale))
        return inputs

    monkeypatch.setattr(weighted, 'batch_norm', spy)
    _build(name, shape=(1, 33, 33, 3))
    assert set(seen) == {(decay, epsilon, True)}
    if name == 'resnet_v1_18_beta':
        seen.clear()
        options = registry.Options(batch_norm_decay=0.5, batch_norm_epsilon=0.25)
        _build(name, options, shape=(1, 33, 33, 3))
        assert set(seen) == {(0.5, 0.25, True)}


def test_weight_decay_unless_the_config_says():
    def penalty(name, options=None):
        built = _build(name, options, shape=(1, 33, 33, 3))
        with tf1.Session(graph=built.graph) as session:
            recorded_backbones.set_weights(session)
            losses = built.graph.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)
            return sum(session.run(losses)) if losses else 0.0

    name, decay = 'mobilenet_v3_small_seg', 4e-5
    assert backbones.get_backbone(name).weight_decay == decay
    tenfold = penalty(name, registry.Options(weight_decay=10.0 * decay))
    np.testing.assert_allclose(penalty(name), tenfold / 10.0, rtol=1e-5)
    assert penalty(name, registry.Options(weight_decay=0.0)) == 0.0


@pytest.mark.parametrize('name', ['resnet_v1_18', 'resnet_v1_50_beta'])
def test_bounded_activations_of_a_resnet(name):
    images = np.random.RandomState(0).normal(0.0, 60.0, [1, 65, 65, 3])
    largest = {}
    for bounded in (False, True):
        built = _build(name, shape=(1, 65, 65, 3), bounded=bounded)
        with tf1.Session(graph=built.graph) as session:
            recorded_backbones.set_weights(session)
            # Sums of a unit, and all that has an activation of its own.
            ends = ('/bottleneck_v1', '/lite_bottleneck_v1', '/shortcut', '/conv1', '_1', '_2')
            active = [v for point, v in built.end_points.items() if point.endswith(ends)]
            values = session.run(active, {built.images: images})
        largest[bounded] = max(np.abs(value).max() for value in values)
        kinds = {operation.type for operation in built.graph.get_operations()}
        assert ('Relu' in kinds, 'Relu6' in kinds) == (not bounded, bounded)
    assert largest[False] > 6.0 >= largest[True]


@pytest.mark.parametrize(
    'call, message',
    [
        (
            functools.partial(backbones.get_backbone, 'xception_56'),
            r"model.segmentation.backbone.name: unknown segmentation backbone 'xception_56'; "
            r"did you mean 'xception_65'\?",
        ),
        (
            lambda: backbones.get_backbone('xception_65').decoder_tap(2, 'decoder.output_strides'),
            'decoder.output_strides: xception_65 has no features for a decoder at output stride 2; '
            'expected 4, 8, 16',
        ),
        (
            lambda: _build('mobilenet_v2', registry.Options(multi_grid=(1, 2, 4))),
            r'model.segmentation.backbone.multi_grid: mobilenet_v2 has no such setting; got '
            r'\(1, 2, 4\)',
        ),
        (
            lambda: _build('xception_41', registry.Options(depth_multiplier=0.5)),
            'backbone.depth_multiplier: xception_41 has no such setting; got 0.5',
        ),
        (
            lambda: _build('resnet_v1_50', registry.Options(channel_divisor=8)),
            'backbone.channel_divisor: resnet_v1_50 has no such setting; got 8',
        ),
        (
            lambda: _build('resnet_v1_18', registry.Options(multi_grid=(1, 2, 4))),
            r'multi_grid: got 3 rates \(1, 2, 4\); expected none, or 2',
        ),
        (
            lambda: _build('mobilenet_v3_small_seg', registry.Options(output_stride=12)),
            'output_stride: this network cannot have 12; it can have 1, 2, 4, 8, 16, 32',
        ),
    ],
)
def test_refuses(call, message):
    with pytest.raises(errors.ConfigError, match=message):
        call()
