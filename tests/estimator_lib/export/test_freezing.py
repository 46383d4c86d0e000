from __future__ import annotations

import collections
import contextlib

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib.export import freezing

tf1 = tf.compat.v1

IMAGES = np.random.RandomState(1).uniform(-1, 1, [2, 9, 8, 3]).astype(np.float32)
NORM = ('gamma', 'beta', 'moving_mean', 'moving_variance')


def variable(name, shape):
    random = np.random.RandomState(len(name) + sum(shape))
    value = random.uniform(0.3, 1.5, shape).astype(np.float32)
    return tf1.get_variable(name, initializer=value)


def batch_norm(inputs, name, is_training=False, is_output_only=True):
    channels = inputs.shape[-1]
    with tf1.variable_scope(name):
        return tf.raw_ops.FusedBatchNormV3(
            x=inputs,
            scale=variable('gamma', [channels]),
            offset=variable('beta', [channels]),
            mean=variable('moving_mean', [channels]),
            variance=variable('moving_variance', [channels]),
            epsilon=0.001,
            is_training=is_training,
        )


def convolution(inputs, name, channels):
    return tf.nn.conv2d(inputs, variable(name, [3, 3, inputs.shape[-1], channels]), 1, 'SAME')


def plain(images):
    return [tf.nn.relu(batch_norm(convolution(images, 'conv', 4), 'norm').y)]


def depthwise(images):
    filters = variable('depthwise', [3, 3, 3, 2])
    return [batch_norm(tf.nn.depthwise_conv2d(images, filters, [1, 2, 2, 1], 'SAME'), 'norm').y]


def two_layers(images):
    hidden = batch_norm(convolution(images, 'conv', 4), 'norm').y
    return [batch_norm(convolution(hidden, 'conv2', 2), 'norm2').y]


def shared_filter(images):
    filters = variable('conv', [3, 3, 3, 4])
    layers = [tf.nn.conv2d(images * scale, filters, 1, 'SAME') for scale in (1.0, 2.0)]
    return [batch_norm(layer, f'norm{index}').y for index, layer in enumerate(layers)]


def convolution_is_used(images):
    hidden = convolution(images, 'conv', 4)
    return [batch_norm(hidden, 'norm').y + hidden]


def convolution_is_output(images):
    hidden = convolution(images, 'conv', 4)
    return [batch_norm(hidden, 'norm').y, hidden]


def no_convolution(images):
    return [batch_norm(images, 'norm').y]


def statistics_of_the_batch(images):
    return [batch_norm(convolution(images, 'conv', 4), 'norm', is_training=True).y]


def statistics_are_output(images):
    norm = batch_norm(convolution(images, 'conv', 4), 'norm')
    return [norm.y, norm.batch_mean + 0.0]


@contextlib.contextmanager
def frozen_network(build):
    """Return the outputs of a network, its frozen graph, and its output tensors."""
    with tf.Graph().as_default(), tf1.Session() as session:
        images = tf1.placeholder(tf.float32, [None, 9, 8, 3], 'images')
        outputs = build(images)
        session.run(tf1.global_variables_initializer())
        expected = session.run(outputs, {images: IMAGES})
        yield expected, freezing.freeze(session, outputs), outputs


def frozen_and_folded(build):
    """Return the outputs of a network, its frozen and folded graphs, and the output names."""
    with frozen_network(build) as (expected, frozen, outputs):
        folded = freezing.fold_batch_norms(frozen, outputs).to_graph_def()
        return expected, frozen.to_graph_def(), folded, [output.name for output in outputs]


def run(graph_def, names):
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.import_graph_def(graph_def, name='')
        return session.run(names, {'images:0': IMAGES})


def count(graph_def):
    return collections.Counter(node.op for node in graph_def.node)


@pytest.mark.parametrize(
    ('build', 'left'),
    [
        (plain, 0),
        (depthwise, 0),
        (two_layers, 0),
        (shared_filter, 2),
        (convolution_is_used, 1),
        (convolution_is_output, 1),
        (no_convolution, 1),
        (statistics_of_the_batch, 1),
        (statistics_are_output, 1),
    ],
)
def test_folding_changes_no_value(build, left):
    expected, frozen, folded, names = frozen_and_folded(build)
    assert not any('Variable' in op or 'VarHandle' in op for op in count(frozen))
    assert count(folded)['FusedBatchNormV3'] == left
    # TensorFlow itself rewrites batch norm with constant statistics, so not even the frozen graph
    # computes the same to the last bit.
    for graph_def in (frozen, folded):
        for value, reference in zip(run(graph_def, names), expected):
            np.testing.assert_allclose(value, reference, rtol=1e-5, atol=3e-6)


def test_a_folded_bias_by_hand():
    # One pixel, one channel: y = gamma * (w * x - mean) / sqrt(variance + epsilon) + beta.
    def build(images):
        hidden = tf.nn.conv2d(
            images[:, :1, :1, :1], tf1.get_variable('w', initializer=[[[[3.0]]]]), 1, 'SAME'
        )
        values = {'scale': 2.0, 'offset': 5.0, 'mean': 1.0, 'variance': 4.0}
        parts = {
            name: tf1.get_variable(name, initializer=[value]) for name, value in values.items()
        }
        return [tf.raw_ops.FusedBatchNormV3(x=hidden, epsilon=0.0, is_training=False, **parts).y]

    _, _, folded, _ = frozen_and_folded(build)
    constants = {
        node.name.rpartition('/')[2]: tf.make_ndarray(node.attr['value'].tensor)
        for node in folded.node
        if node.op == 'Const'
    }
    assert constants['folded_weights'].item() == 3.0  # 3 * 2 / 2
    assert constants['folded_bias'].item() == 4.0  # 5 - 1 * 2 / 2


