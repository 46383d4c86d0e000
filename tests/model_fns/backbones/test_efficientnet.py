import math

import numpy as np
import pytest
import tensorflow as tf

from model_fns import layers
from model_fns.backbones import efficientnet, registry
from tests.model_fns.backbones import recorded_backbones
from tests.model_fns.detection import recorded_objects, slow_networks

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1

PATH = 'model/_feature_extractor/'


def test_the_parameter_count_of_the_paper():
    # Table 2: 5.3 million.
    count = recorded_backbones.count_parameters('efficientnet_b0', num_classes=1000)
    assert count / 1e6 == pytest.approx(5.3, abs=0.05)


def test_a_size_multiplies_blocks_and_channels():
    counts = [
        sum('stack_4/' in block.name for block in efficientnet.list_blocks(size))
        for size in efficientnet.SIZES.values()
    ]
    # Three blocks times 1, 1.1, 1.2, 1.4, 1.8, 2.2, 2.6 and 3.1, rounded up.
    assert counts == [3, 4, 4, 5, 6, 7, 8, 10]
    first, *_, last = efficientnet.list_blocks(efficientnet.SIZES['efficientnet_b0'])
    assert (first.name, first.share) == ('stack_0/block_0', 0.0)
    assert (last.name, last.share) == ('stack_6/block_0', 15 / 16)
    assert efficientnet.feature_maps(efficientnet.SIZES['efficientnet_b2']) == {
        2: 'stack_0/block_1',
        4: 'stack_1/block_2',
        8: 'stack_2/block_2',
        16: 'stack_4/block_3',
        32: 'stack_6/block_1',
    }


def test_classifiers_are_those_of_the_field():
    sizes = {
        name: registry.get_network(name).image_size
        for name in registry.network_names()
        if name.startswith('efficientnet_')
    }
    names = [f'efficientnet_b{index}' for index in range(8)]
    assert sizes == dict(zip(names, [224, 240, 260, 300, 380, 456, 528, 600]))


@pytest.mark.parametrize(
    ('name', 'config'),
    [
        ('efficientnet_b0', 'd0_512x512_coco17_tpu-8'),
        ('efficientnet_b2', 'd2_768x768_coco17_tpu-8'),
        ('efficientnet_b4', 'd4_1024x1024_coco17_tpu-32'),
        ('efficientnet_b6', 'd6_1408x1408_coco17_tpu-32'),
    ],
)
def test_layers_have_the_published_numbers_and_widths(shared, name, config):
    shapes, _ = recorded_objects.listed(f'ssd_efficientdet_{config}')
    listed = {}
    for key, shape in shapes.items():
        part, _, rest = key[len(PATH) :].partition('/')
        if key.startswith(PATH) and part in ('_efficientnet', 'classification_backbone'):
            layer, leaf = rest.split('/')
            listed.setdefault(int(layer.rpartition('-')[2]), {})[leaf] = shape
    network = registry.get_network(name)
    size = efficientnet.SIZES[name]
    assert set(listed) == set(range(len(network.keras_layers)))
    stacks = dict(enumerate(efficientnet.STACKS))
    for index, scope in enumerate(network.keras_layers):
        found = listed[index]
        if scope.endswith('BatchNorm'):
            assert set(found) == {'gamma', 'beta', 'moving_mean', 'moving_variance'}
            continue
        (kernel,) = [shape for leaf, shape in found.items() if 'kernel' in leaf]
        assert ('depthwise_kernel' in found) == scope.endswith('/depthwise')
        assert ('bias' in found) == ('squeeze_excite' in scope or scope == 'logits')
        if scope.startswith('stack_'):
            stack = stacks[int(scope[len('stack_')])]
            size_of = stack.kernel_size if scope.endswith('/depthwise') else 1
            assert kernel[:2] == (size_of, size_of)
            if scope.endswith('/project'):
                assert kernel[3] == 8 * math.floor(stack.channels * size.width / 8 + 0.5)


def sigmoid(values):
    return 0.5 + 0.5 * np.tanh(values / 2.0)


def swish(values):
    return values * sigmoid(values)


def slow_block(image, values, scope, residual):
    """A block of stride 1 by its definition: expand, filter, gate, project."""

    def layer(inputs, name):
        return slow_networks.layer(inputs, values, f'{scope}/{name}')

    outputs = image
    if f'{scope}/expand/weights' in values:
        outputs = swish(layer(outputs, 'expand'))
    outputs = swish(layer(outputs, 'depthwise'))
    means = outputs.mean((1, 2), keepdims=True)
    hidden = swish(layer(means, 'squeeze_excite/Conv'))
    outputs = outputs * sigmoid(layer(hidden, 'squeeze_excite/Conv_1'))
    outputs = layer(outputs, 'project')
    return outputs + image if residual else outputs


@pytest.fixture(scope='module')
def narrow():
    """A quarter of the width of the smallest: end points and variables, random ones, as arrays."""
    network = registry.get_network('efficientnet_b0')
    options = registry.Options(depth_multiplier=0.25)
    with tf.Graph().as_default(), tf1.Session() as session:
        images = tf1.placeholder(tf.float32, [2, 32, 32, 3])
        style = network.style(False, options)
        end_points = network.build(images, 5, style, options)
        values = slow_networks.randomize(session)
        inputs = np.random.RandomState(1).normal(size=[2, 32, 32, 3])
        return session.run(end_points, {images: inputs}), values


