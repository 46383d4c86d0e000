"""Starts a whole cluster of the front door as processes of this machine.

    python -m estimator_lib.launch_local --num_workers=2 --num_ps=1 --evaluator -- --model_dir=DIR

What comes behind `--` is the command line of every task. Each line that a task writes is shown with
the task's name in front; of progress lines only the chief's.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import queue
import random
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Callable, Dict, Iterator, List, Mapping, Optional, Sequence, TextIO, Tuple

Addresses = Mapping[str, Sequence[str]]

HOST = '127.0.0.1'
# How long tasks may take to end after SIGTERM, before SIGKILL: the trainers first, the parameter
# servers when these have ended.
TRAINERS_SECONDS = 30.0
SERVERS_SECONDS = 10.0
_POLL_SECONDS = 0.1
_PROGRESS = re.compile(r'(^|\s)step \d+(/\d+)?\s')
_SERVER_ROLE = 'ps'
_LEAST_RETRIED_STATUS = 128
_FIRST_PORT = 20000
_PR_SET_PDEATHSIG = 1


def build_addresses(
    *, num_workers: int, num_ps: int, chief: bool = True, evaluator: bool = False
) -> Dict[str, List[str]]:
    """Addresses with free ports for the tasks of a cluster.

    Args:
        num_workers: beside the chief.
        num_ps: parameter servers.
        chief: False for a cluster of nothing but workers.
        evaluator: whether there is one.
    """
    counts = {
        'chief': int(chief),
        'worker': num_workers,
        _SERVER_ROLE: num_ps,
        'evaluator': int(evaluator),
    }
    ports = iter(free_ports(sum(counts.values())))
    return {
        role: [f'{HOST}:{next(ports)}' for _ in range(count)]
        for role, count in counts.items()
        if count
    }


def free_ports(count: int) -> List[int]:
    """Ports of the loopback that nobody listens at.

    They are outside of the range from which the kernel takes the ports of outgoing connections: a
    task that is started again finds its port free.
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
        end = 32768
    first = _FIRST_PORT if end > _FIRST_PORT + 1000 else 1024
    candidates = list(range(first, end))
    random.SystemRandom().shuffle(candidates)
    return iter(candidates)


class Task:
    """One process of a cluster.

    Args:
        name: `worker:1`.
        command: how it is started.
        environment: of the process.
        output: gets (name, line) for each line that it writes; None in place of the line at the
            end of its output.

    Attributes:
        restarts: how often it was started again.
        status: of the process when it has ended: negative for a signal.
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
        """`worker`."""
        return self.name.partition(':')[0]

    @property
    def pid(self) -> int:
        """Of the process, ended or not."""
        return self._process.pid

    def start(self) -> None:
        """Starts it, or starts it again."""
        self.restarts += 1
        self._process = subprocess.Popen(
            self._command,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # Ctrl-C reaches the launcher alone, which passes it on in the right order.
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        self._reader = threading.Thread(
            target=self._read, args=(self._process.stdout,), daemon=True, name=self.name
        )
        self._reader.start()

    def poll(self) -> Optional[int]:
        """The status of the process as a shell gives it (137 for SIGKILL); None while it runs."""
        status = self._process.poll()
        if status is None:
            return None
        self._reader.join(timeout=5.0)
        return 128 - status if status < 0 else status

    def send(self, number: int) -> None:
        """Sends a signal, if the process runs."""
        if self._process.poll() is None:
            self._process.send_signal(number)

    def _read(self, stream: TextIO) -> None:
        with stream:
            for line in stream:
                self._output(self.name, line.decode('utf-8', 'replace').rstrip('\n'))


class LocalCluster:
    """The tasks of a cluster as processes of this machine.

    Args:
        addresses: of the tasks, by role.
        command: that every task runs.
        output: see `Task`; called from threads.
        restart: how often a task that was killed or told to end is started again, as a scheduler
            would.
        environment: in place of this process's own.
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
                    'PYTHONUNBUFFERED': '1',
                },
                output,
            )
            for role in addresses
            for index in range(len(addresses[role]))
        ]
        self._output = output

    def start(self) -> None:
        """Starts all tasks."""
        for task in self.tasks:
            task.start()

    def task(self, name: str) -> Task:
        """A task by its name."""
        return next(task for task in self.tasks if task.name == name)

    def poll(self) -> Optional[Tuple[str, int]]:
        """Looks at all tasks, and starts those again that are to be.

        Returns:
            Name and status of a task that has failed for good; None while none has.
        """
        for task in self.tasks:
            if task.name in self.ended:
                continue
            status = task.poll()
            if status is None:
                continue
            if status >= _LEAST_RETRIED_STATUS and task.restarts < self._restart:
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
        """Ends all tasks: SIGTERM, SIGKILL after a deadline; parameter servers last."""
        others = [task for task in self.running if task.role != _SERVER_ROLE]
        self._stop(others, TRAINERS_SECONDS)
        self._stop(self.running, SERVERS_SECONDS)

    def _stop(self, tasks: Sequence[Task], seconds: float) -> None:
        for task in tasks:
            task.send(signal.SIGTERM)
            task.send(signal.SIGCONT)
        deadline = time.monotonic() + seconds
        left = list(tasks)
        while left and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            left = self._still_running(left)
        for task in left:
            self._output(task.name, f'[killed: it has not ended within {seconds:g} s]')
            task.send(signal.SIGKILL)
        while left:
            time.sleep(_POLL_SECONDS)
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


