"""Evaluation of the checkpoints that another process writes to a folder, and deletes."""

from __future__ import annotations

import itertools
import logging
import time
from typing import Optional

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files, run_folder
from estimator_lib.evaluation import evaluating

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')

_LOOK_SECONDS = 5.0  # between two looks whether the folder is still there


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

    Raises:
        errors.UserError: the folder is gone.
    """
    first_folder = run_folder.RunFolder(checkpoint_dir)
    folder = _Watched(checkpoint_dir, idle_seconds)
    for path in tf1.train.checkpoints_iterator(
        checkpoint_dir,
        min_interval_secs=poll_seconds,
        timeout=min(idle_seconds, _LOOK_SECONDS),
        timeout_fn=folder.is_idle,
    ):
        try:
            evaluate_with_retries(evaluator, path, max_retries, poll_seconds)
        except (tf.errors.OpError, errors.CheckpointError) as error:
            # The trainer deletes old checkpoints (`keep_max`), also while they are read: that is no
            # failure.
            if exists(path):
                raise
            if first_folder.is_gone:
                raise run_folder.removal_error(checkpoint_dir) from error
            cause = errors.first_line(error)
            log.warning('%s was deleted before it was evaluated: %s', path, cause)
        if last_step and checkpoint_files.checkpoint_step(path) >= last_step:
            return
        folder.restart()
    log.warning('no new checkpoint in %s for %g s', checkpoint_dir, idle_seconds)


class _Watched:
    """Folder that checkpoints come from: its presence, and the time without a new one."""

    def __init__(self, path: str, idle_seconds: float):
        self._path = path
        self._idle_seconds = idle_seconds
        self._was_there = False
        self._since = time.monotonic()

    def restart(self) -> None:
        """Note that a checkpoint has come: the time without a new one begins."""
        self._was_there = True
        self._since = time.monotonic()

    def is_idle(self) -> bool:
        """Return whether nothing has come for so long that the watch ends.

        Raises:
            errors.UserError: the folder was there, and is gone.
        """
        is_there = tf.io.gfile.isdir(self._path)
        if self._was_there and not is_there:
            raise run_folder.removal_error(self._path)
        self._was_there = is_there
        # TensorFlow asks a second early.
        return time.monotonic() - self._since + 1 > self._idle_seconds


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