def of_constants(images):
    """Build weights that are computed from constants, and a sum that is not."""
    weights = variable('conv', [3, 3, 3, 4])
    rounded = tf.quantization.fake_quant_with_min_max_vars(weights * 2.0, 0.0, 1.0)
    first, second = tf.split(rounded * variable('scale', [4]), 2, axis=-1)
    return [tf.nn.conv2d(images, first + second, 1, 'SAME'), second + tf.ones([2]) * 3.0]


def test_what_depends_on_constants_alone_is_computed_once():
    expected, frozen, _, names = frozen_and_folded(of_constants)
    with tf.Graph().as_default() as graph:
        tf1.import_graph_def(frozen, name='')
        outputs = [graph.get_tensor_by_name(name) for name in names]
    constant = freezing.constant_nodes(frozen)
    assert outputs[1].op.name in constant and outputs[0].op.name not in constant
    assert 'images' not in constant
    folded = freezing.fold_constants(frozen, outputs)
    assert set(count(folded)) == {'Placeholder', 'Const', 'Conv2D'}
    for value, reference in zip(run(folded, names), expected):
        np.testing.assert_allclose(value, reference, rtol=1e-5, atol=3e-6)


def test_what_is_random_or_counts_is_no_constant():
    def build(images):
        noise = tf.random.uniform([2, 9, 8, 3], seed=1)
        return [images + noise, tf.raw_ops.Unique(x=tf.constant([1, 1, 2])).idx + 1]

    _, frozen, _, names = frozen_and_folded(build)
    with tf.Graph().as_default() as graph:
        tf1.import_graph_def(frozen, name='')
        outputs = [graph.get_tensor_by_name(name) for name in names]
    folded = freezing.fold_constants(frozen, outputs)
    assert count(folded)['RandomUniform'] == 1
    found, numbers = run(folded, names)
    assert found.shape == (2, 9, 8, 3) and list(numbers) == [1, 1, 2]


def test_a_bypassed_node_is_its_first_input():
    _, frozen, _, names = frozen_and_folded(of_constants)
    (rounding,) = [node.name for node in frozen.node if 'FakeQuant' in node.op]
    plain = freezing.bypass(frozen, [rounding])
    assert not [op for op in count(plain) if 'FakeQuant' in op]
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.import_graph_def(plain, name='')
        inside, found = session.run([f'{rounding}:0', names[1]])
    random = np.random.RandomState(len('conv') + 13)
    np.testing.assert_allclose(inside, 2 * random.uniform(0.3, 1.5, [3, 3, 3, 4]), rtol=1e-6)
    assert inside.max() > 1.0 and found.shape == (3, 3, 3, 2)
    kept = [node for node in frozen.node if 'FakeQuant' in node.op]
    assert len(kept) == 1  # the graph that was given is as it was
    ends = freezing.constants(frozen, list(kept[0].input[1:3]))
    assert sorted(float(one) for one in ends.values()) == [0.0, 1.0]
    assert freezing.constants(frozen, ['images']) == {}


def gathered(images):
    table = variable('table', [5, 3])
    return [images + tf.gather(table, tf.cast(images[0, 0, 0, 0] * 0 + 2, tf.int32))]


def looped(images):
    weights = variable('weights', [3])
    return [tf.while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, x * weights), [0, images])[1]]


def of_two_reads(images):
    """Build a variable that is read twice, once after another op and on a device."""
    scale = variable('scale', [3])
    with tf.control_dependencies([tf.no_op()]), tf.device('/cpu:0'):
        return [images * scale.read_value() + scale]


@pytest.mark.parametrize(('build', 'beside'), [(gathered, 1), (looped, 1), (of_two_reads, 1)])
def test_variables_that_loops_and_gathers_use_become_constants_too(build, beside):
    with frozen_network(build) as (expected, frozen, outputs):
        assert len(frozen.values) == beside
    graph_def = frozen.to_graph_def()
    assert not any('Variable' in op or 'VarHandle' in op for op in count(graph_def))
    assert {node.device for node in graph_def.node} == {''}
    (found,) = run(graph_def, [output.name for output in outputs])
    np.testing.assert_allclose(found, expected[0], rtol=1e-6)


def test_values_are_held_once_and_folding_leaves_them_as_they_are():
    with frozen_network(plain) as (_, frozen, outputs):
        before = {name: value.copy() for name, value in frozen.values.items()}
        folded = freezing.fold_batch_norms(frozen, outputs)
    assert set(before) == {'conv', *(f'norm/{name}' for name in NORM)}
    assert set(folded.values) == {'Conv2D/folded_weights', 'norm/FusedBatchNormV3/folded_bias'}
    for one in (frozen, folded):
        constants = [node for node in one.graph_def.node if node.name in one.values]
        assert len(constants) == len(one.values)
        assert not any('value' in node.attr for node in constants)
    for name, value in before.items():
        np.testing.assert_array_equal(frozen.values[name], value)


def of_activations(rows):
    return tf.matmul(rows, rows + 1.0)


def of_weights(rows):
    return tf.matmul(rows, tf.eye(3) * 2.0)


@pytest.mark.parametrize(
    ('product', 'expected'),
    [(of_weights, True), (of_activations, False), (tf.function(of_activations), False)],
)
def test_weights_that_inputs_reach_are_not_fixed(product, expected):
    """Of these oneDNN would keep the activation of the first run."""
    with tf.Graph().as_default() as graph:
        product(tf1.placeholder(tf.float32, [3, 3]))
    assert freezing.has_fixed_weights(graph.as_graph_def()) == expected


def test_weights_of_a_network_are_fixed():
    with frozen_network(two_layers) as (_, frozen, _):
        assert freezing.has_fixed_weights(frozen.graph_def)
