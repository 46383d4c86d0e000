"""A local cluster in the foreground: the lines of all its tasks, and its end."""

from __future__ import annotations

import os
import queue
import re
import shlex
import sys
import threading
import time
from typing import Optional, Sequence, TextIO, Tuple

from estimator_lib.cluster.local_processes import (
    POLL_SECONDS,
    SERVERS_SECONDS,
    WORKERS_SECONDS,
    Addresses,
    LocalCluster,
)
from estimator_lib.processes import preemption

# From a signal to the end of the tasks, which are killed before.
_MOST_SECONDS = WORKERS_SECONDS + SERVERS_SECONDS + 10.0
# Of all tasks, only the chief's progress is shown: the steps are the same.
_PROGRESS = re.compile(r'(^|\s)step \d+(/\d+)?\s')


class Console:
    """Display of the lines of all tasks, and of the chief's progress.

    Args:
        chief: the name of the chief.
        width: the width of the column of names.
        stream: the stream to write to; on a terminal, progress is one line that changes.
    """

    def __init__(self, chief: str, width: int, stream: TextIO):
        self._chief = chief
        self._width = width
        self._stream = stream
        self._in_place = stream.isatty()
        self._status = ''
        # One thread reads each task. Only the main thread writes, so that lines are whole.
        self._lines: queue.SimpleQueue = queue.SimpleQueue()

    def put(self, name: str, line: str) -> None:
        """Take a line; may be called from any thread."""
        self._lines.put((name, line))

    def show(self) -> None:
        """Write the lines that have come."""
        while not self._lines.empty():
            name, line = self._lines.get()
            is_progress = _PROGRESS.search(line) is not None
            if is_progress and name != self._chief:
                continue
            text = f'{name:<{self._width}} | {line}'
            if is_progress and self._in_place:
                self._draw(text)
            else:
                self._above(text)
        self._stream.flush()

    def close(self) -> None:
        """Write the remaining lines, and end the progress line."""
        self.show()
        if self._status:
            self._stream.write('\n')
            self._status = ''

    def _draw(self, text: str) -> None:
        # One column less than the terminal: a full line would wrap, and the next one not replace
        # it.
        self._status = text[: os.get_terminal_size(self._stream.fileno()).columns - 1]
        self._stream.write(f'\r\x1b[K{self._status}')

    def _above(self, text: str) -> None:
        if self._in_place and self._status:
            self._stream.write(f'\r\x1b[K{text}\n{self._status}')
        else:
            self._stream.write(f'{text}\n')


def run(
    addresses: Addresses,
    command: Sequence[str],
    *,
    restart: int = 0,
    stream: TextIO = sys.stderr,
    arguments: Sequence[str] = (),
) -> int:
    """Run a cluster until all its tasks have ended, or one has failed.

    Args:
        addresses: the addresses of the tasks, by role.
        command: the command that every task runs.
        restart: how often a task that was killed is started again; see `LocalCluster`.
        stream: receives the lines of the tasks.
        arguments: the part of the command that the first line shows; empty: all.

    Returns:
        The exit status: 0 when all tasks have ended with 0, else that of the task that failed.

    Raises:
        preemption.Preempted: after a signal, when all tasks have ended.
    """
    names = [f'{role}:{index}' for role in addresses for index in range(len(addresses[role]))]
    chief = next((name for name in names if name.startswith(('chief', 'master'))), 'worker:0')
    console = Console(chief, max(map(len, names)), stream)
    cluster = LocalCluster(addresses, command, console.put, restart)
    console.put('launcher', f'{", ".join(names)}: {shlex.join(arguments or command)}')
    with preemption.preemption_guard():
        # A signal does not interrupt the loop, and does not shorten what the tasks need to end.
        preemption.wait_for_step(True)
        preemption.end_process_within(_MOST_SECONDS)
        cluster.start()
        return _watch(cluster, console)


def _watch(cluster: LocalCluster, console: Console) -> int:
    """Show the lines of a cluster until it has ended; return 0, or the status of what failed."""
    failed: Optional[Tuple[str, int]] = None
    try:
        while cluster.running and failed is None and not preemption.requested():
            failed = cluster.poll()
            console.show()
            time.sleep(POLL_SECONDS)
    finally:
        if failed is not None:
            console.put('launcher', f'{failed[0]} has ended with status {failed[1]}: all end')
        # In a thread, so that the lines of tasks that save are shown meanwhile.
        stopper = threading.Thread(target=cluster.stop)
        stopper.start()
        while stopper.is_alive():
            console.show()
            stopper.join(POLL_SECONDS)
        console.close()
    preemption.raise_if_requested()
    return 0 if failed is None else failed[1]
