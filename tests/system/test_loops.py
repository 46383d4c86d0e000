"""Each task trained by both loops, from the same seed, and by one after the other."""

import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import config as config_lib
from estimator_lib import errors, training
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.cluster import local_processes
from model_fns import build_task
from tests import tiny_data, tiny_segmentation, tiny_two_stage
from tests.estimator_lib.distribution import curve_cases
from tests.estimator_lib.distribution.curve_cases import losses

pytestmark = pytest.mark.usefixtures('forked_processes', 'shallow_networks')

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Data and steps: of what is the same for all tasks, a network of few layers makes 40.
CASES = {
    'classification': (tiny_data, 40),
    'detection': (tiny_two_stage, 3),
    'segmentation': (tiny_segmentation, 4),
}
LOOPS = ('ESTIMATOR', 'TF_FUNCTION')
OVERRIDE = """
train_config {
  batch_size: 4
  random_seed: 3
  optimizer { momentum_optimizer {
    momentum_optimizer_value: 0.9
    learning_rate { cosine_decay_learning_rate {
      learning_rate_base: 0.01 warmup_learning_rate: 0.005 warmup_steps: 3 total_steps: 200
    } }
  } use_moving_average: true moving_average_decay: 0.9 }
  gradient_clipping_by_norm: 10.0
  bias_grad_multiplier: 2.0
  checkpoints { save_every_n_steps: 1000 }
  progress { summary_every_n_steps: 1 every_n_steps: 20 }
}
"""


class Runs:
    """Runs of one config.

    Args:
        folder: for data and runs.
        name: of the case.
    """

    def __init__(self, folder, name):
        data, self.steps = CASES[name]
        # The loop has no part in what is exported from its checkpoint: it is seen once.
        self._exports = name == 'classification'
        path = data.write_all(folder)
        if name == 'classification':
            path.write_text(tiny_data.LENET_CONFIG.format(folder=folder))
        self._config = config_lib.load_pipeline_config(str(path), overrides=[OVERRIDE])
        self._folder = folder
        self.whole = functools.cache(lambda loop: self.run(loop, (loop, self.steps)))

    def run(self, name, *parts):
        """Train by one loop after the other to the given steps; return the model_dir."""
        model_dir = str(self._folder / name)
        for loop, steps in parts:
            settings = [f'train_config.loop={loop}', f'train_config.num_steps={steps}']
            settings += [f'export_config.final.enabled={str(self._exports).lower()}']
            config = config_lib.apply_settings(self._config, settings)
            task = build_task(config, 'train')
            training.train_and_evaluate(task, config, model_dir, evaluate=False)
        return model_dir


@pytest.fixture(scope='module')
def runs_of(tmp_path_factory):
    return functools.cache(lambda name: Runs(tmp_path_factory.mktemp('runs'), name))


def check_same_checkpoint(model_dir, expected_dir, tolerance=1e-4):
    """Compare all variables of two checkpoints."""
    reader, expected = (tf.train.load_checkpoint(one) for one in (model_dir, expected_dir))
    assert reader.get_variable_to_shape_map() == expected.get_variable_to_shape_map()
    for name in reader.get_variable_to_shape_map():
        value, theirs = reader.get_tensor(name), expected.get_tensor(name)
        assert value.dtype == theirs.dtype
        scale = max(1e-3, np.abs(theirs).max()) if theirs.size else 1.0
        np.testing.assert_allclose(value, theirs, atol=tolerance * scale, rtol=0, err_msg=name)


@pytest.mark.parametrize('name', sorted(CASES))
def test_both_loops_have_the_same_losses_and_checkpoints(runs_of, name):
    runs = runs_of(name)
    expected, found = (losses(runs.whole(loop)) for loop in LOOPS)
    assert len(expected) == runs.steps and np.ptp(expected) > 0.01
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    check_same_checkpoint(*(runs.whole(loop) for loop in LOOPS))


@pytest.fixture(scope='module')
def curve(tmp_path_factory):
    """A folder with the config of a network without chance and statistics, and a run of it."""
    folder = tmp_path_factory.mktemp('curve')
    curve_cases.write(folder)
    curve_cases.Run(folder, folder / 'whole').train(12)
    return folder


def start(folder, model_dir, *settings, num_steps=12, stderr=subprocess.PIPE, **environment):
    """The front door in a process of its own, by calls of a function."""
    settings = ('loop=TF_FUNCTION', 'progress.every_n_steps=1', *settings)
    return subprocess.Popen(
        [
            sys.executable,
            ROOT / 'run_train_eval.py',
            f'--model_dir={model_dir}',
            f'--pipeline_config_path={folder}/pipeline.config',
            '--mode=train',
            f'--num_train_steps={num_steps}',
            '--set=export_config.final.enabled=false',
            *(f'--set=train_config.{one}' for one in settings),
        ],
        stderr=stderr,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **environment},
    )


