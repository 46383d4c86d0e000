"""The start of the workers of a cluster: all together, or one after the other."""

from __future__ import annotations

import logging
import time
from typing import Any, Callable, List, Optional

import tensorflow as tf

from estimator_lib.distribution.modes import Plan
from estimator_lib.distribution.sync_replicas import TokenExchange
from estimator_lib.processes import preemption

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')

_SAY_EVERY_SECONDS = 30.0


def hooks(
    plan: Plan, exchange: Optional[TokenExchange], num_steps: int
) -> List[tf1.train.SessionRunHook]:
    """Return the hooks that a worker needs at the beginning of its session.

    Args:
        plan: the plan of this worker.
        exchange: the token exchange of its graph; None for asynchronous workers.
        num_steps: global step at which training ends; 0: never.
    """
    if exchange is not None:
        return [exchange.hook()]
    # The number of the worker times the field, as in the training program of DeepLab.
    first_step = startup_step(plan.worker_index * plan.startup_delay_steps, num_steps)
    return [StartupDelayHook(first_step)] if first_step else []


def startup_step(delay_steps: float, num_steps: int) -> int:
    """Return the global step at which a delayed worker begins, at most the end of training."""
    return int(min(delay_steps, num_steps) if num_steps else delay_steps)


class StartupDelayHook(tf1.train.SessionRunHook):
    """Hook that delays a worker until the others have reached a step.

    Args:
        first_step: the global step at which this worker begins.
        poll_seconds: seconds between two reads of the global step.
    """

    def __init__(self, first_step: int, poll_seconds: float = 1.0):
        self._first_step = first_step
        self._poll_seconds = poll_seconds

    def begin(self) -> None:
        """Find the global step."""
        self._global_step = tf1.train.get_global_step()

    def after_create_session(self, session: tf1.Session, coord: Any) -> None:
        """Wait for the step, in every new session."""

        def should_end() -> bool:
            return preemption.requested() or coord.should_stop()

        wait_for_step(session, self._global_step, self._first_step, should_end, self._poll_seconds)


def wait_for_step(
    session: tf1.Session,
    global_step: tf.Variable,
    step: int,
    should_end: Callable[[], bool] = lambda: False,
    poll_seconds: float = 1.0,
    still_seconds: float = 60.0,
) -> None:
    """Wait until the global step reaches a step, or no longer moves.

    The other workers may stop at an earlier step: at the `max_steps` of a program, which this
    worker does not know. So the wait also ends when the step stands still.

    Args:
        session: a session that can read the global step.
        global_step: int64 scalar.
        step: the step to wait for.
        should_end: returns whether to end the wait; called at each look.
        poll_seconds: seconds between two looks.
        still_seconds: seconds without a step of the others, after their first one, that end the
            wait.
    """
    next_word = moved = time.monotonic()
    last = 0
    while True:
        current = int(session.run(global_step))
        if current >= step or should_end():
            return
        if current != last or not current:
            last, moved = current, time.monotonic()
        elif time.monotonic() - moved >= still_seconds:
            log.info('beginning at step %d, where the others have stopped', current)
            return
        if time.monotonic() >= next_word:
            next_word = time.monotonic() + _SAY_EVERY_SECONDS
            log.info('beginning at step %d; the others are at %d', step, current)
        time.sleep(poll_seconds)
