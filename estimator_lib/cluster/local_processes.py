"""The tasks of a cluster as processes of this machine; needs no TensorFlow."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import threading
import time
from typing import Callable, Dict, Iterator, List, Mapping, Optional, Sequence, TextIO, Tuple

from estimator_lib.cluster.tasks import (
    LEAST_RETRIED_STATUS,
    SERVER,
    Addresses,
    count_tasks,
    tf_config,
)
from estimator_lib.processes import child_processes

HOST = '127.0.0.1'
# Seconds from SIGTERM to SIGKILL: the workers are stopped first, then the parameter servers.
WORKERS_SECONDS = 30.0
SERVERS_SECONDS = 10.0
POLL_SECONDS = 0.1
_FIRST_PORT = 20000


def build_addresses(
    *, num_workers: int, num_ps: int, chief: bool = True, evaluator: bool = False
) -> Dict[str, List[str]]:
    """Build addresses with free ports for the tasks of a cluster.

    Args:
        num_workers: number of workers without the chief.
        num_ps: number of parameter servers.
        chief: False for a cluster whose chief is worker 0.
        evaluator: whether the cluster has an evaluator.
    """
    return assign_ports(
        count_tasks(num_workers=num_workers, num_ps=num_ps, chief=chief, evaluator=evaluator)
    )


def assign_ports(counts: Mapping[str, int]) -> Dict[str, List[str]]:
    """Build addresses with free ports for a number of tasks by role."""
    ports = iter(free_ports(sum(counts.values())))
    return {role: [f'{HOST}:{next(ports)}' for _ in range(count)] for role, count in counts.items()}


def free_ports(count: int) -> List[int]:
    """Return free ports of the loopback.

    They are outside the range from which the kernel takes ports for outgoing connections: so a task
    that is started again finds its port free.
    """
    ports: List[int] = []
    for port in _candidates():
        if len(ports) == count:
            break
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        ports.append(port)
    return ports


def _candidates() -> Iterator[int]:
    try:
        with open('/proc/sys/net/ipv4/ip_local_port_range') as file:
            end = int(file.read().split()[0])
    except OSError:
        # The default of Linux.
        end = 32768
    first = _FIRST_PORT if end > _FIRST_PORT + 1000 else 1024
    candidates = list(range(first, end))
    # Two launchers that start at once rarely choose the same ports. A seeded generator would let
    # them.
    random.SystemRandom().shuffle(candidates)
    return iter(candidates)


class Task:
    """One process of a cluster.

    Args:
        name: the name of the task, as `worker:1`.
        command: the command line of the process.
        environment: the environment of the process.
        output: called with (name, line) for each line that the process writes.

    Attributes:
        restarts: number of times that the process was started again.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        output: Callable[[str, str], None],
    ):
        self.name = name
        self.restarts = -1
        self._command = list(command)
        self._environment = dict(environment)
        self._output = output
        self._process: Optional[subprocess.Popen] = None
        self._reader: Optional[threading.Thread] = None

    @property
    def role(self) -> str:
        """The role of the task, as `worker`."""
        return self.name.partition(':')[0]

    @property
    def pid(self) -> int:
        """The id of the process, whether it has ended or not."""
        return self._process.pid

    def start(self) -> None:
        """Start the process, or start it again."""
        self.restarts += 1
        self._process = subprocess.Popen(
            self._command,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # Ctrl-C reaches the launcher alone, which passes it on in the right order.
            start_new_session=True,
            preexec_fn=child_processes.end_with_parent,
        )
        self._reader = threading.Thread(
            target=self._read, args=(self._process.stdout,), daemon=True, name=self.name
        )
        self._reader.start()

    def poll(self) -> Optional[int]:
        """Return the status as a shell gives it (137 for SIGKILL); None while the process runs."""
        status = self._process.poll()
        if status is None:
            return None
        # The last lines come before the end is told. A process that the task has left behind may
        # keep the pipe open, hence the timeout.
        self._reader.join(timeout=5.0)
        return 128 - status if status < 0 else status

    def send(self, number: int) -> None:
        """Send a signal, if the process runs."""
        if self._process.poll() is None:
            self._process.send_signal(number)

    def _read(self, stream: TextIO) -> None:
        with stream:
            for line in stream:
                self._output(self.name, line.decode('utf-8', 'replace').rstrip('\n'))


class LocalCluster:
    """The tasks of a cluster as processes of this machine.

    Args:
        addresses: the addresses of the tasks, by role.
        command: the command that every task runs.
        output: called with (name, line) for each line of a task, from several threads.
        restart: how often a task that was killed or told to end is started again, as a scheduler
            does.
        environment: the environment of the tasks; None for that of this process.
    """

    def __init__(
        self,
        addresses: Addresses,
        command: Sequence[str],
        output: Callable[[str, str], None],
        restart: int = 0,
        environment: Optional[Mapping[str, str]] = None,
    ):
        self._restart = restart
        self.ended: Dict[str, int] = {}
        self.tasks = [
            Task(
                f'{role}:{index}',
                command,
                {
                    **(os.environ if environment is None else environment),
                    'TF_CONFIG': tf_config(addresses, role, index),
                    # Output to a pipe is buffered in blocks of 8 KB, which a killed task loses.
                    'PYTHONUNBUFFERED': '1',
                },
                output,
            )
            for role in addresses
            for index in range(len(addresses[role]))
        ]
        self._output = output

    def start(self) -> None:
        """Start all tasks."""
        for task in self.tasks:
            task.start()

    def task(self, name: str) -> Task:
        """Return a task by its name."""
        return next(task for task in self.tasks if task.name == name)

    def poll(self) -> Optional[Tuple[str, int]]:
        """Look at all tasks, and restart those that a scheduler would restart.

        Returns:
            Name and status of a task that has failed for good; None while none has.
        """
        for task in self.tasks:
            if task.name in self.ended:
                continue
            status = task.poll()
            if status is None:
                continue
            if status >= LEAST_RETRIED_STATUS and task.restarts < self._restart:
                self._output(task.name, f'[ended with status {status}; started again]')
                task.start()
                continue
            self.ended[task.name] = status
            if status:
                return task.name, status
        return None

    @property
    def running(self) -> List[Task]:
        """The tasks that have not ended."""
        return [task for task in self.tasks if task.name not in self.ended]

    def stop(self) -> None:
        """End all tasks by SIGTERM, then SIGKILL after a deadline; parameter servers last."""
        # Servers last: without them the chief cannot save. Stopped together, chief and worker hung
        # and saved nothing.
        others = [task for task in self.running if task.role != SERVER]
        self._stop(others, WORKERS_SECONDS)
        self._stop(self.running, SERVERS_SECONDS)

    def _stop(self, tasks: Sequence[Task], seconds: float) -> None:
        for task in tasks:
            task.send(signal.SIGTERM)
            # A stopped process handles SIGTERM only when it continues.
            task.send(signal.SIGCONT)
        deadline = time.monotonic() + seconds
        left = self._still_running(tasks)
        while left:
            if deadline is not None and time.monotonic() >= deadline:
                deadline = None
                for task in left:
                    self._output(task.name, f'[killed: it has not ended within {seconds:g} s]')
                    task.send(signal.SIGKILL)
            time.sleep(POLL_SECONDS)
            left = self._still_running(left)

    def _still_running(self, tasks: Sequence[Task]) -> List[Task]:
        left = []
        for task in tasks:
            status = task.poll()
            if status is None:
                left.append(task)
            else:
                self.ended[task.name] = status
        return left
