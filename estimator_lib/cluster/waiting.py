"""Waiting for other tasks, with progress messages and a timeout."""

from __future__ import annotations

import logging
import socket
import time
from typing import Callable, Sequence

from estimator_lib import errors
from estimator_lib.processes import preemption

log = logging.getLogger('estimator_lib')

FIRST_REPORT_SECONDS = 5.0
REPORT_SECONDS = 30.0
POLL_SECONDS = 0.25
_CONNECT_SECONDS = 2.0


def wait_for(
    missing: Callable[[], Sequence[str]],
    *,
    who: str,
    until: str,
    timeout_seconds: float,
    give_up: Callable[[], bool] = lambda: False,
) -> bool:
    """Wait until nobody is missing.

    Args:
        missing: the names of the tasks that are still waited for.
        who: the name of the task that waits.
        until: the action that is waited for, as `to listen`; used in messages.
        timeout_seconds: time limit of the wait.
        give_up: returns whether the wait has become needless; it may raise.

    Returns:
        False when `give_up` ended the wait.

    Raises:
        errors.ClusterError: the time limit is reached.
        preemption.Preempted: the process was told to end.
    """
    started = time.monotonic()
    next_report = FIRST_REPORT_SECONDS
    while True:
        preemption.raise_if_requested()
        if give_up():
            return False
        names = list(missing())
        waited = time.monotonic() - started
        if not names:
            if waited > FIRST_REPORT_SECONDS:
                log.info('%s has waited %.0f s; now it continues', who, waited)
            return True
        if waited >= timeout_seconds:
            raise errors.ClusterError(
                f'{who} has waited {waited:.0f} s for {errors.shortened(names)} {until}, as long '
                'as train_config.cluster.wait_timeout_seconds says; expected: all tasks of '
                'TF_CONFIG are started, and reach each other and the same model_dir.'
            )
        if waited >= next_report:
            next_report = REPORT_SECONDS * (1 + waited // REPORT_SECONDS)
            log.info(
                '%s waits for %s %s: %.0f s (gives up after %g s)',
                who,
                errors.shortened(names),
                until,
                waited,
                timeout_seconds,
            )
        time.sleep(POLL_SECONDS)


def is_listening(address: str) -> bool:
    """Return whether a process accepts connections at `host:port`.

    This is also true of a stopped process (SIGSTOP): the kernel answers for it.
    """
    # From the right, as an IPv6 address has colons too; its brackets are not part of the host.
    host, _, port = address.rpartition(':')
    try:
        with socket.create_connection((host.strip('[]'), int(port)), timeout=_CONNECT_SECONDS):
            return True
    except OSError:
        return False
