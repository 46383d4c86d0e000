"""The search of docs/tuning.md, with a study that asks for three runs, and runs of a second."""

import pathlib
import stat
import sys
import types

import pytest

from model_fns.cli import builtin_configs, flag_configs, flag_parsing
from tests import documents

# A run whose metric at steps 1 to 3 is 100 times its rate; the second run waits to be ended.
RUN = """#!{python}
import pathlib, sys, time
flags = dict(each[2:].split('=', 1) for each in sys.argv[1:] if not each.startswith('--set'))
(rate,) = [each for each in sys.argv if 'learning_rate_base' in each]
folder = pathlib.Path(flags['model_dir'])
folder.mkdir(parents=True)
(folder / 'flags').write_text('\\n'.join(sys.argv[1:]))
value = 100 * float(rate.rpartition('=')[2])
number = int(folder.name)
if number == 2:
    sys.exit(2)
lines = ['step,eval_0/DetectionBoxes_Precision/mAP@.50IOU']
for step in (1, 2, 3):
    lines.append(f'{{step}},{{value * step}}')
    (folder / 'new').write_text('\\n'.join(lines))
    (folder / 'new').rename(folder / 'results.csv')
    while number == 1:
        time.sleep(1)
"""


class Trial:
    def __init__(self, number):
        self.number = number
        self.reported = {}

    def suggest_float(self, name, low, high, log):
        return [low, high][self.number % 2]

    def suggest_int(self, name, low, high):
        return high

    def suggest_categorical(self, name, choices):
        return choices[0]

    def report(self, value, step):
        self.reported[step] = value

    def should_prune(self):
        return self.number == 1


class Study:
    """Three trials, and what became of them."""

    best_params = 'the best'

    def __init__(self, pruned, **options):
        self.pruned, self.options, self.trials, self.results = pruned, options, [], []

    def optimize(self, objective, n_trials, catch):
        for number in range(3):
            self.trials.append(Trial(number))
            try:
                self.results.append(objective(self.trials[-1]))
            except (self.pruned, *catch) as error:
                self.results.append(error)


@pytest.fixture(scope='module')
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp('tuning')
    program = folder / 'bin' / 'run-train-eval'
    program.parent.mkdir()
    program.write_text(RUN.format(python=sys.executable))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)

    class TrialPruned(Exception):
        pass

    optuna = types.ModuleType('optuna')
    optuna.TrialPruned = TrialPruned
    optuna.pruners = types.SimpleNamespace(MedianPruner=lambda n_startup_trials: None)
    optuna.create_study = lambda **options: Study(TrialPruned, **options)
    (block,) = (each for each in documents.blocks('python') if each.page == 'docs/tuning.md')
    assert 'SECONDS = 5\n' in block.text
    names = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, 'optuna', optuna)
        patch.chdir(folder)
        patch.setenv('PATH', str(program.parent), prepend=':')
        exec(block.text.replace('SECONDS = 5\n', 'SECONDS = 0.05\n'), names)
    return names['study'], folder


def test_values_are_reported_and_the_best_counts(study):
    found, _ = study
    assert found.options['direction'] == 'maximize' and found.options['load_if_exists']
    assert found.results[0] == pytest.approx(0.03)
    assert found.trials[0].reported == pytest.approx({1: 0.01, 2: 0.02, 3: 0.03})


def test_a_worse_run_is_ended_and_a_failed_one_is_named(study):
    found, _ = study
    assert type(found.results[1]) is found.pruned
    assert found.trials[1].reported == pytest.approx({1: 1.0})
    assert str(found.results[2]) == 'runs/tuning/002: status 2, see log.txt there'


def test_the_flags_are_those_of_the_front_door(study):
    _, folder = study
    words = pathlib.Path(folder / 'runs/tuning/000/flags').read_text().split('\n')
    options = flag_parsing.parse_flags(['run_train_eval.py', *words])
    path = builtin_configs.resolve('builtin:bccd_ssd')
    changed = flag_configs.config_lib.load_pipeline_config(path, settings=options.set)
    rate = changed.train_config.optimizer.adam_optimizer.learning_rate.cosine_decay_learning_rate
    assert rate.learning_rate_base == pytest.approx(1e-4) and rate.warmup.percent == 10
    assert changed.train_config.batch_size == 8
