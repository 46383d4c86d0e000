"""What the other tasks of a cluster learn of a training session, and what it learns of them."""

from __future__ import annotations

import logging
from typing import Any, Callable

from estimator_lib.hooks import global_steps

log = logging.getLogger('estimator_lib')


class ClusterSessionHook(global_steps.GlobalStepHook):
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

    def session_begun(self) -> None:
        """Report where the session begins."""
        self._session_opened(self.step)

    def step_done(self, run_context: Any, run_values: Any) -> None:
        """Report the step; ends the session when it should."""
        del run_values
        self._step_done(self.step)
        if self._should_end():
            run_context.request_stop()
