"""Tensors that lose most in int8, and tensors that stay float."""

import re

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.export.devices import device_files, int8_tensors, static_graph, tflite
from estimator_lib.export.devices.int8_tensors import Op
from tests.estimator_lib import tiny_task

tf1 = tf.compat.v1
PIXELS = np.random.RandomState(3).randint(0, 256, [8, 1, 6, 6, 3]).astype(np.float32)
# One channel is 100,000 times larger than the other, so in int8 the other is 0.
SCALES = np.array([1000.0, 0.01], np.float32)


class Wide(tiny_task.TinyDeployable):
    def finish(self, raw, ops):
        return {'logits': raw['logits']}


def split_unevenly(values):
    return tf.concat(tf.split(values, [1, 5], axis=1), axis=1)


def build(move):
    """Build two convolutions, between which one channel is very large, and an op moves values."""
    random = np.random.RandomState(0)
    first, second = (random.uniform(0.1, 0.3, [3, 3, *ends]) for ends in ((3, 2), (2, 2)))
    with tf.Graph().as_default() as network:
        images = tf1.placeholder(tf.float32, [1, 6, 6, 3], static_graph.INPUT)
        wide = tf.nn.conv2d(images / 255.0, first.astype(np.float32) * SCALES, 1, 'SAME')
        wide = tf.nn.relu(wide, 'net/wide')
        moved = move(wide)
        second = second.astype(np.float32) / SCALES[:, np.newaxis]
        narrow = tf.nn.relu(tf.nn.conv2d(moved, second, 1, 'SAME'), 'net/narrow')
        tf.reduce_mean(narrow, [1, 2], name='scores')
        graph_def = network.as_graph_def()
    names = {'logits': 'scores:0'}
    return static_graph.StaticGraph(
        Wide(tiny_task.TinyTask()), graph_def, graph_def, names, is_quantized=False
    )


@pytest.fixture(scope='module')
def graph():
    return build(lambda values: tf.nn.max_pool2d(values, 2, 2, 'SAME'))


def largest_error(graph, path, **options):
    writer = tflite.TfliteWriter(**options)
    writer.convert(graph, path, 'int8', PIXELS)
    model = writer.load(path)
    assert model.about['inputs']['image']['dtype'] == 'uint8'
    expected = [outputs['logits'] for outputs in graph.run(PIXELS)]
    computed = [model.run(image)['logits'] for image in PIXELS]
    return np.abs(np.subtract(expected, computed)).max() / np.max(expected)


def test_a_tensor_that_stays_float_is_read_in_float(graph, tmp_path):
    path = str(tmp_path / 'model.tflite')
    assert largest_error(graph, path) > 0.3
    assert largest_error(graph, path, keep_float=('network/net/wide',)) < 0.02
    details = tf.lite.Interpreter(path).get_tensor_details()
    types = {one['name'].partition(';')[0]: np.dtype(one['dtype']).name for one in details}
    assert types['network/net/wide'] == types['network/net/narrow'] == 'float32'
    assert 'int8' in types.values()


@pytest.mark.parametrize(
    'move', [lambda values: tf.nn.avg_pool2d(values, 2, 2, 'SAME'), split_unevenly]
)
def test_values_that_are_moved_or_averaged_stay_float_too(move, tmp_path):
    path = str(tmp_path / 'model.tflite')
    assert largest_error(build(move), path, keep_float=('network/net/wide',)) < 0.02


def explain(graph, *keep_float):
    writer = tflite.TfliteWriter(keep_float=keep_float)
    return writer.explain(device_files.DeviceModel(graph, 'int8', PIXELS, {}))


def test_the_worst_tensors_are_listed_with_names_that_the_flag_takes(graph):
    head, *lines = explain(graph)
    assert 'in the order of computation' in head
    ratios = {re.search(r'--keep_float=(\S+)', line)[1]: float(line.split()[0]) for line in lines}
    # Of the two channels one is lost (0 dB), and one has 8 bits.
    assert list(ratios)[:3] == ['network/net/wide', 'network/MaxPool2d', 'network/net/narrow']
    assert ratios['network/net/wide'] < 30 and ratios['network/net/narrow'] < 5
    kept = explain(graph, 'network/net/wide')
    assert len(kept) > 1 and not any('/net/' in line for line in kept)
    assert min(float(line.split()[0]) for line in kept[1:]) > 30


def test_a_file_without_a_rounded_tensor_has_none_to_list(graph):
    assert explain(graph, 'FakeQuantWithMinMaxArgs', 'network/net/wide', 'logits:0') == []


def test_ranges_of_training_are_not_explained(graph):
    assert not explain(graph._replace(is_quantized=True))


def test_a_name_that_no_tensor_has(graph, tmp_path):
    with pytest.raises(errors.UserError, match="no such tensor; did you mean 'network/net/wide'?"):
        largest_error(graph, str(tmp_path / 'model.tflite'), keep_float=('network/net/wid',))
    assert not list(tmp_path.iterdir())


def test_signal_to_noise_by_hand():
    # [[100, 1, 0]] is rounded to [[90, 0, 0]]; the channel of zeros does not count.
    expected = np.array([[100, 1, 0]], np.float32)
    computed = np.array([[8, -1, -1]], np.int8)
    assert int8_tensors.signal_to_noise(expected, computed, 10.0, -1) == pytest.approx(10.0)
    assert int8_tensors.signal_to_noise(expected * 0, computed, 10.0, -1) == 100.0
    assert int8_tensors.signal_to_noise(expected[:, :1], computed[:, :1] + 1, 10.0, -1) == 100.0


OPS = [
    Op('CONV_2D', ('a', 'weights'), ('b;BiasAdd;shared',)),
    Op('RESHAPE', ('b;BiasAdd;shared', ''), ('c',)),
    Op('ADD', ('c', 'a'), ('d;shared',)),
    Op('MUL', ('d;shared', 'd;shared'), ('e',)),
]


@pytest.mark.parametrize(
    ('names', 'kept'),
    [
        ([], []),
        (['b'], ['b;BiasAdd;shared', 'c', 'd;shared']),
        (['b;BiasAdd;shared'], ['b;BiasAdd;shared', 'c', 'd;shared']),
        (['d'], ['d;shared', 'e']),
        (['shared'], ['b;BiasAdd;shared', 'c', 'd;shared', 'e']),
        (['e', 'e'], ['e']),
    ],
)
def test_what_is_not_rounded_for_a_tensor_in_float(names, kept):
    assert sorted(int8_tensors.select(OPS, names)) == kept
