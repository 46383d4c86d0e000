from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns.backbones import registry, xception
from tests.model_fns.backbones import recorded_backbones, slow_layers

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1

# One module of each kind, and a strided one with atrous ones after it.
TINY = (
    xception.Block('entry_flow/block1', (3, 3, 3), stride=2),
    xception.Block('middle_flow/block1', (3, 3, 3), skip='input', units=2),
    xception.Block('exit_flow/block1', (3, 4, 4), stride=2),
    xception.Block('exit_flow/block2', (4, 5, 6), skip='nothing', active=True),
)


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setitem(xception.ARCHITECTURES, 'tiny', TINY)
    return 'tiny'


def _features(name, size=33, is_training=False, batch=2, **settings):
    graph = tf.Graph()
    with graph.as_default():
        images = tf1.placeholder(tf.float32, [batch, size, size, 3])
        style = xception.xception_style(is_training, registry.Options())
        end_points = xception.xception_features(images, style, registry.Options(**settings), name)
    return recorded_backbones.Built(graph, images, end_points)


def test_variables_and_end_points_are_as_published(shared):
    name = 'xception_65'
    path = shared / 'spec' / 'variables' / 'segmentation' / f'{name}.json'
    published = json.loads(path.read_text())
    built = _features(name, 129, is_training=True, output_stride=16)
    variables = [
        (variable, tuple(shape), trainable) for variable, shape, trainable in published['variables']
    ]
    actual = recorded_backbones.variables_of(built.graph)
    own = {v: (shape, trainable) for v, shape, trainable in variables if v.startswith(name)}
    assert actual == own
    points = [[point, value.shape.as_list()] for point, value in built.end_points.items()]
    assert points == published['end_points']
    heads = [variable for variable, _, _ in variables if not variable.startswith(name)]
    penalties = built.graph.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)
    head_weights = sum(variable.endswith('/weights') for variable in heads)
    assert len(penalties) == published['n_regularization_losses'] - head_weights
    updates = built.graph.get_collection(tf1.GraphKeys.UPDATE_OPS)
    head_statistics = sum('/moving_' in variable for variable in heads)
    assert len(updates) == published['n_update_ops'] - head_statistics


@pytest.mark.parametrize('depth', [41, 65, 71])
def test_depth_is_the_number_of_convolutions(depth):
    # The two of the root and three in each module.
    blocks = xception.ARCHITECTURES[f'xception_{depth}']
    assert 2 + 3 * sum(block.units for block in blocks) == depth


@pytest.mark.parametrize('bounded', [False, True])
def test_computes_what_its_definition_says(tiny, bounded):
    images = np.random.RandomState(0).normal(0.0, 3.0, [2, 33, 33, 3]).astype(np.float32)
    built = _features(tiny, bounded=bounded)
    with tf1.Session(graph=built.graph) as session:
        recorded_backbones.set_weights(session)
        values = session.run(built.end_points, {built.images: images})
        variables = session.run(
            {v.op.name: v for v in built.graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES)}
        )
    expected = _SlowXception(variables, bounded).end_points(images)
    assert set(expected) < set(values)
    for name, value in expected.items():
        recorded_backbones.assert_close(values[name], value, 1e-4, name)
    # A shortcut is cut where it is added.
    flow = [value for name, value in values.items() if not name.endswith('/shortcut')]
    largest = max(np.abs(value).max() for value in flow)
    assert (largest <= 6.0) == bounded


class _SlowXception:
    """`TINY` in NumPy, at an output stride of 8."""

    def __init__(self, variables, bounded):
        self.variables = variables
        self.bounded = bounded

    def end_points(self, images):
        net = self.relu(self.convolve(images, 'tiny/entry_flow/conv1_1', 2))
        net = self.relu(self.convolve(net, 'tiny/entry_flow/conv1_2'))
        points = {'tiny/entry_flow/conv1_2': net}
        net = points['tiny/entry_flow/block1'] = self.module(net, 'entry_flow/block1', 1, 2)
        for unit in (1, 2):
            net = self.module(net, 'middle_flow/block1', unit, 1, is_identity=True)
        points['tiny/middle_flow/block1'] = net
        net = points['tiny/exit_flow/block1'] = self.module(net, 'exit_flow/block1', 1, 2)
        scope = 'tiny/exit_flow/block2/unit_1/xception_module'
        for index in (1, 2, 3):
            net = self.relu(self.convolve(net, f'{scope}/separable_conv{index}_depthwise'))
            net = self.relu(self.convolve(net, f'{scope}/separable_conv{index}_pointwise'))
        return {**points, 'tiny/exit_flow/block2': net}

    def module(self, net, block, unit, stride, is_identity=False):
        scope = f'tiny/{block}/unit_{unit}/xception_module'
        residual = net
        for index in (1, 2, 3):
            conv = f'{scope}/separable_conv{index}'
            residual = self.relu(residual)
            strides = stride if index == 3 else 1
            residual = self.cut(self.convolve(residual, f'{conv}_depthwise', strides))
            residual = self.cut(self.convolve(residual, f'{conv}_pointwise'))
        added = net if is_identity else self.convolve(net, f'{scope}/shortcut', stride)
        total = residual + self.cut(added)
        return self.relu(total) if self.bounded else total

    def convolve(self, net, scope, stride=1):
        if f'{scope}/weights' in self.variables:
            weights = self.variables[f'{scope}/weights']
        else:
            depthwise = self.variables[f'{scope}/depthwise_weights'][..., 0]
            weights = depthwise[..., np.newaxis] * np.eye(depthwise.shape[-1])
        net = slow_layers.conv2d(net, weights, stride)
        return slow_layers.batch_norm(net, self.variables, f'{scope}/BatchNorm', 1e-3)

    def relu(self, net):
        return np.clip(net, 0.0, 6.0) if self.bounded else slow_layers.relu(net)

    def cut(self, net):
        return np.clip(net, -6.0, 6.0) if self.bounded else net


