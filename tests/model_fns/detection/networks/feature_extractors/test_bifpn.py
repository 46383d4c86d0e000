import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns import layers
from model_fns.detection.networks.feature_extractors import bifpn
from model_fns.detection.networks.feature_extractors.bifpn import BidirectionalPyramid
from tests.model_fns.detection import slow_networks

tf1 = tf.compat.v1

STYLE = layers.LayerStyle(
    regularizer=layers.l2(0.1),
    regularize_depthwise=True,
    activation=tf.nn.swish,
    batch_norm=layers.BatchNorm(0.99, 0.001, scale=True),
    force_bias=True,
)


def test_the_nodes_of_the_published_neck():
    nodes = bifpn.plan(BidirectionalPyramid(iterations=3, depth=64), last_tapped=5)
    assert len(nodes) == 26
    inputs = {node.name: node.inputs for node in nodes}
    assert list(inputs)[:11] == [
        '0_up_lvl_6',
        '0_up_lvl_7',
        '1_dn_lvl_6',
        '1_dn_lvl_5',
        '1_dn_lvl_4',
        '1_dn_lvl_3',
        '1_up_lvl_4',
        '1_up_lvl_5',
        '1_up_lvl_6',
        '1_up_lvl_7',
        '2_dn_lvl_6',
    ]
    assert inputs['0_up_lvl_6'] == ('0_up_lvl_5',)
    assert inputs['1_dn_lvl_6'] == ('0_up_lvl_6', '0_up_lvl_7')
    assert inputs['1_dn_lvl_3'] == ('0_up_lvl_3', '1_dn_lvl_4')
    assert inputs['1_up_lvl_4'] == ('0_up_lvl_4', '1_dn_lvl_4', '1_dn_lvl_3')
    assert inputs['1_up_lvl_7'] == ('0_up_lvl_7', '1_up_lvl_6')
    # From the second time on the finest level is one that went down.
    assert inputs['2_dn_lvl_6'] == ('1_up_lvl_6', '1_up_lvl_7')
    assert inputs['2_dn_lvl_3'] == ('1_dn_lvl_3', '2_dn_lvl_4')
    assert inputs['3_up_lvl_5'] == ('2_up_lvl_5', '3_dn_lvl_5', '3_up_lvl_4')
    levels = {node.name: node.level for node in nodes}
    assert all(name.endswith(f'_{level}') for name, level in levels.items())


def test_ways_to_combine_by_hand():
    parameters = tf.constant([1.0, -2.0, 3.0])
    found = {
        name: bifpn.COMBINATIONS.get(name)(parameters).numpy()
        for name in ('fast_attention', 'attention', 'weighted_sum')
    }
    np.testing.assert_allclose(found['fast_attention'], np.array([1, 0, 3]) / 4.0001, rtol=1e-5)
    exponents = np.exp([1, -2, 3])
    np.testing.assert_allclose(found['attention'], exponents / exponents.sum(), rtol=1e-5)
    np.testing.assert_array_equal(found['weighted_sum'], parameters)
    assert bifpn.COMBINATIONS.get('sum') is None
    with pytest.raises(errors.ConfigError, match="'fast'; did you mean|unknown combine_method"):
        bifpn.COMBINATIONS.get('fast')


def swish(values):
    return values * (0.5 + 0.5 * np.tanh(values / 2.0))


def pooled(image):
    """Compute the maximum of 3x3 windows at stride 2, by TensorFlow's rule for even sizes."""
    padded = np.pad(image, [(0, 0), (0, 1), (0, 1), (0, 0)], constant_values=-np.inf)
    steps = range(0, image.shape[1], 2)
    rows = [
        np.stack([padded[:, y : y + 3, x : x + 3].max((1, 2)) for x in steps], 1) for y in steps
    ]
    return np.stack(rows, 1)


def weights_of(parameters, method):
    if method == 'sum':
        return [1.0] * 3
    flat = parameters.ravel().astype(np.float64)
    if method == 'weighted_sum':
        return flat
    if method == 'attention':
        return np.exp(flat) / np.exp(flat).sum()
    positive = np.maximum(flat, 0.0)
    return positive / (positive.sum() + 1e-4)


def slow(maps, values, method):
    """Compute the neck of levels 3 and 4 from the backbone and pooled level 5, in one iteration."""

    def node(scope, inputs):
        weights = weights_of(values.get(f'bifpn/{scope}/combine_weights', np.ones(3)), method)
        total = sum(weight * one for weight, one in zip(weights, inputs))
        return slow_networks.layer(swish(total), values, f'bifpn/{scope}/post')

    def projected(level, scope):
        return slow_networks.layer(maps[level], values, f'bifpn/{scope}/input_0')

    level_5 = pooled(projected(4, 'node_00_0_up_lvl_5'))
    scope = 'node_01_1_dn_lvl_4'
    down_4 = node(scope, [projected(4, scope), slow_networks.enlarged(level_5, 2)])
    scope = 'node_02_1_dn_lvl_3'
    down_3 = node(scope, [projected(3, scope), slow_networks.enlarged(down_4, 2)])
    scope = 'node_03_1_up_lvl_4'
    up_4 = node(scope, [projected(4, scope), down_4, pooled(down_3)])
    up_5 = node('node_04_1_up_lvl_5', [level_5, pooled(up_4)])
    return [down_3, up_4, up_5]


@pytest.mark.parametrize('method', ['fast_attention', 'attention', 'weighted_sum', 'sum'])
def test_the_neck_by_its_definition(method):
    pyramid = BidirectionalPyramid(1, 4, method, min_level=3, max_level=5)
    random = np.random.RandomState(0)
    maps = {3: random.normal(size=[2, 8, 8, 3]), 4: random.normal(size=[2, 4, 4, 5])}
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        tensors = {level: tf.constant(one, tf.float32) for level, one in maps.items()}
        levels = bifpn.bifpn(tensors, pyramid, STYLE)
        values = slow_networks.randomize(session)
        found = session.run(levels)
        penalised = graph.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)
        shapes = {one.op.name: tuple(one.shape) for one in tf1.trainable_variables()}
    expected = slow(maps, values, method)
    for ours, theirs in zip(found, expected):
        np.testing.assert_allclose(ours, theirs, atol=1e-3 * np.abs(theirs).max())
    combined = {name: shape for name, shape in shapes.items() if 'combine' in name}
    assert list(combined.values()) == ([] if method == 'sum' else [(2, 1), (2, 1), (3, 1), (2, 1)])
    # Four projections, and two kernels of each of four separable convolutions.
    assert len(penalised) == 4 + 2 * 4
    assert shapes['bifpn/node_03_1_up_lvl_4/input_0/biases'] == (4,)
