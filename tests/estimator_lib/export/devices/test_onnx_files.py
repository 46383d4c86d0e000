"""ONNX files beside slow computations by hand, and what is said where the packages are not."""

import ast
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import sys

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.export import exporting
from estimator_lib.export.devices import onnx_files, static_graph
from estimator_lib.task_interfaces.deployable import Deployable
from protos import pipeline_pb2
from tests.estimator_lib import tiny_task

tf1 = tf.compat.v1

IMAGES = np.random.RandomState(1).randint(0, 256, [2, 6, 6, 3]).astype(np.uint8)
SIZE = 8


def needs(*packages):
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f'{missing} are not installed: [onnx]')


writes = needs('tf2onnx', 'onnx', 'onnxruntime')


class Graph(Deployable):
    """A graph without variables: a function of an image of 8 x 8 pixels and 4 channels."""

    input_shape = (SIZE, SIZE, 4)

    def __init__(self, function, *names):
        self._function = function
        self.meanings = dict.fromkeys(names, 'a number')

    def pixels(self, features):
        raise NotImplementedError

    def network(self, pixels):
        return {'pixels': tf.identity(pixels)}

    def finish(self, raw, ops):
        return self._function(raw['pixels'])

    def outputs(self, found, features):
        raise NotImplementedError

    def static(self):
        """Build a static graph whose network does nothing."""
        with tf.Graph().as_default() as graph:
            image = tf1.placeholder(tf.float32, [1, *self.input_shape], static_graph.INPUT)
            tf.identity(image, 'raw')
        graph_def = graph.as_graph_def()
        return static_graph.StaticGraph(self, graph_def, graph_def, {'pixels': 'raw:0'}, False)


@writes
def test_a_file_computes_the_network(tmp_path):
    checkpoint = tiny_task.save(tmp_path / 'model.ckpt', tiny_task.values())
    config = pipeline_pb2.TrainEvalPipelineConfig()
    task = tiny_task.TinyTask()
    folder = exporting.export(task, config, checkpoint, str(tmp_path), onnx_files.OnnxWriter())
    about = json.loads(pathlib.Path(folder, 'export.json').read_text())
    assert about['format'] == 'onnx' and about['opset'] == '15'
    assert about['made_with'].startswith('tf2onnx ')
    assert about['agreement']['outputs'] == {'logits': 1.0, 'classes': 1.0}
    assert about['agreement']['largest_differences']['logits'] < 1e-5
    model = onnx_files.OnnxModel(os.path.join(folder, 'model.onnx'), num_threads=1)
    assert model.about['inputs']['image']['shape'] == [1, 6, 6, 3]
    expected = tiny_task.expected_logits(IMAGES, tiny_task.values())
    for image, logits in zip(IMAGES, expected):
        found = model.run(image[np.newaxis].astype(np.float32))
        np.testing.assert_allclose(found['logits'], [logits], atol=1e-5)
        assert found['classes'].tolist() == [logits.argmax()]
    with pytest.raises(errors.UserError, match=r'onnx fails on an image \[1, 5, 6, 3\] in onnxr'):
        model.run(np.zeros([1, 5, 6, 3], np.float32))

    import onnx

    proto = onnx.load(os.path.join(folder, 'model.onnx'))
    onnx.checker.check_model(proto)
    assert [(one.domain, one.version) for one in proto.opset_import if not one.domain] == [('', 15)]
    assert proto.ir_version == 8  # what runtimes of 2021 read
    told = {one.key: one.value for one in proto.metadata_props}
    assert ast.literal_eval(told['names']) == {}
    assert (told['task'], told['imgsz'], told['stride'], told['batch']) == (
        'tiny',
        '[6, 6]',
        '1',
        '1',
    )
    assert (told['channels'], told['pixel_range'], told['version']) == (
        '3',
        '[0, 255]',
        about['version'],
    )
    assert tf.executing_eagerly()


def weights(path):
    import onnx

    model = onnx.load(path)
    types = [onnx.TensorProto.DataType.Name(one.data_type) for one in model.graph.initializer]
    return {'FLOAT16', 'FLOAT'} & set(types)


@writes
@pytest.mark.parametrize('kind', ['int8', 'dynamic'])
def test_8_bits_are_refused_with_the_format_that_has_them(kind, tmp_path):
    checkpoint = tiny_task.save(tmp_path / 'model.ckpt', tiny_task.values())
    config, task = pipeline_pb2.TrainEvalPipelineConfig(), tiny_task.TinyTask()
    writer = onnx_files.OnnxWriter(quantize=kind)
    with pytest.raises(errors.UserError) as caught:
        exporting.export(task, config, checkpoint, str(tmp_path), writer)
    assert str(caught.value) == (
        f'--quantize={kind}: --format=onnx has none and float16; expected none, or --format=tflite.'
    )


