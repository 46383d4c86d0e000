"""Preemption: on SIGTERM, SIGHUP or Ctrl-C, save what is done and end within seconds.

The programs do so, see `programs`. A program that calls the library keeps its own signal handlers,
and nothing ends its process, unless it uses the guard:

    with preemption.preemption_guard():
        training.train_and_evaluate(task, config, model_dir)

During training, the first signal lets the running step end; then the session saves and closes
(`preemption_hook`). Outside training, it raises `Preempted` at once. When neither happens in time,
a thread ends the process. The thread is needed because Python's signal handlers wait for the main
thread to return from `session.run`, and a step may hang.

It imports no TensorFlow: the guard is there before TensorFlow's import, which takes seconds.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional

# The default time of Kubernetes between SIGTERM and SIGKILL.
DEADLINE_SECONDS = 30.0
# SIGHUP: the terminal or the connection to it is closed.
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_STDERR = 2
# A parent that passes Ctrl-C on, and the terminal itself, interrupt a process twice at once.
_SAME_SECONDS = 0.03
# An end at once waits so long for what is to be written before it; the disk may hang.
_LAST_SECONDS = 2.0
_before_end: List[Callable[[int], None]] = []


class Preempted(SystemExit):
    """Exit of a process that was told to end.

    `except Exception` does not catch it. Where it is not caught, the process ends with its status.

    Args:
        signal_number: the number of the signal.

    Attributes:
        exit_status: 143 for SIGTERM, 130 for Ctrl-C, 129 for SIGHUP.
    """

    def __init__(self, signal_number: int):
        self.signal_number = signal_number
        self.exit_status = 128 + signal_number
        super().__init__(self.exit_status)

    def __str__(self) -> str:
        return f'told to end by {_name(self.signal_number)}'


@contextlib.contextmanager
def preemption_guard(
    deadline_seconds: float = DEADLINE_SECONDS, ends_process: bool = False
) -> Iterator[None]:
    """Handle SIGTERM, SIGINT and SIGHUP while the block runs.

    A SIGHUP that the process ignores stays ignored, as under `nohup`.

    The guard does nothing inside another guard, and in threads other than the main one, where
    Python allows no handlers.

    Args:
        deadline_seconds: seconds from the signal until the process is ended (`end_process`),
            whatever it is doing.
        ends_process: whether the caller ends the process after `Preempted`. The deadline and the
            handlers then stay until the end.

    Raises:
        Preempted: a signal came. Outside training it is raised at once, otherwise at the end of the
            block.
    """
    if _Guard.active is not None or threading.current_thread() is not threading.main_thread():
        yield
        return
    guard = _Guard(deadline_seconds, ends_process)
    guard.install()
    try:
        yield
        raise_if_requested()
    except Preempted as ending:
        if guard.has_handled:
            guard.announce(ending.signal_number)
        if guard.ends_process:
            guard.only_wait()
        else:
            guard.restore()
        raise
    except BaseException:
        guard.restore()
        raise
    guard.restore()


def owns_process() -> bool:
    """Return whether a guard is active, so that the library may end the process."""
    return _Guard.active is not None


@contextlib.contextmanager
def called_before_end(function: Callable[[int], None]) -> Iterator[None]:
    """Let `end_process` call a function while the block runs.

    Args:
        function: called in another thread, with the status of the process.
    """
    _before_end.append(function)
    try:
        yield
    finally:
        _before_end.remove(function)


def end_process(status: int) -> None:
    """End the process at once with a status, from any thread and whatever the main thread does."""

    def call_all() -> None:
        for function in reversed(_before_end):
            function(status)

    # A thread, because a function that hangs or fails must not keep the process.
    thread = threading.Thread(target=call_all, name='end', daemon=True)
    thread.start()
    thread.join(_LAST_SECONDS)
    # Not `sys.exit`, which ends only the thread that calls it.
    os._exit(status)


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Let a signal only be noted in the block, so that what the block writes is whole."""
    guard = _Guard.active
    if guard is None:
        yield
        return
    was_waiting, guard.waits_for_step = guard.waits_for_step, True
    try:
        yield
    finally:
        guard.waits_for_step = was_waiting


def end_process_within(deadline_seconds: float) -> None:
    """Keep the active guard, with this deadline, until the process has ended.

    A task of a cluster needs this, because others wait for it. Without a guard it does nothing.
    """
    guard = _Guard.active
    if guard is not None:
        guard.ends_process, guard.deadline_seconds = True, deadline_seconds


def requested() -> bool:
    """Return whether the process has been told to end."""
    guard = _Guard.active
    return guard is not None and guard.signal_number is not None


def noticed() -> bool:
    """Return whether a signal has come, even if the main thread has not seen it; for threads."""
    guard = _Guard.active
    return guard is not None and guard.noticed


