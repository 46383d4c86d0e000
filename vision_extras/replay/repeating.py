"""Repetition of training steps from a checkpoint, by the loop of the run, in another folder."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import uuid
from typing import Iterator, Sequence, Tuple

import tensorflow as tf

from estimator_lib import building, distribution, errors
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.cluster import run_lock
from estimator_lib.evaluation import evaluating
from estimator_lib.hooks import non_finite
from estimator_lib.run_records.training_events import TrainingEvents
from estimator_lib.tf_estimator import SessionRunHook
from protos import pipeline_pb2
from vision_extras.replay import past_run

_NEVER = 10**9  # steps between two checkpoints
_PREFIX = 'repeated-'  # of the folders of `state_before`


def repeat_steps(
    run: past_run.PastRun,
    folder: str,
    step: int,
    without: Sequence[str] = (),
    hooks: Sequence[SessionRunHook] = (),
) -> None:
    """Train from the latest checkpoint of a folder up to a step, as the run did.

    Args:
        run: the run, as `PastRun.localize` returns it.
        folder: has the checkpoint, and gets checkpoints and events.
        step: the last step.
        without: records to leave out, see `RecordInput.without`.
        hooks: further hooks of the training.
    """
    plan = distribution.create_plan(run.config)
    input_fn = run.input_fn(plan)
    if without:
        input_fn = input_fn.without(without)
    with evaluating.explained(input_fn):
        building.create_trainer(run.task, run.config, folder, None, plan).train(
            input_fn, hooks=list(hooks), max_steps=step
        )


def repeat_each(run: past_run.PastRun, folder: str, step: int) -> past_run.Scalars:
    """Repeat the steps up to one, with a checkpoint before it, and read the scalars of each.

    The last step may have a loss that is not finite: its scalars are written before training stops.

    Args:
        run: the run, as `PastRun.localize` returns it.
        folder: has the checkpoint to start from; events and checkpoints are written to it.
        step: the last step.

    Returns:
        The scalars by step and column of `results.csv`.
    """
    every_step = pipeline_pb2.TrainEvalPipelineConfig()
    every_step.CopyFrom(run.config)
    # They change what is written, not what is computed.
    every_step.train_config.progress.summary_every_n_steps = 1
    every_step.train_config.checkpoints.save_every_n_steps = _NEVER
    every_step.train_config.checkpoints.keep_max = 0  # all
    each = dataclasses.replace(run, config=every_step)
    if checkpoint_files.latest_step(folder) < step - 1:
        repeat_steps(each, folder, step - 1)
    with contextlib.suppress(non_finite.NonFiniteLossError):
        repeat_steps(each, folder, step)
    return TrainingEvents(folder).read_steps()


@contextlib.contextmanager
def state_before(run: past_run.PastRun, step: int) -> Iterator[Tuple[str, str, past_run.Scalars]]:
    """Repeat the steps from the nearest checkpoint to a step, in a folder that is deleted.

    Yields:
        The prefixes of a checkpoint with the state before the step, and of the one from which
        steps were repeated; and the scalars of the repeated steps.
    """
    start = run.checkpoint_before(step)
    run.check(step, start)
    run = run.localize(step)
    parent = os.path.join(run.model_dir, past_run.FOLDER)
    # The name is new in each replay, because writers of events stay open.
    folder = os.path.join(parent, f'{_PREFIX}{uuid.uuid4().hex[:8]}')
    with checkpoint_files.explained_full_disk(run.model_dir):
        _remove_leftovers(parent)
        tf.io.gfile.makedirs(folder)
        try:
            with run_lock.held(folder):
                past_run.copy_checkpoint(start, folder)
                repeated = repeat_each(run, folder, step)
                yield os.path.join(folder, f'model.ckpt-{step - 1}'), start, repeated
        finally:
            tf.io.gfile.rmtree(folder)


def _remove_leftovers(parent: str) -> None:
    """Remove the folders of replays that were killed; those of living ones are locked."""
    for folder in tf.io.gfile.glob(os.path.join(parent, f'{_PREFIX}*')):
        # The lock complains in the end that its folder is gone.
        with contextlib.suppress(errors.UserError), run_lock.held(folder):
            tf.io.gfile.rmtree(folder)
