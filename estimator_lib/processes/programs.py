"""Guard around a program: its streams, arguments, signals, errors and exit status, in one place.

    def main(arguments=None):
        with programs.guard():
            ...

It imports no TensorFlow: the guard is there before TensorFlow's import, which takes seconds.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import sys
from typing import Iterator, Optional, TextIO

from estimator_lib import errors, texts
from estimator_lib.processes import preemption

# The status with which argparse ends a program.
USAGE_STATUS = 2
# Python ignores SIGPIPE and raises BrokenPipeError; the status is that of a program which does not.
_PIPE_STATUS = 128 + signal.SIGPIPE
# What a file system refuses, which is no fault of the program.
_REFUSED = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO),
    *(errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENAMETOOLONG),
)
# A message of TensorFlow: the scheme, and the path.
_NO_FILE_SYSTEM = re.compile(r"File system scheme '(.*?)' not implemented \(file: '(.*?)'\)")


@contextlib.contextmanager
def guard() -> Iterator[None]:
    """Run the block as the program of this process.

    - An `errors.UserError` is one sentence on standard error, and so is what a file system refuses
      (a full disk, a limit of the size of files, a path of a file system that is not there).
    - SIGTERM, SIGHUP and Ctrl-C end the program as `preemption` says, from the first moment on.
    - A reader of standard output that has ended ends the program without a line.
    - Descriptors that the caller has closed are opened to nothing. Else the next files that the
      program opens would get the lines of its log.

    Raises:
        SystemExit: the program does not end by itself. The status is 2 for bad usage, config or
            data, 143 after SIGTERM, 130 after Ctrl-C, 129 after SIGHUP, and 141 without a reader.
    """
    _open_streams()
    try:
        with preemption.preemption_guard(ends_process=True):
            try:
                _refuse_environment()
                yield
                sys.stdout.flush()
            except Exception as error:
                _end_if_told(error)
                raise
    except errors.UserError as error:
        sys.exit(complain(str(error)))
    except BrokenPipeError:
        _drop_output()
        sys.exit(_PIPE_STATUS)
    except KeyboardInterrupt:  # in a thread without the guard
        sys.exit(128 + signal.SIGINT)
    except Exception as error:
        reason = _refused_by_system(error)
        if reason is None:
            raise
        _drop_output()
        sys.exit(complain(reason))


def complain(message: str) -> int:
    """Print one error; return the exit status that goes with it."""
    with contextlib.suppress(OSError):
        print(f'error: {texts.printable(message)}', file=sys.stderr)
    return USAGE_STATUS


def _open_streams() -> None:
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
    sys.stdout = sys.stdout or _writer(1)
    sys.stderr = sys.stderr or _writer(2)
    # Names of files need not be text of the terminal.
    if sys.stdout is sys.__stdout__ and hasattr(sys.stdout, 'reconfigure'):
        sys.stdout.reconfigure(errors='backslashreplace')


def _writer(number: int) -> TextIO:
    return open(number, 'w', encoding='utf-8', errors='backslashreplace', closefd=False)


def _refuse_environment() -> None:
    """Refuse arguments that are not text, and a Python without docstrings.

    Raises:
        errors.UserError: there is such an argument, or such a Python.
    """
    for argument in sys.argv[1:]:
        if any('\ud800' <= each <= '\udfff' for each in argument):
            flag, separator, value = argument.partition('=')
            name, text = (flag, value) if separator else ('the command line', argument)
            raise errors.UserError(
                f'{name}: {os.fsencode(text)!r:.200} is not UTF-8; expected characters. (A file or '
                'folder of such a name: rename it, or make a symbolic link to it.)'
            )
    # Its decorators read and change docstrings, which are None then.
    if sys.flags.optimize > 1:
        raise errors.UserError(
            f'PYTHONOPTIMIZE={sys.flags.optimize} (-OO) removes docstrings, without which '
            'TensorFlow cannot be imported; expected at most 1.'
        )


def _end_if_told(error: Exception) -> None:
    """Raise `preemption.Preempted` after a signal: what the end has broken is no error."""
    try:
        preemption.raise_if_requested()
    except preemption.Preempted:
        if isinstance(error, errors.UserError):
            complain(str(error))
        raise


def _refused_by_system(error: Exception) -> Optional[str]:
    """Return the sentence of an error that the file system is the reason of; else None."""
    if isinstance(error, OSError) and error.errno in _REFUSED:
        place = f'{error.filename}: ' if error.filename else ''
        return f'{place}{error.strerror}.'
    match = _NO_FILE_SYSTEM.search(str(error))
    if match is not None:
        return (
            f'{match[2]}: TensorFlow has no file system {match[1]}:// here; expected a path of '
            'this machine, or an installed package that adds it, such as tensorflow-io.'
        )
    if type(error).__module__.startswith('tensorflow.'):
        text = errors.first_line(error)
        if any(os.strerror(number) in text for number in _REFUSED):
            return f'{text.rstrip(".")}.'
    return None


def _drop_output() -> None:
    """Leave out what standard output has not taken, which Python would write once more at exit."""
    if sys.stdout is not sys.__stdout__:
        return
    with contextlib.suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
        sys.stdout.flush()
