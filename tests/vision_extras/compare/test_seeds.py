"""Groups of runs with several seeds, and the folders that they are in."""

import numpy as np
import pytest

from estimator_lib import errors
from model_fns.cli import seed_folders
from model_fns.cli.run_options import RunOptions
from tests.vision_extras.compare import fake_runs
from vision_extras.compare import bootstrap, runs, seeds

VALUES = {'a': [0.5, 0.25, 0.75], 'b': [1.0, 0.75]}


@pytest.fixture(name='groups')
def _groups(tmp_path):
    groups = []
    for name, accuracies in VALUES.items():
        paths = [tmp_path / name / f'seed-{seed}' for seed in range(1, len(accuracies) + 1)]
        for path, accuracy in zip(paths, accuracies):
            fake_runs.write_metrics(path, accuracy)
            right = [1] * int(4 * accuracy) + [0] * int(4 - 4 * accuracy)
            fake_runs.write_examples(path, right)
        tasks = [fake_runs.Task()] * len(paths)
        found = runs.read_runs([str(p) for p in paths], [fake_runs.config()] * len(paths), tasks)
        groups.append(seeds.Group(name, found))
    return groups


def test_means_ranges_and_a_sentence_by_hand(groups):
    lines = seeds.describe(groups)
    assert lines[1] == ('  accuracy: a 0.5 (0.25 to 0.75, 3 seeds), b 0.875 (0.75 to 1, 2 seeds)')
    assert lines[2] == '    a difference below 0.5 is within the spread of the seeds'
    assert lines[3].startswith('    b: +0.375, 95 % over seeds and images ')
    assert lines[3].endswith('; within the spread of the seeds')


def test_one_group_tells_its_spread(groups):
    lines = seeds.describe(groups[:1])
    assert lines[1:3] == [
        '  accuracy: a 0.5 (0.25 to 0.75, 3 seeds)',
        '    a difference below 0.5 is within the spread of the seeds',
    ]


@pytest.mark.parametrize(
    'first, second, interval',
    [([0], [1], (1, 1)), ([0], [1, 3], (1, 3)), ([1, 3], [0], (-3, -1)), ([0, 2], [3], (1, 3))],
)
def test_intervals_over_seeds_are_those_of_the_runs_that_are_drawn(first, second, interval):
    """A metric that no image changes differs by the run only."""

    def group(values):
        return [(lambda weights, value=value: {'m': value}, np.arange(4)) for value in values]

    found = bootstrap.grouped_intervals(group(first), group(second), 4)
    assert found == {'m': interval}


def test_metrics_are_those_of_any_run_without_those_of_one_class(groups):
    groups[1].runs[0].metrics['0']['other'] = 3.0
    titles = [line.split(': ')[0] for line in seeds.describe(groups) if line[:3].strip()]
    assert [title.strip() for title in titles[1:]] == ['accuracy', 'other']


def test_each_seed_has_a_folder_and_a_seed(tmp_path):
    options = RunOptions(model_dir=str(tmp_path), seeds=2, set=('train_config.num_steps=5',))
    first, second = seed_folders.options_of_runs(options)
    assert first.model_dir == str(tmp_path / 'seed-1') and first.seeds is None
    assert second.set == ('train_config.num_steps=5', 'train_config.random_seed=2')
    for name in ('seed-10', 'seed-2', 'other'):
        (tmp_path / name).mkdir()
    assert seed_folders.list_folders(str(tmp_path)) == [
        str(tmp_path / 'seed-2'),
        str(tmp_path / 'seed-10'),
    ]
    (tmp_path / 'checkpoint').write_text('')
    with pytest.raises(errors.UserError, match='has the checkpoints of one run'):
        seed_folders.options_of_runs(options)
