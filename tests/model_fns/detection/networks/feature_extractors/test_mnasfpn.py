from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns.backbones.mobilenet_parts import Channels
from model_fns.detection.networks.feature_extractors import mnasfpn
from model_fns.detection.networks.feature_extractors.extractor import Pyramid
from tests.model_fns.detection import slow_networks
from tests.model_fns.detection.extractor_configs import build, shapes_of

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1

# As published: which maps a node sums, its level, and its filter's size.
CELL = [
    ((1, 2), 4, 3),
    ((0, 4), 3, 3),
    ((5, 4), 4, 3),
    ((4, 3), 5, 5),
    ((4, 3), 6, 3),
]


def _pool(image: np.ndarray, stride: int, padding: str) -> np.ndarray:
    """Compute the maximum of 3x3 windows, with TensorFlow's padding or with zeros."""
    size = image.shape[1]
    count = -(-size // stride)
    total = max((count - 1) * stride + 3 - size, 0)
    margins, fill = (total // 2, total - total // 2), -np.inf
    if padding == 'FIXED':
        margins, fill, count = (1, 1), 0.0, (size - 1) // stride + 1
    padded = np.pad(image, [(0, 0), margins, margins, (0, 0)], constant_values=fill)
    steps = range(0, count * stride, stride)
    rows = [
        np.stack([padded[:, y : y + 3, x : x + 3].max((1, 2)) for x in steps], 1) for y in steps
    ]
    return np.stack(rows, 1)


def _layer(image, values, scope):
    return slow_networks.layer(image, values, scope, epsilon=0.01)


def _slow(maps, values, padding):
    coarsest = _layer(_pool(maps[-1], 2, padding), values, 'MnasFPN/C6_Conv1x1')
    features = [*maps, coarsest]
    for cell in range(4):
        nodes, levels = list(features), [3, 4, 5, 6]
        for block, (inputs, level, _) in enumerate(CELL):
            scope = f'MnasFPN/cell_{cell}/block_{block}'
            total = 0.0
            for number, index in enumerate(inputs):
                one = nodes[index]
                if levels[index] < level:
                    one = _pool(one, 2 ** (level - levels[index]), padding)
                one = _layer(one, values, f'{scope}/input_{number}/Conv1x1')
                if levels[index] > level:
                    one = slow_networks.enlarged(one, 2 ** (levels[index] - level))
                total = total + one
            nodes.append(_layer(slow_networks.relu6(total), values, f'{scope}/SepConv'))
            levels.append(level)
        features = [
            new + old if new.shape == old.shape else new for new, old in zip(nodes[-4:], features)
        ]
    return features


@pytest.mark.parametrize('padding', ['SAME', 'FIXED'])
def test_the_neck_equals_its_definition(padding):
    random = np.random.RandomState(0)
    maps = [random.normal(size=[1, 16 >> i, 16 >> i, 3 + i]).astype(np.float32) for i in range(3)]
    channels = Channels(depth_multiplier=0.1, min_depth=8)
    with tf.Graph().as_default(), tf1.Session() as session:
        constants = [tf.constant(one) for one in maps]
        style = mnasfpn.mnasfpn_style(False)
        outputs = mnasfpn.mnasfpn(constants, style, channels, 48, padding)
        values = slow_networks.randomize(session)
        actual = session.run(outputs)
    assert [one.shape for one in actual] == [(1, size, size, 8) for size in (16, 8, 4, 2)]
    for level, (ours, slow) in enumerate(zip(actual, _slow(maps, values, padding))):
        np.testing.assert_allclose(
            ours, slow, rtol=1e-3, atol=1e-3 * np.abs(slow).max(), err_msg=str(level)
        )


@pytest.fixture(scope='module')
def training():
    """Build a graph with the extractor in training mode."""
    with tf.Graph().as_default() as graph:
        build("type: 'ssd_mobilenet_v2_mnasfpn'").extract(tf.zeros([1, 64, 64, 3]))
    return graph


def test_filters_and_widths_are_as_published(training):
    collection = training.get_collection(tf1.GraphKeys.TRAINABLE_VARIABLES)
    variables = {variable.op.name: tuple(variable.shape) for variable in collection}
    for block, (_, _, kernel) in enumerate(CELL):
        width = (256, 128, 128, 128, 96)[block]
        scope = f'FeatureExtractor/MnasFPN/cell_3/block_{block}'
        assert variables[f'{scope}/input_0/Conv1x1/weights'] == (1, 1, 48, width)
        assert variables[f'{scope}/SepConv/depthwise_weights'] == (kernel, kernel, width, 1)
        assert variables[f'{scope}/SepConv/pointwise_weights'] == (1, 1, width, 48)


def test_options_of_the_extractor():
    made = shapes_of(
        """type: 'ssd_mobilenet_v2_mnasfpn' depth_multiplier: 0.5 min_depth: 40
        use_explicit_padding: true pad_to_multiple: 64 use_depthwise: true
        fpn { min_level: 3 max_level: 6 additional_layer_depth: 96 }""",
        (100, 60),
    )
    assert made.maps == [(16, 8, 48), (8, 4, 48), (4, 2, 48), (2, 1, 48)]
    assert made.variables['MnasFPN/C6_Conv1x1/weights'] == (1, 1, 160, 48)
    assert made.variables['MobilenetV2/Conv/weights'] == (3, 3, 3, 40)
    assert made.variables['MnasFPN/cell_0/block_4/SepConv/depthwise_weights'] == (3, 3, 48, 1)


def test_statistics_follow_the_published_rate(training):
    norms = [op for op in training.get_operations() if op.type == 'FusedBatchNormV3']
    assert {op.get_attr('is_training') for op in norms} == {True}
    assert {round(op.get_attr('epsilon'), 6) for op in norms} == {0.01}
    assert {round(op.get_attr('exponential_avg_factor'), 6) for op in norms} == {0.01}


def test_penalties_are_those_of_backbone_and_neck_whatever_the_config_says(training):
    with training.as_default(), tf1.Session() as session:
        values = slow_networks.randomize(session)
        losses = tf1.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)
        total = sum(session.run(losses))
    weights = {
        name: 0.5 * np.sum(np.square(value, dtype=np.float64))
        for name, value in values.items()
        if name.endswith('weights') and 'C6_Conv1x1' not in name
    }
    assert len(losses) == len(weights)
    expected = sum(
        value * (1e-4 if '/MnasFPN/' in name else 4e-5) for name, value in weights.items()
    )
    assert total == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize('sizes', [(38, 19, 10), (40, 19, 10), (42, 21, 11)])
def test_sizes_that_do_not_halve_are_refused(sizes):
    style, channels = mnasfpn.mnasfpn_style(False), Channels()
    message = 'multiples of 64 pixels .pad_to_multiple: 64'
    with tf.Graph().as_default(), pytest.raises(errors.ConfigError, match=message):
        mnasfpn.mnasfpn([tf.zeros([1, size, size, 3]) for size in sizes], style, channels)


def test_levels():
    assert mnasfpn.check_levels(None) == Pyramid(3, 6, 48)
    assert mnasfpn.check_levels(Pyramid(3, 6, 32)).depth == 32
    with pytest.raises(errors.ConfigError, match=r'fpn\.max_level: got 7; .*expected 6'):
        mnasfpn.check_levels(Pyramid(3, 7))


def test_the_layout_of_torchvision_is_refused():
    text = "type: 'ssd_mobilenet_v2_mnasfpn' fpn { min_level: 3 max_level: 6 layout: TORCHVISION }"
    refused = pytest.raises(errors.ConfigError, match='fpn.layout: TORCHVISION; this neck')
    with tf.Graph().as_default(), refused:
        build(text).extract(tf.zeros([1, 64, 64, 3]))
