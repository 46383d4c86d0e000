"""`--mode=replay`: any step of a past run, again."""

from __future__ import annotations

import contextlib
import os
import uuid
from typing import Iterator, List, Tuple

import tensorflow as tf

from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.replay import diagnosis, past_run, repeating, report
from estimator_lib.task import Task
from protos import pipeline_pb2


def replay(
    task: Task, config: pipeline_pb2.TrainEvalPipelineConfig, model_dir: str, step: int
) -> List[str]:
    """Repeat a step of a run, and write it to `model_dir/replay/<step>/`.

    Args:
        task: the task of the run.
        config: the config of the run.
        model_dir: the folder of the run.
        step: the step, from 1.

    Returns:
        Lines that describe the step.

    Raises:
        errors.UserError: the step cannot be repeated.
    """
    run = past_run.read(model_dir, config)
    replayed, folder = replay_step(task, run, step)
    return [*report.lines(replayed), f'{report.JSON_FILE}, {report.CSV_FILE}: {folder}']


def replay_step(task: Task, run: past_run.PastRun, step: int) -> Tuple[report.Replay, str]:
    """Repeat a step of a run and write it; return it with its folder."""
    folder = os.path.join(run.model_dir, past_run.FOLDER, str(step))
    with state_before(task, run, step) as (checkpoint, start, repeated):
        diagnosed = diagnosis.diagnose(task, run.config, os.path.dirname(checkpoint), checkpoint)
    replayed = report.Replay(step, start, run.recorded, repeated, diagnosed)
    report.write(replayed, task, folder)
    return replayed, folder


@contextlib.contextmanager
def state_before(
    task: Task, run: past_run.PastRun, step: int
) -> Iterator[Tuple[str, str, past_run.Scalars]]:
    """Repeat the steps from the nearest checkpoint to a step, in a folder that is deleted.

    Yields:
        The prefixes of a checkpoint with the state before the step, and of the one from which
        steps were repeated; and the scalars of the repeated steps.
    """
    start = run.checkpoint_before(step)
    run.check(step, start)
    # The name is new in each replay, because writers of events stay open.
    name = f'repeated-{uuid.uuid4().hex[:8]}'
    folder = os.path.join(run.model_dir, past_run.FOLDER, name)
    with checkpoint_files.explained_full_disk(run.model_dir):
        try:
            past_run.copy_checkpoint(start, folder)
            repeated = repeating.repeat_each(task, run.config, folder, step)
            yield os.path.join(folder, f'model.ckpt-{step - 1}'), start, repeated
        finally:
            tf.io.gfile.rmtree(folder)
