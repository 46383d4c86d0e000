"""Processes of this project's own modules, beside the process that starts them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
from typing import Iterator, List, Sequence

from estimator_lib import errors

# Replaces the path that `python -c` has set, whose first entry is the working folder.
_SET_PATH = f'import sys; sys.path[:] = sys.argv.pop(1).split({os.pathsep!r}); '
_RUN_MODULE = (
    'name = sys.argv.pop(1); '
    # Not `python -m`, which puts the working folder in front of the path before any code runs.
    'import runpy; runpy.run_module(name, run_name="__main__", alter_sys=True)'
)
# The line that TensorFlow's C++ writes before it aborts.
_FATAL = re.compile(rb'\S+ \S+: F \S+\] (.*)')
# From linux/prctl.h: Python has no name for it.
_PR_SET_PDEATHSIG = 1
_SAFE_PATH = 'PYTHONSAFEPATH'
_REFUSED_STATUS = 3  # of a child of `try_apart` that tells a `UserError` on standard output


def command(module: str, *arguments: str) -> List[str]:
    """Return the command that runs a module, which is found where this process finds it.

    Args:
        module: the module, which is run as `__main__`.
        arguments: of the module.
    """
    return code_command(_RUN_MODULE, module, *arguments)


def code_command(code: str, *arguments: str, options: Sequence[str] = ()) -> List[str]:
    """Return the command that runs a line of Python, which finds what this process finds.

    Python by itself would also look into the working folder: a `numpy.py` that lies there, beside
    the files of a stranger, would run. An empty entry of the path means that folder, and is left
    out.

    Args:
        code: the line; `sys` is imported, and `sys.argv` has the arguments from 1 on.
        arguments: of the line.
        options: of Python.
    """
    folders = os.pathsep.join(path for path in sys.path if path)
    return [sys.executable, *options, '-c', _SET_PATH + code, folders, *arguments]


def run(module: str, *arguments: str, subject: str, seconds: float) -> None:
    """Run a module as a part of this program, in a process of its own.

    Its lines are those of this program, but for the last words of a library that ends it.

    Args:
        module: the module, whose `main` is under `programs.guard`.
        arguments: of the module.
        subject: what the module reads, for messages.
        seconds: after which it is killed.

    Raises:
        errors.UserError: it has been killed, or a library has ended it.
        SystemExit: it has ended with another status than 0.
    """
    # Lines of this process that are still in its buffer come before those of the child.
    sys.stdout.flush()
    reason = ''
    with subprocess.Popen(
        command(module, *arguments),
        stderr=subprocess.PIPE,
        # A signal reaches this process alone, which passes it on.
        start_new_session=True,
        preexec_fn=end_with_parent,
    ) as process:
        is_late = threading.Event()

        def end() -> None:
            is_late.set()
            process.kill()

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
        try:
            for line in process.stderr or ():
                match = _FATAL.match(line)
                if match:
                    reason = match[1].decode(errors='replace').strip()
                else:
                    sys.stderr.write(line.decode(errors='replace'))
                    sys.stderr.flush()
            status = process.wait()
        except BaseException:
            # On a signal too: the child has a session of its own, which Ctrl-C does not reach.
            process.terminate()
            raise
        finally:
            timer.cancel()
    if status < 0 and is_late.is_set():
        raise errors.UserError(f'{subject} takes more than {seconds:g} s.')
    if status < 0:
        name = signal.Signals(-status).name
        raise errors.UserError(
            f'{subject} is damaged: it ends the process that reads it ({reason or name}).'
        )
    if status:
        sys.exit(status)


def try_apart(module: str, *arguments: str, path: str, seconds: float) -> None:
    """Run a module that runs a model's file, in a process of its own, which the file may end.

    Args:
        module: the module, whose `main` is under `telling_refusals`.
        arguments: of the module.
        path: of the file, for messages.
        seconds: after which it is killed.

    Raises:
        errors.UserError: the file is refused, fails, takes too long, or has ended the process.
    """
    try:
        ended = subprocess.run(
            command(module, *arguments), capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise errors.UserError(f'{path} cannot be run: it takes more than {seconds:g} s.') from None
    if ended.returncode == _REFUSED_STATUS:
        raise errors.UserError(ended.stdout.decode(errors='replace').strip())
    if ended.returncode < 0:
        name = signal.Signals(-ended.returncode).name
        raise errors.UserError(
            f'{path} ends the process that runs it ({name}): it is corrupt, or memory is short.'
        )
    if ended.returncode:
        lines = ended.stderr.decode(errors='replace').strip().splitlines() or ['no reason is given']
        raise errors.UserError(f'{path} cannot be run: {lines[-1]}.')


@contextlib.contextmanager
def telling_refusals() -> Iterator[None]:
    """Tell a `UserError` of the block to `try_apart`, and end this process."""
    try:
        yield
    except errors.UserError as error:
        print(error)
        sys.exit(_REFUSED_STATUS)


@contextlib.contextmanager
def outside_working_folder() -> Iterator[None]:
    """Keep the children of other libraries from looking for modules in the working folder.

    For `multiprocessing`, which starts `python -c`. Python reads the variable from 3.11 on.
    """
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = '1'
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before


def end_with_parent() -> None:
    """Ask the kernel to end this process when its parent is killed; Linux only.

    For `preexec_fn` of `subprocess.Popen`.
    """
    if sys.platform == 'linux':
        # The kernel takes the thread that has forked for the parent. So a child must be started by
        # a thread that lives as long as it.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
