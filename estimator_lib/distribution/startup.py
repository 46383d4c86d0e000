"""How the workers of a cluster begin: in step, or one after the other."""

from __future__ import annotations

import logging
import time
from typing import Any, Callable, List, Optional

import tensorflow as tf

from estimator_lib.distribution.modes import Plan
from estimator_lib.distribution.sync_replicas import TokenExchange
from estimator_lib.hooks import preemption

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')

_SAY_EVERY_SECONDS = 30.0


def hooks(
    plan: Plan, exchange: Optional[TokenExchange], num_steps: int
) -> List[tf1.train.SessionRunHook]:
    """What a worker does when its session begins.

    Args:
        plan: which worker of what mode it is.
        exchange: of its graph, with workers that it is in step with.
        num_steps: at which training ends; 0: never.
    """
    if exchange is not None:
        return [exchange.hook()]
    first_step = startup_step(plan.worker_index * plan.startup_delay_steps, num_steps)
    return [StartupDelayHook(first_step)] if first_step else []


def startup_step(delay_steps: float, num_steps: int) -> int:
    """Return the global step at which a delayed worker begins: not behind the end of training."""
    return int(min(delay_steps, num_steps) if num_steps else delay_steps)


class StartupDelayHook(tf1.train.SessionRunHook):
    """Lets a worker begin when the others have come to a step.

    Args:
        first_step: that step.
        poll_seconds: between two looks.
    """

    def __init__(self, first_step: int, poll_seconds: float = 1.0):
        self._first_step = first_step
        self._poll_seconds = poll_seconds

    def begin(self) -> None:
        """Find the global step."""
        self._global_step = tf1.train.get_global_step()

    def after_create_session(self, session: tf1.Session, coord: Any) -> None:
        """Wait, in this session and in each that is made anew."""

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
    """Return when the global step has come to a step, or no longer moves.

    Where the others have trained and then stop at an earlier step (the `max_steps` of a program, of
    which a worker is not told), nobody would ever get there.

    Args:
        session: where it can be read.
        global_step: int64 scalar.
        step: to wait for.
        should_end: asked every so often; True ends the wait.
        poll_seconds: between two looks.
        still_seconds: without a step of the others, after the first one, that end the wait.
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
