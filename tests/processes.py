"""Processes of tests that are forked from one that has imported TensorFlow.

Python and TensorFlow take 2 s of processor time before a program begins. `ForkedPopen` replaces
`subprocess.Popen` and avoids them. A server has imported the modules of this project's programs,
and has neither a session nor a thread. It forks the process, which the caller adopts as its child.
Programs for which a fork is not equivalent are started as usual. Linux only.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import importlib
import inspect
import io
import os
import pathlib
import pickle
import runpy
import socket
import subprocess
import sys
import threading
import time
import types
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Variables that Python and libraries may read while they start. Where one has another value than
# in the server, a process has a start of its own.
_READ_AT_START = (
    *('CUDA_', 'DNNL_', 'GRPC_', 'KMP_', 'LD_', 'MALLOC_', 'MKL_', 'OMP_', 'ONEDNN_'),
    *('OPENBLAS_', 'PYTHON', 'TF_', 'XLA_'),
)
# These are read when a session begins, or looked at by `_take_over`; the level of the log changes
# no result, and in a process that imports tf2onnx it is changed.
_READ_LATER = (
    *('PYTHONPATH', 'PYTHONUNBUFFERED'),
    *('TF_CONFIG', 'TF_CPP_MIN_LOG_LEVEL', 'TF_NUM_INTRAOP_THREADS'),
)
# Options of `Popen` that the server does not know.
_UNKNOWN = ('executable', 'shell', 'pass_fds', 'startupinfo', 'gid', 'gids', 'uid')
_IMPORTED = (
    'model_fns.cli.front_door',
    'model_fns.classification.task',
    'model_fns.detection.task',
    'model_fns.segmentation.task',
)
# Thresholds of garbage collection: the many objects of a graph live as long as the graph.
COLLECTED_SELDOM = (100_000, 5, 5)
_PR_SET_CHILD_SUBREAPER = 36


class Program(NamedTuple):
    """Program of a process, with its folder and variables.

    Attributes:
        kind: `-c`, `-m`, or '' for a script.
        what: the code, the module, or the path of the script.
        arguments: what follows.
        environment: all variables.
        folder: where it runs.
        umask: of the files that it makes; -1: the server's.
        new_session: whether it leads a session of its own.
        prepare: a pickled function that is called before the program; None for none.
    """

    kind: str
    what: str
    arguments: List[str]
    environment: Dict[str, str]
    folder: str
    umask: int
    new_session: bool
    prepare: Optional[bytes]


class Server:
    """A process that forks others.

    Attributes:
        usable: whether the system can do it, and the server has no thread but one.
    """

    def __init__(self):
        self._environment = dict(os.environ)
        self._lock = threading.Lock()
        self.usable = sys.platform == 'linux' and _adopt_orphans(False)
        if self.usable:
            self._begin()

    def _begin(self) -> None:
        """Start the process, and wait until it has imported everything."""
        self._connection, other = socket.socketpair()
        code = f'from tests import processes; processes.serve({other.fileno()})'
        # A pool of threads would be there from NumPy's import on.
        environment = {**os.environ, 'OPENBLAS_NUM_THREADS': '1'}
        self._process = subprocess.Popen(
            [sys.executable, '-c', code],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            pass_fds=[other.fileno()],
        )
        other.close()
        if self._connection.recv(1) != b'1':
            self.close()
            self.usable = False

    def close(self) -> None:
        """End the server; forked processes keep running."""
        if self.usable:
            self._connection.close()
            self._process.wait()

    def knows(self, environment: Dict[str, str]) -> bool:
        """Return True if it forks processes and was started with equivalent variables."""

        def relevant(variables: Dict[str, str]) -> Dict[str, str]:
            return {
                name: value
                for name, value in variables.items()
                if name.startswith(_READ_AT_START) and name not in _READ_LATER
            }

        return self.usable and relevant(environment) == relevant(self._environment)

    def start(self, program: Program, files: Sequence[int]) -> int:
        """Start a process as a child of this one, and return its identifier.

        Args:
            program: what it runs.
            files: descriptors of its input, output and errors.
        """
        message = pickle.dumps(program)
        with self._lock:
            _adopt_orphans(True)
            try:
                header = len(message).to_bytes(8, 'little')
                socket.send_fds(self._connection, [header], files)
                self._connection.sendall(message)
                pid = int.from_bytes(_receive(self._connection, 8), 'little')
                _receive(self._connection, 1)  # its parent has ended
            finally:
                _adopt_orphans(False)
        return pid


def make_popen(server: Server) -> type:
    """A `subprocess.Popen` whose processes a server forks where it can."""

    class ForkedPopen(subprocess.Popen):
        def _execute_child(self, *args: Any, **options: Any) -> None:
            started = _SIGNATURE.bind(self, *args, **options).arguments
            program = _find_program(started)
            if program is None or not server.knows(program.environment):
                super()._execute_child(*args, **options)
                return
            names = ('p2cread', 'c2pwrite', 'errwrite')
            files = [number if started[n] == -1 else started[n] for number, n in enumerate(names)]
            try:
                self.pid = server.start(program, files)
                self._child_created = True
            finally:
                self._close_pipe_fds(*(started[name] for name in _PIPES))

    return ForkedPopen


_SIGNATURE = inspect.signature(subprocess.Popen._execute_child)
_PIPES = ('p2cread', 'p2cwrite', 'c2pread', 'c2pwrite', 'errread', 'errwrite')


def _find_program(started: Dict[str, Any]) -> Optional[Program]:
    """Return the program of `Popen._execute_child` arguments; None if no server can fork it."""
    command, folder = started['args'], os.fspath(started['cwd'] or os.getcwd())
    if isinstance(command, (str, bytes, os.PathLike)) or not os.path.isdir(folder):
        return None
    command = [os.fsdecode(one) for one in command]
    kind = command[1] if command[1:] and command[1] in ('-c', '-m') else ''
    what = command[2 if kind else 1 :]
    # A group of its own: -1 and None (Python 3.9 and 3.10) are for none.
    unknown = [*(started.get(name) for name in _UNKNOWN), started.get('process_group', -1) != -1]
    if command[0] != sys.executable or not what or any(unknown):
        return None
    if not kind and not os.path.isfile(os.path.join(folder, what[0])):
        return None
    environment = os.environ if started['env'] is None else started['env']
    prepare = started['preexec_fn']
    try:
        prepare = None if prepare is None else pickle.dumps(prepare)
    except (AttributeError, pickle.PicklingError):
        return None
    return Program(
        kind=kind,
        what=what[0],
        arguments=what[1:],
        environment={os.fsdecode(k): os.fsdecode(v) for k, v in environment.items()},
        folder=folder,
        umask=started.get('umask', -1),
        new_session=started['start_new_session'],
        prepare=prepare,
    )


def serve(handle: int) -> None:
    """Fork processes until the other side closes the connection.

    It returns in a process that has been forked, when its program has ended.

    Args:
        handle: descriptor of the connection.
    """
    connection = socket.socket(fileno=handle)
    paths = list(sys.path)
    for name in _IMPORTED:
        importlib.import_module(name)
    # `pkg_resources`, which TensorFlow 2.15 imports, adds the folder of an editable installation.
    sys.path[:] = paths
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTED_SELDOM)
    connection.sendall(b'1' if len(os.listdir('/proc/self/task')) == 1 else b'0')
    while True:
        program, files = _next_program(connection)
        parent = os.fork()
        if parent == 0:
            parent, child = os.getpid(), os.fork()
            if child == 0:
                connection.close()
                _take_over(program, files, parent)
                _run(program)
                return
            connection.sendall(child.to_bytes(8, 'little'))
            os._exit(0)
        os.waitpid(parent, 0)
        for file in files:
            os.close(file)
        connection.sendall(b'.')


def _next_program(connection: socket.socket) -> Tuple[Program, List[int]]:
    """Return the next program to fork; end the process when the connection is closed."""
    header, files, _, _ = socket.recv_fds(connection, 8, 3)
    if not header:
        os._exit(0)
    length = int.from_bytes(header, 'little')
    return pickle.loads(_receive(connection, length)), files


def _receive(connection: socket.socket, length: int) -> bytes:
    """Receive that many bytes."""
    content = b''
    while len(content) < length:
        part = connection.recv(length - len(content))
        if not part:
            raise ConnectionError('the server of forked processes has ended')
        content += part
    return content


def _take_over(program: Program, files: Sequence[int], parent: int) -> None:
    """Make a forked process like one that has just started.

    Args:
        program: what will run.
        files: descriptors of its input, output and errors.
        parent: the process that it waits to lose.
    """
    while os.getppid() == parent:
        time.sleep(0.0002)
    others = _added_paths(os.environ)
    for number, file in enumerate(files):
        os.dup2(file, number)
    for file in files:
        os.close(file)
    os.chdir(program.folder)
    own = _added_paths(program.environment)
    sys.path[1:] = [*own, *(one for one in sys.path[1:] if one not in (*others, *own))]
    os.environ.clear()
    os.environ.update(program.environment)
    if program.umask >= 0:
        os.umask(program.umask)
    if program.new_session:
        os.setsid()
    sys.stdout = sys.__stdout__ = _open_output()
    if program.prepare is not None:
        pickle.loads(program.prepare)()
    np.random.seed()  # Python's own has been seeded by the fork
    # A file of events is named by the second of its creation. Forked processes may follow each
    # other within a second, and would overwrite the file; processes that import TensorFlow cannot.
    writer = sys.modules['tensorflow'].compat.v1.summary.FileWriter
    writer.__init__ = functools.partialmethod(writer.__init__, filename_suffix=f'.{os.getpid()}')


def _added_paths(environment: Mapping[str, str]) -> List[str]:
    """Return the folders that PYTHONPATH adds to those where Python looks for modules.

    What the server has imported is not looked for again.
    """
    value = environment.get('PYTHONPATH', '')
    folders = map(os.path.abspath, value.split(os.pathsep) if value else ())
    return list(dict.fromkeys(folders))


def _open_output() -> io.TextIOWrapper:
    """Open the standard output as Python does."""
    unbuffered = bool(os.environ.get('PYTHONUNBUFFERED'))
    return io.TextIOWrapper(
        open(1, 'wb', buffering=0 if unbuffered else -1, closefd=False),
        encoding=sys.__stdout__.encoding,
        errors=sys.__stdout__.errors,
        line_buffering=os.isatty(1),
        write_through=unbuffered,
    )


def _run(program: Program) -> None:
    """Run a program as `__main__`."""
    if program.kind == '-m':
        sys.path[0] = os.getcwd()
        sys.argv = ['-m', *program.arguments]
        runpy.run_module(program.what, run_name='__main__', alter_sys=True)
    elif program.kind == '-c':
        sys.path[0] = ''
        sys.argv = ['-c', *program.arguments]
        main = types.ModuleType('__main__')
        sys.modules['__main__'] = main
        exec(program.what, main.__dict__)
    else:
        sys.path[0] = os.path.dirname(os.path.realpath(program.what))
        sys.argv = [program.what, *program.arguments]
        runpy.run_path(program.what, run_name='__main__')


def _adopt_orphans(adopts: bool) -> bool:
    """Set whether this process adopts orphaned descendants; return False if it cannot."""
    return ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(adopts), 0, 0, 0) == 0