@writes
def test_a_file_in_float16_takes_and_returns_float32(tmp_path):
    checkpoint = tiny_task.save(tmp_path / 'model.ckpt', tiny_task.values())
    config, task = pipeline_pb2.TrainEvalPipelineConfig(), tiny_task.TinyTask()
    writer = onnx_files.OnnxWriter(quantize='float16')
    path = os.path.join(
        exporting.export(task, config, checkpoint, str(tmp_path), writer), 'model.onnx'
    )
    assert weights(path) == {'FLOAT16'}
    model = onnx_files.OnnxModel(path, num_threads=1)
    assert model.about['inputs']['image']['dtype'] == 'float32'
    expected = tiny_task.expected_logits(IMAGES, tiny_task.values())
    for image, logits in zip(IMAGES, expected):
        found = model.run(image[np.newaxis].astype(np.float32))['logits']
        assert found.dtype == np.float32
        # A number of float16 has 11 bits, and sums have some more of them wrong.
        np.testing.assert_allclose(found, [logits], atol=2**-8 * np.abs(expected).max())


@writes
def test_a_resized_image_has_a_valid_form_in_float16(tmp_path):
    graph = Graph(lambda pixels: {'y': tf.image.resize(pixels, [4, 4])}, 'y').static()
    path = str(tmp_path / 'model.onnx')
    onnx_files.OnnxWriter().convert(graph, path, 'float16')
    image = np.random.RandomState(0).randint(0, 256, [1, SIZE, SIZE, 4]).astype(np.float32)
    # The center of two pixels each, half of each pixel.
    expected = image.reshape(1, 4, 2, 4, 2, 4).mean(axis=(2, 4))
    np.testing.assert_allclose(onnx_files.OnnxModel(path).run(image)['y'], expected, atol=0.25)


class Shown(Graph):
    """A graph that is compared by a value between its input and its output too."""

    def intermediates(self, raw):
        return {'pixels': raw['pixels']}


@writes
def test_values_that_are_compared_are_float32_in_float16(tmp_path):
    graph = Shown(lambda raw: {'y': raw * 2.0}, 'y').static()
    path = str(tmp_path / 'model.onnx')
    writer = onnx_files.OnnxWriter()
    writer.convert(graph, path, 'float16')
    found = writer.load_checked(graph, path).run(np.full([1, SIZE, SIZE, 4], 3, np.float32))
    assert {name: (value.dtype.name, value.max()) for name, value in found.items()} == {
        'y': ('float32', 6.0),
        'intermediate/pixels': ('float32', 3.0),
    }
    assert list(writer.load(path).about['outputs']) == ['y']


def test_a_network_that_was_trained_for_int8_is_refused_in_float16(tmp_path):
    graph = Graph(lambda pixels: {'y': pixels}, 'y').static()._replace(is_quantized=True)
    with pytest.raises(errors.UserError, match='--quantize=float16: the model was trained for int'):
        onnx_files.OnnxWriter().convert(graph, str(tmp_path / 'model.onnx'), 'float16')


def suppressed(boxes, scores, iou_threshold, score_threshold, most):
    """Suppress boxes by hand: (score, class, box) of survivors of all classes, the best first."""
    found = []
    for label in range(scores.shape[1]):
        kept = []
        for row in np.argsort(-scores[:, label], kind='stable'):
            if scores[row, label] > score_threshold and all(
                overlap(boxes[row], boxes[other]) <= iou_threshold for other in kept
            ):
                kept.append(row)
        found += [(scores[row, label], label, *np.clip(boxes[row], 0, 1)) for row in kept]
    found = sorted(found, key=lambda one: -one[0])[:most]
    return np.array(found + [[0.0] * 6] * (most - len(found)), np.float32), len(found)


