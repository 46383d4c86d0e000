"""What a run says, and how: our lines to standard error, TensorFlow's only when they warn."""

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
    """Appends what the run logs to a file as well, with dates.

    Args:
        path: of the file. One that cannot be opened (on a remote file system) is not written.
    """
    handler: logging.Handler = logging.NullHandler()
    with contextlib.suppress(OSError):
        if '://' not in path:
            os.makedirs(os.path.dirname(path) or '.', exist_ok=True)
            handler = logging.FileHandler(path, encoding='utf-8')
    handler.handleError = lambda record: None  # a full disk ends the run by what it saves
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
    """Lets loggers say nothing below a level.

    Args:
        names: of the loggers.
        level: the least that they say.
    """
    loggers = [logging.getLogger(name) for name in names]
    levels = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(level)
    try:
        yield
    finally:
        for one, before in zip(loggers, levels):
            one.setLevel(before)


def silence_tensorflow() -> None:
    """Keep the log of TensorFlow's C++ off the terminal, unless the environment asks for it.

    For programs, before they import TensorFlow: ten lines of the log are about its start.
    """
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')


def configure(level: int = logging.INFO) -> None:
    """Sends the log of `estimator_lib` and `model_fns` to standard error, one plain line each.

    For programs, not libraries: the front door and the converter call it.

    Args:
        level: of our lines; at DEBUG TensorFlow's are shown too.
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
