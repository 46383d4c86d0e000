"""Processes that benchmarks start, and what stands for a network's two passes."""

import os

import pytest
import tensorflow as tf

from benchmarks import measuring
from estimator_lib import config as config_lib
from estimator_lib.distribution import half_types, mixed_precision
from model_fns import build_task
from tests.estimator_lib.distribution import curve_cases

tf1 = tf.compat.v1


def test_both_passes_are_needed_for_what_is_fetched():
    with tf.Graph().as_default(), tf1.Session() as session:
        first = tf1.get_variable('first', initializer=[2.0, 5.0])
        second = tf1.get_variable('second', initializer=[3.0])
        tf1.get_variable('without_gradient', initializer=1.0)
        moved = tf1.get_variable('moved', initializer=0.0, trainable=False)
        tf1.add_to_collection(tf1.GraphKeys.UPDATE_OPS, tf1.assign(moved, 7.0))
        fetches = measuring.forward_and_backward(tf.reduce_sum(first * second))
        session.run(tf1.global_variables_initializer())
        # One number of the gradient of each: 3 of (3, 3), and the sum 7 of (7).
        assert session.run(fetches)[0] == 3 + 7
        assert session.run(moved) == 7


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
