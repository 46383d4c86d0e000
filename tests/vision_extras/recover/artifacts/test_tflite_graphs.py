"""Graphs of networks of TFLite files by hand."""

import numpy as np

from vision_extras.recover.artifacts import graphs, tflite_graphs
from vision_extras.recover.artifacts.tflite_files import LEFT_OUT, File, Operation, Tensor

IMAGE = Tensor('image:0', np.float32, (1, 4, 4, 3))
NO_ACTIVATION = {'fusedActivationFunction': 0}


def constant(name, value):
    value = np.asarray(value)
    return Tensor(name, value.dtype.type, value.shape, value)


def translate(tensors, *operations, outputs=None):
    file = File([IMAGE, *tensors], list(operations), [0], outputs or {})
    translated = tflite_graphs.translate(file)
    return graphs.Graph(translated.graph_def), translated.outputs


def convolution(name, kernel_name='net/one/Conv2D', kernel=None, rate=1):
    """Return the graph of a convolution [2, 3, 3, 3] with a bias and a ReLU6."""
    kernel = np.arange(54, dtype=np.float32).reshape(2, 3, 3, 3) if kernel is None else kernel
    options = {'fusedActivationFunction': 3, 'dilationHFactor': rate, 'dilationWFactor': rate}
    tensors = [
        constant(kernel_name, kernel),
        constant('any', np.array([1.0, 2.0], np.float32)),
        Tensor(name, np.float32, (1, 4, 4, 2)),
    ]
    return translate(tensors, Operation('CONV_2D', (0, 1, 2), (3,), options), outputs={'y': 3})


def test_merged_layer_is_several_nodes_again():
    graph, outputs = convolution('net/one/Relu6;net/one/BiasAdd;net/two/Conv2D', rate=2)
    (layer,) = graph.layers()
    assert (layer.name, layer.activation) == ('net/one/Conv2D', 'Relu6')
    assert layer.bias.tolist() == [1, 2]
    # From [outputs, height, width, inputs] to [height, width, inputs, outputs].
    assert layer.weights.shape == (3, 3, 3, 2)
    assert layer.weights[0, 1, 2].tolist() == [5, 32]
    assert graph.rate(layer.name) == 2
    assert outputs == {'y': 'net/one/Relu6:0'}
    tensors = graph.nodes['net/one/Relu6'].attr[tflite_graphs.TENSORS]
    assert list(tensors.list.i) == [3]
    assert graphs.first_layer_input(graph, 'image') == 'image:0'


def scope_of(name, kernel_name):
    graph, _ = convolution(name, kernel_name)
    (layer,) = graph.layers()
    return layer.name, layer.weights_name


def test_scope_is_that_of_the_output():
    kernel = 'any/depthwise;other/Conv2D'
    for name in (
        'net/one/Relu6',
        'net/one/Relu61',  # the second of that name
        'net/one/BatchNorm/FusedBatchNormV3;other/Conv2D',
        'net/one/BatchNorm/batchnorm/add_1',
        'net/one/BatchNorm/feature_2/FusedBatchNorm',
        'net/one/separable_conv2d/depthwise',
        'net/one/Conv2D_2',
    ):
        assert scope_of(name, kernel) == ('net/one/Conv2D', 'net/one/Conv2D/kernel')


def test_scope_of_a_layer_that_is_named_as_an_operation():
    name = 'net/expanded_conv/depthwise/depthwise'
    assert scope_of(name, 'x')[0] == 'net/expanded_conv/depthwise/Conv2D'


def test_scope_is_that_of_the_kernel_where_the_output_has_none():
    assert scope_of('logits:0', 'net/top/Conv2D')[0] == 'net/top/Conv2D'
    # Of the first converter, which keeps the names of variables.
    names = ('net/top/Conv2D', 'net/top/weights')
    assert scope_of('net/output', 'net/top/weights/read') == names
    assert scope_of('nothing', 'known')[0] == 'nothing/Conv2D'


def test_depthwise_kernel_has_its_multiplier():
    kernel = np.arange(6, dtype=np.float32).reshape(1, 1, 1, 6)
    tensors = [constant('k', kernel), Tensor('net/one/depthwise', np.float32, (1, 4, 4, 6))]
    operation = Operation('DEPTHWISE_CONV_2D', (0, 1, LEFT_OUT), (2,), NO_ACTIVATION)
    (layer,) = translate(tensors, operation)[0].layers()
    assert layer.weights.tolist() == [[[[0, 1], [2, 3], [4, 5]]]]
    assert (layer.op, layer.bias) == ('DepthwiseConv2dNative', None)


def test_matrix_is_transposed():
    tensors = [
        constant('k', np.array([[1.0, 2.0, 3.0]], np.float32)),
        Tensor('top/MatMul;top/BiasAdd', np.float32, (1, 1)),
    ]
    operation = Operation('FULLY_CONNECTED', (0, 1, LEFT_OUT), (2,), NO_ACTIVATION)
    (layer,) = translate(tensors, operation)[0].layers()
    assert layer.weights.tolist() == [[1], [2], [3]]