def test_a_process_that_is_told_to_end_saves_and_the_other_loop_goes_on(curve, tmp_path):
    process = start(curve, tmp_path)
    said = []
    for line in process.stderr:
        said.append(line)
        if re.search('step 5/12 ', line):
            process.send_signal(signal.SIGTERM)
    assert process.wait() == 143, ''.join(said)
    assert 'SIGTERM: saving and ending' in ''.join(said)
    assert 'Traceback' not in ''.join(said)
    assert 5 <= int(tf.train.latest_checkpoint(str(tmp_path)).rsplit('-', 1)[1]) < 12
    # Files of events are named by the second: one of the same second would be written over.
    time.sleep(1.0)
    curve_cases.Run(curve, tmp_path).train(12)
    np.testing.assert_allclose(losses(tmp_path), losses(curve / 'whole'), rtol=1e-4)
    check_same_checkpoint(str(tmp_path), str(curve / 'whole'))


def test_two_replicas_learn_what_one_device_does(curve, tmp_path):
    cluster = ('mode=MIRRORED', 'num_clones=2', 'clone_on_cpu=true')
    # Calls of one, three, four and four steps.
    reports = ('every_n_steps=50', 'summary_every_n_steps=4')
    process = start(
        curve,
        tmp_path,
        *(f'cluster.{one}' for one in cluster),
        *(f'progress.{one}' for one in reports),
    )
    said = process.stderr.read()
    assert process.wait() == 0, said
    expected = losses(curve / 'whole')
    expected = [expected[step - 1] for step in (1, 4, 8, 12)]
    np.testing.assert_allclose(losses(tmp_path), expected, rtol=1e-4)
    check_same_checkpoint(str(tmp_path), str(curve / 'whole'))


def train_workers(folder, model_dir, loop, num_steps, told_after=None):
    """Train on two workers, in calls of up to five steps.

    Args:
        told_after: what worker 1 says in its log before it gets SIGTERM.

    Returns:
        The status of each, and the step that each has come to.
    """
    addresses = {'worker': curve_cases.free_addresses(2)}
    errors_of = [folder / f'{model_dir.name}_{index}.txt' for index in range(2)]
    processes = [
        start(
            folder,
            model_dir,
            f'loop={loop}',
            'progress.every_n_steps=5',
            'progress.summary_every_n_steps=5',
            num_steps=num_steps,
            stderr=path.open('w'),
            TF_CONFIG=local_processes.tf_config(addresses, 'worker', index),
        )
        for index, path in enumerate(errors_of)
    ]
    try:
        if told_after is not None:
            log, deadline = model_dir / 'log_worker_1.txt', time.monotonic() + 300
            while not (log.exists() and told_after in log.read_text()):
                assert time.monotonic() < deadline and processes[1].poll() is None
                time.sleep(0.1)
            processes[1].send_signal(signal.SIGTERM)
        statuses = [process.wait(300) for process in processes]
    finally:
        for process in processes:
            process.kill()
    said = ''.join(path.read_text() for path in errors_of)
    assert 'Traceback' not in said, said
    beats = [model_dir / 'cluster' / f'heartbeat_worker_{index}.json' for index in range(2)]
    return statuses, [json.loads(beat.read_text())['step'] for beat in beats]


def test_two_workers_stop_together_go_on_and_learn_what_one_device_does(curve, tmp_path):
    """By functions, told to end; by functions again; and to the end by sessions."""
    model_dir = tmp_path / 'workers'
    statuses, steps = train_workers(curve, model_dir, 'TF_FUNCTION', 100000, ' step 5/')
    first = checkpoint_files.latest_step(str(model_dir))
    assert statuses == [143, 143] and steps == [first, first] and 5 < first < 100000
    positions = tf.train.load_checkpoint(str(model_dir))
    drawn = [
        positions.get_tensor(f'input_reader/worker_{index}/position')[-1, 0] for index in range(2)
    ]
    assert drawn == [4 * first] * 2  # of each batch of 8 a half
    kept = {'model.ckpt-0.index', f'model.ckpt-{first}.index'}
    assert {path.name for path in model_dir.glob('*.index')} >= kept
    last = first + 6
    for loop, num_steps in (('TF_FUNCTION', first + 3), ('ESTIMATOR', last)):
        assert train_workers(curve, model_dir, loop, num_steps) == ([0, 0], [num_steps] * 2)
    curve_cases.Run(curve, tmp_path / 'alone').train(last)
    found, expected = (curve_cases.losses_by_step(one) for one in (model_dir, tmp_path / 'alone'))
    assert {1, 5, first + 1, first + 4} <= set(found)
    for step, loss in found.items():
        assert loss == pytest.approx(expected[step], rel=1e-4), step
    found, expected = (curve_cases.variables(one) for one in (model_dir, tmp_path / 'alone'))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-4, err_msg=name)


@pytest.mark.parametrize('mode', ['CLONES', 'ASYNC_PARAMETER_SERVERS'])
def test_what_the_loop_does_not_carry_is_refused_by_name(curve, mode, tmp_path):
    settings = ['train_config.loop=TF_FUNCTION', f'train_config.cluster.mode={mode}']
    config = config_lib.load_pipeline_config(f'{curve}/pipeline.config', settings=settings)
    task = build_task(config, 'train')
    expected = (
        'CLONES .*, which that loop does not support' if mode == 'CLONES' else 'for a cluster'
    )
    with pytest.raises(errors.ConfigError, match=expected):
        training.train_and_evaluate(task, config, str(tmp_path), evaluate=False)
