from __future__ import annotations

import collections
import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import prediction_log_pb2

from estimator_lib import config as config_lib
from estimator_lib import errors, tf_estimator
from estimator_lib.drawing import visualization
from estimator_lib.export import (
    artifacts,
    exported_model,
    exporting,
    freezing,
    saved_model,
    serving,
)
from estimator_lib.export.inference_graph import InferenceGraph
from estimator_lib.export.saved_model import SavedModelWriter, write_graph
from protos import export_pb2, pipeline_pb2
from tests.estimator_lib import tiny_task

pytestmark = pytest.mark.usefixtures('forked_processes')

tf1 = tf.compat.v1

IMAGES = np.random.RandomState(3).randint(0, 256, [3, 9, 12, 3]).astype(np.uint8)
KINDS = (serving.IMAGE_TENSOR, serving.ENCODED_IMAGE_STRING_TENSOR, serving.TF_EXAMPLE)
Config = pipeline_pb2.TrainEvalPipelineConfig


def export(config, checkpoint, folder, **options):
    writer = SavedModelWriter(**options)
    return exporting.export(tiny_task.TinyTask(), config, checkpoint, str(folder), writer)


@pytest.fixture(scope='module')
def checkpoint(tmp_path_factory):
    """Write a checkpoint with only the model's variables."""
    folder = tmp_path_factory.mktemp('checkpoint')
    return tiny_task.save(folder / 'model.ckpt', tiny_task.values())


@pytest.fixture(scope='module')
def exported(tmp_path_factory, checkpoint):
    """Export a SavedModel for each kind of input."""
    folder = tmp_path_factory.mktemp('exported')
    return {kind: export(Config(), checkpoint, folder / kind, input_type=kind) for kind in KINDS}


