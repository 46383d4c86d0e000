"""Rows of docs/results.md: the best export of a run, its metric, size and time."""

import json

import pytest

from benchmarks.accuracy import results


@pytest.fixture
def run(tmp_path):
    """Return a run with two best exports, of which the newer one counts."""
    for stamp, value in ((100, 0.5), (200, 0.75)):
        export = tmp_path / 'export' / 'best' / str(stamp)
        (export / 'assets.extra').mkdir(parents=True)
        metrics = {'checkpoint': 'model.ckpt-7', 'val': {'accuracy': value, 'loss': 1.0}}
        (export / 'assets.extra' / 'metrics.json').write_text(json.dumps(metrics))
        (export / 'saved_model.pb').write_bytes(bytes(1000 * stamp))
    (tmp_path / 'export' / 'best' / 'best.json').write_text('{}')
    (tmp_path / 'pipeline.config').write_text(
        'model { classification { num_classes: 3 backbone { name: "lenet" } } }'
        'train_config { } train_input_reader { } eval_config { } eval_input_reader { }'
        'export_config { best { metric: "accuracy" } }'
    )
    return tmp_path


def test_the_newest_best_export_counts(run, monkeypatch):
    monkeypatch.setattr(results, 'first_image', lambda config: None)
    monkeypatch.setattr(results, 'milliseconds', lambda export, image: 2.5)
    assert results.measure(str(run), '') == {
        'run': str(run),
        'metric': 'accuracy',
        'value': 0.75,
        'megabytes': 0.2,
        'milliseconds': 2.5,
    }
    assert results.measure(str(run), 'loss')['value'] == 1.0
    with pytest.raises(SystemExit, match="has no 'acuracy'; did you mean 'accuracy'"):
        results.measure(str(run), 'acuracy')


def test_an_incomplete_export_does_not_count(run):
    (run / 'export' / 'best' / 'temp-300').mkdir()
    assert results.best_export(str(run)) == str(run / 'export' / 'best' / '200')


def test_a_run_without_exports_is_refused(tmp_path):
    with pytest.raises(SystemExit, match='has no export/best'):
        results.best_export(str(tmp_path))