def tf_config(addresses: Addresses, role: str, index: int) -> str:
    """`TF_CONFIG` of one task."""
    cluster = {name: list(tasks) for name, tasks in addresses.items()}
    return json.dumps({'cluster': cluster, 'task': {'type': role, 'index': index}})


def _end_with_parent() -> None:
    """In the child: told to end when the launcher is killed; Linux only."""
    if sys.platform == 'linux':
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Console:
    """Shows the lines of all tasks, and the chief's progress.

    Args:
        chief: its name.
        stream: to write to; on a terminal, progress is one line that changes.
    """

    def __init__(self, chief: str, width: int, stream: TextIO):
        self._chief = chief
        self._width = width
        self._stream = stream
        self._in_place = stream.isatty()
        self._status = ''
        self._lines: queue.SimpleQueue = queue.SimpleQueue()

    def put(self, name: str, line: str) -> None:
        """Takes a line; from any thread."""
        self._lines.put((name, line))

    def show(self) -> None:
        """Writes what has come."""
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
        """Writes the rest, and leaves the terminal in order."""
        self.show()
        if self._status:
            self._stream.write('\n')
            self._status = ''

    def _draw(self, text: str) -> None:
        self._status = text[: os.get_terminal_size(self._stream.fileno()).columns - 1]
        self._stream.write(f'\r\x1b[K{self._status}')

    def _above(self, text: str) -> None:
        if self._in_place and self._status:
            self._stream.write(f'\r\x1b[K{text}\n{self._status}')
        else:
            self._stream.write(f'{text}\n')


def run(
    addresses: Addresses, command: Sequence[str], *, restart: int = 0, stream: TextIO = sys.stderr
) -> int:
    """Runs a cluster until all its tasks have ended, or one has failed.

    Args:
        addresses: of the tasks, by role.
        command: that every task runs.
        restart: see `LocalCluster`.
        stream: where the lines of the tasks go.

    Returns:
        The exit status: 0 when all tasks have ended with 0; that of the task that failed; 143 or
        130 after SIGTERM or Ctrl-C.
    """
    names = [f'{role}:{index}' for role in addresses for index in range(len(addresses[role]))]
    chief = next((name for name in names if name.startswith(('chief', 'master'))), 'worker:0')
    console = Console(chief, max(map(len, names)), stream)
    cluster = LocalCluster(addresses, command, console.put, restart)
    told = _Told()
    console.put('launcher', f'{", ".join(names)}: {shlex.join(command)}')
    cluster.start()
    failed: Optional[Tuple[str, int]] = None
    try:
        while cluster.running and failed is None and told.number is None:
            failed = cluster.poll()
            console.show()
            time.sleep(_POLL_SECONDS)
    finally:
        if failed is not None:
            console.put('launcher', f'{failed[0]} has ended with status {failed[1]}: all end')
        elif told.number is not None:
            console.put('launcher', f'{signal.Signals(told.number).name}: all end')
        stopper = threading.Thread(target=cluster.stop)
        stopper.start()
        while stopper.is_alive():
            console.show()
            stopper.join(_POLL_SECONDS)
        console.close()
        told.restore()
    if failed is not None:
        return failed[1]
    return 0 if told.number is None else 128 + told.number


class _Told:
    """Notes SIGTERM and Ctrl-C."""

    def __init__(self):
        self.number: Optional[int] = None
        self._old = {
            number: signal.signal(number, self._note) for number in (signal.SIGTERM, signal.SIGINT)
        }

    def _note(self, number: int, frame: object) -> None:
        del frame
        self.number = number

    def restore(self) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)


def create_parser() -> argparse.ArgumentParser:
    """The launcher's own command line."""
    parser = argparse.ArgumentParser(
        prog='python -m estimator_lib.launch_local',
        description='Starts a whole cluster of the front door as processes of this machine.',
        epilog='Behind -- comes the command line of every task: -- --model_dir=DIR ...',
    )
    parser.add_argument('--num_workers', type=_count, default=1, help='beside the chief (1)')
    parser.add_argument('--num_ps', type=_count, default=0, help='parameter servers (0)')
    parser.add_argument(
        '--chief',
        action=argparse.BooleanOptionalAction,
        default=True,
        help='with --no-chief, worker 0 is the chief (all-reduce only)',
    )
    parser.add_argument('--evaluator', action='store_true', help='a task that evaluates')
    parser.add_argument(
        '--restart',
        type=_count,
        default=0,
        metavar='N',
        help='start a task again up to N times that was killed or told to end, as a scheduler '
        'would (0)',
    )
    return parser


def _count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f'{text!r} is not a number of 0 or more')
    return int(text)


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs, and exits with the status of `run`; 2 for a command line that makes no cluster."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    own, rest = arguments, []
    if '--' in arguments:
        place = arguments.index('--')
        own, rest = arguments[:place], arguments[place + 1 :]
    parser = create_parser()
    values = parser.parse_args(own)
    if values.num_ps and not values.chief:
        parser.error('parameter servers need a chief; expected --num_ps=0 with --no-chief.')
    if not values.chief and not values.num_workers:
        parser.error('no chief and no workers: nobody trains.')
    if not rest:
        parser.error('expected the command line of the tasks behind --, at least --model_dir=DIR.')
    addresses = build_addresses(
        num_workers=values.num_workers,
        num_ps=values.num_ps,
        chief=values.chief,
        evaluator=values.evaluator,
    )
    command = [sys.executable, '-m', 'run_train_eval', *rest]
    sys.exit(run(addresses, command, restart=values.restart))


if __name__ == '__main__':
    main()
