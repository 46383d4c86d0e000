"""Graphs by hand: constants, neighbors, layers, prefixes."""

import numpy as np
import pytest
import tensorflow as tf

from vision_extras.recover.artifacts import graphs

tf1 = tf.compat.v1


def build(prefix=''):
    """Return the graph of a convolution with batch norm, and a matrix product with a bias."""
    with tf.Graph().as_default() as graph, tf1.name_scope(prefix):
        images = tf1.placeholder(tf.uint8, [1, 8, 8, 3], name='image')
        pixels = tf.pad(tf.cast(images, tf.float32), [[0, 0], [1, 1], [1, 1], [0, 0]])
        weights = tf.identity(tf.constant(np.ones([3, 3, 3, 2], np.float32), name='net/weights'))
        features = tf.nn.conv2d(pixels, weights, 2, 'VALID', name='net/Conv2D')
        values = [tf.constant([1.0, 2.0])] * 4
        features = tf1.nn.fused_batch_norm(features, *values, epsilon=0.25, is_training=False)[0]
        features = tf.nn.relu6(features)
        matrix = tf.constant(np.ones([2, 5], np.float32), name='top/weights')
        logits = tf.matmul(tf.reduce_mean(features, [1, 2]), matrix, name='top/MatMul')
        tf.nn.bias_add(logits, tf.constant([1.0, 2, 3, 4, 5]), name='top/BiasAdd')
    return graph.as_graph_def()


@pytest.fixture(scope='module')
def graph():
    return graphs.Graph(build())


def test_layers_have_their_bias_or_batch_norm(graph):
    first, last = graph.layers()
    assert (first.name, first.weights_name) == ('net/Conv2D', 'net/weights')
    assert (first.has_batch_norm, first.epsilon, first.activation) == (True, 0.25, 'Relu6')
    assert last.bias.tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize('gate', ['own', 'factor', 'published', 'other'])
def test_swish_after_a_bias_and_a_batch_norm(gate):
    with tf.Graph().as_default() as built:
        features = tf1.placeholder(tf.float32, [1, 4, 4, 2])
        weights = tf.constant(np.ones([1, 1, 2, 2], np.float32), name='net/weights')
        features = tf.nn.conv2d(features, weights, 1, 'SAME')
        features = tf.nn.bias_add(features, tf.constant([1.0, 2.0]))
        values = [tf.constant([1.0, 2.0])] * 4
        features = tf1.nn.fused_batch_norm(features, *values, epsilon=0.25, is_training=False)[0]
        active = {
            'own': lambda: features * tf.sigmoid(features),
            'factor': lambda: tf.sigmoid(1.0 * features) * features,
            'published': lambda: tf.nn.swish(features),
            'other': lambda: features * tf.sigmoid(2.0 * features),
        }[gate]()
        tf.identity(active, name='end')
    graph = graphs.Graph(built.as_graph_def())
    (layer,) = graph.layers()
    assert (layer.has_batch_norm, layer.epsilon, layer.bias.tolist()) == (True, 0.25, [1, 2])
    assert (layer.activation == graphs.SWISH) == (gate != 'other')
    assert (graph.activation('end') == graphs.SWISH) == (gate != 'other')


def test_input_of_the_first_layer_is_found_before_its_padding(graph):
    assert graphs.first_layer_input(graph, 'image') == 'Cast:0'


def test_constants_are_read_through_identities(graph):
    assert graph.constant('Identity').shape == (3, 3, 3, 2)
    assert graph.constant('top/MatMul') is None
    assert dict(graph.constants())['top/weights'].shape == (2, 5)


def test_nodes_before_a_node_include_those_of_functions():
    with tf.Graph().as_default() as built:
        tf.while_loop(lambda i: i < 3, lambda i: (i + tf.size(tf.zeros([7])),), (0,))
        tf.identity(built.get_operations()[-1].outputs[0], name='end')
    found = graphs.Graph(built.as_graph_def())
    before = list(found.ancestors(['end']))
    ops = {found.nodes[name].op for name in before}
    assert ops & {'StatelessWhile', 'While'} and ops & {'AddV2', 'Less'}