@pytest.mark.parametrize('kind', KINDS)
def test_an_export_computes_what_the_model_does(exported, kind):
    predictor = exported_model.Predictor(exported[kind])
    outputs = predictor.predict(IMAGES)
    assert predictor.output_names == sorted(outputs) == ['classes', 'logits']
    expected = tiny_task.expected_logits(IMAGES, tiny_task.values())
    np.testing.assert_allclose(outputs['logits'], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(outputs['classes'], expected.argmax(-1))
    assert outputs['classes'].dtype == np.int64


@pytest.mark.parametrize(
    ('kind', 'dtype', 'name', 'shape'),
    [
        (KINDS[0], tf.uint8, 'image_tensor:0', [-1, -1, -1, 3]),
        (KINDS[1], tf.string, 'encoded_image_string_tensor:0', [-1]),
        (KINDS[2], tf.string, 'tf_example:0', [-1]),
    ],
)
def test_the_signature(exported, kind, dtype, name, shape):
    saved = saved_model_pb2.SavedModel()
    with open(os.path.join(exported[kind], 'saved_model.pb'), 'rb') as file:
        saved.ParseFromString(file.read())
    (meta_graph,) = saved.meta_graphs
    assert list(meta_graph.meta_info_def.tags) == ['serve']
    signature = meta_graph.signature_def['serving_default']
    assert signature.method_name == 'tensorflow/serving/predict'
    (received,) = signature.inputs.values()
    assert list(signature.inputs) == ['inputs']
    assert (received.dtype, received.name) == (dtype.as_datatype_enum, name)
    assert [dim.size for dim in received.tensor_shape.dim] == shape
    assert signature.outputs['logits'].name == 'logits:0'
    ops = collections.Counter(node.op for node in meta_graph.graph_def.node)
    assert 'FusedBatchNormV3' not in ops
    assert ops['VarHandleOp'] == 2  # the folded filter, and its bias


def sent_to(kind):
    """Convert the images to the input form of a model."""
    if kind == serving.IMAGE_TENSOR:
        return IMAGES
    encoded = [visualization.encode_png(image) for image in IMAGES]
    if kind == serving.ENCODED_IMAGE_STRING_TENSOR:
        return encoded
    return serving.as_requests(IMAGES, serving.TF_EXAMPLE)


@pytest.mark.parametrize('kind', KINDS)
def test_clients_of_both_detection_apis_are_answered(exported, kind):
    loaded = tf.saved_model.load(exported[kind])
    sent = tf.constant(sent_to(kind))
    expected = tiny_task.expected_logits(IMAGES, tiny_task.values())
    signatures = [
        loaded.signatures[name] for name in ('serving_default', serving.PREDICT_SIGNATURE)
    ]
    assert list(signatures[0].structured_input_signature[1]) == ['inputs']
    answers = [loaded(sent), loaded(input_tensor=sent), loaded(sent.numpy())]
    for signature in signatures:
        answers += [signature(sent), signature(inputs=sent), signature(input_tensor=sent)]
    for answer in answers:
        assert sorted(answer) == ['classes', 'logits']
        np.testing.assert_allclose(answer['logits'], expected, rtol=1e-5, atol=1e-6)


def test_an_export_is_saved_again_by_tensorflow_2(exported, tmp_path):
    loaded = tf.saved_model.load(exported[KINDS[0]])
    tf.saved_model.save(loaded, str(tmp_path), signatures=loaded.signatures['serving_default'])
    again = tf.saved_model.load(str(tmp_path))
    expected = tiny_task.expected_logits(IMAGES, tiny_task.values())
    np.testing.assert_allclose(again(IMAGES)['logits'], expected, rtol=1e-5, atol=1e-6)


def test_two_exports_in_one_session_keep_their_weights(exported, tmp_path):
    others = tiny_task.values(scale=0.5)
    other = export(Config(), tiny_task.save(tmp_path / 'model.ckpt', others), tmp_path / 'other')
    with tf.Graph().as_default(), tf1.Session() as session:
        for scope, path in (('one', exported[KINDS[0]]), ('two', other)):
            tf1.saved_model.load(session, ['serve'], path, import_scope=scope)
        logits = [
            session.run(f'{scope}/logits:0', {f'{scope}/image_tensor:0': IMAGES})
            for scope in ('one', 'two')
        ]
    for row, values in zip(logits, (tiny_task.values(), others)):
        expected = tiny_task.expected_logits(IMAGES, values)
        np.testing.assert_allclose(row, expected, rtol=1e-5, atol=1e-6)


# `saved_model_cli run` on several models, importing TensorFlow once.
_COMMAND_LINE_TOOL = """
import sys
from absl import flags
from tensorflow.python.tools import saved_model_cli
for model, folder in zip(sys.argv[1::2], sys.argv[2::2]):
    flags.FLAGS([
        'saved_model_cli', '--dir', model, '--tag_set', 'serve', '--outdir', folder,
        '--signature_def', 'serving_default', '--inputs', f'inputs={folder}/sent.npy',
    ])
    saved_model_cli.run()
"""


def test_exports_answer_through_the_command_line_tool(exported, tmp_path):
    """It runs with the variables that `export.json` names."""
    variables = artifacts.read_about(exported[KINDS[0]])['environment']
    assert variables == {'TF_ENABLE_ONEDNN_OPTS': '1', 'TF_ONEDNN_ASSUME_FROZEN_WEIGHTS': '1'}
    arguments = []
    for kind in KINDS:
        folder = tmp_path / kind
        folder.mkdir()
        np.save(folder / 'sent.npy', np.array(sent_to(kind)))
        arguments += [exported[kind], str(folder)]
    command = [sys.executable, '-c', _COMMAND_LINE_TOOL, *arguments]
    subprocess.run(command, check=True, env={**os.environ, **variables})
    expected = tiny_task.expected_logits(IMAGES, tiny_task.values())
    for kind in KINDS:
        logits = np.load(tmp_path / kind / 'logits.npy')
        np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-6)


def encode(op, image, **options):
    return op(tf.constant(image), **options).numpy()


