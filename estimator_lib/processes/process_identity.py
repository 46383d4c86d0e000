"""Identity of a process: files name one, and later processes ask whether it still runs."""

from __future__ import annotations

import os
import socket
import uuid
from typing import Optional


def machine() -> str:
    """Return an id that two processes share if and only if they see each other's process ids."""
    try:
        with open('/proc/sys/kernel/random/boot_id') as file:
            # Process ids and ticks begin again after a boot. In a container, ids are those of its
            # namespace.
            boot = file.read().strip()
        return f'{socket.gethostname()} {boot} {os.readlink("/proc/self/ns/pid")}'
    except OSError:
        return uuid.uuid4().hex  # not Linux: no other process is known to be on this machine


def is_running(pid: int, started: Optional[str]) -> bool:
    """Return whether a process of this machine runs, and its id is not that of a later process.

    Args:
        pid: its id.
        started: its `start_time` when it ran.
    """
    if pid <= 0:  # these are groups of processes
        return False
    try:
        # Signal 0 is not sent: only the existence of the process and the right to signal it are
        # checked.
        os.kill(pid, 0)
    except PermissionError:  # a process of another user, which /proc may hide
        return start_time(pid) in (started, None)
    except (ProcessLookupError, OverflowError):
        return False
    return start_time(pid) == started


def start_time(pid: int) -> Optional[str]:
    """Return the start of a process in clock ticks since boot; None if it does not run."""
    try:
        with open(f'/proc/{pid}/stat') as file:
            # The second field is the program's name in parentheses, which may hold spaces and
            # parentheses: all after the last one is numbers.
            fields = file.read().rpartition(')')[2].split()
    except OSError:
        return None
    # The state is field 3 of proc(5), and the start time field 22. A zombie has ended, though its
    # id is still taken.
    return None if fields[0] in ('Z', 'X') else fields[19]
