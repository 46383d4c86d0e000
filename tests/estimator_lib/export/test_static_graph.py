import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors, graph_state
from estimator_lib.export import static_graph
from estimator_lib.export.deployable import Ops
from estimator_lib.task import IMAGE
from protos import pipeline_pb2
from tests.estimator_lib import tiny_task

tf1 = tf.compat.v1
Config = pipeline_pb2.TrainEvalPipelineConfig
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
    return static_graph.build(task.deployable(Ops.CORE, {}), Config(), prefix)


def run(graph, pixels):
    """The outputs of the part that files are made of."""
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
