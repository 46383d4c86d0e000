import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors, graph_state
from estimator_lib.export.devices import static_graph, tflite
from estimator_lib.export.writers import Source
from estimator_lib.task import IMAGE
from estimator_lib.task_interfaces.deployable import Ops
from protos import pipeline_pb2
from tests.estimator_lib import tiny_task

tf1 = tf.compat.v1
Config = pipeline_pb2.TrainEvalPipelineConfig
FIRST, SECOND = (-1.0, 3.0), (-2.0, 1.5)
PIXELS = np.random.RandomState(3).randint(0, 256, [2, 1, 6, 6, 3]).astype(np.float32)


class Rounded(tiny_task.TinyTask):
    """A network that was trained to be quantized: two layers, without batch norm."""

    def predict(self, features, mode, labels=None):
        outputs = features[IMAGE]
        for layer in ('one', 'two'):
            with tf1.variable_scope(layer):
                weights = tiny_task._variable('weights', [3, 3, outputs.shape[-1], 2])
                outputs = tf.nn.conv2d(outputs, rounded(weights * 2.0, 'w'), 1, 'SAME')
                outputs = rounded(tf.nn.relu(outputs), 'a')
        return {'logits': tf.reduce_mean(outputs, [1, 2])}


def rounded(values, scope):
    low, high = (range_end(f'{scope}/{end}') for end in ('min', 'max'))
    return tf.quantization.fake_quant_with_min_max_vars(values, low, high)


def range_end(name):
    collections = [tf1.GraphKeys.GLOBAL_VARIABLES]
    variable = tf1.get_variable(name, [], trainable=False, collections=collections)
    graph_state.add_companion(variable.op.name, 'ranges')
    return variable


def rounded_values(weight_ranges):
    random = np.random.RandomState(1)
    values = {
        'one/weights': random.uniform(-1, 1, [3, 3, 3, 2]),
        'two/weights': random.uniform(-1, 1, [3, 3, 2, 2]),
    }
    for layer, (low, high) in zip(('one', 'two'), weight_ranges):
        values.update({f'{layer}/w/min': low, f'{layer}/w/max': high})
        values.update({f'{layer}/a/min': 0.0, f'{layer}/a/max': 5.0})
    return {name: np.array(value, np.float32) for name, value in values.items()}


def build(task, values, folder):
    prefix = tiny_task.save(folder / 'model.ckpt', values)
    return static_graph.build(task.deployable(Ops.CORE), Source(task, Config(), prefix))


def run(graph, pixels):
    """Return the outputs of the part that files are made of."""
    with tf.Graph().as_default(), tf1.Session() as session:
        image = tf1.placeholder(tf.float32, [1, 6, 6, 3])
        outputs = graph.add(image, Ops.CORE)
        assert {name: one.op.name for name, one in outputs.items()} == {
            'logits': 'logits',
            'classes': 'classes',
        }
        return [session.run(outputs, {image: one}) for one in pixels]


def test_a_network_of_constants_computes_what_the_network_does(tmp_path):
    graph = build(tiny_task.TinyTask(), tiny_task.values(), tmp_path)
    assert not graph.is_quantized
    ops = {node.op for node in graph.graph_def.node}
    assert not [op for op in ops if 'Var' in op or 'BatchNorm' in op]
    expected = tiny_task.expected_logits(PIXELS[:, 0], tiny_task.values())
    for found in (graph.run(PIXELS), run(graph, PIXELS)):
        logits = np.concatenate([one['logits'] for one in found])
        np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)
        assert [int(one['classes'][0]) for one in found] == list(expected.argmax(-1))


def test_of_a_quantized_network_the_weights_are_not_rounded_and_the_activations_are(tmp_path):
    values = rounded_values([(-2.0, 1.5), (-1.5, 2.0)])
    graph = build(Rounded(), values, tmp_path)
    assert graph.is_quantized
    kinds = [node.op for node in graph.graph_def.node]
    assert kinds.count('FakeQuantWithMinMaxVars') == 2
    # Twice the variable, which is what is multiplied by, is computed once and for all.
    weights = [
        tf.make_ndarray(node.attr['value'].tensor)
        for node in graph.graph_def.node
        if node.op == 'Const' and len(node.attr['value'].tensor.tensor_shape.dim) == 4
    ]
    assert len(weights) == 2
    for name in ('one/weights', 'two/weights'):
        assert any(
            one.shape == values[name].shape and np.array_equal(one, 2 * values[name])
            for one in weights
        )
    evaluated = [node.op for node in graph.evaluated.node]
    assert evaluated.count('FakeQuantWithMinMaxVars') == 4


