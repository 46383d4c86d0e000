"""Benchmark of the exports of a line, whose numbers are known."""

import csv
import io
import logging
import os

import numpy as np
import pytest

from estimator_lib import errors, logs
from estimator_lib.evaluation import evaluating
from estimator_lib.export import formats
from estimator_lib.export.devices.onnx_files import OnnxWriter
from tests.estimator_lib import line_task, tiny_task
from tests.estimator_lib.evaluation.test_file_evaluation import DeployedLine
from vision_extras.benchmark import benchmark, mode, timing

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
        log = io.StringIO()
        handler = logging.StreamHandler(log)
        patch.setattr(logging.getLogger('estimator_lib'), 'handlers', [handler])
        with logs.silenced(['estimator_lib'], logging.INFO):  # sets the level
            lines = benchmark.benchmark(DeployedLine(), config, checkpoint, str(folder))
    assert sorted(os.listdir(folder)) == sorted([*before, 'benchmark.csv', 'benchmark.png'])
    with open(folder / 'benchmark.csv') as file:
        by_name = {row['export']: row for row in csv.DictReader(file)}
    return lines, by_name, log.getvalue().splitlines()


def test_all_formats_and_quantizations_are_measured():
    names = list(benchmark.list_writers())
    tflite = [f'tflite {name}' for name in ('none', 'dynamic', 'float16', 'int8')]
    onnx = ['onnx none', 'onnx float16', 'onnx batches']
    assert names == ['saved_model', 'frozen_graph', *tflite, *onnx]
    assert benchmark.list_writers()['onnx batches'].batch_size is None
    assert {name.split()[0] for name in names} == set(formats.WRITERS)


def test_metrics_are_those_of_the_evaluation_sets(rows):
    _, by_name, _ = rows
    assert list(by_name) == ['checkpoint', *benchmark.list_writers()]
    # 2 x instead of 3 x, of the points 1, 2, 3 and 4.
    for name in ('checkpoint', 'saved_model', 'frozen_graph', 'tflite none'):
        assert float(by_name[name]['error']) == 2.5, name
        assert float(by_name[name]['again: error']) == 2.5, name
    assert by_name['saved_model']['metrics_of'] == 'checkpoint'
    assert by_name['tflite none']['metrics_of'] == 'file'
    assert not any('loss' in name.lower() for name in by_name['checkpoint'])


def test_size_agreement_and_times_of_each_export(rows):
    _, by_name, _ = rows
    assert float(by_name['saved_model']['agreement']) == 1.0
    assert float(by_name['tflite none']['agreement']) == 1.0
    assert 0 < int(by_name['tflite none']['bytes']) < 10000
    assert by_name['tflite none']['one_ms_median'] == '1.0'
    assert by_name['checkpoint']['one_ms_median'] == ''


def test_refused_formats_have_their_reason(rows):
    lines, by_name, _ = rows
    assert by_name['onnx none']['refused'] == 'the package onnx is not installed.'
    assert lines[-3] == 'onnx none: refused: the package onnx is not installed.'


def test_of_each_export_the_log_has_one_line(rows):
    *_, log = rows
    of_exports = log[log.index('benchmark of saved_model') :]
    assert of_exports == [f'benchmark of {name}' for name in benchmark.list_writers()]
    assert any(line.strip().startswith('error ') for line in log)  # of the checkpoint


@pytest.mark.parametrize(
    'exports, names',
    [
        ((), list(benchmark.list_writers())),
        (('onnx',), ['onnx none', 'onnx float16', 'onnx batches']),
        (('onnx batches', 'frozen_graph'), ['frozen_graph', 'onnx batches']),
        (('tflite int8',), ['tflite int8']),
    ],
)
def test_exports_are_chosen_by_format_or_name(exports, names):
    assert list(benchmark.choose_writers(exports)) == names


def test_an_unknown_export_is_refused():
    with pytest.raises(errors.UserError, match="--exports: 'tflite int4': unknown; did you mean"):
        benchmark.choose_writers(['tflite int4'])


def test_images_and_batches_have_the_sizes_of_the_settings(run, monkeypatch):
    folder, config, checkpoint = run
    calls = []

    def record(path, images, target, batch_size, threads):
        calls.append(({image.shape for image in images}, batch_size, threads))
        return TIMING

    monkeypatch.setattr(timing, 'time_apart', record)
    settings = benchmark.Settings(['frozen_graph'], 3, 1, (6, 4))
    output = str(folder / 'sizes')
    lines = benchmark.benchmark(DeployedLine(), config, checkpoint, output, settings)
    assert calls == [({(1, 6, 4, 3)}, 3, 1)]
    assert [line.split()[0] for line in lines[1:4]] == ['export', 'checkpoint', 'frozen_graph']
    assert 'batch of 3' in lines[1]
    with open(folder / 'sizes' / 'benchmark.csv') as file:
        assert 'batch_of_3_ms_median' in file.readline()


def test_an_image_is_resized_by_its_nearest_pixels():
    image = np.arange(8, dtype=np.uint8).reshape(2, 4, 1)
    resized = benchmark._resized(image, (4, 2))[..., 0]
    np.testing.assert_array_equal(resized, [[0, 2], [0, 2], [4, 6], [4, 6]])
    assert benchmark._resized(image, None) is image


@pytest.mark.parametrize('text, size', [('', None), ('64', (64, 64)), ('48x64', (48, 64))])
def test_a_size_of_images(text, size):
    assert mode.read_size(text) == size


@pytest.mark.parametrize('text', ['0', '64x', '64x64x3', '-8', 'large'])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(errors.UserError, match=f'--image_size={text}: no size'):
        mode.read_size(text)


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
    assert lines[3].split()[:3] == ['saved_model', '2.5000*', '0.00%']


def test_the_metric_of_the_best_export_is_shown(run):
    _, config, _ = run
    metrics = {'error': 1.0, 'other': 2.0}
    assert evaluating.main_metric(DeployedLine(), config, metrics) == 'error'
    changed = type(config)()
    changed.CopyFrom(config)
    changed.export_config.best.metric = 'other'
    assert evaluating.main_metric(DeployedLine(), changed, metrics) == 'other'
    assert evaluating.main_metric(DeployedLine(), config, {}) == ''
