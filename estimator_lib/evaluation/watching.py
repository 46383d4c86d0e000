"""Evaluation of the checkpoints that another process writes to a folder, and deletes."""

from __future__ import annotations

import itertools
import logging
import time
from typing import Optional

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.evaluation import evaluating

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')


def watch(
    evaluator: evaluating.Evaluator,
    checkpoint_dir: str,
    *,
    last_step: int = 0,
    max_retries: int = 0,
    poll_seconds: float = 5.0,
    idle_seconds: float = 600.0,
) -> None:
    """Evaluate each new checkpoint, except those that are deleted meanwhile.

    Args:
        evaluator: evaluates a checkpoint.
        checkpoint_dir: the folder of the checkpoints.
        last_step: step of the last checkpoint to evaluate; 0: no end.
        max_retries: number of further attempts after a failure; negative: no limit.
        poll_seconds: seconds between two looks into the folder, and between two attempts.
        idle_seconds: seconds without a new checkpoint after which this function returns.
    """
    for path in tf1.train.checkpoints_iterator(
        checkpoint_dir, min_interval_secs=poll_seconds, timeout=idle_seconds
    ):
        try:
            evaluate_with_retries(evaluator, path, max_retries, poll_seconds)
        except (tf.errors.OpError, errors.CheckpointError) as error:
            if exists(path):
                raise
            cause = errors.first_line(error)
            log.warning('%s was deleted before it was evaluated: %s', path, cause)
        if last_step and checkpoint_files.checkpoint_step(path) >= last_step:
            return
    log.warning('no new checkpoint in %s for %g s', checkpoint_dir, idle_seconds)


def evaluate_with_retries(
    evaluator: evaluating.Evaluator, path: str, max_retries: int, pause_seconds: float = 5.0
) -> None:
    """Evaluate a checkpoint, with up to `max_retries` further attempts (negative: no limit).

    Raises:
        tf.errors.OpError, errors.DataError, errors.CheckpointError: the last attempt failed, or the
            checkpoint has been deleted.
    """
    for left in itertools.count(max_retries, -1):
        try:
            evaluator.evaluate(path)
            return
        except (tf.errors.OpError, errors.DataError, errors.CheckpointError) as error:
            if left == 0 or not exists(path):
                raise
            cause = errors.first_line(error)
            log.warning('the evaluation of %s has failed, and is tried again: %s', path, cause)
            time.sleep(pause_seconds)


def exists(path: str) -> bool:
    """Return whether a checkpoint (still) exists."""
    return tf.io.gfile.exists(path + '.index')


def latest(folder: str) -> Optional[str]:
    """Return the latest checkpoint; None if there is none, or it is just being replaced."""
    try:
        return checkpoint_files.latest_checkpoint(folder)
    except errors.CheckpointError:
        return None
