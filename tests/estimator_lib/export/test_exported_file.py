"""Files for devices as functions of images, and what is said of those that do not fit."""

import json
import os
import pathlib
import shutil
import signal
import sys

import numpy as np
import pytest

from estimator_lib import errors
from estimator_lib.checkpoints import evaluated
from estimator_lib.export import artifacts, exported_file, exporting
from estimator_lib.export.devices.tflite import TfliteWriter
from estimator_lib.processes import child_processes
from protos import pipeline_pb2
from tests.estimator_lib import tiny_task

pytestmark = pytest.mark.usefixtures('forked_processes')

IMAGES = np.random.RandomState(1).randint(0, 256, [2, 9, 12, 3]).astype(np.uint8)


@pytest.fixture(scope='module')
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp('file')
    checkpoint = tiny_task.save(folder / 'model.ckpt-7', tiny_task.values())
    evaluated.write(str(folder), 7, {'val': {'accuracy': 0.5}, 'another': {'accuracy': 0.1}})
    config = pipeline_pb2.TrainEvalPipelineConfig()
    task = tiny_task.TinyTask()
    return exporting.export(task, config, checkpoint, str(folder), TfliteWriter()) + '/model.tflite'


def test_images_of_any_size_and_number_become_outputs_of_the_task(path):
    predictor = exported_file.FilePredictor(tiny_task.TinyTask(), path)
    assert predictor.path == path and predictor.max_batch_size is None
    assert predictor.output_names == ['classes', 'logits']
    found = predictor.predict(IMAGES)
    expected = tiny_task.expected_logits(IMAGES, tiny_task.values())
    np.testing.assert_allclose(found['logits'], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found['classes'], expected.argmax(-1))
    assert found['classes'].dtype == np.int64
    other = predictor.predict(IMAGES[:1, :5, :7])
    expected = tiny_task.expected_logits(IMAGES[:1, :5, :7], tiny_task.values())
    np.testing.assert_allclose(other['logits'], expected, rtol=1e-4, atol=1e-5)


def test_what_lies_beside_a_file_is_found(path, tmp_path):
    predictor = exported_file.FilePredictor(tiny_task.TinyTask(), path)
    assert predictor.metrics == {'accuracy': 0.5}
    assert predictor.config_path == os.path.join(os.path.dirname(path), 'pipeline.config')
    assert artifacts.read_step(path) == 7
    alone = tmp_path / 'model.tflite'
    alone.write_bytes(pathlib.Path(path).read_bytes())
    assert artifacts.config_path(str(alone)) is None
    assert artifacts.read_metrics(str(alone)) == {}
    assert artifacts.read_step(str(alone)) is None


def test_a_file_of_another_network_is_refused(path):
    class Larger(tiny_task.TinyDeployable):
        input_shape = (7, 6, 3)

    class WithMore(tiny_task.TinyDeployable):
        def __init__(self, task):
            super().__init__(task)
            self.meanings['depth'] = 'of each pixel'

    for kind, message in (
        (Larger, r'takes an image of \[1, 6, 6, 3\], and the network of the config one of \[1, 7,'),
        (WithMore, "has no output 'depth', which the network of the config has"),
    ):
        task = tiny_task.TinyTask()
        task.deployable = lambda ops, options, task=task, kind=kind: kind(task)
        with pytest.raises(errors.UserError, match=message):
            exported_file.ExportedFile(task, path)


def test_a_file_that_shrinks_images_says_so_once(path, caplog):
    class Shrinking(tiny_task.TinyDeployable):
        scales_down_to = (tiny_task.SIZE, tiny_task.SIZE)

    task = tiny_task.TinyTask()
    task.deployable = lambda ops, options: Shrinking(task)
    predictor = exported_file.FilePredictor(task, path)
    for side in (6, 5):
        predictor.predict(np.zeros([1, side, 6, 3], np.uint8))
    assert not caplog.records
    for _ in range(2):
        predictor.predict(np.zeros([1, 6, 7, 3], np.uint8))
    (record,) = caplog.records
    assert 'takes images of 6 x 6: larger ones are scaled down' in record.message
    assert '--tile=6' in record.message


def test_what_is_no_file_is_refused(tmp_path):
    text = tmp_path / 'model.pb'
    text.write_text('x')
    broken = tmp_path / 'model.tflite'
    broken.write_text('no model')
    for wrong, message in (
        (tmp_path, 'is a folder; expected a file in it, .tflite or .onnx'),
        (tmp_path / 'none.tflite', 'is not there; expected a file, .tflite or .onnx'),
        (text, 'of no known format; expected one that ends with .tflite or .onnx'),
        (broken, 'cannot be run by TFLite'),
    ):
        with pytest.raises(errors.UserError, match=message):
            exported_file.ExportedFile(tiny_task.TinyTask(), str(wrong))


