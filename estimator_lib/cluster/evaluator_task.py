"""The evaluator of a cluster: evaluates the chief's checkpoints as they come, and exports."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from typing import Dict, Iterator, Optional

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.cluster import heartbeats
from estimator_lib.cluster.job import Job
from estimator_lib.cluster.supervision import Supervisor
from estimator_lib.evaluation import evaluating, scheduling, watching
from estimator_lib.run_records import run_file
from protos import pipeline_pb2

log = logging.getLogger('estimator_lib')

POLL_SECONDS = 1.0
HELD_FOLDER = 'evaluated'


def evaluate_until_finished(
    job: Job,
    supervisor: Supervisor,
    evaluator: evaluating.Evaluator,
    config: pipeline_pb2.TrainEvalPipelineConfig,
) -> Dict[str, Dict[str, float]]:
    """Evaluate until the job is finished, its last checkpoint included.

    The checkpoints may be of a run on one machine, to whose folder the job has come.

    Early stopping writes its decision to a file, which the chief reads. An evaluation during which
    an earlier start of this task was killed comes first.

    Returns:
        The metrics of the last evaluation, by evaluation set.

    Raises:
        errors.ClusterError: the job has failed, or its chief is silent for too long.
    """
    supervisor.heart.tell(heartbeats.EVALUATING)
    pending = scheduling.Schedule(config.eval_config.schedule, job.model_dir)
    # Before anything newer: early stopping counts evaluations in the order of their steps.
    overdue = _interrupted(job, pending)
    if overdue is not None:
        _evaluate(job, evaluator, pending, overdue)
    while True:
        supervisor.raise_verdict()
        # The state is read before the checkpoint: a finished job has written its last checkpoint.
        finished = job.state.finished() is not None
        checkpoint = watching.latest(job.model_dir)
        step = 0 if checkpoint is None else checkpoint_files.checkpoint_step(checkpoint)
        finished = finished or _has_ended_alone(job, supervisor, config, step)
        if finished and checkpoint is not None:
            return _evaluate_last(evaluator, pending, checkpoint)
        if checkpoint is not None and pending.is_due(step):
            supervisor.heart.note_step(step)
            _evaluate(job, evaluator, pending, checkpoint)
        time.sleep(POLL_SECONDS)


def _has_ended_alone(
    job: Job,
    supervisor: Supervisor,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    step: int,
) -> bool:
    """Return whether the folder has the last checkpoint of a run on one machine.

    Such a run leaves no file of a job's end. In a job, the chief may save later checkpoints of the
    steps that other workers have made meanwhile.

    Args:
        job: the job of this evaluator.
        supervisor: has the heartbeats of the chief, if it has ever run.
        config: the config of the job. A run of another config may be continued with this one.
        step: the step of the latest checkpoint.
    """
    if not step or supervisor.watch.last(job.chief):
        return False
    last_step = config.train_config.num_steps
    if last_step and step >= last_step:
        return True
    # Early stopping, or the end of the records, ends a run before its last step.
    return run_file.has_finished(job.model_dir, config)


def _interrupted(job: Job, schedule: scheduling.Schedule) -> Optional[str]:
    """Return the checkpoint whose evaluation was interrupted by a kill; None if it is gone."""
    name = f'model.ckpt-{schedule.interrupted}'
    # The links of a killed evaluator outlive the checkpoint, which the chief may have deleted
    # since.
    paths = [os.path.join(folder, name) for folder in (_held_folder(job), job.model_dir)]
    return next((path for path in paths if watching.exists(path)), None)


def _evaluate(
    job: Job, evaluator: evaluating.Evaluator, schedule: scheduling.Schedule, checkpoint: str
) -> None:
    """Evaluate a checkpoint; warn and skip it when it is deleted in the meantime."""
    step = checkpoint_files.checkpoint_step(checkpoint)
    try:
        with _held(checkpoint, _held_folder(job)) as held, schedule.evaluating(step):
            evaluator.evaluate(held)
    except (tf.errors.NotFoundError, errors.CheckpointError) as error:
        # An error about a checkpoint that is still there has another reason.
        if watching.exists(checkpoint):
            raise
        log.warning(
            '%s was deleted while it was evaluated: %s', checkpoint, errors.first_line(error)
        )


def _held_folder(job: Job) -> str:
    return os.path.join(job.state.folder, HELD_FOLDER)


@contextlib.contextmanager
def _held(checkpoint: str, folder: str) -> Iterator[str]:
    """Keep the files of a checkpoint while the block runs, even if the chief deletes them.

    The files get hard links, where the file system has them; that takes no space and no time.

    Yields:
        The prefix to read from.
    """
    held = os.path.join(folder, os.path.basename(checkpoint))
    try:
        if held != checkpoint and tf.io.gfile.isdir(folder):
            tf.io.gfile.rmtree(folder)  # left by an evaluator that was killed
        os.makedirs(folder)
        # The index comes last: where it exists the other files exist too.
        for path in sorted(tf.io.gfile.glob(checkpoint + '.*'), key=lambda name: 'index' in name):
            os.link(path, held + path[len(checkpoint) :])
    except OSError:  # no hard links on this file system, or the files are the links already
        held = checkpoint
    try:
        yield held
    finally:
        if tf.io.gfile.isdir(folder):
            tf.io.gfile.rmtree(folder)


def _evaluate_last(
    evaluator: evaluating.Evaluator, schedule: scheduling.Schedule, checkpoint: str
) -> Dict[str, Dict[str, float]]:
    """Make the last evaluation and the final export, unless an earlier start has made them."""
    step = checkpoint_files.checkpoint_step(checkpoint)
    if schedule.was_final(step):
        log.info('the last checkpoint, step %d, has been evaluated before', step)
        return {}
    with schedule.evaluating(step, is_final=True):
        evaluator.evaluate(checkpoint, is_final=True)
    return evaluator.last_metrics
