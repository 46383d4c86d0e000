import json
import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.export import exporting
from estimator_lib.export.devices import device_files, tflite
from estimator_lib.task_interfaces import agreement
from protos import pipeline_pb2
from tests.estimator_lib import tiny_task


class Recorded(tiny_task.Presented, tiny_task.TinyTask):
    """Records whose texts are images of 4 x 5 pixels."""

    def decode(self, serialized):
        return {'image': tf.reshape(tf.io.decode_raw(serialized, tf.uint8), [4, 5, 3])}

    class_names = ('left', 'right')


class Writer(device_files.DeviceWriter):
    """A format of one's own: what TensorFlow computes, or what is told."""

    name = 'tflite'
    file_name = 'model.tflite'
    quantizes = (device_files.NONE, device_files.INT8)
    ops = None
    changed = staticmethod(lambda outputs: outputs)

    def convert(self, graph, path, quantize, representative=()):
        Writer.graph, Writer.representative = graph, representative
        pathlib.Path(path).write_text(quantize)

    def load(self, path, num_threads=None):
        model = Model()
        model.changed = self.changed
        outputs = {'logits': {'dtype': 'float32'}, 'classes': {}}
        model.about = {'inputs': {}, 'outputs': outputs}
        return model


class Model(device_files.FileModel):
    about = None

    def run(self, image):
        (found,) = Writer.graph.run([image])
        return self.changed(found)


@pytest.fixture(scope='module')
def model(tmp_path_factory):
    """Create a config with records, and a checkpoint."""
    folder = tmp_path_factory.mktemp('model')
    random = np.random.RandomState(0)
    with tf.io.TFRecordWriter(str(folder / 'records')) as writer:
        for _ in range(5):
            writer.write(random.randint(0, 256, [60]).astype(np.uint8).tobytes())
    config = pipeline_pb2.TrainEvalPipelineConfig()
    for reader in (config.train_input_reader, config.eval_input_reader.add()):
        reader.tf_record_input_reader.input_path.append(str(folder / 'records'))
    return config, tiny_task.save(folder / 'model.ckpt', tiny_task.values())


def export(model, folder, writer, config=None, **options):
    kept, prefix = model
    return exporting.export(Recorded(), config or kept, prefix, str(folder), writer, **options)


def test_a_file_of_tflite_and_what_lies_beside_it(model, tmp_path, caplog, monkeypatch):
    caplog.set_level('INFO', 'estimator_lib')
    monkeypatch.setattr(tiny_task.TinyDeployable, 'notes', ('it is tiny',))
    folder = export(model, tmp_path, tflite.TfliteWriter())
    assert sorted(os.listdir(folder)) == [
        'README.md',
        'export.json',
        'labels.txt',
        'model.tflite',
        'pipeline.config',
    ]
    about = json.loads(pathlib.Path(folder, 'export.json').read_text())
    assert (about['format'], about['quantize']) == ('tflite', 'none')
    assert about['quantization_aware'] is False
    assert about['bytes'] == os.path.getsize(os.path.join(folder, 'model.tflite'))
    assert about['agreement']['images'] == '5 images of the evaluation'
    assert about['agreement']['outputs'] == {'logits': 1.0, 'classes': 1.0}
    assert about['agreement']['largest_differences']['logits'] < 1e-4
    assert about['outputs']['logits'] == {
        'dtype': 'float32',
        'shape': [1, 2],
        'meaning': 'two numbers',
    }
    assert about['origin']['checkpoint'] == 'model.ckpt'
    assert 'agreement with the network on 5 images of the evaluation: logits 100' in caplog.text
    assert caplog.messages.count('model.tflite: it is tiny') == 1


def test_int8_is_measured_on_as_many_images_as_are_asked_for(model, tmp_path):
    export(model, tmp_path, Writer('int8', 3))
    assert [one.shape for one in Writer.representative] == [(1, 6, 6, 3)] * 3
    assert Writer.representative[0].max() > 2.0  # pixels, not inputs of the network


def test_a_file_that_computes_something_else_does_not_stay(model, tmp_path, monkeypatch):
    monkeypatch.setattr(
        Writer,
        'changed',
        staticmethod(lambda outputs: {**outputs, 'logits': outputs['logits'] * 1.1}),
    )
    with pytest.raises(errors.UserError, match='something else than the model: 0.00% of logits'):
        export(model, tmp_path, Writer())
    # Of arithmetic with 8 bits a tenth of the range is expected; not this.
    monkeypatch.setattr(
        Writer,
        'changed',
        staticmethod(lambda outputs: {**outputs, 'logits': outputs['logits'] + 9.0}),
    )
    with pytest.raises(errors.UserError, match='something else than the model'):
        export(model, tmp_path, Writer('int8'))
    assert os.listdir(tmp_path) == []


