"""Files of a tiny network, run by TFLite's interpreter."""

import importlib.machinery
import importlib.metadata
import importlib.util
import os
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.export.devices import static_graph, tflite
from estimator_lib.export.writers import Source
from estimator_lib.task_interfaces.deployable import Ops
from protos import pipeline_pb2
from tests.estimator_lib import tiny_task

tf1 = tf.compat.v1
PIXELS = np.random.RandomState(3).randint(0, 256, [12, 1, 6, 6, 3]).astype(np.float32)
WRITER = tflite.TfliteWriter()
EXPECTED = tiny_task.expected_logits(PIXELS[:, 0], tiny_task.values())


@pytest.fixture(scope='module')
def graph(tmp_path_factory):
    prefix = tiny_task.save(tmp_path_factory.mktemp('model') / 'model.ckpt', tiny_task.values())
    task = tiny_task.TinyTask()
    source = Source(task, pipeline_pb2.TrainEvalPipelineConfig(), prefix)
    return static_graph.build(task.deployable(Ops.TFLITE), source)


def but(graph, **methods):
    """Return the same graph with another deployable."""
    changed = type('Changed', (tiny_task.TinyDeployable,), methods)
    return graph._replace(deployable=changed(tiny_task.TinyTask()))


@pytest.mark.parametrize(
    ('quantize', 'most'), [('none', 1e-4), ('float16', 0.02), ('dynamic', 0.05), ('int8', 0.1)]
)
def test_a_file_computes_what_the_network_does(graph, tmp_path, quantize, most):
    path = str(tmp_path / 'model.tflite')
    WRITER.convert(graph, path, quantize, PIXELS)
    model = WRITER.load(path)
    found = [model.run(image) for image in PIXELS]
    logits = np.concatenate([one['logits'] for one in found])
    np.testing.assert_allclose(logits, EXPECTED, atol=most)
    assert found[0]['classes'].dtype == np.int64 and found[0]['logits'].dtype == np.float32
    image = model.about['inputs']['image']
    assert image['shape'] == [1, 6, 6, 3] and image['meaning'] == 'pixels from 0 to 255'
    if quantize == 'int8':
        assert (image['dtype'], image['scale'], image['zero_point']) == ('uint8', 1.0, 0)
    else:
        assert (image['dtype'], image.get('scale')) == ('float32', None)
    assert model.about['outputs']['classes'] == {'dtype': 'int64', 'shape': [1]}


def test_kinds_of_arithmetic_are_those_that_were_asked_for(graph, tmp_path):
    kinds = {}
    for quantize in WRITER.quantizes:
        path = str(tmp_path / quantize)
        WRITER.convert(graph, path, quantize, PIXELS)
        interpreter = tf.lite.Interpreter(path)
        kinds[quantize] = {
            np.dtype(one['dtype']).name
            for one in interpreter.get_tensor_details()
            if one['shape'].size == 4 and one['name'] != ''
        }
    assert kinds['none'] == {'float32'}
    assert 'float16' in kinds['float16']
    assert 'int8' in kinds['int8'] and 'int8' not in kinds['none'] | kinds['float16']


@pytest.mark.parametrize(
    ('representative', 'said'),
    [
        ([], 'there are no representative examples'),
        ([PIXELS[0, :, :5]], r'is float32 \[1, 5, 6, 3\]; expected float32 \[1, 6, 6, 3\]'),
        ([PIXELS[0].astype(np.uint8)], 'is uint8'),
    ],
)
def test_representative_examples_that_do_not_fit(graph, tmp_path, representative, said):
    with pytest.raises(errors.UserError, match=said):
        WRITER.convert(graph, str(tmp_path / 'model.tflite'), 'int8', representative)
    assert os.listdir(tmp_path) == []


def test_a_custom_op_that_does_not_arrive(graph, tmp_path):
    lacking = but(graph, tflite_ops=('Some_Op',))
    with pytest.raises(errors.UserError, match='was converted without the op Some_Op'):
        WRITER.convert(lacking, str(tmp_path / 'model.tflite'), 'none')
    assert os.listdir(tmp_path) == []


def test_an_op_that_tflite_does_not_have(graph, tmp_path, capfd):
    def finish(self, raw, ops):
        return {'logits': tf.math.betainc(raw['logits'], raw['logits'], raw['logits'])}

    with pytest.raises(errors.UserError, match='cannot be converted to TFLite: .*Betainc'):
        WRITER.convert(but(graph, finish=finish), str(tmp_path / 'model.tflite'), 'none')
    assert 'Betainc' not in capfd.readouterr().err  # it is told once


def stand_in(monkeypatch, name, **attributes):
    """Install a module under a name, with its parents."""
    parent, _, child = name.partition('.')
    package, module = types.ModuleType(parent), types.ModuleType(name)
    package.__spec__ = importlib.machinery.ModuleSpec(parent, None)
    vars(module).update(attributes)
    setattr(package, child, module)
    monkeypatch.setitem(sys.modules, parent, package)
    monkeypatch.setitem(sys.modules, name, module)


def test_litert_runs_files_where_it_is_installed(graph, tmp_path, monkeypatch):
    made = []

    class Interpreter(tf.lite.Interpreter):
        def __init__(self, **options):
            made.append(options)
            super().__init__(**options)

    path = str(tmp_path / 'model.tflite')
    WRITER.convert(graph, path, 'none')
    stand_in(monkeypatch, 'ai_edge_litert.interpreter', Interpreter=Interpreter)
    monkeypatch.setattr(importlib.metadata, 'version', {'ai-edge-litert': '9.8.7'}.get)
    model = tflite.TfliteModel(path, num_threads=1)
    assert [sorted(options) for options in made] == [['model_content', 'num_threads']]
    assert made[0]['num_threads'] == 1
    np.testing.assert_allclose(model.run(PIXELS[0])['logits'], EXPECTED[:1], atol=1e-4)
    assert model.about['run_with'] == 'ai-edge-litert 9.8.7'


def test_tensorflow_runs_files_where_litert_is_not_installed(graph, tmp_path, monkeypatch):
    path = str(tmp_path / 'model.tflite')
    WRITER.convert(graph, path, 'none')
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, 'find_spec', lambda name: None if name == 'ai_edge_litert' else find(name)
    )
    assert WRITER.load(path).about['run_with'] == f'TensorFlow {tf.__version__}'


def test_files_that_cannot_be_run(tmp_path):
    path = tmp_path / 'model.tflite'
    with pytest.raises(errors.UserError, match='cannot be run by TFLite'):
        WRITER.load(str(path))
    path.write_bytes(b'no model')
    with pytest.raises(errors.UserError, match='cannot be run by TFLite'):
        WRITER.load(str(path))


def test_a_file_of_another_program(tmp_path):
    with tf.Graph().as_default(), tf1.Session() as session:
        other = tf1.placeholder(tf.float32, [1, 4], 'other')
        saved_model = str(tmp_path / 'saved_model')
        tf1.saved_model.simple_save(session, saved_model, {'other': other}, {'sum': other + 1.0})
    path = tmp_path / 'model.tflite'
    path.write_bytes(tf.lite.TFLiteConverter.from_saved_model(saved_model).convert())
    with pytest.raises(errors.UserError, match=r"inputs \['other'\]; expected one that --mode"):
        WRITER.load(str(path))