def gif_of(*frames):
    """Encode a GIF of frames of one color each, with a palette of two."""
    height, width = 4, 5
    blocks = b'GIF89a' + width.to_bytes(2, 'little') + height.to_bytes(2, 'little') + b'\x80\0\0'
    blocks += bytes([200, 10, 30]) + bytes([0, 0, 255])
    for frame in frames:
        # Codes of 3 bits: clear before each pixel, so that the table never grows.
        codes = [code for _ in range(height * width) for code in (4, frame)] + [5]
        number = sum(code << (3 * place) for place, code in enumerate(codes))
        packed = number.to_bytes((3 * len(codes) + 7) // 8, 'little')
        blocks += b',\0\0\0\0' + width.to_bytes(2, 'little') + height.to_bytes(2, 'little') + b'\0'
        blocks += b'\x02' + bytes([len(packed)]) + packed + b'\0'
    return blocks + b';'


def bmp_of(image):
    """Encode a BMP file of 24 bits a pixel."""
    height, width, _ = image.shape
    padding = b'\0' * (-3 * width % 4)
    rows = b''.join(row[:, ::-1].tobytes() + padding for row in image[::-1])
    header = b'BM' + (54 + len(rows)).to_bytes(4, 'little') + bytes(4) + (54).to_bytes(4, 'little')
    info = [(40, 4), (width, 4), (height, 4), (1, 2), (24, 2), (0, 4), (len(rows), 4)]
    return header + b''.join(v.to_bytes(n, 'little') for v, n in info) + bytes(16) + rows


def test_encoded_images_of_all_kinds_in_one_batch(exported):
    color, gray = IMAGES[0], IMAGES[1, :5, :7, :1]
    deep = gray.astype(np.uint16) * 257
    clear = np.concatenate([color, color[:, :, :1]], axis=2)
    jpeg = encode(tf.io.encode_jpeg, color)
    sent = {
        jpeg: tf.io.decode_jpeg(jpeg).numpy(),
        encode(tf.io.encode_png, gray): np.repeat(gray, 3, 2),
        encode(tf.io.encode_png, deep): np.repeat(gray, 3, 2),
        encode(tf.io.encode_png, clear): color,
        gif_of(0, 1): np.full([4, 5, 3], [200, 10, 30], np.uint8),
        bmp_of(color): color,
    }
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.saved_model.load(session, ['serve'], exported[KINDS[1]])
        logits = session.run('logits:0', {'encoded_image_string_tensor:0': list(sent)})
    for row, image in zip(logits, sent.values()):
        expected = tiny_task.expected_logits(image[np.newaxis], tiny_task.values())[0]
        np.testing.assert_allclose(row, expected, rtol=1e-5, atol=1e-6)


def test_what_is_no_image_is_refused(exported):
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.saved_model.load(session, ['serve'], exported[KINDS[1]])
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run('logits:0', {'encoded_image_string_tensor:0': [b'no image']})


@pytest.mark.parametrize('kind', KINDS)
def test_the_estimators_own_export_takes_the_same_inputs(tmp_path, checkpoint, kind):
    task = tiny_task.TinyTask()

    def model_fn(features, labels, mode):
        outputs = task.export_outputs(task.postprocess(task.predict(features, mode), features))
        return tf_estimator.EstimatorSpec(
            mode,
            predictions=outputs,
            export_outputs={'serving_default': tf_estimator.export.PredictOutput(outputs)},
            scaffold=tf1.train.Scaffold(saver=tf1.train.Saver(tf1.model_variables())),
        )

    path = tf_estimator.Estimator(model_fn, str(tmp_path)).export_saved_model(
        str(tmp_path / 'export'),
        serving.serving_input_receiver_fn(task, serving.SERVING_INPUTS[kind]),
        checkpoint_path=checkpoint,
    )
    outputs = exported_model.Predictor(path.decode()).predict(IMAGES)
    expected = tiny_task.expected_logits(IMAGES, tiny_task.values())
    np.testing.assert_allclose(outputs['logits'], expected, rtol=1e-5, atol=1e-6)


def test_the_config_is_saved_with_the_model(tmp_path, checkpoint):
    config = Config()
    config.train_config.batch_size = 17
    config.export_config.serving_input = export_pb2.SERIALIZED_TF_EXAMPLE
    path = export(config, checkpoint, tmp_path)
    predictor = exported_model.Predictor(path)
    saved = config_lib.load_pipeline_config(predictor.config_path)
    assert saved.train_config.batch_size == 17
    assert predictor._kind == 'tf_example'
    assert os.listdir(tmp_path) == [os.path.basename(path)]


def test_moving_averages_are_exported_when_asked(tmp_path):
    arrays = {**tiny_task.values(), 'global_step': np.int64(3)}
    averages = tiny_task.values(scale=0.5)
    trained = [name for name in averages if 'moving' not in name]
    arrays.update({f'{name}/ExponentialMovingAverage': averages[name] for name in trained})
    checkpoint = tiny_task.save(tmp_path / 'model.ckpt-3', arrays)
    config = Config()
    for use_averages in (False, True):
        config.eval_config.use_moving_averages = use_averages
        path = export(config, checkpoint, tmp_path / 'export')
        used = {name: arrays[name] for name in tiny_task.values()}
        if use_averages:
            used.update({name: averages[name] for name in trained})
        logits = exported_model.Predictor(path).predict(IMAGES)['logits']
        expected = tiny_task.expected_logits(IMAGES, used)
        np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-6)


