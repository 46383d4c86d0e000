"""Ending when told to: SIGTERM and Ctrl-C save a checkpoint and leave within seconds.

While `preemption_guard` is active, the first signal either lets the training step that is running
end, after which the session closes and saves (`PreemptionHook`), or, outside of training, raises
`Preempted` where the program is. A thread ends the process when neither happens in time: Python's
signal handlers wait for the main thread to return from `session.run`, and a step may never end.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import sys
import threading
import time
from typing import Any, Iterator, Optional

import tensorflow as tf

log = logging.getLogger('estimator_lib')

DEADLINE_SECONDS = 30.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Preempted(SystemExit):
    """The process was told to end.

    Nobody who catches `Exception` stops it, and where nobody catches it the process ends with its
    status.

    Args:
        signal_number: what told it.

    Attributes:
        exit_status: 143 for SIGTERM, 130 for Ctrl-C.
    """

    def __init__(self, signal_number: int):
        self.signal_number = signal_number
        self.exit_status = 128 + signal_number
        super().__init__(self.exit_status)

    def __str__(self) -> str:
        return f'told to end by {signal.Signals(self.signal_number).name}'


@contextlib.contextmanager
def preemption_guard(deadline_seconds: float = DEADLINE_SECONDS) -> Iterator[None]:
    """Handles SIGTERM and SIGINT while it is active.

    Inside of another guard, and in other threads than the main one (Python allows no handlers
    there), it does nothing.

    Args:
        deadline_seconds: after this long the process ends whatever it is doing.

    Raises:
        Preempted: when a signal comes while no training session is open.
    """
    if _current() is not None or threading.current_thread() is not threading.main_thread():
        yield
        return
    guard = _Guard(deadline_seconds)
    guard.install()
    try:
        yield
    except Preempted:
        # The rest of the way out has the same deadline.
        guard.restore(keep_deadline=True)
        raise
    finally:
        guard.restore()


def requested() -> bool:
    """Whether the process has been told to end."""
    guard = _current()
    return guard is not None and guard.signal_number is not None


def raise_if_requested() -> None:
    """Ends the program here, in an orderly way, when it has been told to end.

    Raises:
        Preempted: it has.
    """
    guard = _current()
    if guard is not None and guard.signal_number is not None:
        raise Preempted(guard.signal_number)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """What runs inside (an evaluation between two training steps) need not end first.

    Raises:
        Preempted: the process has been told to end before or is told so inside.
    """
    guard = _current()
    if guard is None:
        yield
        return
    was_training, guard.is_training = guard.is_training, False
    try:
        raise_if_requested()
        yield
    finally:
        guard.is_training = was_training


class PreemptionHook(tf.estimator.SessionRunHook):
    """Lets the running step end when a signal comes, and then the session, which saves."""

    def after_create_session(self, session: tf.compat.v1.Session, coord: Any) -> None:
        """From here on a signal waits for the end of a step."""
        del session, coord
        self._set_training(True)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Asks for the end of the session, when told to end."""
        del run_values
        if requested():
            run_context.request_stop()

    def end(self, session: tf.compat.v1.Session) -> None:
        """The session has ended: a signal need not wait any more."""
        del session
        self._set_training(False)

    def _set_training(self, is_training: bool) -> None:
        guard = _current()
        if guard is not None:
            guard.is_training = is_training


class _Guard:
    """The handlers, and the thread that sees signals even while the main thread is in C++."""

    active: Optional[_Guard] = None

    def __init__(self, deadline_seconds: float):
        self.signal_number: Optional[int] = None
        self.is_training = False
        self._deadline_seconds = deadline_seconds
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._thread = threading.Thread(target=self._watch, name='preemption', daemon=True)

    def install(self) -> None:
        self._thread.start()
        self._old_handlers = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        # The interpreter writes each signal's number there at once, from the C handler.
        self._old_wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        _Guard.active = self

    def restore(self, keep_deadline: bool = False) -> None:
        """Gives the signals back to who had them."""
        if _Guard.active is not self:
            return
        _Guard.active = None
        signal.set_wakeup_fd(self._old_wakeup)
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        if not keep_deadline:
            os.write(self._writer, b'\0')
            self._thread.join()
            os.close(self._reader)
            os.close(self._writer)

    def _handle(self, number: int, frame: Any) -> None:
        """In the main thread, between two bytecodes."""
        del frame
        if self.signal_number is None:
            self.signal_number = number
        if not self.is_training:
            raise Preempted(self.signal_number)

    def _watch(self) -> None:
        """In a thread: starts the deadline at the first signal; a Ctrl-C after it ends at once."""
        first: Optional[int] = None
        deadline = 0.0
        while True:
            timeout = None if first is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._reader], [], [], timeout)[0]:
                _end_now(first, f'not done {self._deadline_seconds:g} s after')
            for number in os.read(self._reader, 64):
                if number == 0:
                    return
                if first is None and number in _SIGNALS:
                    first, deadline = number, time.monotonic() + self._deadline_seconds
                    log.info('%s: saving and ending', signal.Signals(number).name)
                elif number == signal.SIGINT:
                    _end_now(first, 'told twice, the first time by')


def _current() -> Optional[_Guard]:
    return _Guard.active


def _end_now(number: int, why: str) -> None:
    log.warning('%s %s: ending at once', why, signal.Signals(number).name)
    sys.stderr.flush()
    os._exit(128 + number)
