"""The link between a training session and the other tasks of its cluster."""

from __future__ import annotations

import logging
from typing import Any, Callable

from estimator_lib.hooks import global_steps

log = logging.getLogger('estimator_lib')


class ClusterSessionHook(global_steps.GlobalStepHook):
    """Hook that reports the progress of a session, and ends the session on request.

    Args:
        session_opened: called with the global step when a session begins, also when the session
            replaces a lost one; it may raise.
        step_done: called with the global step after each step.
        should_end: returns whether to end the session; called after each step.
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

    def session_begun(self) -> None:
        """Report the global step at which the session begins."""
        self._session_opened(self.step)

    def step_done(self, run_context: Any, run_values: Any) -> None:
        """Report the step, and end the session when it should end."""
        del run_values
        # Reported before the end is asked for: a heartbeat then has the last step.
        self._step_done(self.step)
        if self._should_end():
            run_context.request_stop()