def test_a_file_that_answers_with_constants_does_not_stay(model, tmp_path, monkeypatch):
    constants = {'logits': np.zeros([1, 2], np.float32), 'classes': np.zeros([1], np.int64)}
    monkeypatch.setattr(Writer, 'changed', staticmethod(lambda outputs: constants))
    with pytest.raises(errors.UserError, match='every image with the same outputs'):
        export(model, tmp_path, Writer())
    assert os.listdir(tmp_path) == []


def test_a_model_that_was_trained_for_int8_becomes_it(model, tmp_path):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    config.CopyFrom(model[0])
    config.graph_rewriter.quantization.delay = 0
    folder = export(model, tmp_path, Writer(), config)
    assert pathlib.Path(folder, 'model.tflite').read_text() == 'int8'
    with pytest.raises(errors.UserError, match='--quantize=none: the model was trained for int8'):
        export(model, tmp_path, Writer('none'), config)


def test_arithmetic_that_a_format_does_not_have(model, tmp_path):
    with pytest.raises(errors.UserError) as caught:
        export(model, tmp_path, Writer('float16'))
    assert str(caught.value) == (
        '--quantize=float16: --format=tflite has none and int8; expected none, or --format=tflite.'
    )


@pytest.mark.parametrize(
    ('options', 'said'),
    [
        ({'keep_float': ('a', 'b')}, '--keep_float=a is of --quantize=int8; leave it out.'),
        ({'max_loss': 0.01}, '--max_loss=0.01 is of files that round (--quantize); leave it out.'),
        (
            {'quantize': 'int8', 'max_loss': 0.5},
            'max_loss=0.5 needs an evaluation: pass measure to export().',
        ),
    ],
)
def test_options_of_int8_alone(model, tmp_path, options, said):
    with pytest.raises(errors.UserError) as caught:
        export(model, tmp_path, Writer(**options))
    assert str(caught.value) == said


def test_ranges_of_training_are_those_of_all_tensors(model, tmp_path):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    config.graph_rewriter.quantization.delay = 0
    with pytest.raises(errors.UserError, match='--keep_float=a: the model was trained for int8'):
        export(model, tmp_path, Writer(keep_float=('a',)), config)


class Explained(Writer):
    def explain(self, model):
        return ['because of', f'  {model.quantize}']


class Unexplained(Writer):
    def explain(self, model):
        raise errors.UserError('the interpreter has no such op.')


def test_a_refusal_keeps_its_reason_where_tensors_cannot_be_compared(model, tmp_path, monkeypatch):
    def shift(outputs):
        return {**outputs, 'logits': outputs['logits'] + 9.0}

    monkeypatch.setattr(Writer, 'changed', staticmethod(shift))
    with pytest.raises(errors.UserError, match=r'No export is left\.$'):
        export(model, tmp_path, Unexplained('int8'))


def test_a_format_that_rounds_by_ranges_of_training_alone_has_a_bound(model, tmp_path):
    class Pairs(Writer):
        quantizes = ('none', 'float16')

    config = pipeline_pb2.TrainEvalPipelineConfig()
    config.graph_rewriter.quantization.delay = 0
    with pytest.raises(errors.UserError, match='max_loss=0.5 needs an evaluation'):
        export(model, tmp_path, Pairs(max_loss=0.5), config)


def test_a_bound_on_the_metric_replaces_that_on_the_outputs(model, tmp_path, monkeypatch):
    def shift(outputs):
        return {**outputs, 'logits': outputs['logits'] + 9.0}

    def measure(path):
        paths.append(path)
        return agreement.MetricPair('accuracy', True, 0.75, 0.7)

    paths = []
    monkeypatch.setattr(Writer, 'changed', staticmethod(shift))
    with pytest.raises(errors.UserError, match=r'No export is left\.\nbecause of\n  int8$'):
        export(model, tmp_path, Explained('int8'), measure=measure)
    assert not paths
    with pytest.raises(errors.UserError) as caught:
        export(model, tmp_path, Explained('int8', max_loss=0.04), measure=measure)
    assert str(caught.value) == (
        'accuracy of model.tflite is 0.7, and of the checkpoint 0.75; expected at most 0.04 worse '
        '(--max_loss). No export is left.\nbecause of\n  int8'
    )
    assert os.listdir(tmp_path) == []
    folder = export(model, tmp_path, Explained('int8', max_loss=0.06), measure=measure)
    about = json.loads(pathlib.Path(folder, 'export.json').read_text())
    assert about['metric'] == {
        'name': 'accuracy',
        'higher_is_better': True,
        'checkpoint': 0.75,
        'file': 0.7,
        'max_loss': 0.06,
    }
    assert about['agreement']['outputs']['logits'] == 0.0
    assert [os.path.basename(path) for path in paths] == ['model.tflite'] * 2