def test_constants_of_the_graph_in_place_of_variables(checkpoint, tmp_path):
    path = export(Config(), checkpoint, tmp_path, serving_weights='constants')
    assert os.listdir(os.path.join(path, 'variables')) == []
    logits = exported_model.Predictor(path).predict(IMAGES)['logits']
    expected = tiny_task.expected_logits(IMAGES, tiny_task.values())
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-6)
    saved = saved_model_pb2.SavedModel()
    with open(os.path.join(path, 'saved_model.pb'), 'rb') as file:
        saved.ParseFromString(file.read())
    assert not any('Var' in node.op for node in saved.meta_graphs[0].graph_def.node)


def test_constants_that_no_file_can_hold_are_refused(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(saved_model, '_MOST_BYTES', 100)
    with pytest.raises(errors.UserError, match='take 224 bytes.* at most 100.*=variables'):
        export(Config(), checkpoint, tmp_path, serving_weights='constants')
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize('change', [os.remove, lambda path: os.truncate(path, 100)])
def test_an_export_whose_variables_changed_is_refused(checkpoint, tmp_path, change):
    path = export(Config(), checkpoint, tmp_path)
    change(os.path.join(path, 'variables', 'variables.data-00000-of-00001'))
    with pytest.raises(errors.UserError, match='variables.data.* is not (there|what was exported)'):
        exported_model.Predictor(path)


def looped_model():
    """Build y = x + w + w in a loop that is given w, beside a bias of zero that may be left out."""
    with tf.Graph().as_default(), tf1.Session() as session:
        inputs = tf1.placeholder(tf.float32, [None, 3], 'x')
        bias = tf1.placeholder_with_default([0.0], [1], 'b')
        weights = tf1.get_variable('w', initializer=[1.0, 2.0, 4.0], use_resource=True)
        handle = weights.handle

        def add(step, total):
            value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
            return step + 1, total + value

        _, total = tf.while_loop(lambda step, _: step < 2, add, [0, inputs])
        outputs = {'y': tf.identity(total + bias, 'y')}
        session.run(tf1.global_variables_initializer())
        frozen = freezing.freeze(session, list(outputs.values()))
        return InferenceGraph(frozen, {'inputs': inputs, 'bias': bias}, outputs)


def test_weights_of_loops_are_variables_and_inputs_beside_images_have_defaults(tmp_path):
    model = looped_model()
    assert list(model.frozen.values) == ['w']
    write_graph(model, ['serving_default'], str(tmp_path), '')
    ones = np.ones([1, 3], np.float32)
    expected = np.array([[3.0, 5.0, 9.0]])
    loaded = tf.saved_model.load(str(tmp_path))
    np.testing.assert_array_equal(loaded(ones)['y'], expected)
    answer = loaded.signatures['serving_default'](
        input_tensor=tf.constant(ones), bias=tf.constant([10.0])
    )
    np.testing.assert_array_equal(answer['y'], expected + 10)
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.saved_model.load(session, ['serve'], str(tmp_path))
        np.testing.assert_array_equal(session.run('y:0', {'x:0': ones}), expected)
        np.testing.assert_array_equal(session.run('y:0', {'x:0': ones, 'b:0': [10]}), expected + 10)


def test_a_graph_without_weights_is_written_too(tmp_path):
    with tf.Graph().as_default(), tf1.Session() as session:
        inputs = tf1.placeholder(tf.float32, [None], 'x')
        outputs = {'y': tf.add(inputs, inputs, 'y')}
        frozen = freezing.freeze(session, list(outputs.values()))
        model = InferenceGraph(frozen, {'inputs': inputs}, outputs)
    write_graph(model, ['serving_default'], str(tmp_path), '')
    answer = tf.saved_model.load(str(tmp_path)).signatures['serving_default'](tf.constant([2.0]))
    np.testing.assert_array_equal(answer['y'], [4.0])


def test_a_file_is_the_same_whenever_it_is_written(tmp_path):
    contents, model = [], looped_model()
    for name in ('one', 'two'):
        write_graph(model, ['serving_default'], str(tmp_path / name), '')
        files = sorted(path for path in (tmp_path / name).rglob('*') if path.is_file())
        contents.append([path.read_bytes() for path in files])
    assert len(contents[0]) == 3 and contents[0] == contents[1]


def requests_in(path):
    for record in tf.compat.v1.io.tf_record_iterator(str(path)):
        log = prediction_log_pb2.PredictionLog.FromString(record)
        assert log.WhichOneof('log_type') == 'predict_log'
        yield log.predict_log.request


@pytest.mark.parametrize(
    'kind', [serving.IMAGE_TENSOR, serving.ENCODED_IMAGE_STRING_TENSOR, serving.TF_EXAMPLE]
)
def test_requests_are_of_the_kind_that_the_model_takes(tmp_path, kind):
    saved_model.write_warmup(str(tmp_path / 'requests'), kind, 3)
    requests = list(requests_in(tmp_path / 'requests'))
    assert len(requests) == 3
    for request in requests:
        assert request.model_spec.signature_name == 'serving_default'
        assert list(request.inputs) == ['inputs']
        value = tf.make_ndarray(request.inputs['inputs'])
        if kind == serving.IMAGE_TENSOR:
            assert value.dtype == np.uint8 and value.shape == (1, 480, 640, 3)
            continue
        assert value.shape == (1,)
        content = value[0]
        if kind == serving.TF_EXAMPLE:
            feature = tf.train.Example.FromString(content).features.feature
            (content,) = feature['image/encoded'].bytes_list.value
        assert tf.io.decode_image(content).shape == (480, 640, 3)


def test_what_cannot_be_is_said(monkeypatch):
    saved_model.check_warmup(1000)
    with pytest.raises(errors.UserError, match='1001; expected at most 1000'):
        saved_model.check_warmup(1001)
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
    for version, expected in (('2.15.1', '2.15'), ('2.21.0', '2.21')):
        monkeypatch.setattr(tf, '__version__', version)
        with pytest.raises(errors.UserError) as caught:
            saved_model.check_warmup(1)
        assert str(caught.value) == (
            '--warmup_requests: the package tensorflow-serving-api is not installed; '
            f"pip install 'tensorflow-serving-api=={expected}.*'"
        )
