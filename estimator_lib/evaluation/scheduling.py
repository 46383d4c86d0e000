"""When checkpoints are evaluated, and which have been, on disk, so that a restart knows."""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import Dict, Iterator, Optional

import tensorflow as tf

from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.evaluation import evaluating
from estimator_lib.hooks import preemption, progress
from protos import eval_pb2

tf1 = tf.compat.v1

RECORD_FILE = 'evaluations.json'

_BEGUN, _DONE, _FINAL = 'begun', 'done', 'final'


class Schedule:
    """Which checkpoint is due, by start delay, throttle, and what an earlier start has evaluated.

    An evaluation that was interrupted (its process was killed) is due at once: without it the best
    export and early stopping would never know of that checkpoint.

    Args:
        config: start delay and throttle.
        model_dir: of the run; the record is in it.

    Attributes:
        interrupted: the step of an evaluation that an earlier start began and did not end; None
            where there is none.
    """

    def __init__(self, config: eval_pb2.EvaluationSchedule, model_dir: str):
        self._config = config
        self._path = os.path.join(model_dir, RECORD_FILE)
        self._record = _read(self._path, checkpoint_files.latest_step(model_dir))
        begun = self._record[_BEGUN]
        self.interrupted: Optional[int] = begun if begun > self._record[_DONE] else None
        self._next_time = time.monotonic() + config.start_delay_seconds

    def is_due(self, step: int) -> bool:
        """Return whether the checkpoint of a step is to be evaluated now."""
        if step == self.interrupted:
            return True
        done = self._record[_DONE]
        if step <= done or time.monotonic() < self._next_time:
            return False
        return step - done >= self._config.throttle_steps

    def was_final(self, step: int) -> bool:
        """Whether the evaluation of a step has been made, and as the last one of training."""
        return self._record[_FINAL] == step

    def postpone(self, step: int) -> None:
        """Leave an evaluation that is due to the next start of the program."""
        self._write(begun=step)

    @contextlib.contextmanager
    def evaluating(self, step: int, is_final: bool = False) -> Iterator[None]:
        """What runs inside evaluates, exports and so on; it counts as done when it has ended.

        Args:
            step: of the checkpoint.
            is_final: whether training has ended with it.
        """
        started = time.monotonic()
        self._write(begun=step)
        yield
        self._write(done=step, **({_FINAL: step} if is_final else {}))
        self.interrupted = None
        self._next_time = max(self._next_time, started + self._config.throttle_seconds)

    def _write(self, **steps: int) -> None:
        self._record.update(steps)
        checkpoint_files.write_atomically(self._path, json.dumps(self._record) + '\n')


def _read(path: str, run_step: int) -> Dict[str, int]:
    """Return the record; steps that the run has not come to are of another run, and count as 0."""
    found = checkpoint_files.read_state(path)
    steps = {name: found.get(name) for name in (_BEGUN, _DONE, _FINAL)}
    return {
        name: step if isinstance(step, int) and step <= run_step else 0
        for name, step in steps.items()
    }


class EvaluationListener(tf1.train.CheckpointSaverListener):
    """Evaluates the checkpoints that a training session saves, as often as the schedule says.

    Args:
        evaluator: does the work.
        schedule: says when.
        model_dir: where the checkpoints are.
    """

    def __init__(self, evaluator: evaluating.Evaluator, schedule: Schedule, model_dir: str):
        self._evaluator = evaluator
        self._schedule = schedule
        self._model_dir = model_dir

    def catch_up(self) -> None:
        """Evaluate the checkpoint that training resumes from, where that is still to be done."""
        if checkpoint_files.latest_checkpoint(self._model_dir) is not None:
            self._evaluate_if_due(checkpoint_files.latest_step(self._model_dir))

    def after_save(self, session: tf1.Session, global_step_value: int) -> bool:
        """Evaluate when it is time; whether training should stop."""
        del session
        return self._evaluate_if_due(int(global_step_value))

    def _evaluate_if_due(self, step: int) -> bool:
        if not self._schedule.is_due(step):
            return False
        if preemption.requested():
            self._schedule.postpone(step)
            return False
        checkpoint = checkpoint_files.resolve_checkpoint(self._model_dir)
        with progress.paused(), preemption.interruptible(), self._schedule.evaluating(step):
            return self._evaluator.evaluate(checkpoint)
