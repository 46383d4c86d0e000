"""Exports of all formats: the same steps, and the same files beside the model."""

import importlib.util
import json
import os
import pathlib

import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints import evaluated
from estimator_lib.export import artifacts, exporting, formats
from protos import pipeline_pb2
from tests.estimator_lib import tiny_task

Config = pipeline_pb2.TrainEvalPipelineConfig
FORMATS = [
    'saved_model',
    'frozen_graph',
    'tflite',
    pytest.param(
        'onnx',
        marks=pytest.mark.skipif(
            not all(map(importlib.util.find_spec, ('tf2onnx', 'onnx', 'onnxruntime'))),
            reason='the packages of the extra [onnx] are not installed',
        ),
    ),
]


class Named(tiny_task.Presented, tiny_task.TinyTask):
    class_names = ('left', 'right')

    checkpoints = tiny_task.with_files({'label_map.pbtxt': 'item {}'})


@pytest.fixture(scope='module')
def checkpoint(tmp_path_factory):
    """Write a checkpoint that was evaluated on a set without objects."""
    folder = tmp_path_factory.mktemp('checkpoint')
    metrics = {'0': {'accuracy': 0.5, 'recall': float('nan')}}
    evaluated.write(str(folder), 7, metrics)
    return tiny_task.save(folder / 'model.ckpt-7', tiny_task.values())


@pytest.mark.parametrize('name', FORMATS)
def test_all_formats_have_the_same_files_beside_the_model(checkpoint, tmp_path, caplog, name):
    caplog.set_level('INFO', 'estimator_lib')
    writer = formats.create_writer(name)
    path = exporting.export(Named(), Config(), checkpoint, str(tmp_path), writer)
    assert os.listdir(tmp_path) == [os.path.basename(path)]
    model = os.path.join(path, writer.file_name)
    assert os.path.exists(model)
    export = path if name == 'saved_model' else model
    folder = pathlib.Path(artifacts.find_folder(export))
    texts = {file.name: file.read_text() for file in folder.iterdir() if str(file) != model}
    card = texts.pop('README.md', None) or pathlib.Path(path, 'README.md').read_text()
    assert card.startswith('---\n') and '| left, right |' in card
    about = json.loads(texts.pop('export.json'))
    assert about['format'] == name and about['origin']['global_step'] == 7
    assert sorted(key.partition(':')[0] for key in about['outputs']) == ['classes', 'logits']
    assert json.loads(texts.pop('metrics.json')) == {'global_step': 7, '0': {'accuracy': 0.5}}
    if name == 'saved_model':
        assert json.loads(texts.pop('origin.json')) == about['origin']
    assert texts == {
        'labels.txt': 'left\nright\n',
        'label_map.pbtxt': 'item {}',
        'pipeline.config': '',
    }
    assert artifacts.read_step(export) == 7
    assert artifacts.read_metrics(export)['0'] == {'accuracy': 0.5}
    assert caplog.messages.count(f'exported {checkpoint} to {path}') == 1


@pytest.mark.parametrize('name', FORMATS)
def test_a_checkpoint_of_another_model_is_refused(checkpoint, tmp_path, name):
    task, folder = tiny_task.TinyTask(channels=4), tmp_path / 'export'
    with pytest.raises(errors.CheckpointError, match='is not a checkpoint of this model') as caught:
        exporting.export(task, Config(), checkpoint, str(folder), formats.create_writer(name))
    assert 'model [3, 3, 3, 4]  checkpoint [3, 3, 3, 2]' in str(caught.value)
    assert not folder.exists()


@pytest.mark.parametrize('name', FORMATS)
def test_the_graph_hook_sees_the_network(checkpoint, tmp_path, name):
    seen = []

    def hook():
        seen.extend(variable.op.name for variable in tf.compat.v1.trainable_variables())

    writer = formats.create_writer(name)
    exporting.export(Named(), Config(), checkpoint, str(tmp_path), writer, hook)
    assert [name.rpartition('/')[2] for name in seen] == ['weights', 'gamma', 'beta']


def test_what_a_saved_model_takes_and_returns(checkpoint, tmp_path):
    writer = formats.create_writer('saved_model', {'input_type': 'tf_example'})
    path = exporting.export(Named(), Config(), checkpoint, str(tmp_path), writer)
    about = json.loads(pathlib.Path(path, 'assets.extra', 'export.json').read_text())
    assert about['inputs'] == {'inputs': {'dtype': 'string', 'shape': [None]}}
    assert about['outputs'] == {
        'logits': {'dtype': 'float32', 'shape': [None, 2]},
        'classes': {'dtype': 'int64', 'shape': [None]},
    }


def test_a_task_is_asked_for_its_exported_form(checkpoint, tmp_path):
    class OfSeveralViews(Named):
        def postprocess(self, predictions, features):
            raise AssertionError('the task of evaluations was exported')

        def as_exported(self):
            return Named()

    writer = formats.create_writer('saved_model')
    exporting.export(OfSeveralViews(), Config(), checkpoint, str(tmp_path), writer)
