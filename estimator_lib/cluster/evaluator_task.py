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
from estimator_lib.cluster import heartbeats, job_state
from estimator_lib.cluster.job import Job
from estimator_lib.cluster.supervision import Supervisor
from estimator_lib.evaluation import evaluating
from protos import eval_pb2

log = logging.getLogger('estimator_lib')

POLL_SECONDS = 1.0
FINAL_FILE = 'final_evaluation.json'
HELD_FOLDER = 'evaluated'


def evaluate_until_finished(
    job: Job,
    supervisor: Supervisor,
    evaluator: evaluating.Evaluator,
    schedule: eval_pb2.EvaluationSchedule,
) -> Dict[str, Dict[str, float]]:
    """Evaluates until the job is finished, its last checkpoint included.

    What early stopping makes of the evaluations is in a file, which the chief reads.

    Returns:
        The metrics of the last evaluation, by evaluation set.

    Raises:
        errors.ClusterError: the job has failed, or its chief is silent for too long.
    """
    supervisor.heart.tell(heartbeats.EVALUATING)
    pending = _Schedule(schedule, last_step=_evaluated_step(job.model_dir))
    while True:
        supervisor.raise_verdict()
        # In this order: a finished job has its last checkpoint.
        finished = job.state.finished()
        checkpoint = _latest(job.model_dir)
        if finished is not None and checkpoint is not None:
            return _evaluate_last(job, evaluator, checkpoint)
        step = 0 if checkpoint is None else checkpoint_files.step_of(checkpoint)
        if checkpoint is not None and pending.is_due(step):
            supervisor.heart.at_step(step)
            if _evaluate(job, evaluator, checkpoint):
                pending.done(step)
        time.sleep(POLL_SECONDS)


class _Schedule:
    """When the next evaluation is due."""

    def __init__(self, schedule: eval_pb2.EvaluationSchedule, last_step: int):
        self._schedule = schedule
        self._last_step = last_step
        self._next_time = time.monotonic() + schedule.start_delay_seconds

    def is_due(self, step: int) -> bool:
        if step <= self._last_step or time.monotonic() < self._next_time:
            return False
        return step - self._last_step >= self._schedule.throttle_steps

    def done(self, step: int) -> None:
        self._last_step = step
        self._next_time = time.monotonic() + self._schedule.throttle_seconds


def _evaluate(job: Job, evaluator: evaluating.Evaluator, checkpoint: str) -> bool:
    """Whether an evaluation was made: the checkpoint may be deleted in the meantime."""
    try:
        with _held(checkpoint, os.path.join(job.state.folder, HELD_FOLDER)) as held:
            evaluator.evaluate(held)
        return True
    except (tf.errors.NotFoundError, errors.CheckpointError) as error:
        if tf.io.gfile.exists(checkpoint + '.index'):
            raise
        log.warning('%s was deleted while it was evaluated: %s', checkpoint, _first_line(error))
        return False


@contextlib.contextmanager
def _held(checkpoint: str, folder: str) -> Iterator[str]:
    """Keeps the files of a checkpoint, which the chief deletes when it has written newer ones.

    They get a second name, where the file system allows that; it takes no space and no time.

    Yields:
        The prefix to read from.
    """
    if tf.io.gfile.isdir(folder):
        tf.io.gfile.rmtree(folder)  # of an evaluator that was killed
    held = os.path.join(folder, os.path.basename(checkpoint))
    try:
        os.makedirs(folder)
        # The index last: who finds it finds the others.
        for path in sorted(tf.io.gfile.glob(checkpoint + '.*'), key=lambda name: 'index' in name):
            os.link(path, held + path[len(checkpoint) :])
    except OSError:
        held = checkpoint
    try:
        yield held
    finally:
        if tf.io.gfile.isdir(folder):
            tf.io.gfile.rmtree(folder)


def _evaluate_last(
    job: Job, evaluator: evaluating.Evaluator, checkpoint: str
) -> Dict[str, Dict[str, float]]:
    """The last evaluation and the final export; not again when an earlier start has done it."""
    path = os.path.join(job.state.folder, FINAL_FILE)
    step = checkpoint_files.step_of(checkpoint)
    if (job_state.read_state(path) or {}).get('step') == step:
        log.info('the last checkpoint, step %d, has been evaluated before', step)
        return {}
    evaluator.evaluate(checkpoint, is_final=True)
    job_state.write_state(path, {'step': step})
    return evaluator.last_metrics


def _latest(model_dir: str) -> Optional[str]:
    """The latest checkpoint; None when there is none, or it is being replaced at this moment."""
    try:
        return checkpoint_files.latest_checkpoint(model_dir)
    except errors.CheckpointError:
        return None


def _evaluated_step(model_dir: str) -> int:
    """The last step that an earlier start of the evaluator has evaluated."""
    metrics = job_state.read_state(os.path.join(model_dir, evaluating.METRICS_FILE)) or {}
    step = int(metrics.get('global_step', 0))
    # Numbers of another, longer run that was in this folder say nothing.
    return step if step <= checkpoint_files.latest_step(model_dir) else 0


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
