"""Logging of a run: our lines go to standard error, TensorFlow's only if they are errors."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import warnings
from typing import Iterator, Sequence

_LOGGERS = ('estimator_lib', 'model_fns')


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
    handler.setFormatter(logging.Formatter('%(asctime)s %(levelname)s %(message)s'))
    for name in _LOGGERS:
        logging.getLogger(name).addHandler(handler)
    try:
        yield
    finally:
        for name in _LOGGERS:
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
    """Keep the log of TensorFlow's C++ off the terminal, unless the environment asks for it.

    For programs, before they import TensorFlow: ten lines of the log are about its start.
    """
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')


def configure(level: int = logging.INFO) -> None:
    """Send the log of `estimator_lib` and `model_fns` to standard error, one plain line each.

    Programs call it, such as the front door and the converter; libraries do not.

    Args:
        level: level of our lines; at DEBUG TensorFlow's lines are shown too.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter('%(asctime)s %(message)s', '%H:%M:%S'))
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.propagate = False
        logger.handlers = [handler]
    quiet = level > logging.DEBUG
    logging.getLogger('tensorflow').setLevel(logging.ERROR if quiet else level)
    warnings.filterwarnings('ignore', category=FutureWarning, module='tensorflow')
    warnings.filterwarnings('ignore', category=DeprecationWarning)