def test_atrous_feature_maps_hold_the_strided_ones(tiny):
    output_stride = 2
    images = np.random.RandomState(0).normal(size=[1, 33, 33, 3]).astype(np.float32)
    results = []
    for stride in (None, output_stride):
        built = _features(tiny, batch=1, output_stride=stride)
        with tf1.Session(graph=built.graph) as session:
            recorded_backbones.set_weights(session)
            last = built.end_points[xception.last_end_point(tiny)]
            results.append(session.run(last, {built.images: images}))
    strided, large = results
    step = 8 // output_stride
    assert strided.shape[1:3] == (5, 5)
    recorded_backbones.assert_close(
        large[:, ::step, ::step], strided, 1e-4, f'stride {output_stride}'
    )


def test_multi_grid_multiplies_the_rates_of_the_last_module(tiny):
    built = _features(tiny, output_stride=4, multi_grid=(1, 2, 4))
    assert _rates(built.graph, 'exit_flow/block1') == []
    assert _rates(built.graph, 'exit_flow/block2') == [2, 4, 8]
    assert _rates(_features(tiny, output_stride=4).graph, 'exit_flow/block2') == [2, 2, 2]
    assert _rates(_features(tiny, output_stride=2).graph, 'middle_flow') == [2] * 6
    assert _rates(_features(tiny).graph, '') == []


def _rates(graph, scope):
    """The atrous rates of the depthwise convolutions of a block, in order."""
    operations = [
        operation
        for operation in graph.get_operations()
        if operation.type == 'SpaceToBatchND' and scope in operation.name
    ]
    return [int(tf.get_static_value(operation.inputs[1])[0]) for operation in operations]


@pytest.mark.parametrize(
    'settings, message',
    [
        ({'multi_grid': (1, 2)}, r'multi_grid: got 2 rates \(1, 2\); expected none, or 3'),
        ({'output_stride': 1}, 'output_stride: got 1; an Xception has 2 or more'),
        ({'output_stride': 12}, 'cannot have 12; it can have 1, 2, 4, 8, 16, 32'),
    ],
)
def test_refuses_what_it_cannot_have(settings, message):
    with tf.Graph().as_default(), pytest.raises(errors.ConfigError, match=message):
        style = xception.xception_style(False, registry.Options())
        images, options = tf.zeros([1, 33, 33, 3]), registry.Options(**settings)
        xception.xception_features(images, style, options, 'xception_41')


@pytest.mark.usefixtures('initial_values')
def test_classifier(tiny):
    graph = tf.Graph()
    with graph.as_default():
        options = registry.Options(output_stride=4, batch_norm_decay=0.5, weight_decay=0.25)
        style = xception.xception_style(True, options)
        images = tf.random.stateless_normal([4, 33, 33, 3], [1, 2])
        end_points = xception.xception(images, 7, style, options, tiny)
        penalties = tf1.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)
        loss = tf.reduce_sum(end_points[registry.LOGITS] ** 2) + tf.add_n(penalties)
        variables = tf1.trainable_variables()
        gradients = tf.gradients(loss, variables)
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            values = session.run(gradients)
    assert style.regularizer.weight == 0.25 and style.batch_norm.decay == 0.5
    assert end_points[registry.LOGITS].shape == [4, 7]
    assert end_points['tiny/exit_flow/block2'].shape == [4, 9, 9, 6]
    assert {v.op.name for v in variables} >= {'tiny/logits/weights', 'tiny/logits/biases'}
    assert all(np.isfinite(value).all() for value in values)
    assert np.any(values[0])


@pytest.mark.published
def test_is_registered_as_a_classifier():
    built = recorded_backbones.build('xception_71', (33, 33), is_training=False)
    assert built.end_points[registry.LOGITS].shape == [2, 11]
    network = registry.get_network('xception_71')
    kernels = {
        name: shape
        for name, (shape, _) in recorded_backbones.variables_of(built.graph).items()
        if name.endswith('weights') and 'entry_flow' in name and 'conv1_depthwise' in name
    }
    assert [shape[2] for shape in kernels.values()] == [64, 128, 256, 256, 728]
    assert network.scope == 'xception_71' and network.logits_scopes == ('xception_71/logits',)
