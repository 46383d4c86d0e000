"""Repetition of training steps from a checkpoint, by the loop of the run, in another folder."""

from __future__ import annotations

import contextlib
from typing import Mapping, Sequence

from estimator_lib import distribution, training
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.evaluation import evaluating
from estimator_lib.hooks import non_finite
from estimator_lib.run_records.training_events import TrainingEvents
from estimator_lib.task import Task
from estimator_lib.tf_estimator import SessionRunHook
from protos import pipeline_pb2

_NEVER = 10**9  # steps between two checkpoints


def repeat_steps(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    folder: str,
    step: int,
    without: Sequence[str] = (),
    hooks: Sequence[SessionRunHook] = (),
) -> None:
    """Train from the latest checkpoint of a folder up to a step, as the run did.

    Args:
        task: the task of the run.
        config: the config of the run.
        folder: has the checkpoint, and gets checkpoints and events.
        step: the last step.
        without: records to leave out, see `RecordInput.without`.
        hooks: further hooks of the training.
    """
    plan = distribution.create_plan(config)
    input_fn = training.train_input_fn(task, config, plan)
    if without:
        input_fn = input_fn.without(without)
    with evaluating.explained(input_fn):
        training.create_trainer(task, config, folder, None, plan).train(
            input_fn, hooks=list(hooks), max_steps=step
        )


def repeat_each(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    folder: str,
    step: int,
) -> Mapping[int, Mapping[str, float]]:
    """Repeat the steps up to one, with a checkpoint before it, and read the scalars of each.

    The last step may have a loss that is not finite: its scalars are written before training stops.

    Args:
        task: the task of the run.
        config: the config of the run.
        folder: has the checkpoint to start from; events and checkpoints are written to it.
        step: the last step.

    Returns:
        The scalars by step and column of `results.csv`.
    """
    every_step = pipeline_pb2.TrainEvalPipelineConfig()
    every_step.CopyFrom(config)
    # They change what is written, not what is computed.
    every_step.train_config.progress.summary_every_n_steps = 1
    every_step.train_config.checkpoints.save_every_n_steps = _NEVER
    every_step.train_config.checkpoints.keep_max = 0  # all
    if checkpoint_files.latest_step(folder) < step - 1:
        repeat_steps(task, every_step, folder, step - 1)
    with contextlib.suppress(non_finite.NonFiniteLossError):
        repeat_steps(task, every_step, folder, step)
    return TrainingEvents(folder).read_steps()
