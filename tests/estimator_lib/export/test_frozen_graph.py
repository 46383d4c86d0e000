from __future__ import annotations

import json
import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.export import exporting, freezing, frozen_graph
from estimator_lib.export.frozen_graph import FrozenGraphWriter
from protos import pipeline_pb2
from tests.estimator_lib import tiny_task

tf1 = tf.compat.v1

IMAGES = np.random.RandomState(3).randint(0, 256, [2, 9, 12, 3]).astype(np.uint8)
Config = pipeline_pb2.TrainEvalPipelineConfig


class Named(tiny_task.Presented, tiny_task.TinyTask):
    """A task whose frozen graphs have an input of another name, and which has a label map."""

    def image_tensor_name(self):
        return 'ImageTensor'

    checkpoints = tiny_task.with_files({'label_map.pbtxt': 'item {}'})

    class_names = ('left', 'right')


class Recorded(Named):
    """A task with records: their texts are the images."""

    def decode(self, serialized):
        image = tf.reshape(tf.io.decode_raw(serialized, tf.uint8), [4, 5, 3])
        return {'image': image}


@pytest.fixture(scope='module')
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp('checkpoint')
    return tiny_task.save(folder / 'model.ckpt', tiny_task.values())


def export(task, config, checkpoint, folder):
    return exporting.export(task, config, checkpoint, str(folder), FrozenGraphWriter())


def test_a_program_that_feeds_and_fetches_by_name(checkpoint, tmp_path):
    folder = export(Named(), Config(), checkpoint, tmp_path)
    assert sorted(os.listdir(folder)) == [
        'README.md',
        'export.json',
        'frozen_inference_graph.pb',
        'label_map.pbtxt',
        'labels.txt',
        'pipeline.config',
    ]
    assert pathlib.Path(folder, 'labels.txt').read_text() == 'left\nright\n'
    with tf.Graph().as_default(), tf1.Session() as session:
        graph_def = tf1.GraphDef()
        with open(os.path.join(folder, 'frozen_inference_graph.pb'), 'rb') as file:
            graph_def.ParseFromString(file.read())
        tf.import_graph_def(graph_def, name='')
        assert not [node.op for node in graph_def.node if 'Var' in node.op]
        logits = session.run('logits:0', {'ImageTensor:0': IMAGES})
    expected = tiny_task.expected_logits(IMAGES, tiny_task.values())
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-6)
    about = json.loads(pathlib.Path(folder, 'export.json').read_text())
    assert about['inputs'] == {'ImageTensor:0': 'uint8 [batch, height, width, 3]'}
    assert about['outputs'] == {'logits:0': 'float32 [batch, 2]', 'classes:0': 'int64 [batch]'}
    assert about['agreement'] == {
        'images': '8 images of noise',
        'outputs': {'logits': 1.0, 'classes': 1.0},
    }
    assert about['origin']['checkpoint'] == 'model.ckpt'


def test_the_task_compares_the_outputs(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(Named, 'compare_served', lambda *_: {'rows': 0.995}, raising=False)
    folder = export(Named(), Config(), checkpoint, tmp_path)
    about = json.loads(pathlib.Path(folder, 'export.json').read_text())
    assert about['agreement']['outputs'] == {'rows': 0.995}
    monkeypatch.setattr(Named, 'compare_served', lambda *_: {'rows': 0.5})
    with pytest.raises(errors.UserError, match='something else than the model: 50.00% of rows'):
        export(Named(), Config(), checkpoint, tmp_path)


def test_it_is_run_on_images_of_the_evaluation_where_they_are_here(checkpoint, tmp_path, caplog):
    caplog.set_level('INFO', 'estimator_lib')
    path = str(tmp_path / 'records')
    with tf.io.TFRecordWriter(path) as writer:
        for index in range(3):
            writer.write(bytes(range(index, index + 60)))
        writer.write(b'not an image')
    config = Config()
    config.eval_input_reader.add().tf_record_input_reader.input_path.append(path)
    export(Recorded(), config, checkpoint, tmp_path / 'out')
    assert 'agreement with the network on 3 images of the evaluation: ' in caplog.text
    assert 'logits 100.00%' in caplog.text


def test_a_file_that_computes_something_else_does_not_stay(checkpoint, tmp_path, monkeypatch):
    def broken(frozen, outputs):
        for node in frozen.graph_def.node:
            if node.op == 'Relu':
                node.op = 'Relu6'
        for name, value in frozen.values.items():
            if name.endswith('gamma'):
                frozen.values[name] = 7 * value
        return frozen

    monkeypatch.setattr(freezing, 'fold_batch_norms', broken)
    with pytest.raises(errors.UserError) as caught:
        export(Named(), Config(), checkpoint, tmp_path)
    assert 'computes something else than the model' in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_a_flipped_bit_is_found(checkpoint, tmp_path):
    folder = export(Named(), Config(), checkpoint, tmp_path)
    path = pathlib.Path(folder, 'frozen_inference_graph.pb')
    content = path.read_bytes()
    path.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    with pytest.raises(errors.UserError, match='is not what was exported: sha256 is'):
        frozen_graph.open_file(str(path))