def test_prefix_is_taken_off_nodes_and_inputs():
    stripped, _ = graphs.strip_prefix(build('import'), 'import/', {})
    found = graphs.Graph(stripped)
    assert found.inputs('net/Conv2D')[0] == 'Pad'
    assert [layer.name for layer in found.layers()] == ['net/Conv2D', 'top/MatMul']


def test_node_keeps_its_prefix_where_another_has_the_name_without_it():
    graph_def = build('import')
    graph_def.node.add(name='Pad', op='NoOp', input=['^import/Pad', 'import/net/Conv2D'])
    outputs = {'padded': 'import/Pad:0', 'logits': 'import/top/BiasAdd:0'}
    stripped, outputs = graphs.strip_prefix(graph_def, 'import/', outputs)
    nodes = {node.name: node for node in stripped.node}
    assert nodes['net/Conv2D'].input[0] == 'import/Pad' and nodes['import/Pad'].op == 'Pad'
    assert nodes['Pad'].input == ['^import/Pad', 'net/Conv2D']
    assert outputs == {'padded': 'import/Pad:0', 'logits': 'top/BiasAdd:0'}


def single_operations(folds):
    """Return the graph of a convolution with a batch norm of single operations."""
    values = {'gamma': [3.0, 4.0], 'beta': [1.0, 1.0], 'mean': [5.0, 6.0], 'variance': [0.75, 3.75]}
    with tf.Graph().as_default() as graph:
        images = tf1.placeholder(tf.float32, [1, 8, 8, 3], name='image')
        weights = tf.constant(np.ones([1, 1, 3, 2], np.float32), name='net/weights/read')
        features = tf.nn.conv2d(images, weights, 1, 'SAME', name='net/Conv2D')
        gamma, beta, mean, variance = (
            tf.constant(value, name=f'net/BatchNorm/{name}') for name, value in values.items()
        )
        factor = tf.math.rsqrt(variance + 0.25) * gamma
        offset = beta - mean * factor
        if folds:
            factor, offset = tf.constant([3.0, 2.0]), tf.constant([-14.0, -11.0])
        tf.nn.relu(features * factor + offset)
    return graphs.Graph(graph.as_graph_def())


def test_batch_norm_of_single_operations():
    (layer,) = single_operations(folds=False).layers()
    assert (layer.has_batch_norm, layer.epsilon, layer.activation) == (True, 0.25, 'Relu')
    assert layer.weights_name == 'net/weights'


def test_folded_factor_belongs_to_the_weights():
    (layer,) = single_operations(folds=True).layers()
    assert layer.is_scaled and not layer.has_batch_norm
    assert layer.weights[0, 0, 0].tolist() == [3, 2]
    assert (layer.bias.tolist(), layer.activation) == ([-14, -11], 'Relu')


def test_rate_of_a_convolution_between_blocks_of_space():
    with tf.Graph().as_default() as built:
        images = tf1.placeholder(tf.float32, [1, 9, 9, 1])
        blocks = tf.space_to_batch(images, [3, 3], [[0, 0], [0, 0]])
        weights = tf.constant(np.ones([1, 1, 1, 2], np.float32))
        tf.nn.conv2d(blocks, weights, 1, 'VALID', name='far')
        tf.nn.conv2d(images, weights, 1, 'VALID', name='near')
    found = graphs.Graph(built.as_graph_def())
    assert (found.rate('far'), found.rate('near')) == (3, 1)


def test_nodes_are_put_behind_their_inputs():
    graph_def = build()
    names = [node.name for node in graph_def.node]
    graphs.sort_nodes(graph_def)
    assert [node.name for node in graph_def.node] == names
    turned = tf1.GraphDef()
    turned.node.extend(reversed(graph_def.node))
    graphs.sort_nodes(turned)
    order = {node.name: place for place, node in enumerate(turned.node)}
    assert len(order) == len(names)
    for node in turned.node:
        assert all(order[name.partition(':')[0]] < order[node.name] for name in node.input)
