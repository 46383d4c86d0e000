"""Evaluations that fail, and checkpoints that are deleted meanwhile."""

import os
import shutil

import pytest
import tensorflow as tf

from estimator_lib import errors, training
from estimator_lib.evaluation import watching
from tests.estimator_lib import line_task
from tests.estimator_lib.line_task import Line

BROKEN = tf.errors.InvalidArgumentError(None, None, 'it broke\nand more')
MISSING = errors.CheckpointError('there is no checkpoint.')


class Evaluator:
    """Fails as told, by step: a list of errors to raise, one a try (None: none)."""

    def __init__(self, failures=(), deletes=()):
        self.tries = []
        self._failures = {step: list(some) for step, some in dict(failures).items()}
        self._deletes = deletes

    def evaluate(self, path):
        step = int(path.rpartition('-')[2])
        self.tries.append(step)
        if step in self._deletes:
            os.remove(path + '.index')
        failures = self._failures.get(step)
        if failures:
            error = failures.pop(0)
            if error is not None:
                raise error


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Three checkpoints, which appear one after the other."""
    prefixes = [str(tmp_path / f'model.ckpt-{step}') for step in (2, 4, 6)]
    for prefix in prefixes:
        with open(prefix + '.index', 'w'):
            pass
    monkeypatch.setattr(
        watching.tf1.train, 'checkpoints_iterator', lambda *args, **kwargs: iter(prefixes)
    )
    monkeypatch.setattr(watching.time, 'sleep', lambda seconds: None)
    return str(tmp_path)


def watch(evaluator, folder, **options):
    watching.watch(evaluator, folder, **options)
    return evaluator.tries


def test_all_are_evaluated_up_to_the_last_step(folder):
    assert watch(Evaluator(), folder) == [2, 4, 6]
    assert watch(Evaluator(), folder, last_step=3) == [2, 4]


def test_without_retries_a_failure_ends_it(folder):
    with pytest.raises(tf.errors.InvalidArgumentError):
        watch(Evaluator({4: [BROKEN]}), folder)


def test_a_failed_evaluation_is_tried_again_so_many_times(folder, caplog):
    assert watch(Evaluator({4: [BROKEN, MISSING]}), folder, max_retries=2) == [2, 4, 4, 4, 6]
    assert 'model.ckpt-4 has failed, and is tried again: it broke' in caplog.text
    with pytest.raises(tf.errors.InvalidArgumentError):
        watch(Evaluator({4: [BROKEN] * 3}), folder, max_retries=2)


def test_each_checkpoint_has_its_own_tries(folder):
    failures = {2: [BROKEN], 6: [BROKEN]}
    assert watch(Evaluator(failures), folder, max_retries=1) == [2, 2, 4, 6, 6]


def test_a_negative_number_is_for_ever(folder):
    assert watch(Evaluator({2: [BROKEN] * 9}), folder, max_retries=-1) == [2] * 10 + [4, 6]


def test_what_a_retry_cannot_mend_is_not_tried_again(folder):
    wrong = errors.ConfigError('another field')
    evaluator = Evaluator({2: [wrong, wrong]})
    with pytest.raises(errors.ConfigError):
        watch(evaluator, folder, max_retries=-1)
    assert evaluator.tries == [2]


@pytest.mark.parametrize('retries', [0, -1])
@pytest.mark.parametrize('error', [MISSING, tf.errors.NotFoundError(None, None, 'gone')])
def test_a_checkpoint_that_is_deleted_meanwhile_is_left_out(folder, caplog, retries, error):
    evaluator = Evaluator({4: [error]}, deletes=(4,))
    assert watch(evaluator, folder, max_retries=retries) == [2, 4, 6]
    assert 'model.ckpt-4 was deleted before it was evaluated' in caplog.text


def test_a_folder_that_is_gone_ends_it(tmp_path, monkeypatch):
    monkeypatch.setattr(watching, '_LOOK_SECONDS', 2.0)
    folder = tmp_path / 'run'
    folder.mkdir()
    (folder / 'model.ckpt-2.index').write_text('')
    (folder / 'checkpoint').write_text('model_checkpoint_path: "model.ckpt-2"\n')

    class Deleting(Evaluator):
        def evaluate(self, path):
            super().evaluate(path)
            shutil.rmtree(folder)

    evaluator = Deleting()
    with pytest.raises(errors.UserError, match=f'^the folder {folder} is gone'):
        watch(evaluator, str(folder), poll_seconds=0.0)
    assert evaluator.tries == [2]


def test_a_folder_that_never_comes_ends_it_after_a_while(tmp_path, caplog):
    assert watch(Evaluator(), str(tmp_path / 'none'), idle_seconds=0.5) == []
    assert 'no new checkpoint in' in caplog.text


def test_the_latest_checkpoint_of_a_folder_that_lists_a_missing_one(tmp_path):
    assert watching.latest(str(tmp_path)) is None
    (tmp_path / 'checkpoint').write_text('model_checkpoint_path: "model.ckpt-7"\n')
    assert watching.latest(str(tmp_path)) is None


def test_a_run_whose_checkpoint_is_deleted_before_it_is_read_is_watched_to_the_end(
    tmp_path, monkeypatch, caplog
):
    """With the real evaluator: the error is the one that restoring raises."""
    config = line_task.create_config(tmp_path)
    del config.eval_input_reader[1:]
    run = str(tmp_path / 'run')
    config.train_config.num_steps = 2
    training.train_and_evaluate(Line(), config, run, evaluate=False)
    config.train_config.num_steps = 6
    paths = [f'{run}/model.ckpt-1', f'{run}/model.ckpt-2']
    monkeypatch.setattr(
        watching.tf1.train, 'checkpoints_iterator', lambda *args, **kwargs: iter(paths)
    )
    metrics = training.evaluate_checkpoints(Line(), config, str(tmp_path / 'watch'), run)
    assert metrics['0']['error'] == pytest.approx(line_task.error_after(2), rel=1e-4)
    assert 'model.ckpt-1 was deleted before it was evaluated' in caplog.text