def test_ranges_that_were_never_trained(tmp_path):
    with pytest.raises(errors.CheckpointError, match='were never trained: those of all 2 weights'):
        build(Rounded(), rounded_values([(-6.0, 6.0), (-6.0, 6.0)]), tmp_path)


def test_a_checkpoint_without_ranges(tmp_path):
    values = rounded_values([(-2.0, 1.5), (-1.5, 2.0)])
    floats = {name: value for name, value in values.items() if 'weights' in name}
    with pytest.raises(errors.CheckpointError, match='ranges'):
        build(Rounded(), floats, tmp_path)


def round_to(values, ends, name):
    low, high = (tf.constant(end, name=f'{name}/{kind}') for end, kind in zip(ends, 'lh'))
    return tf.quantization.fake_quant_with_min_max_vars(values, low, high, name=name)


def widened(build):
    """Return the ranges of the roundings of a graph after `widen_ranges`, by their names."""
    with tf.Graph().as_default() as graph:
        build()
    result = static_graph.widen_ranges(graph.as_graph_def())
    assert [node.op for node in result.node if node.op != 'Const'] == [
        node.op for node in graph.as_graph_def().node if node.op != 'Const'
    ]
    values = {
        node.name: float(tf.make_ndarray(node.attr['value'].tensor))
        for node in result.node
        if node.op == 'Const' and not node.attr['value'].tensor.tensor_shape.dim
    }
    return {
        node.name: tuple(round(values[end], 6) for end in node.input[1:3])
        for node in result.node
        if node.op == 'FakeQuantWithMinMaxVars'
    }


def inputs(count):
    return [tf1.placeholder(tf.float32, [1, 2, 2, 4]) for _ in range(count)]


def test_parts_of_a_concatenation_have_one_range():
    def build():
        one, two, apart = inputs(3)
        parts = [
            tf.reshape(round_to(one, FIRST, 'one'), [1, 4, 4]),
            tf.squeeze(tf.reshape(round_to(two, SECOND, 'two'), [1, 4, 1, 4]), 2),
        ]
        tf.nn.relu(tf.concat(parts, 1))
        round_to(apart, (-9.0, 9.0), 'apart')

    assert widened(build) == {'one': (-2.0, 3.0), 'two': (-2.0, 3.0), 'apart': (-9.0, 9.0)}


def test_a_part_that_is_not_rounded():
    def build():
        one, two = inputs(2)
        tf.concat([round_to(one, FIRST, 'one'), tf.nn.relu(two)], 1)

    assert widened(build) == {'one': FIRST}


def test_a_part_of_two_concatenations():
    def build():
        one, two, three = inputs(3)
        one, two = round_to(one, FIRST, 'one'), round_to(two, SECOND, 'two')
        tf.concat([one, two], 1)
        tf.concat([round_to(three, (-1.0, 7.0), 'three'), two], 1)

    assert set(widened(build).values()) == {(-2.0, 7.0)}


class Levels(tiny_task.TinyDeployable):
    """Two convolutions side by side, the second of which has the larger values."""

    def finish(self, raw, ops):
        return {'logits': tf.identity(raw['logits'])}


def test_a_file_keeps_what_the_first_part_would_cut_off(tmp_path):
    filters = np.random.RandomState(1).uniform(0.1, 1.0, [2, 1, 1, 3, 2]) / 255
    with tf.Graph().as_default() as graph:
        image = tf1.placeholder(tf.float32, [1, 6, 6, 3], static_graph.INPUT)
        small, large = (
            tf.nn.conv2d(image, tf.constant(one, tf.float32), 1, 'SAME')
            for one in (filters[0], 4 * filters[1])
        )
        levels = [
            tf.reshape(round_to(values, ends, name), [1, -1, 2])
            for values, ends, name in ((small, (0.0, 3.0), 'one'), (large, (0.0, 12.0), 'two'))
        ]
        logits = tf.concat(levels, 1, name='levels')
    model = static_graph.StaticGraph(
        Levels(tiny_task.TinyTask()),
        static_graph.widen_ranges(graph.as_graph_def()),
        graph.as_graph_def(),
        {'logits': logits.name},
        True,
    )
    pixels = np.random.RandomState(2).randint(0, 256, [4, 1, 6, 6, 3]).astype(np.float32)
    path = str(tmp_path / 'model.tflite')
    tflite.TfliteWriter().convert(model, path, 'int8', pixels)
    found = tflite.TfliteModel(path).run(pixels[0])['logits']
    parts = [pixels[0].reshape(36, 3) @ one[0, 0] for one in (filters[0], 4 * filters[1])]
    expected = np.concatenate(parts)[np.newaxis]
    assert expected.max() > 4.0
    np.testing.assert_allclose(found, expected, atol=0.1)
