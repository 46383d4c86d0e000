"""How a job ends, and how all of its tasks come to know: files in `model_dir/cluster`."""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import Any, Mapping, Optional

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files
from protos import train_pb2

log = logging.getLogger('estimator_lib')

FOLDER = 'cluster'  # in model_dir
FINISHED_FILE = 'finished.json'
FAILED_FILE = 'failed.json'

# Schedulers take a status of 128 and more for "start it again", and less for "broken"; 138 is the
# one that is left to programs.
PEER_LOST_STATUS = 138


class PeerLost(SystemExit):
    """Another task is gone, and this one cannot go on: all are to be started again.

    Args:
        message: who is gone.
    """

    def __init__(self, message: str):
        self.exit_status = PEER_LOST_STATUS
        self.message = message
        super().__init__(self.exit_status)

    def __str__(self) -> str:
        return self.message


class JobState:
    """What the tasks of a job tell each other about its end.

    A finished job is one that has reached what its config asks for: asked for more steps, the same
    folder holds a job that is not finished.

    Args:
        model_dir: of the job.
        train_config: what it is to reach.
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
        if finished is None or finished.get('goal') != self._goal:
            return None
        # Who deletes the checkpoints wants to train anew.
        step = int(finished['step'])
        return step if checkpoint_files.latest_step(self._model_dir) >= step else None

    def write_finished(self, reason: str) -> None:
        """The chief: says that the job is finished, with the latest checkpoint.

        Args:
            reason: `num_steps`, or what ended it before.
        """
        step = checkpoint_files.latest_step(self._model_dir)
        write_state(self._finished, {'step': step, 'reason': reason, 'goal': self._goal})
        if tf.io.gfile.exists(self._failed):
            tf.io.gfile.remove(self._failed)
        log.info('the job is finished: step %d (%s)', step, reason)

    def failure(self) -> Optional[str]:
        """`worker:1: the message`, when a task has failed since this one started."""
        failed = read_state(self._failed)
        if failed is None or failed == self._leftover:
            return None
        return f'{failed.get("task")}: {failed.get("message")}'

    def write_failed(self, task: str, message: str, identity: str) -> None:
        """Any task: says that it has failed in a way that a restart does not mend.

        Args:
            task: its name.
            message: why.
            identity: of this start of the task.
        """
        if self.failure() is None:
            write_state(self._failed, {'task': task, 'message': message, 'identity': identity})


def read_state(path: str) -> Optional[Mapping[str, Any]]:
    """What a state file says; None when it is not there, or not readable at this moment."""
    try:
        return checkpoint_files.read_json(path)
    except (tf.errors.OpError, OSError, errors.DataError):
        return None


def write_state(path: str, content: Mapping[str, Any]) -> None:
    """Write a state file; a folder that cannot be written to is only warned about.

    What matters more, a checkpoint, has its own error for that.
    """
    try:
        checkpoint_files.write_atomically(path, json.dumps(content))
    except (tf.errors.OpError, OSError) as error:
        log.warning('cannot write %s: %s', path, errors.first_line(error))


def leave_now(status: int, message: str) -> None:
    """End the process from any thread, whatever the main thread is doing.

    Args:
        status: of the process.
        message: what is said about it; empty: nothing.
    """
    if message:
        # Not by `logging`, whose lock another thread may hold for ever.
        os.write(2, f'{"error: " if status else ""}{message}\n'.encode())
    sys.stdout.flush()
    os._exit(status)


def _goal(train_config: train_pb2.TrainConfig) -> str:
    stopping = train_config.early_stopping
    return f'num_steps: {train_config.num_steps} early_stopping {{ {stopping} }}'.replace('\n', ' ')
