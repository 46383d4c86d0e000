"""What the other tasks of a cluster learn of a training session, and what it learns of them."""

from __future__ import annotations

import logging
from typing import Any, Callable

import tensorflow as tf

from estimator_lib.hooks import global_steps

log = logging.getLogger('estimator_lib')


class ClusterSessionHook(tf.estimator.SessionRunHook):
    """Reports where the session is, and ends it when it is told that it should end.

    Args:
        session_opened: called with the global step when a session begins, also one that replaces
            another that was lost; it may raise.
        step_done: called with the global step after each step.
        should_end: whether to end the session, asked after each step.
    """

    def __init__(
        self,
        session_opened: Callable[[int], None],
        step_done: Callable[[int], None],
        should_end: Callable[[], bool],
    ):
        self._session_opened = session_opened
        self._step_done = step_done
        self._should_end = should_end

    def begin(self) -> None:
        """Finds the global step."""
        self._global_step = tf.compat.v1.train.get_global_step()

    def after_create_session(self, session: tf.compat.v1.Session, coord: Any) -> None:
        """Reports where the session begins."""
        del coord
        self._step = int(session.run(self._global_step))
        self._session_opened(self._step)

    def before_run(self, run_context: Any) -> tf.estimator.SessionRunArgs:
        """Fetches the global step."""
        del run_context
        return tf.estimator.SessionRunArgs(self._global_step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Reports the step; ends the session when it should."""
        self._step = global_steps.step_after_run(int(run_values.results), self._step)
        self._step_done(self._step)
        if self._should_end():
            run_context.request_stop()
