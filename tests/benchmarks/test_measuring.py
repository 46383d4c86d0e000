"""Stopwatches, turns, tables, and processes that benchmarks start."""

import functools
import os
import subprocess
import sys

import pytest
import tensorflow as tf

from benchmarks import measuring
from estimator_lib import config as config_lib
from estimator_lib.distribution import half_types, mixed_precision
from model_fns import build_task
from tests.estimator_lib.distribution import curve_cases

tf1 = tf.compat.v1


def test_functions_are_called_in_turns():
    calls = []

    def call(name):
        calls.append(name)
        return len(calls)

    sides = {name: functools.partial(call, name) for name in ('one', 'other')}
    assert measuring.alternate(sides, 2) == {'one': [1, 3], 'other': [2, 4]}
    assert calls == ['one', 'other'] * 2


def test_the_least_of_each_clock_counts():
    assert measuring.least([(3.0, 5.0), (4.0, 2.0)]) == measuring.Clocks(3.0, 2.0)


def test_a_process_is_timed_with_its_children(tmp_path):
    code = 'import time; time.sleep(0.2); print("x")'
    with open(tmp_path / 'log', 'w') as log:
        spent = measuring.run_process([sys.executable, '-c', code], stdout=log)
    assert spent.wall >= 0.2 and spent.cpu > 0
    assert (tmp_path / 'log').read_text() == 'x\n'
    with pytest.raises(subprocess.CalledProcessError):
        measuring.run_process([sys.executable, '-c', 'raise SystemExit(3)'])


def test_a_table_has_a_line_below_its_head():
    table = measuring.format_table(['a', 'b'], [['1', '2']])
    assert table == '| a | b |\n| --- | --- |\n| 1 | 2 |'


def test_threads_are_those_of_the_session():
    options = measuring.set_threads(tf1.ConfigProto(), 3)
    assert options.intra_op_parallelism_threads == 3
    assert options.inter_op_parallelism_threads == 1
    assert measuring.set_threads(tf1.ConfigProto(), 0) == tf1.ConfigProto()


def test_a_measured_session_computes_in_the_types_of_a_training_run(tmp_path, monkeypatch):
    """Otherwise steps in bfloat16 are those of no run: slow kernels are taken too."""
    monkeypatch.setattr(half_types, 'half_type', lambda: tf.bfloat16)
    curve_cases.write(tmp_path)
    path = str(tmp_path / 'pipeline.config')
    config = config_lib.load_pipeline_config(
        path, overrides=['train_config { use_bfloat16: true }']
    )
    variable = 'TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_ALLOWLIST_REMOVE'
    before = os.environ.get(variable)
    with measuring.training_session(build_task(config), config):
        assert set(mixed_precision.DEPTHWISE) <= set(os.environ[variable].split(','))
    assert os.environ.get(variable) == before


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Use a folder instead of the repository's."""
    monkeypatch.setattr(measuring, 'ROOT', str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'benchmarks').mkdir()
    # Without it, an installed package of this name would be found.
    (tmp_path / 'benchmarks' / '__init__.py').touch()
    return tmp_path


def write_module(root, text):
    (root / 'benchmarks' / 'one.py').write_text(f'import json, sys, time\n{text}')


def test_the_last_line_of_a_process_is_its_result(root):
    write_module(root, 'print("progress")\nprint(json.dumps({"given": sys.argv[1:]}))')
    assert measuring.run_apart('benchmarks.one', ['--a=1', 'b']) == {'given': ['--a=1', 'b']}


def test_a_process_that_fails_says_why(root):
    write_module(root, 'print("a line", file=sys.stderr)\nsys.exit("no such thing")')
    with pytest.raises(measuring.ProcessError, match='status 1\na line\nno such') as raised:
        measuring.run_apart('benchmarks.one', [])
    assert raised.value.summary == 'status 1: no such thing'


def test_a_process_that_takes_too_long_is_ended(root):
    write_module(root, 'time.sleep(60)')
    with pytest.raises(measuring.ProcessError) as raised:
        measuring.run_apart('benchmarks.one', [], timeout=0.5)
    assert raised.value.summary == 'not done after 0.5 s'


FRONT_DOOR = """
import os, sys, time
flags = dict(flag.lstrip('-').split('=') for flag in sys.argv[1:])
assert os.path.isdir(flags['model_dir']) and flags['mode'] == 'train'
print('reads', flags['pipeline_config_path'], file=sys.stderr)
for step in range(1, int(flags['num_train_steps']) + 1):
    time.sleep(0.1)
    print(f'12:00:00 step {step}/2 loss 1.0', file=sys.stderr, flush=True)
sys.exit(int(flags.get('status', 0)))
"""


def test_steps_of_the_front_door_are_timed(root):
    (root / 'run_train_eval.py').write_text(FRONT_DOOR)
    reached = measuring.train_apart('a.config', ['--num_train_steps=2'])
    assert list(reached) == [1, 2]
    assert 0.1 < reached[1].seconds < reached[2].seconds
    with pytest.raises(measuring.ProcessError, match='status 3\nreads a.config\n.*step 1/2'):
        measuring.train_apart('a.config', ['--num_train_steps=1', '--status=3'])


def test_starts_are_medians_of_the_first_step(monkeypatch):
    reached = measuring.Reached
    runs = iter(
        {1: reached(seconds, memory), 2: reached(99.0, 999.0)}
        for seconds, memory in ((5.0, 70.0), (3.0, 90.0), (4.0, 80.0))
    )

    def train(config_path, flags):
        assert (config_path, flags) == ('a.config', ['--num_train_steps=2'])
        return next(runs)

    monkeypatch.setattr(measuring, 'train_apart', train)
    assert measuring.measure_start('a.config', 3) == {
        'start_to_first_step_seconds': 4.0,
        'peak_memory_mib': 80.0,
    }
