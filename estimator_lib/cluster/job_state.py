"""The end of a job, as files in `model_dir/cluster` tell it to all of its tasks."""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import Any, Mapping, Optional

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files, state_files
from estimator_lib.processes import preemption
from protos import train_pb2

log = logging.getLogger('estimator_lib')

FOLDER = 'cluster'  # in model_dir
FINISHED_FILE = 'finished.json'
FAILED_FILE = 'failed.json'

# Schedulers restart a task that ends with a status of 128 or more; a lower status means "broken".
# 138 is the status of SIGUSR1, which is left to programs.
# The policy ExitCode of Kubeflow's TFJob: 1 to 127 are permanent, 128 to 255 are retried, and 138
# is the one that it leaves to users.
PEER_LOST_STATUS = 138


class PeerLost(SystemExit):
    """Exit because another task is gone: all tasks have to be started again.

    Args:
        message: says which task is gone.
    """

    def __init__(self, message: str):
        self.exit_status = PEER_LOST_STATUS
        self.message = message
        super().__init__(self.exit_status)

    def __str__(self) -> str:
        return self.message


class JobState:
    """The files by which the tasks of a job tell each other about its end.

    A job is finished when it has reached the goal of its config. When the config asks for more
    steps later, the job in the same folder is not finished.

    Args:
        model_dir: the folder of the job.
        train_config: the goal of the job.
    """

    def __init__(self, model_dir: str, train_config: train_pb2.TrainConfig):
        self.folder = os.path.join(model_dir, FOLDER)
        self._model_dir = model_dir
        self._goal = _goal(train_config)
        self._finished = os.path.join(self.folder, FINISHED_FILE)
        self._failed = os.path.join(self.folder, FAILED_FILE)
        tf.io.gfile.makedirs(self.folder)
        self._leftover = read_state(self._failed)

    def finished(self) -> Optional[int]:
        """Return the last global step of a finished job; None while it is not finished."""
        finished = read_state(self._finished)
        # A larger `num_steps` is another goal, so the job continues.
        if finished is None or finished.get('goal') != self._goal:
            return None
        # A user who has deleted the checkpoints wants to train from scratch.
        step = int(finished['step'])
        return step if checkpoint_files.latest_step(self._model_dir) >= step else None

    def write_finished(self, reason: str) -> None:
        """Write that the job is finished, with its latest checkpoint. Only the chief does so.

        Args:
            reason: `num_steps`, or the reason of an earlier end.
        """
        step = checkpoint_files.latest_step(self._model_dir)
        write_state(self._finished, {'step': step, 'reason': reason, 'goal': self._goal})
        if tf.io.gfile.exists(self._failed):
            tf.io.gfile.remove(self._failed)
        log.info('the job is finished: step %d (%s)', step, reason)

    def failure(self) -> Optional[str]:
        """Return `worker:1: the message` if a task has failed since this one started."""
        failed = read_state(self._failed)
        if failed is None or failed == self._leftover:
            return None
        return f'{failed.get("task")}: {failed.get("message")}'

    def write_failed(self, task: str, message: str, identity: str) -> None:
        """Write that a task has failed in a way that a restart does not fix.

        Args:
            task: the name of the task.
            message: the error.
            identity: the identity of this start of the task.
        """
        # The first failure stays: the others follow from it.
        if self.failure() is None:
            write_state(self._failed, {'task': task, 'message': message, 'identity': identity})


def read_state(path: str) -> Optional[Mapping[str, Any]]:
    """Read a state file; return None if it is missing or cannot be read at this moment."""
    try:
        return state_files.read_json(path)
    # A replaced file may be missing for a moment on a network file system; the next look reads it.
    except (tf.errors.OpError, OSError, errors.DataError):
        return None


def write_state(path: str, content: Mapping[str, Any]) -> None:
    """Write a state file, or log a warning where the folder cannot be written to.

    Checkpoints, which matter more, raise an error of their own in that case.
    """
    try:
        checkpoint_files.write_atomically(path, json.dumps(content))
    except (tf.errors.OpError, OSError) as error:
        log.warning('cannot write %s: %s', path, errors.first_line(error))


def leave_now(status: int, message: str) -> None:
    """End the process from any thread, whatever the main thread is doing.

    Args:
        status: the exit status of the process.
        message: a message for standard error; empty for none.
    """
    if message:
        # `logging` is no use here: another thread may hold its lock forever.
        os.write(2, f'{"error: " if status else ""}{message}\n'.encode())
    # `os._exit`, which follows, flushes nothing.
    sys.stdout.flush()
    preemption.end_process(status)


def _goal(train_config: train_pb2.TrainConfig) -> str:
    stopping = train_config.early_stopping
    return f'num_steps: {train_config.num_steps} early_stopping {{ {stopping} }}'.replace('\n', ' ')