def test_blocks_by_their_definition(narrow):
    end_points, values = narrow
    for name, before, residual in (
        # As narrow as this the stem has the channels of the first block: eight.
        ('stack_0/block_0', 'stem', True),
        ('stack_1/block_1', 'stack_1/block_0', True),
        ('stack_4/block_0', 'stack_3/block_2', False),
    ):
        inputs = end_points[before].astype(np.float64)
        # Each block by itself, at the scale that its input has.
        expected = slow_block(inputs, values, f'EfficientNet/{name}', residual)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(end_points[name] / scale, expected / scale, atol=1e-4)


def test_the_head_by_its_definition(narrow):
    end_points, values = narrow
    top = swish(
        slow_networks.layer(
            end_points['stack_6/block_0'].astype(np.float64), values, 'EfficientNet/top'
        )
    )
    means = top.mean((1, 2))
    logits = means @ values['EfficientNet/logits/weights'] + values['EfficientNet/logits/biases']
    np.testing.assert_allclose(end_points[registry.LOGITS], logits, rtol=1e-3)


def test_a_narrow_network_has_few_channels_and_as_many_layers(narrow):
    end_points, values = narrow
    # 32, 24, 112 and 1280 channels by 4, to multiples of 8 and at least 8.
    assert end_points['stem'].shape == (2, 16, 16, 8)
    assert end_points['stack_1/block_1'].shape == (2, 8, 8, 8)
    assert end_points['stack_4/block_2'].shape == (2, 2, 2, 32)
    assert end_points['top'].shape == (2, 1, 1, 320)
    # A quarter of the channels of a block's input is between the layers of its gates.
    shape = values['EfficientNet/stack_5/block_0/squeeze_excite/Conv/weights'].shape
    assert shape == (1, 1, 6 * 32, 8)


def test_training_drops_branches_and_regularizes_biases_of_gates():
    network = registry.get_network('efficientnet_b0')
    options = registry.Options(depth_multiplier=0.25, drop_path_keep_prob=0.5)
    with tf.Graph().as_default() as graph:
        images = tf.zeros([2, 32, 32, 3])
        network.build(images, 5, network.style(True, options), options)
        compared = [op for op in graph.get_operations() if op.type == 'Less']
        kept = [float(tf.get_static_value(op.inputs[1])) for op in compared]
        penalised = graph.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)
        variables = tf1.trainable_variables()
    # Of sixteen blocks those whose input has their size; then the dropout before the logits.
    residual = (2, 4, 6, 7, 9, 10, 12, 13, 14)
    assert kept == pytest.approx([*(1 - 0.5 * place / 16 for place in residual), 0.8])
    kinds = ('/weights', '/biases')
    assert len(penalised) == sum(one.op.name.endswith(kinds) for one in variables)


def test_what_a_detector_does_not_use_has_variables_and_no_updates():
    size = efficientnet.SIZES['efficientnet_b0']
    options = registry.Options(depth_multiplier=0.25, final_endpoint='stack_4/block_2')
    with tf.Graph().as_default() as graph:
        style = efficientnet.efficientnet_style(True, options)
        images = tf.zeros([2, 32, 32, 3])
        end_points = efficientnet.efficientnet_features(images, style, options, size)
        assert list(end_points)[-1] == 'stack_4/block_2'
        updates = len(graph.get_collection(tf1.GraphKeys.UPDATE_OPS))
        before = len(tf1.trainable_variables())
        efficientnet.add_unused(end_points, 7, style, options, size)
        assert len(graph.get_collection(tf1.GraphKeys.UPDATE_OPS)) == updates
        # Five blocks of 3 batch norms, 3 convolutions and 2 gates; the top; the logits.
        assert len(tf1.trainable_variables()) - before == 5 * (3 * 3 + 4) + 3 + 2
        shapes = {one.op.name: tuple(one.shape) for one in tf1.trainable_variables()}
    assert shapes['EfficientNet/logits/weights'] == (320, 7)
    whole = recorded_backbones.build(
        'efficientnet_b0', (32, 32), False, num_classes=7, options=options.but(final_endpoint=None)
    )
    with whole.graph.as_default():
        assert shapes == {one.op.name: tuple(one.shape) for one in tf1.trainable_variables()}


def test_an_unknown_end_point_is_an_error():
    options = registry.Options(final_endpoint='stack_6/block_3')
    style = efficientnet.efficientnet_style(False, options)
    with tf.Graph().as_default(), pytest.raises(ValueError, match="no block 'stack_6/block_3'"):
        efficientnet.efficientnet_features(
            tf.zeros([1, 32, 32, 3]), style, options, efficientnet.SIZES['efficientnet_b0']
        )


@pytest.mark.usefixtures('initial_values')
def test_first_values():
    options = registry.Options()
    style = efficientnet.efficientnet_style(True, options)
    # He et al. 2015, by the outputs: variance 2 / (3 * 3 * 64).
    drawn = style.initializer([3, 3, 32, 64], (1, 2))
    assert np.std(drawn) == pytest.approx(math.sqrt(2 / (9 * 64)), rel=0.02)
    assert style.regularizer == style.bias_regularizer == layers.l2(1e-5)
    assert not style.regularize_depthwise
    assert (style.batch_norm.decay, style.batch_norm.epsilon) == (0.99, 0.001)