def request(signal_number: int = signal.SIGTERM) -> None:
    """Tell this process to end, as a signal during training does.

    A task of a cluster calls this when another task got the signal.
    """
    guard = _Guard.active
    if guard is not None and guard.signal_number is None:
        guard.signal_number = signal_number


def raise_if_requested() -> None:
    """Raise `Preempted` if the process has been told to end.

    Raises:
        Preempted: the process has been told to end.
    """
    guard = _Guard.active
    if guard is not None and guard.signal_number is not None:
        raise Preempted(guard.signal_number)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let a signal interrupt the block, as an evaluation between two training steps.

    Raises:
        Preempted: the process was told to end before the block, or in it.
    """
    guard = _Guard.active
    if guard is None:
        yield
        return
    was_waiting, guard.waits_for_step = guard.waits_for_step, False
    try:
        raise_if_requested()
        yield
    finally:
        guard.waits_for_step = was_waiting


def wait_for_step(waits: bool) -> None:
    """Set whether a signal is only noted, for a hook that checks after each step."""
    if _Guard.active is not None:
        _Guard.active.waits_for_step = waits


class _Guard:
    """Signal handlers, and a thread that sees signals even while the main thread is in C++.

    Attributes:
        signal_number: the first signal; None before it.
        waits_for_step: whether a signal is only noted, for a hook that checks after each step.
        noticed: whether the thread has seen a signal; Python's handler may come later.
        has_handled: whether Python's handler has seen one; else another task may have told it.
        deadline_seconds: seconds from the first signal to the end of the process.
        ends_process: whether the caller ends the process after `Preempted`.
    """

    active: Optional[_Guard] = None

    def __init__(self, deadline_seconds: float, ends_process: bool):
        self.signal_number: Optional[int] = None
        self.waits_for_step = False
        self.noticed = False
        self.has_handled = False
        self.deadline_seconds = deadline_seconds
        self.ends_process = ends_process
        self._old_handlers: Dict[int, Any] = {}
        self._lock = threading.Lock()
        self._has_announced = False
        self._reader, self._writer = os.pipe()
        # `set_wakeup_fd` requires it: a C handler that blocks would stop the process.
        os.set_blocking(self._writer, False)
        self._thread = threading.Thread(target=self._watch, name='preemption', daemon=True)

    def install(self) -> None:
        _Guard.active = self
        self._thread.start()
        # The interpreter's C handler writes each signal's number to this pipe at once.
        self._old_wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        self._old_handlers = {
            number: signal.signal(number, self._handle)
            for number in SIGNALS
            if not (number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN)
        }

    def restore(self) -> None:
        """Restore the earlier signal handlers, and stop the thread with its deadline."""
        self.waits_for_step = True
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        # Before the pipe is closed: a later file might get its number, and bytes of signals.
        signal.set_wakeup_fd(self._old_wakeup)
        _Guard.active = None
        # No signal has the number 0: it ends the thread.
        os.write(self._writer, b'\0')
        self._thread.join()
        os.close(self._reader)
        os.close(self._writer)

    def announce(self, number: int) -> None:
        """Say once which signal ends the process; a process may end before its thread says so."""
        with self._lock:
            if not self._has_announced:
                doing = 'saving and ending' if self.waits_for_step else 'ending'
                _say(f'{_name(number)}: {doing} (Ctrl-C: at once)')
            self._has_announced = True

    def only_wait(self) -> None:
        """Suppress further signals while the process ends, until the deadline."""
        self.waits_for_step = True

    def _handle(self, number: int, frame: Any) -> None:
        """Note a signal in the main thread, and raise `Preempted` outside training."""
        del frame
        self.has_handled = True
        if self.signal_number is None:
            self.signal_number = number
        if not self.waits_for_step:
            raise Preempted(self.signal_number)

    def _watch(self) -> None:
        """Wait for signals in a thread, start the deadline, and end after a second Ctrl-C."""
        first: Optional[int] = None
        begun = 0.0
        while True:
            ending = begun + self.deadline_seconds
            timeout = None if first is None else max(0.0, ending - time.monotonic())
            # The timeout is the deadline, so one thread does both without a timer.
            if not select.select([self._reader], [], [], timeout)[0]:
                _end_now(first, f'not done after {self.deadline_seconds:g} s')
            for number in os.read(self._reader, 64):
                if number == 0:
                    return
                now = time.monotonic()
                if first is None and number in SIGNALS:
                    first, begun = number, now
                    self.noticed = True
                    self.announce(number)
                elif number == signal.SIGINT and (
                    first != signal.SIGINT or now - begun > _SAME_SECONDS
                ):
                    _end_now(first, 'told twice')


def _end_now(number: int, why: str) -> None:
    _say(f'{_name(number)}: {why}, ending at once')
    end_process(128 + number)


def _say(line: str) -> None:
    # `logging` is no use here: the main thread may hold its lock forever.
    with contextlib.suppress(OSError):
        os.write(_STDERR, f'{line}\n'.encode())


def _name(number: int) -> str:
    return signal.Signals(number).name