def overlap(one, other):
    height, width = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2])
    shared = max(height, 0.0) * max(width, 0.0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return shared / (sum(areas) - shared)


@writes
def test_suppression_is_one_op_of_the_standard(tmp_path):
    most = 12

    def found(pixels):
        boxes, scores = tf.split(tf.reshape(pixels, [1, 2 * SIZE * SIZE, 2]), 2, axis=1)
        boxes = tf.reshape(boxes, [1, SIZE * SIZE // 2, 4]) / 255.0
        corner, size = boxes[..., :2] - 0.1, 0.2 + boxes[..., 2:] / 2.0
        boxes = tf.concat([corner, corner + size], -1)[:, :, tf.newaxis]
        kept = tf.image.combined_non_max_suppression(
            boxes, scores[:, : SIZE * SIZE // 2] / 255.0, 50, most, 0.3, 0.25
        )
        names = 'boxes', 'scores', 'classes', 'count'
        return dict(zip(names, kept))

    graph = Graph(found, 'boxes', 'scores', 'classes', 'count').static()
    path = str(tmp_path / 'model.onnx')
    onnx_files.OnnxWriter().convert(graph, path, 'none')
    model = onnx_files.OnnxModel(path)
    assert model.about['outputs']['boxes']['shape'] == [1, most, 4]
    images = np.random.RandomState(0).uniform(0, 255, [5, 1, SIZE, SIZE, 4]).astype(np.float32)
    images[4] *= 0.3  # hardly a score above the threshold
    counts = []
    for image, in_tensorflow in zip(images, graph.run(images)):
        halves = image.reshape(2, SIZE * SIZE, 2)
        boxes = halves[0].reshape(-1, 4) / 255.0
        corner, size = boxes[:, :2] - 0.1, 0.2 + boxes[:, 2:] / 2.0
        scores = halves[1][: SIZE * SIZE // 2] / 255.0
        expected, count = suppressed(
            np.concatenate([corner, corner + size], 1), scores, 0.3, 0.25, most
        )
        output = model.run(image)
        counts.append(count)
        assert output['count'].tolist() == [count]
        np.testing.assert_allclose(output['scores'][0], expected[:, 0], atol=1e-5)
        np.testing.assert_array_equal(output['classes'][0], expected[:, 1])
        np.testing.assert_allclose(output['boxes'][0], expected[:, 2:], atol=1e-5)
        for name, value in in_tensorflow.items():
            np.testing.assert_allclose(output[name], value, atol=1e-4)
    assert max(counts) == most and min(counts) < most

    import onnx

    kinds = [node.op_type for node in onnx.load(path).graph.node]
    assert kinds.count('NonMaxSuppression') == 1 and 'Loop' not in kinds


@writes
def test_roundings_of_training_are_in_the_file(tmp_path):
    """Round activations to the nearest of 256 numbers between -1 and 3, of which 0 is one."""

    def rounded(pixels):
        x = pixels / 50.0 - 1.5
        return {'y': tf.quantization.fake_quant_with_min_max_vars(x, -1.0, 3.0)}

    graph = Graph(rounded, 'y').static()
    path = str(tmp_path / 'model.onnx')
    onnx_files.OnnxWriter().convert(graph, path, 'none')
    image = np.random.RandomState(0).uniform(0, 255, [1, SIZE, SIZE, 4]).astype(np.float32)
    step = 4.0 / 255.0
    number = np.clip(np.floor((image / 50.0 - 1.5) / step + 0.5), -64, 255 - 64)
    found = onnx_files.OnnxModel(path).run(image)['y']
    np.testing.assert_allclose(found, number * step, atol=1e-5)


def lines_between(size, new, half_pixels, aligned):
    """Return float64 [new, size]: the weights of the old pixels of a line in each new pixel."""
    matrix = np.zeros([new, size])
    for row in range(new):
        place = row * (size - 1) / (new - 1) if aligned else row * size / new
        if half_pixels:
            place = (row + 0.5) * size / new - 0.5
        place = min(max(place, 0.0), size - 1.0)
        low = min(int(place), size - 2)
        matrix[row, low : low + 2] = 1 - (place - low), place - low
    return matrix


@writes
def test_resizes_are_of_the_size_that_they_are_to_be(tmp_path):
    """Resize 7 x 5 to 13 x 11 pixels, for which factors in float32 are too small."""

    def resized(pixels):
        cut = pixels[:, :7, :5]
        raw = tf.raw_ops
        return {
            'half': raw.ResizeBilinear(images=cut, size=[13, 11], half_pixel_centers=True),
            'aligned': raw.ResizeBilinear(images=cut, size=[13, 11], align_corners=True),
            'old': raw.ResizeBilinear(images=cut, size=[13, 11]),
            'nearest': raw.ResizeNearestNeighbor(images=cut, size=[13, 11]),
            'nearest_half': raw.ResizeNearestNeighbor(
                images=cut, size=[13, 11], half_pixel_centers=True
            ),
        }

    names = 'half', 'aligned', 'old', 'nearest', 'nearest_half'
    path = str(tmp_path / 'model.onnx')
    onnx_files.OnnxWriter().convert(Graph(resized, *names).static(), path, 'none')
    image = np.random.RandomState(0).uniform(0, 1, [1, SIZE, SIZE, 4]).astype(np.float32)
    found = onnx_files.OnnxModel(path).run(image)
    cut = image[0, :7, :5]
    for name, options in (('half', (True, False)), ('aligned', (False, True)), ('old', 2 * (0,))):
        rows, columns = lines_between(7, 13, *options), lines_between(5, 11, *options)
        expected = np.einsum('ih,jw,hwc->ijc', rows, columns, cut)
        np.testing.assert_allclose(found[name][0], expected, atol=1e-5, err_msg=name)
    for name, shift in (('nearest', 0.0), ('nearest_half', 0.5)):
        rows = ((np.arange(13) + shift) * 7 / 13).astype(int)
        columns = ((np.arange(11) + shift) * 5 / 11).astype(int)
        np.testing.assert_array_equal(found[name][0], cut[rows][:, columns], err_msg=name)


@writes
def test_an_op_that_the_standard_has_not_is_named(tmp_path):
    graph = Graph(lambda pixels: {'y': tf.math.digamma(pixels)}, 'y').static()
    with pytest.raises(
        errors.UserError, match='cannot be converted to ONNX: opset 15 has no Digamma'
    ):
        onnx_files.OnnxWriter().convert(graph, str(tmp_path / 'model.onnx'), 'none')
    assert os.listdir(tmp_path) == []


@needs('onnxruntime')
def test_a_file_of_something_else_is_refused(tmp_path):
    path = tmp_path / 'model.onnx'
    path.write_bytes(b'no model')
    with pytest.raises(errors.UserError, match='model.onnx cannot be run by onnxruntime: '):
        onnx_files.OnnxModel(str(path))


@writes
def test_a_file_of_another_program_is_refused(tmp_path):
    from onnx import TensorProto, helper

    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in 'xy']
    graph = helper.make_graph(
        [helper.make_node('Identity', ['x'], ['y'])], 'graph', values[:1], values[1:]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 15)], ir_version=8)
    path = tmp_path / 'model.onnx'
    path.write_bytes(model.SerializeToString())
    with pytest.raises(errors.UserError, match=r"with the inputs \['x'\]; expected one that --mo"):
        onnx_files.OnnxModel(str(path))


def test_what_is_missing_is_said_with_the_command_that_installs_it(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
    monkeypatch.setattr(sys, 'version_info', (3, 11))
    with pytest.raises(errors.UserError) as caught:
        onnx_files.OnnxWriter().check()
    assert str(caught.value) == (
        "--format=onnx: the package tf2onnx is not installed; pip install 'vision-model-fns[onnx]'"
    )
    monkeypatch.setattr(sys, 'version_info', (3, 9))
    with pytest.raises(errors.UserError, match='no release for Python 3.9 .* 3.10 or later to '):
        onnx_files.OnnxWriter().check()
    with pytest.raises(errors.UserError, match='package onnxruntime is not installed; pip install'):
        onnx_files.OnnxModel(str(tmp_path / 'model.onnx'))


def test_an_onnx_that_tensorflow_cannot_be_beside_is_refused(monkeypatch):
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: True)
    versions = {'onnx': '1.19.1', 'ml_dtypes': '0.3.2'}
    monkeypatch.setattr(importlib.metadata, 'version', versions.get)
    monkeypatch.setattr(tf, '__version__', '2.15.1')
    with pytest.raises(errors.UserError) as caught:
        onnx_files.OnnxWriter().check()
    assert str(caught.value) == (
        '--format=onnx: onnx 1.19.1 cannot be imported beside TensorFlow 2.15.1, which goes with '
        "ml_dtypes 0.3.2; expected onnx<1.19: pip install 'onnx<1.19'"
    )


@pytest.mark.parametrize(('onnx', 'ml_dtypes'), [('1.18.0', '0.3.2'), ('1.23.2', '0.6.0')])
def test_an_onnx_that_goes_with_tensorflow_is_accepted(monkeypatch, onnx, ml_dtypes):
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: True)
    monkeypatch.setattr(importlib.metadata, 'version', {'onnx': onnx, 'ml_dtypes': ml_dtypes}.get)
    onnx_files.OnnxWriter().check()
