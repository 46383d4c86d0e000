import numpy as np
import tensorflow as tf

from estimator_lib.export import common_ranges, static_graph, tflite
from tests.estimator_lib import tiny_task

tf1 = tf.compat.v1
FIRST, SECOND = (-1.0, 3.0), (-2.0, 1.5)


def rounded(values, ends, name):
    low, high = (tf.constant(end, name=f'{name}/{kind}') for end, kind in zip(ends, 'lh'))
    return tf.quantization.fake_quant_with_min_max_vars(values, low, high, name=name)


def widened(build):
    """The ranges of the roundings of a graph after `widen`, by their names."""
    with tf.Graph().as_default() as graph:
        build()
    result = common_ranges.widen(graph.as_graph_def())
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
            tf.reshape(rounded(one, FIRST, 'one'), [1, 4, 4]),
            tf.squeeze(tf.reshape(rounded(two, SECOND, 'two'), [1, 4, 1, 4]), 2),
        ]
        tf.nn.relu(tf.concat(parts, 1))
        rounded(apart, (-9.0, 9.0), 'apart')

    assert widened(build) == {'one': (-2.0, 3.0), 'two': (-2.0, 3.0), 'apart': (-9.0, 9.0)}


def test_a_part_that_is_not_rounded():
    def build():
        one, two = inputs(2)
        tf.concat([rounded(one, FIRST, 'one'), tf.nn.relu(two)], 1)

    assert widened(build) == {'one': FIRST}


def test_a_part_of_two_concatenations():
    def build():
        one, two, three = inputs(3)
        one, two = rounded(one, FIRST, 'one'), rounded(two, SECOND, 'two')
        tf.concat([one, two], 1)
        tf.concat([rounded(three, (-1.0, 7.0), 'three'), two], 1)

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
            tf.reshape(rounded(values, ends, name), [1, -1, 2])
            for values, ends, name in ((small, (0.0, 3.0), 'one'), (large, (0.0, 12.0), 'two'))
        ]
        logits = tf.concat(levels, 1, name='levels')
    model = static_graph.StaticGraph(
        Levels(tiny_task.TinyTask()),
        common_ranges.widen(graph.as_graph_def()),
        graph.as_graph_def(),
        {'logits': logits.name},
        True,
    )
    pixels = np.random.RandomState(2).randint(0, 256, [4, 1, 6, 6, 3]).astype(np.float32)
    path = str(tmp_path / 'model.tflite')
    tflite.TfliteWriter().write(model, path, 'int8', pixels)
    found = tflite.TfliteModel(path).run(pixels[0])['logits']
    parts = [pixels[0].reshape(36, 3) @ one[0, 0] for one in (filters[0], 4 * filters[1])]
    expected = np.concatenate(parts)[np.newaxis]
    assert expected.max() > 4.0
    np.testing.assert_allclose(found, expected, atol=0.1)
