"""The mode `benchmark` through the front door."""

import json

import pytest

from estimator_lib.export import formats
from tests import tiny_data
from tests.system.test_files_for_devices import evaluated
from tests.test_run_train_eval import front_door
from vision_extras.benchmark import benchmark
from vision_extras.benchmark import timing as timing_module


def test_a_benchmark_has_a_row_for_each_format(tmp_path, monkeypatch, capsys):
    """The formats of a classifier with its metrics; the exports of the run stay."""
    classifier = evaluated(tmp_path, tiny_data)
    capsys.readouterr()
    before = sorted(classifier.rglob('*'))
    evaluated_before = (classifier / 'metrics.json').read_text()
    timing = timing_module.Timing(timing_module.Latency(1.0, 2.0), None, 0)
    monkeypatch.setattr(timing_module, 'time_apart', lambda *_: timing)
    writers = {
        name: formats.create_writer(name, options)
        for name, options in (('saved_model', {}), ('tflite', {'quantize': 'float16'}))
    }
    monkeypatch.setattr(benchmark, 'list_writers', lambda: writers)
    assert front_door('--mode=benchmark', f'--model_dir={classifier}') == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0][:2] == ['metric:', 'accuracy;'] and lines[1][:2] == ['export', 'metric']
    assert [line[0] for line in lines[2:5]] == ['checkpoint', 'saved_model', 'tflite']
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
