"""The mode `benchmark` through the front door."""

import json

import pytest

from tests import tiny_data
from tests.system.test_files_for_devices import evaluated
from tests.test_run_train_eval import front_door
from vision_extras.benchmark import timing as timing_module

pytestmark = pytest.mark.usefixtures('shallow_networks')


def test_a_benchmark_has_a_row_for_each_format(tmp_path, monkeypatch, capsys):
    """The formats of a classifier with its metrics; the exports of the run stay."""
    classifier = evaluated(tmp_path, tiny_data)
    capsys.readouterr()
    before = sorted(classifier.rglob('*'))
    evaluated_before = (classifier / 'metrics.json').read_text()
    timing = timing_module.Timing(timing_module.Latency(1.0, 2.0), None, 0)
    timed = []

    def time_apart(path, images, folder, batch_size, threads):
        timed.append(({image.shape[1:3] for image in images}, batch_size, threads))
        return timing

    monkeypatch.setattr(timing_module, 'time_apart', time_apart)
    flags = [
        '--exports=saved_model, tflite float16',
        '--batch_size=3',
        '--threads=2',
        '--image_size=48x64',
    ]
    assert front_door('--mode=benchmark', f'--model_dir={classifier}', *flags) == 0
    assert timed[0] == ({(48, 64)}, 3, 2) and [each[1:] for each in timed] == [(3, 2)] * 2
    said = capsys.readouterr().out.replace('tflite float16', 'tflite_float16')
    lines = [line.split() for line in said.splitlines()]
    assert lines[0][:2] == ['metric:', 'accuracy;'] and lines[1][:2] == ['export', 'metric']
    assert [line[0] for line in lines[2:5]] == ['checkpoint', 'saved_model', 'tflite_float16']
    expected = json.loads(evaluated_before)['0']['accuracy']
    assert [float(line[1].rstrip('*')) for line in lines[2:5]] == pytest.approx(
        [expected] * 3, abs=1e-4
    )
    assert (classifier / 'metrics.json').read_text() == evaluated_before
    new = {path.name for path in classifier.rglob('*')} - {path.name for path in before}
    assert new == {'benchmark.csv', 'benchmark.png'}


def test_a_folder_without_a_run_is_refused_in_a_sentence(capsys):
    assert front_door('--mode=benchmark', '--model_dir=none') == 2
    said = capsys.readouterr().err
    assert 'there is no pipeline.config in none' in said and 'Traceback' not in said
