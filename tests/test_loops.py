"""Each task trained by both loops, from the same seed, and by one after the other."""

import functools
import pathlib
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import config as config_lib
from estimator_lib import errors, training
from model_fns import build_task
from tests import tiny_data, tiny_detection, tiny_segmentation, tiny_two_stage
from tests.estimator_lib.distribution import curve_cases
from tests.estimator_lib.distribution.curve_cases import losses

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Data and steps: of what is the same for all tasks, a network of few layers makes 100.
CASES = {
    'classification': (tiny_data, 100),
    'single-shot detection': (tiny_detection, 4),
    'two-stage detection': (tiny_two_stage, 3),
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
  progress { summary_every_n_steps: 1 every_n_steps: 50 }
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
        path = data.write_all(folder)
        if name == 'classification':
            path.write_text(tiny_data.LENET_CONFIG.format(folder=folder))
        self._config = config_lib.load_pipeline_config(str(path), overrides=[OVERRIDE])
        self._folder = folder
        self.whole = {loop: self.run(loop, (loop, self.steps)) for loop in LOOPS}

    def run(self, name, *parts):
        """Trains by one loop after the other to the given steps; returns the model_dir."""
        model_dir = str(self._folder / name)
        for loop, steps in parts:
            settings = [f'train_config.loop={loop}', f'train_config.num_steps={steps}']
            config = config_lib.apply_settings(self._config, settings)
            task = build_task(config, 'train')
            training.train_and_evaluate(task, config, model_dir, evaluate=False)
        return model_dir


@pytest.fixture(scope='module')
def runs_of(tmp_path_factory):
    return functools.cache(lambda name: Runs(tmp_path_factory.mktemp('runs'), name))


def check_same_checkpoint(model_dir, expected_dir, tolerance=1e-4):
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
    expected, found = (losses(runs.whole[loop]) for loop in LOOPS)
    assert len(expected) == runs.steps and np.ptp(expected) > 0.01
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    check_same_checkpoint(*(runs.whole[loop] for loop in LOOPS))


@pytest.mark.parametrize('first, other', [LOOPS, LOOPS[::-1]])
def test_a_run_of_one_loop_goes_on_with_the_other(runs_of, first, other):
    runs = runs_of('classification')
    model_dir = runs.run(f'first_{first}', (first, 47), (other, runs.steps))
    np.testing.assert_allclose(losses(model_dir), losses(runs.whole['ESTIMATOR']), rtol=1e-4)
    check_same_checkpoint(model_dir, runs.whole['ESTIMATOR'])


@pytest.fixture(scope='module')
def curve(tmp_path_factory):
    """A folder with the config of a network without chance and statistics, and a run of it."""
    folder = tmp_path_factory.mktemp('curve')
    curve_cases.write(folder)
    curve_cases.Run(folder, folder / 'whole').train(12)
    return folder


def start(folder, model_dir, *settings):
    """The front door in a process of its own, by calls of a function."""
    settings = ('loop=TF_FUNCTION', 'progress.every_n_steps=1', *settings)
    return subprocess.Popen(
        [
            sys.executable,
            ROOT / 'run_train_eval.py',
            f'--model_dir={model_dir}',
            f'--pipeline_config_path={folder}/pipeline.config',
            '--mode=train',
            '--num_train_steps=12',
            *(f'--set=train_config.{one}' for one in settings),
        ],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
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


@pytest.mark.parametrize('mode', ['CLONES', 'ASYNC_PARAMETER_SERVERS'])
def test_what_the_loop_does_not_carry_is_refused_by_name(curve, mode, tmp_path):
    settings = ['train_config.loop=TF_FUNCTION', f'train_config.cluster.mode={mode}']
    config = config_lib.load_pipeline_config(f'{curve}/pipeline.config', settings=settings)
    task = build_task(config, 'train')
    expected = 'CLONES .*, which that loop does not carry' if mode == 'CLONES' else 'for a cluster'
    with pytest.raises(errors.ConfigError, match=expected):
        training.train_and_evaluate(task, config, str(tmp_path), evaluate=False)
