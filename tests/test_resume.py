"""A run that is killed goes on as the uninterrupted one would have: with real processes."""

import pathlib
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests import tiny_data

ROOT = pathlib.Path(__file__).resolve().parent.parent
STEPS = 18


def start(data, model_dir):
    return subprocess.Popen(
        [
            sys.executable,
            ROOT / 'run_train_eval.py',
            f'--model_dir={model_dir}',
            f'--pipeline_config_path={data / "pipeline.config"}',
            '--mode=train',
            f'--num_train_steps={STEPS}',
            '--set=train_config.progress.every_n_steps=1',
            '--set=train_config.checkpoints.save_every_n_steps=4',
            '--set=train_config.random_seed=7',
        ],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )


def losses_of(lines):
    """The reported losses by step."""
    found = {}
    for line in lines:
        match = re.search(r'step (\d+)/\d+  loss (.*?)  lr', line)
        if match:
            found.setdefault(int(match[1]), set()).add(match[2])
    return found


def run_until(data, model_dir, step, number):
    """Lines of a run that gets a signal when it reports a step; and its exit status."""
    process = start(data, model_dir)
    lines = []
    for line in process.stderr:
        lines.append(line)
        if f'step {step}/' in line:
            process.send_signal(number)
    return lines, process.wait()


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp('data')
    tiny_data.write_all(folder)
    return folder


@pytest.fixture(scope='module')
def uninterrupted(data, tmp_path_factory):
    model_dir = tmp_path_factory.mktemp('whole')
    process = start(data, model_dir)
    lines = list(process.stderr)
    assert process.wait() == 0, ''.join(lines)
    return model_dir, losses_of(lines)


def same_variables(one, other):
    first, second = (tf.train.load_checkpoint(str(folder)) for folder in (one, other))
    names = set(first.get_variable_to_shape_map())
    assert names == set(second.get_variable_to_shape_map())
    return all(np.array_equal(first.get_tensor(n), second.get_tensor(n)) for n in names)


def test_killed_twice(data, uninterrupted, tmp_path):
    lines = []
    for step in (6, 13):
        some, status = run_until(data, tmp_path, step, signal.SIGKILL)
        assert status == -signal.SIGKILL
        lines += some
    some, status = run_until(data, tmp_path, STEPS + 1, signal.SIGKILL)
    assert status == 0
    whole_dir, whole = uninterrupted
    assert losses_of(lines + some) == whole
    assert same_variables(tmp_path, whole_dir)


def test_sigterm_saves_and_ends_with_143(data, uninterrupted, tmp_path):
    lines, status = run_until(data, tmp_path, 6, signal.SIGTERM)
    assert status == 143, ''.join(lines)
    last = max(losses_of(lines))
    saved = int(tf.train.latest_checkpoint(str(tmp_path)).rsplit('-', 1)[1])
    assert saved >= last >= 6 and 'Traceback' not in ''.join(lines)
    some, status = run_until(data, tmp_path, STEPS + 1, signal.SIGTERM)
    assert status == 0
    assert min(losses_of(some)) == saved + 1
    whole_dir, whole = uninterrupted
    assert losses_of(lines + some) == whole
    assert same_variables(tmp_path, whole_dir)
