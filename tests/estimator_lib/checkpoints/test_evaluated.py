import json

import pytest

from estimator_lib.checkpoints import evaluated

METRICS = {'val': {'loss': 2.0, 'accuracy': 0.5}, 'another': {'loss': 1.0}}


@pytest.fixture
def folder(tmp_path):
    evaluated.write(str(tmp_path), 7, METRICS)
    return tmp_path


def test_metrics_are_read_as_they_were_written(folder):
    written = json.loads((folder / 'metrics.json').read_text())
    assert written == {'global_step': 7, **METRICS}
    assert evaluated.read(str(folder / 'model.ckpt-7')) == written
    # The first set, not the one that is first by the alphabet.
    assert evaluated.first_set(written) == METRICS['val']


def test_metrics_of_another_step_are_not_of_the_checkpoint(folder):
    assert evaluated.read(str(folder / 'model.ckpt-8')) == {}


def test_nothing_was_evaluated(tmp_path):
    assert evaluated.read(str(tmp_path / 'model.ckpt-7')) == {}
    assert evaluated.first_set({}) == {}


def test_copies_are_of_the_checkpoint(folder, tmp_path):
    (tmp_path / 'best').mkdir()
    evaluated.copy(str(folder / 'model.ckpt-8'), str(tmp_path / 'best'))
    assert not list((tmp_path / 'best').iterdir())
    evaluated.copy(str(folder / 'model.ckpt-7'), str(tmp_path / 'best'))
    assert evaluated.read(str(tmp_path / 'best' / 'model.ckpt-7'))['val'] == METRICS['val']


NAN = float('nan')


def refuse(constant):
    raise ValueError(f'{constant} is not JSON')


def test_what_is_no_number_is_null_in_the_file(tmp_path):
    metrics = {'val': {'loss': NAN, 'accuracy': 0.5, 'depth': float('-inf')}, 'another': {'x': NAN}}
    evaluated.write(str(tmp_path), 7, metrics)
    written = json.loads((tmp_path / 'metrics.json').read_text(), parse_constant=refuse)
    assert written == {
        'global_step': 7,
        'val': {'accuracy': 0.5, 'depth': None, 'loss': None},
        'another': {'x': None},
    }
    known = {'global_step': 7, 'val': {'accuracy': 0.5}, 'another': {}}
    assert evaluated.read(str(tmp_path / 'model.ckpt-7')) == known
    (tmp_path / 'best').mkdir()
    evaluated.copy(str(tmp_path / 'model.ckpt-7'), str(tmp_path / 'best'))
    assert json.loads((tmp_path / 'best' / 'metrics.json').read_text()) == known


def test_nan_of_earlier_versions_is_read(tmp_path):
    text = '{"global_step": 7, "val": {"loss": NaN, "accuracy": 0.5, "depth": Infinity}}'
    (tmp_path / 'metrics.json').write_text(text)
    assert evaluated.first_set(evaluated.read(str(tmp_path / 'model.ckpt-7'))) == {'accuracy': 0.5}


@pytest.mark.parametrize(
    'text, known',
    [
        ('{"global_step": "x", "val": {"a": 1}}', {'val': {'a': 1}}),
        ('{"global_step": 7, "val": [1]}', {'global_step': 7}),
        ('{"global_step": 7, "val": {"a": {"b": 1}, "c": [1], "d": 2}}', {'val': {'d': 2}}),
        ('{"global_step": ' + '7' * 5000 + '}', {}),
        ('{"global_step": 7, "val": {"a": 1e400}}', {}),
        ('{"val": ' * 900 + '1' + '}' * 900, {'val': {}}),
    ],
)
def test_values_of_wrong_types_are_left_out(tmp_path, text, known):
    path = tmp_path / 'metrics.json'
    path.write_text(text)
    content = evaluated.read_file(str(path))
    assert {**content, **known} == content and set(content) <= {'global_step', 'val'}
    assert all(isinstance(each, (int, float)) for each in evaluated.first_set(content).values())
