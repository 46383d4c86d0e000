"""Kernels by the names of variables, with a folded batch norm."""

import numpy as np
import tensorflow as tf

from model_fns import layers
from vision_extras.recover import kernels as kernels_lib
from vision_extras.recover.artifacts import graphs, reading

tf1 = tf.compat.v1
STYLE = layers.LayerStyle(batch_norm=layers.BatchNorm(epsilon=0.25))


def network():
    with tf.Graph().as_default() as graph, tf1.variable_scope('FeatureExtractor/Net'):
        images = tf.zeros([1, 4, 4, 3])
        output = layers.conv2d(images, 2, 1, STYLE, 'one')
        layers.conv2d(images, 2, 1, STYLE, 'unused')
    return graph, output


def folded():
    """Return the kernels of a graph with a bias in place of the batch norm."""
    with tf.Graph().as_default() as graph:
        images = tf1.placeholder(tf.float32, [1, 4, 4, 3])
        weights = tf.constant(
            np.full([1, 1, 3, 2], 3.0, np.float32),
            name='FeatureExtractor/Net_1/one/Conv2D/folded_weights',
        )
        output = tf.nn.conv2d(images, weights, 1, 'SAME', name='FeatureExtractor/Net_1/one/Conv2D')
        tf.nn.bias_add(output, [5.0, 6.0])
        plain = tf.constant(np.ones([1, 1, 3, 2], np.float32))
        tf.nn.conv2d(images, plain, 1, 'SAME', name='FeatureExtractor/Net/two/Conv2D')
    found = graphs.Graph(graph.as_graph_def())
    artifact = reading.Artifact('a', reading.FROZEN_GRAPH, dict(found.constants()), found)
    return kernels_lib.Kernels(artifact)


def test_folded_batch_norm_becomes_one_that_only_adds_the_bias():
    graph, output = network()
    values = folded().values(graph, [output])
    norm = 'FeatureExtractor/Net/one/BatchNorm'
    assert values.missing == []
    assert values.known['FeatureExtractor/Net/one/weights'].ravel()[0] == 3
    assert values.known[f'{norm}/beta'].tolist() == [5, 6]
    assert values.known[f'{norm}/moving_mean'].tolist() == [0, 0]
    # gamma / sqrt(variance + epsilon) = 1
    assert values.known[f'{norm}/moving_variance'].tolist() == [0.75, 0.75]


def test_variables_without_use_may_be_missing():
    graph, output = network()
    names = {variable.op.name for variable in folded().values(graph, [output]).unused}
    assert 'FeatureExtractor/Net/unused/weights' in names


def test_differences_of_kernels():
    expected = kernels_lib.NetworkKernels({'a': (1, 2), 'b': (3,), 'c': (4,)}, {'a', 'c'})
    lines = kernels_lib.differences({'a': (1, 3), 'd': (5,)}, expected)
    assert lines == ['c [4] is missing', 'a is [1, 3]; expected [1, 2]', 'd [5] is not in it']


def test_folded_kernel_that_is_named_by_its_operation():
    """As `optimize_for_inference` does, in a scope that is entered twice."""
    with tf.Graph().as_default() as graph:
        images = tf1.placeholder(tf.float32, [1, 4, 4, 3])
        name = 'Net/Net/one/depthwise'
        weights = tf.constant(np.ones([1, 1, 3, 1], np.float32), name=f'{name}_weights')
        tf.nn.depthwise_conv2d(images, weights, [1, 1, 1, 1], 'SAME', name=name)
    found = graphs.Graph(graph.as_graph_def())
    artifact = reading.Artifact('a', reading.FROZEN_GRAPH, dict(found.constants()), found)
    shapes = kernels_lib.Kernels(artifact).shapes()
    assert shapes == {'Net/one/depthwise_weights': (1, 1, 3, 1)}


def test_shared_kernel_has_a_batch_norm_for_each_level():
    """The kernel of a level, with its folded batch norm, is a multiple of that of the first."""
    kernel = np.arange(1, 7, dtype=np.float32).reshape(1, 1, 3, 2)
    with tf.Graph().as_default() as graph:
        images = tf1.placeholder(tf.float32, [1, 4, 4, 3])
        # Converters may put the levels in any order.
        for scope, factor, bias in (('Head_1', [2.0, 0.5], 7.0), ('Head', [1.0, 1.0], 5.0)):
            layer = tf.nn.conv2d(images, kernel * factor, 1, 'SAME', name=f'{scope}/one/Conv2D')
            tf.nn.bias_add(layer, [bias, bias])
    found = graphs.Graph(graph.as_graph_def())
    artifact = reading.Artifact('a', reading.FROZEN_GRAPH, dict(found.constants()), found)
    with tf.Graph().as_default() as graph:
        for level in range(2):
            with tf1.variable_scope('Head', reuse=tf1.AUTO_REUSE):
                norm = f'BatchNorm/feature_{level}'
                style = layers.LayerStyle(batch_norm=layers.BatchNorm(epsilon=0.25, scale=True))
                inputs = tf.zeros([1, 4, 4, 3])
                images = layers.conv2d(inputs, 2, 1, style, 'one', norm_scope=norm)
    values = kernels_lib.Kernels(artifact).values(graph, [images])
    assert values.missing == []
    np.testing.assert_array_equal(values.known['Head/one/weights'], kernel)
    norms = {
        name: values.known[f'Head/one/BatchNorm/feature_{name}'].tolist()
        for name in ('0/gamma', '0/beta', '1/gamma', '1/beta', '1/moving_variance')
    }
    assert norms == {
        '0/gamma': [1, 1], '0/beta': [5, 5], '1/gamma': [2, 0.5], '1/beta': [7, 7],
        '1/moving_variance': [0.75, 0.75],
    }  # fmt: skip


def test_product_and_sum_before_a_layer_are_a_batch_norm():
    arrays = {'net/preact/gamma': np.array([2.0, 3.0]), 'net/preact/beta': np.array([4.0, 5.0])}
    kernels = kernels_lib.Kernels(reading.Artifact('a', reading.TFLITE_FILE, arrays))
    with tf.Graph().as_default() as graph, tf1.variable_scope('net'):
        norm = layers.BatchNorm(epsilon=0.25, scale=True)
        inputs = tf.zeros([1, 4, 4, 2])
        output = layers.batch_norm(inputs, norm, False, 'preact')
    values = kernels.values(graph, [output])
    assert values.missing == []
    assert values.known['net/preact/moving_mean'].tolist() == [0, 0]
    assert values.known['net/preact/moving_variance'].tolist() == [0.75, 0.75]