def test_a_file_that_was_truncated_is_refused_before_it_is_loaded(path, tmp_path):
    copy = pathlib.Path(shutil.copytree(os.path.dirname(path), tmp_path / 'copy')) / 'model.tflite'
    content = copy.read_bytes()
    copy.write_bytes(content[:-7])
    with pytest.raises(errors.UserError, match='is not what was exported: bytes is'):
        exported_file.ExportedFile(tiny_task.TinyTask(), str(copy))
    copy.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(errors.UserError, match='is not what was exported: sha256 is'):
        exported_file.ExportedFile(tiny_task.TinyTask(), str(copy))


def test_a_file_is_known_by_the_end_of_its_name():
    assert exported_file.is_file('a/b.tflite') and exported_file.is_file('b.onnx')
    assert not any(map(exported_file.is_file, (None, '', 'a/tflite', 'model.ckpt-3', 'a.tflite/1')))


def test_export_json_says_what_is_in_the_file(path):
    about = json.loads(pathlib.Path(path).with_name('export.json').read_text())
    assert about['outputs']['classes'] == {
        'dtype': 'int64',
        'shape': [1],
        'meaning': 'the larger one',
    }


@pytest.fixture
def unknown(tmp_path):
    path = tmp_path / 'model.tflite'
    path.write_bytes(b'content')
    return path


@pytest.mark.parametrize('key', ['bytes', 'sha256'])
def test_what_was_exported_is_compared(unknown, key):
    about = unknown.with_name('export.json')
    about.write_text(json.dumps(artifacts.describe_file(str(unknown))))
    exported_file.check_content(str(unknown), ends_process=True)
    about.write_text(json.dumps({**artifacts.describe_file(str(unknown)), key: 'x'}))
    with pytest.raises(errors.UserError, match=f"is not what was exported: {key} is .* says 'x'"):
        exported_file.check_content(str(unknown), ends_process=True)


def run_instead(monkeypatch, code):
    """Run other code in the process that tries a file."""
    command = [sys.executable, '-c', code]
    monkeypatch.setattr(child_processes, 'command', lambda *arguments: command)


def test_a_file_that_ends_its_process_is_refused(unknown, monkeypatch):
    # Which corrupt bytes do so depends on the interpreter: here all do.
    run_instead(monkeypatch, f'import os; os.kill(os.getpid(), {signal.SIGSEGV:d})')
    with pytest.raises(errors.UserError, match=r'ends the process that runs it \(SIGSEGV\)'):
        exported_file.check_content(str(unknown), ends_process=True)
    exported_file.check_content(str(unknown), ends_process=False)
    assert os.listdir(unknown.parent) == ['model.tflite']


def test_what_the_other_process_refuses_is_not_loaded_here(unknown):
    """Refuse a file that raises an error in another process: it may end this one."""
    with pytest.raises(errors.UserError, match=r'model\.tflite cannot be run by TFLite: '):
        exported_file.check_content(str(unknown), ends_process=True)


def test_another_error_of_that_process_is_named(unknown, monkeypatch):
    run_instead(monkeypatch, 'raise KeyError("x")')
    with pytest.raises(errors.UserError, match=r"model\.tflite cannot be run: KeyError: 'x'\.$"):
        exported_file.check_content(str(unknown), ends_process=True)


def test_a_file_that_never_ends_is_refused(unknown, monkeypatch):
    monkeypatch.setattr(exported_file, '_MOST_SECONDS', 0.01)
    with pytest.raises(
        errors.UserError, match=r'model\.tflite cannot be run: it takes more than 0\.01 s'
    ):
        exported_file.check_content(str(unknown), ends_process=True)


@pytest.mark.parametrize('sides', [(3,), (2, 5)])
def test_outputs_of_other_sizes_are_refused(path, sides):
    task = tiny_task.TinyTask()
    deployable = tiny_task.TinyDeployable(task)
    task.deployable = lambda ops, options: deployable
    deployable.sizes = {'logits': sides}
    with pytest.raises(errors.UserError, match=r"'logits' of an image has the shape \[2\]"):
        exported_file.ExportedFile(task, path)
    deployable.sizes = {'logits': (None,)}
    exported_file.ExportedFile(task, path)
