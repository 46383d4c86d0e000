"""Runs of graphs by hand, with inputs of each type."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from tests.vision_extras.recover.artifacts import tiny_tflite
from vision_extras.recover.artifacts import graphs, reading, running

tf1 = tf.compat.v1


def artifact(build):
    with tf.Graph().as_default() as graph:
        tf.identity(build(), name='out')
    found = graphs.Graph(graph.as_graph_def())
    return reading.Artifact('a.pb', reading.FROZEN_GRAPH, {}, found)


def _parsed():
    features = {'image/encoded': tf.io.FixedLenFeature([], tf.string)}
    examples = tf1.placeholder(tf.string, [None], name='tf_example')
    return tf.io.parse_example(examples, features)['image/encoded'][0]


IMAGE = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)


@pytest.mark.parametrize(
    'build',
    [
        lambda: tf1.placeholder(tf.uint8, [None, None, None, 3], name='images'),
        lambda: tf.expand_dims(
            tf.io.decode_png(tf1.placeholder(tf.string, [None], name='images')[0]), 0
        ),
        lambda: tf.expand_dims(tf.io.decode_png(_parsed()), 0),
    ],
    ids=['pixels', 'encoded', 'examples'],
)
def test_image_reaches_the_graph(build):
    with running.open_runner(artifact(build)) as runner:
        assert runner.takes_pixels
        np.testing.assert_array_equal(runner.run({'x': 'out:0'}, IMAGE)['x'], IMAGE[np.newaxis])


def test_input_of_a_network_is_no_pixels():
    built = artifact(lambda: tf1.placeholder(tf.float32, [1, 2, 4, 3], name='images'))
    with running.open_runner(built) as runner:
        assert not runner.takes_pixels and runner.input_shape == [1, 2, 4, 3]


def test_graph_without_images_is_refused():
    opened = running.open_runner(artifact(lambda: tf.constant(1.0)))
    with pytest.raises(errors.UserError, match='a.pb is no vision model'), opened:
        pass


def test_images_are_functions_of_the_seed():
    first, second = (running.test_images([(9, 12)], seed=3)[0] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert first.shape == (9, 12, 3) and first.dtype == np.uint8


def test_images_have_the_size_and_number_that_a_graph_fixes():
    built = artifact(lambda: tf1.placeholder(tf.uint8, [2, 6, 5, 3], name='images'))
    with running.open_runner(built) as runner:
        image = runner.test_image((64, 96))
        assert image.shape == (6, 5, 3)
        assert runner.run({'x': 'out:0'}, image)['x'].shape == (2, 6, 5, 3)


@pytest.mark.parametrize('factor', [None, 0.5])
def test_float_pixels_are_known_by_their_preparation(factor):
    def build():
        images = tf1.placeholder(tf.float32, [None, None, None, 3], name='images')
        pixels = images if factor is None else images * factor
        return tf.nn.conv2d(pixels, tf.constant(np.ones([1, 1, 3, 1], np.float32)), 1, 'SAME')

    with running.open_runner(artifact(build)) as runner:
        assert runner.takes_pixels == (factor is not None)


def test_ops_of_other_interpreters_are_left_out():
    built = artifact(lambda: tf1.placeholder(tf.uint8, [None, None, None, 3], name='images'))
    graph_def = built.graph.graph_def
    graph_def.node.add(name='boxes', op='TFLite_Detection_PostProcess', input=['out'])
    graph_def.node.add(name='later', op='Identity', input=['boxes:1'])
    with running.open_runner(built) as runner:
        np.testing.assert_array_equal(runner.run({'x': 'out:0'}, IMAGE)['x'], IMAGE[np.newaxis])


@pytest.mark.parametrize('method', ['set_tensor', 'invoke'])
@pytest.mark.parametrize('kind', [RuntimeError, ValueError])
def test_failure_of_the_interpreter_is_a_sentence(method, kind, tmp_path, monkeypatch):
    def fail(*arguments):
        del arguments
        raise kind('Node 3 failed.\nmore')

    path = tmp_path / 'a.tflite'
    path.write_bytes(tiny_tflite.convert())
    file = reading.read(str(path))
    with running.open_runner(file) as runner:
        monkeypatch.setattr(runner._engine._interpreter, method, fail)
        with pytest.raises(errors.UserError, match='a.tflite fails on an image .*: Node 3 failed.'):
            runner.run({}, np.zeros([4, 4, 3], np.uint8))


def test_interpreter_computes_tensors_inside_of_a_file(tmp_path):
    path = tmp_path / 'a.tflite'
    path.write_bytes(tiny_tflite.convert())
    file = reading.read(str(path))
    image = np.full([4, 4, 3], 2, np.uint8)
    with running.open_runner(file) as runner:
        assert runner.takes_pixels and runner.input_shape == [1, 4, 4, 3]
        assert runner.accepted_size((9, 9)) == (4, 4)
        inside = graphs.first_layer_input(file.graph, runner.input_name)
        last = file.graph.find_ops('Relu6')[0]
        values = runner.run({'inside': inside, 'last': f'{last}:0'}, image)
    np.testing.assert_array_equal(values['inside'], np.ones([1, 4, 4, 3]))
    # [0 + 2 + 4, 1 + 3 + 5] + BIAS, at most 6.
    np.testing.assert_allclose(values['last'][0, 0, 0], [6.0, 6.0])
    with running.open_runner(file) as runner:
        dark = runner.run({'last': f'{last}:0'}, np.ones([4, 4, 3], np.uint8))
    np.testing.assert_allclose(dark['last'][0, 0, 0], [0.5, 0.0])
