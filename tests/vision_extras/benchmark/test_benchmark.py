"""Benchmark of the exports of a line, whose numbers are known."""

import csv
import os

import numpy as np
import pytest

from estimator_lib import errors
from estimator_lib.export import formats
from estimator_lib.export.devices.onnx_files import OnnxWriter
from tests.estimator_lib import line_task, tiny_task
from tests.estimator_lib.evaluation.test_file_evaluation import DeployedLine
from vision_extras.benchmark import benchmark, timing

TIMING = timing.Timing(timing.Latency(1.0, 2.0), None, 1 << 20)


def refuse(self):
    del self
    raise errors.UserError('the package onnx is not installed.')


@pytest.fixture(scope='module', name='run')
def _run(tmp_path_factory):
    """A model_dir with the checkpoint of y = 2 x and an export; its config and checkpoint."""
    folder = tmp_path_factory.mktemp('line')
    config = line_task.create_config(folder)
    (folder / 'export').mkdir()
    (folder / 'export' / 'model').write_text('kept')
    checkpoint = tiny_task.save(folder / 'model.ckpt-5', {'slope': np.float32(2.0)})
    return folder, config, checkpoint


@pytest.fixture(scope='module', name='rows')
def _rows(run):
    """The lines printed, and the rows of benchmark.csv by export."""
    folder, config, checkpoint = run
    before = sorted(os.listdir(folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing, 'time_apart', lambda *_: TIMING)
        patch.setattr(OnnxWriter, 'check', refuse)
        lines = benchmark.benchmark(DeployedLine(), config, checkpoint, str(folder))
    assert sorted(os.listdir(folder)) == sorted([*before, 'benchmark.csv', 'benchmark.png'])
    with open(folder / 'benchmark.csv') as file:
        return lines, {row['export']: row for row in csv.DictReader(file)}


def test_all_formats_and_quantizations_are_measured():
    names = list(benchmark.list_writers())
    tflite = [f'tflite {name}' for name in ('none', 'dynamic', 'float16', 'int8')]
    assert names == ['saved_model', 'frozen_graph', *tflite, 'onnx']
    assert {name.split()[0] for name in names} == set(formats.WRITERS)


def test_metrics_are_those_of_the_evaluation_sets(rows):
    _, by_name = rows
    assert list(by_name) == ['checkpoint', *benchmark.list_writers()]
    # 2 x instead of 3 x, of the points 1, 2, 3 and 4.
    for name in ('checkpoint', 'saved_model', 'frozen_graph', 'tflite none'):
        assert float(by_name[name]['error']) == 2.5, name
        assert float(by_name[name]['again: error']) == 2.5, name
    assert by_name['saved_model']['metrics_of'] == 'checkpoint'
    assert by_name['tflite none']['metrics_of'] == 'file'
    assert not any('loss' in name.lower() for name in by_name['checkpoint'])


def test_size_agreement_and_times_of_each_export(rows):
    _, by_name = rows
    assert float(by_name['saved_model']['agreement']) == 1.0
    assert float(by_name['tflite none']['agreement']) == 1.0
    assert 0 < int(by_name['tflite none']['bytes']) < 10000
    assert by_name['tflite none']['one_ms_median'] == '1.0'
    assert by_name['checkpoint']['one_ms_median'] == ''


def test_refused_formats_have_their_reason(rows):
    lines, by_name = rows
    assert by_name['onnx']['refused'] == 'the package onnx is not installed.'
    assert lines[-1] == 'onnx: refused: the package onnx is not installed.'


def test_the_run_is_left_as_it_was(run, rows):
    folder, _, _ = run
    assert (folder / 'export' / 'model').read_text() == 'kept'
    assert (folder / 'benchmark.png').read_bytes().startswith(b'\x89PNG')


def test_a_disagreement_of_a_saved_model_is_measured(run, monkeypatch):
    """An export that computes something else than the checkpoint has an agreement of 0."""
    folder, config, checkpoint = run
    predict = benchmark.exported_model.Predictor.predict

    def wrong(self, images):
        return {name: value + 1.0 for name, value in predict(self, images).items()}

    monkeypatch.setattr(timing, 'time_apart', lambda *_: TIMING)
    monkeypatch.setattr(benchmark.exported_model.Predictor, 'predict', wrong)
    saved_model = {'saved_model': formats.create_writer('saved_model')}
    monkeypatch.setattr(benchmark, 'list_writers', lambda: saved_model)
    lines = benchmark.benchmark(DeployedLine(), config, checkpoint, str(folder / 'other'))
    assert lines[2].split()[:3] == ['saved_model', '2.5000*', '0.00%']


def test_the_metric_of_the_best_export_is_shown(run):
    _, config, _ = run
    metrics = {'error': 1.0, 'other': 2.0}
    assert benchmark.main_metric(DeployedLine(), config, metrics) == 'error'
    changed = type(config)()
    changed.CopyFrom(config)
    changed.export_config.best.metric = 'other'
    assert benchmark.main_metric(DeployedLine(), changed, metrics) == 'other'
    assert benchmark.main_metric(DeployedLine(), config, {}) == ''
