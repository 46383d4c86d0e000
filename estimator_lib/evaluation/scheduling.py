"""The schedule of evaluations, whose record is on disk and survives restarts."""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import Dict, Iterator, Optional

import tensorflow as tf

from estimator_lib.checkpoints import checkpoint_files, state_files
from estimator_lib.evaluation import evaluating
from estimator_lib.hooks import progress
from estimator_lib.processes import preemption
from protos import eval_pb2

tf1 = tf.compat.v1

RECORD_FILE = 'evaluations.json'

_BEGUN, _DONE, _FINAL = 'begun', 'done', 'final'


class Schedule:
    """Schedule of evaluations by start delay, throttle, and the record of earlier starts.

    An evaluation that was interrupted (its process was killed) is due at once: without it the best
    export and early stopping would miss that checkpoint.

    Args:
        config: start delay and throttle.
        model_dir: the folder of the run, with the record.

    Attributes:
        interrupted: the step of an evaluation that an earlier start began and did not end, or None.
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
        """Return whether the final evaluation, that of this step, has been made."""
        return self._record[_FINAL] == step

    def postpone(self, step: int) -> None:
        """Record a due evaluation as begun, so that the next start of the program makes it."""
        self._write(begun=step)

    @contextlib.contextmanager
    def evaluating(self, step: int, is_final: bool = False) -> Iterator[None]:
        """Record the evaluation in the block as begun, and as done at the end of the block.

        Args:
            step: the step of the checkpoint.
            is_final: whether the checkpoint is the last one of training.
        """
        started = time.monotonic()
        self._write(begun=step)
        yield
        # Not in a `finally`: an evaluation that fails stays begun, and the next start makes it.
        self._write(done=step, **({_FINAL: step} if is_final else {}))
        self.interrupted = None
        # As `EvalSpec.throttle_secs` of `tf.estimator`, the throttle counts from start to start.
        self._next_time = max(self._next_time, started + self._config.throttle_seconds)

    def _write(self, **steps: int) -> None:
        self._record.update(steps)
        checkpoint_files.write_atomically(self._path, json.dumps(self._record) + '\n')


def _read(path: str, run_step: int) -> Dict[str, int]:
    """Read the record; steps beyond `run_step` belong to another run, and count as 0."""
    saved = state_files.read_state(path)
    steps = {name: saved.get(name) for name in (_BEGUN, _DONE, _FINAL)}
    return {
        name: step if isinstance(step, int) and step <= run_step else 0
        for name, step in steps.items()
    }


class EvaluationListener(tf1.train.CheckpointSaverListener):
    """Listener that evaluates the checkpoints of a training session by the schedule.

    Args:
        evaluator: evaluates a checkpoint.
        schedule: decides which checkpoints to evaluate.
        model_dir: the folder of the checkpoints.
    """

    def __init__(self, evaluator: evaluating.Evaluator, schedule: Schedule, model_dir: str):
        self._evaluator = evaluator
        self._schedule = schedule
        self._model_dir = model_dir

    def catch_up(self) -> None:
        """Evaluate the checkpoint that training resumes from, if its evaluation is due."""
        if checkpoint_files.latest_checkpoint(self._model_dir) is not None:
            self._evaluate_if_due(checkpoint_files.latest_step(self._model_dir))

    def after_save(self, session: tf1.Session, global_step_value: int) -> bool:
        """Evaluate the checkpoint if it is due; return whether training should stop."""
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
