"""A killed run resumes as if it had never been interrupted: with real processes."""

import csv
import json
import pathlib
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests import tiny_data
from tests.test_run_train_eval import front_door

pytestmark = pytest.mark.usefixtures('forked_processes')

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = 18
# Partners of mixed images have to be the same ones after a resume.
MIXTURES = """train_config {
  data_augmentation_options { mixup { probability: 0.5 } } data_augmentation_options { cutmix {} }
}"""
EVERY = 4  # steps from one checkpoint to the next


def flags(data, model_dir, mode='train'):
    return [
        f'--model_dir={model_dir}',
        f'--pipeline_config_path={data / "pipeline.config"}',
        f'--mode={mode}',
        f'--num_train_steps={STEPS}',
        '--set=train_config.progress.every_n_steps=1',
        f'--set=train_config.checkpoints.save_every_n_steps={EVERY}',
        '--set=train_config.random_seed=7',
        '--set=export_config.final.enabled=false',
        f'--config_override={MIXTURES}',
    ]


def start(data, model_dir):
    return subprocess.Popen(
        [sys.executable, ROOT / 'run_train_eval.py', *flags(data, model_dir)],
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


def lines_until(process, step, number):
    """Return the lines of a run until it reports a step, and send it a signal then."""
    lines = []
    for line in process.stderr:
        lines.append(line)
        if f'step {step}/' in line:
            process.send_signal(number)
            break
    return lines


def run_until(data, model_dir, step, number):
    """Return all lines and the exit status of a run that gets a signal at a step."""
    process = start(data, model_dir)
    lines = lines_until(process, step, number)
    return [*lines, *process.stderr], process.wait()


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


def saved_step(model_dir):
    return int(tf.train.latest_checkpoint(str(model_dir)).rsplit('-', 1)[1])


def said_by(capfd, data, model_dir, mode):
    """Exit status of the front door in this process, and what it says."""
    capfd.readouterr()
    return front_door(*flags(data, model_dir, mode)), capfd.readouterr().err


def test_terminated_and_then_killed(data, uninterrupted, tmp_path, capfd):
    terminated, status = run_until(data, tmp_path, 6, signal.SIGTERM)
    assert status == 143, ''.join(terminated)
    last = max(losses_of(terminated))
    saved = saved_step(tmp_path)
    assert saved >= last >= 6 and 'Traceback' not in ''.join(terminated)

    # It is stopped, and so has not ended, while others try the folder; then it is killed.
    process = start(data, tmp_path)
    killed = lines_until(process, 13, signal.SIGSTOP)
    try:
        status, said = said_by(capfd, data, tmp_path, 'train')
        assert status == 2
        last = said.splitlines()[-1]
        assert f'another run trains there, process {process.pid} on host' in last
        status, said = said_by(capfd, data, tmp_path, 'evaluate')
        assert status == 0, said
        assert (tmp_path / 'run.lock').exists()
    finally:
        process.kill()
    killed += process.stderr
    assert process.wait() == -signal.SIGKILL
    assert min(losses_of(killed)) == saved + 1
    saved = saved_step(tmp_path)
    assert saved >= 13 - EVERY

    finished, status = run_until(data, tmp_path, STEPS + 1, signal.SIGKILL)
    assert status == 0, ''.join(finished)
    assert not (tmp_path / 'run.lock').exists()
    assert min(losses_of(finished)) == saved + 1
    whole_dir, whole = uninterrupted
    assert losses_of(terminated + killed + finished) == whole
    assert same_variables(tmp_path, whole_dir)
    starts = json.loads((tmp_path / 'run.json').read_text())['starts']
    assert [start['status'] for start in starts] == ['preempted', 'killed', 'finished']
    assert starts[2]['first_step'] == saved and starts[2]['last_step'] == STEPS
    with open(tmp_path / 'results.csv', newline='') as file:
        assert len(list(csv.DictReader(file))) == 1  # of the evaluation while a run was stopped
