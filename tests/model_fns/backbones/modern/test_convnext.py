import math

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns.backbones import registry
from model_fns.backbones.modern import convnext
from tests.model_fns.backbones import recorded_backbones

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1

SMALL = convnext.Size((8, 16, 24, 32), (1, 1, 1, 1), keep_prob=0.5)


def features(images, size=SMALL, is_training=False, **options):
    options = registry.Options(**options)
    style = convnext.convnext_style(is_training, options)
    return convnext.convnext_features(images, style, options, size)


def test_the_parameter_count_of_the_paper():
    # Table 1: 29 million; 28.59 in the published program.
    count = recorded_backbones.count_parameters('convnext_tiny', num_classes=1000)
    assert count / 1e6 == pytest.approx(28.59, abs=0.005)


def normalize(values, variables, scope):
    mean, variance = values.mean(-1, keepdims=True), values.var(-1, keepdims=True)
    normal = (values - mean) / np.sqrt(variance + 1e-6)
    return normal * variables[f'{scope}/gamma'] + variables[f'{scope}/beta']


def filter_channels(image, weights, biases):
    """Convolve each channel with 7x7 weights, padded by 3 zeros."""
    padded = np.pad(image, [(0, 0), (3, 3), (3, 3), (0, 0)])
    outputs = np.zeros_like(image)
    for row in range(image.shape[1]):
        for column in range(image.shape[2]):
            window = padded[:, row : row + 7, column : column + 7]
            outputs[:, row, column] = (window * weights[..., 0]).sum((1, 2))
    return outputs + biases


def gelu(values):
    return values * np.vectorize(lambda value: 0.5 * (1.0 + math.erf(value / math.sqrt(2))))(values)


def test_a_block_by_its_definition():
    random = np.random.RandomState(0)
    image = random.normal(size=[1, 20, 24, 3]).astype(np.float32)
    with tf.Graph().as_default(), tf1.Session() as session:
        points = features(tf.constant(image), convnext.Size((8,) * 4, (1,) * 4, 1.0))
        variables = tf1.global_variables()
        values = {
            variable.op.name: random.uniform(-0.5, 0.5, variable.shape) for variable in variables
        }
        feed = {variable.initializer.inputs[1]: values[variable.op.name] for variable in variables}
        session.run([variable.initializer for variable in variables], feed)
        stem, actual, normal = session.run(
            [points[name] for name in ('stem', 'stage_0/block_0', 'stage_0')]
        )
    scope = 'ConvNeXt/stage_0/block_0'
    weights = values[f'{scope}/depthwise/depthwise_weights']
    filtered = filter_channels(stem, weights, values[f'{scope}/depthwise/biases'])
    branch = normalize(filtered, values, f'{scope}/LayerNorm')
    branch = branch @ values[f'{scope}/expand/weights'][0, 0] + values[f'{scope}/expand/biases']
    branch = gelu(branch) @ values[f'{scope}/project/weights'][0, 0]
    branch = (branch + values[f'{scope}/project/biases']) * values[f'{scope}/gamma']
    np.testing.assert_allclose(actual, stem + branch, rtol=1e-4, atol=1e-4)
    expected = normalize(stem + branch, values, 'ConvNeXt/stage_0/LayerNorm')
    np.testing.assert_allclose(normal, expected, rtol=1e-3, atol=1e-3)


def test_stages_and_probabilities_by_hand():
    stages = convnext.list_stages(convnext.SIZES['convnext_small'])
    assert [(stage.channels, stage.blocks) for stage in stages] == [
        (96, 3),
        (192, 3),
        (384, 27),
        (768, 3),
    ]
    strides = [(stage.stride, stage.downsample_rate, stage.rate) for stage in stages]
    assert strides == [(4, 1, 1), (2, 1, 1), (2, 1, 1), (2, 1, 1)]
    atrous = convnext.list_stages(SMALL, output_stride=8)
    assert [(stage.stride, stage.downsample_rate, stage.rate) for stage in atrous[1:]] == [
        (2, 1, 1),
        (1, 1, 2),
        (1, 2, 4),
    ]
    keeps = list(convnext._keep_probs(SMALL, registry.Options()))
    assert keeps == pytest.approx([1.0, 1 - 0.5 / 3, 1 - 1 / 3, 0.5])


def test_other_output_strides_are_refused():
    with pytest.raises(errors.ConfigError, match=r'cannot have 2; it can have 1, 4, 8, 16, 32'):
        convnext.list_stages(SMALL, output_stride=2)


@pytest.mark.parametrize('output_stride', [8, 16])
def test_atrous_maps_hold_the_strided_ones(output_stride):
    def build(images, output_stride=None):
        return features(images, output_stride=output_stride)

    recorded_backbones.check_atrous_features(build, output_stride, 'stage_3')


def test_training_drops_branches():
    with tf.Graph().as_default() as graph:
        features(tf1.placeholder(tf.float32, [2, 64, 64, 3]), is_training=True)
    draws = [op for op in graph.get_operations() if op.type == 'StatelessRandomUniformV2']
    # The first block keeps its branch.
    assert len(draws) == sum(SMALL.blocks) - 1
