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


DAMAGED = {
    '{"global_step": 7, "val": {"a"': 'is not JSON',
    '[7]': 'has a JSON list; expected an object',
    '{"global_step": "x", "val": {"a": 1}}': "global_step is 'x'; expected an integer",
    '{"global_step": true, "val": {"a": 1}}': 'global_step is True; expected an integer',
    '{"global_step": 7, "val": [1]}': 'val is [1]; expected metrics',
    '{"global_step": 7, "val": {"a": {"b": 1}, "d": 2}}': "val/a is {'b': 1}; expected a number",
    '{"global_step": ' + '7' * 5000 + '}': 'it has an integer of 5000 characters',
    '{"global_step": 7, "val": {"a": 1e400}}': 'the number 1e400 is too large',
    '{"val": ' * 900 + '1' + '}' * 900: 'expected a number',
    '[' * 100_000: 'is not JSON',
}


@pytest.mark.parametrize('text, said', list(DAMAGED.items()), ids=range(len(DAMAGED)))
def test_a_damaged_file_is_set_aside_with_a_sentence(tmp_path, caplog, text, said):
    path = tmp_path / 'metrics.json'
    path.write_text(text)
    assert evaluated.read_file(str(path)) == {}  # readers change nothing
    (message,) = caplog.messages
    assert message.startswith(str(path)) and said in message
    assert message.endswith('It counts as empty.') and path.read_text() == text
    caplog.clear()
    for step in (7, 8):
        evaluated.write(str(tmp_path), step, METRICS)
    assert (tmp_path / 'metrics.1.json').read_text() == text
    assert not (tmp_path / 'metrics.2.json').exists()
    assert evaluated.read(str(tmp_path / 'model.ckpt-8'))['val'] == METRICS['val']
    (message,) = caplog.messages
    assert f'The file is {tmp_path}/metrics.1.json now, and a new one begins.' in message


def test_a_copy_sets_a_damaged_file_aside(folder):
    (folder / 'best').mkdir()
    (folder / 'best' / 'metrics.json').write_text('{')
    evaluated.copy(str(folder / 'model.ckpt-7'), str(folder / 'best'))
    assert (folder / 'best' / 'metrics.1.json').read_text() == '{'
    assert evaluated.read(str(folder / 'best' / 'model.ckpt-7'))['val'] == METRICS['val']
