"""The mode `compare` for folders of runs with several seeds."""

import os

import pytest

from estimator_lib import errors
from model_fns.cli.run_options import RunOptions
from tests.vision_extras.compare import fake_runs
from vision_extras.compare import mode


@pytest.fixture(name='folder')
def _folder(tmp_path, monkeypatch):
    """The runs `a/seed-1`, `a/seed-2` and `b`, without numbers per image."""
    monkeypatch.setattr(mode.flag_configs, 'load_config', lambda options: fake_runs.config())
    monkeypatch.setattr(mode, 'build_task', lambda config, kind: fake_runs.Task())
    for name, accuracy in (('a/seed-1', 0.25), ('a/seed-2', 0.75), ('b', 1.0)):
        fake_runs.write_metrics(tmp_path / name, accuracy)
    return tmp_path


def compare(folder, *names):
    paths = tuple(os.path.join(folder, name) for name in names)
    mode.run(RunOptions(mode='compare', model_dirs=paths, output_dir=str(folder / 'out')))


@pytest.mark.parametrize('names', [('a', 'a/seed-2'), ('a/seed-1/', 'a'), ('b', 'b'), ('b',), ()])
def test_each_run_is_compared_once_with_others(folder, names):
    with pytest.raises(errors.UserError, match='two or more different runs, or of one with'):
        compare(folder, *names)
    assert not (folder / 'out').exists()


def test_reasons_of_missing_intervals_are_with_the_means_of_seeds(folder, capsys):
    pytest.importorskip('matplotlib')
    compare(folder, 'a', 'b')
    said = capsys.readouterr().out.splitlines()
    assert said[1] == '  accuracy: a 0.5 (0.25 to 0.75, 2 seeds), b 1 (1 to 1, 1 seed)'
    notes = [line for line in said if line.startswith('  No intervals for ')]
    assert [note.split(': ')[0] for note in notes] == [
        '  No intervals for seed-2',
        '  No intervals for b',
    ]
    assert said[-1] == f'comparison: {folder}/out/compare.html'