def test_weights_of_float16_are_widened():
    kernel = np.ones([2, 1, 1, 3], np.float16)
    tensors = [
        constant('net/one/Conv2D', kernel),
        Tensor('net/one/Conv2D1', np.float32, kernel.shape),
        Tensor('net/one/Relu', np.float32, (1, 4, 4, 2)),
    ]
    graph, _ = translate(
        tensors,
        Operation('DEQUANTIZE', (1,), (2,), {}),
        Operation('CONV_2D', (0, 2, LEFT_OUT), (3,), NO_ACTIVATION),
    )
    (layer,) = graph.layers()
    assert layer.weights.dtype == np.float32 and not graph.find_ops('Dequantize')


def test_layer_of_integers_is_no_layer():
    graph, _ = convolution('net/one/Relu6', 'k', np.ones([2, 1, 1, 3], np.int8))
    assert not graph.layers()
    assert graph.find_ops(tflite_graphs.QUANTIZED) == ['net/one/Conv2D']


def test_custom_operation_has_its_options_as_attributes():
    tensors = [Tensor('boxes', np.float32, (1, 2, 4)), Tensor('scores', np.float32, (1, 2))]
    options = {'most': 3, 'scale': 0.5, 'fast': True}
    operation = Operation('Suppress', (0,), (1, 2), options)
    graph, outputs = translate(tensors, operation, outputs={'s': 2})
    node = graph.nodes['boxes']
    assert (node.op, node.attr['most'].i, node.attr['scale'].f) == ('Suppress', 3, 0.5)
    assert node.attr['fast'].b
    assert outputs == {'s': 'boxes:1'}


def test_hard_swish_is_its_formula():
    tensors = [Tensor('swish', np.float32, (1, 4, 4, 3))]
    graph, _ = translate(tensors, Operation('HARD_SWISH', (0,), (1,), {}))
    ops = [node.op for node in graph.graph_def.node if node.op not in ('Const', 'Placeholder')]
    assert ops == ['AddV2', 'Relu6', 'Mul', 'Mul']


def test_equal_names_get_numbers():
    tensors = [Tensor('x', np.float32, (1,)), Tensor('x', np.float32, (1,))]
    operations = [Operation('ABS', (0,), (1,), {}), Operation('ABS', (1,), (2,), {})]
    graph, _ = translate(tensors, *operations)
    assert graph.inputs('x_1') == ['x']


def test_bias_is_without_the_shift_of_a_hard_sigmoid():
    """relu6(x + 3) / 6, whose 3 the converter has added to the bias."""
    tensors = [
        constant('k', np.ones([2, 1, 1, 3], np.float32)),
        constant('b', np.array([4.0, 5.0], np.float32)),
        Tensor('net/one/Relu6', np.float32, (1, 4, 4, 2)),
        constant('sixth', np.float32(0.16667)),
        Tensor('net/mul', np.float32, (1, 4, 4, 2)),
    ]
    layer = Operation('CONV_2D', (0, 1, 2), (3,), {'fusedActivationFunction': 3})
    graph, _ = translate(tensors, layer, Operation('MUL', (3, 4), (5,), NO_ACTIVATION))
    (found,) = graph.layers()
    assert found.bias.tolist() == [1, 2]
    shift = graph.inputs('net/one/Relu6')[0]
    assert graph.nodes[shift].op == 'AddV2' and graph.constant('net/one/add/y') == 3
    graph, _ = translate(tensors, layer)
    assert graph.layers()[0].bias.tolist() == [4, 5]


def test_batch_norm_before_a_layer_has_the_names_of_its_variables():
    tensors = [
        constant('net/preact/FusedBatchNormV3', np.array([2.0, 3.0, 4.0], np.float32)),
        Tensor('net/preact/FusedBatchNormV32', np.float32, (1, 4, 4, 3)),
        constant('net/preact/FusedBatchNormV31', np.array([[5.0, 6.0, 7.0]], np.float32)),
        Tensor('net/Relu', np.float32, (1, 4, 4, 3)),
        constant('net/one/BatchNorm/FusedBatchNormV3', np.ones([3], np.float32)),
        Tensor('after', np.float32, (1, 4, 4, 3)),
    ]
    graph, _ = translate(
        tensors,
        Operation('MUL', (0, 1), (2,), NO_ACTIVATION),
        Operation('ADD', (2, 3), (4,), {'fusedActivationFunction': 1}),
        Operation('MUL', (4, 5), (6,), NO_ACTIVATION),
    )
    assert graph.constant('net/preact/gamma').tolist() == [2, 3, 4]
    assert graph.constant('net/preact/beta').tolist() == [5, 6, 7]
    assert 'net/one/BatchNorm/gamma' not in graph.nodes  # is a part of its layer
