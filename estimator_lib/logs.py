"""Logging of a run: our lines go to standard error, TensorFlow's only if they are errors."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import warnings
from typing import Iterator, Sequence

from estimator_lib import texts
from estimator_lib.processes import preemption

LOGGERS = ('estimator_lib', 'model_fns')  # of this project


class _Formatter(logging.Formatter):
    """Formatter of lines whose names of files and classes a terminal does not obey."""

    def format(self, record: logging.LogRecord) -> str:
        return texts.printable(super().format(record))


@contextlib.contextmanager
def also_in_file(path: str) -> Iterator[None]:
    """Append the log of the block to a file too, with dates.

    Args:
        path: path of the file. A file that cannot be opened, or is remote, is not written.
    """
    handler: logging.Handler = logging.NullHandler()
    with contextlib.suppress(OSError):
        if '://' not in path:
            os.makedirs(os.path.dirname(path) or '.', exist_ok=True)
            handler = logging.FileHandler(path, encoding='utf-8')
    handler.handleError = lambda record: None  # on a full disk the error of saving ends the run
    handler.setFormatter(_Formatter('%(asctime)s %(levelname)s %(message)s'))
    for name in LOGGERS:
        logging.getLogger(name).addHandler(handler)
    try:
        yield
    finally:
        for name in LOGGERS:
            logging.getLogger(name).removeHandler(handler)
        handler.close()


@contextlib.contextmanager
def silenced(names: Sequence[str], level: int) -> Iterator[None]:
    """Raise the level of loggers in the block.

    Args:
        names: the names of the loggers.
        level: the lowest level that they log.
    """
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(level)
    try:
        yield
    finally:
        for logger, before in zip(loggers, levels):
            logger.setLevel(before)


def silence_tensorflow() -> None:
    """Import TensorFlow, and keep the log of its C++ off the terminal.

    For programs, before they use TensorFlow: ten lines of the log are about its start. The
    variable TF_CPP_MIN_LOG_LEVEL of the environment counts if it is set; 0 shows all lines.
    """
    # At 3 only fatal errors are written; others reach Python as exceptions.
    level = os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
    if level != '0' and 'tensorflow' not in sys.modules:
        with _drop_start_lines():
            import tensorflow  # noqa: F401
    # An import may swallow what a signal raises.
    preemption.raise_if_requested()


@contextlib.contextmanager
def _drop_start_lines() -> Iterator[None]:
    """Drop the lines that TensorFlow 2.16 and later write at import whatever the level is.

    Another process drops them, so that the reason for an import that aborts is still seen.
    """
    command = ['grep', '-v', '-E', '^(I[0-9]{4} |WARNING: All log messages before absl)']
    try:
        reader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=2)
    except OSError:  # no grep, or no standard error
        yield
        return
    # The descriptor, not `sys.stderr`: the lines come from C++.
    standard_error = os.dup(2)
    with reader:
        assert reader.stdin is not None
        os.dup2(reader.stdin.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(standard_error, 2)
            os.close(standard_error)


def configure(level: int = logging.INFO) -> None:
    """Send the log of `estimator_lib` and `model_fns` to standard error, one plain line each.

    Programs call it, such as the front door and the converter; libraries do not.

    Args:
        level: level of our lines; at DEBUG TensorFlow's lines are shown too.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter('%(asctime)s %(message)s', '%H:%M:%S'))
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.propagate = False
        logger.handlers = [handler]
    quiet = level > logging.DEBUG
    logging.getLogger('tensorflow').setLevel(logging.ERROR if quiet else level)
    warnings.filterwarnings('ignore', category=FutureWarning, module='tensorflow')
    warnings.filterwarnings('ignore', category=DeprecationWarning)
