"""State files of a run, as JSON: read although they are damaged, and set aside."""

from __future__ import annotations

import itertools
import json
import logging
import math
import os
from typing import Any, Dict, Optional

import tensorflow as tf

from estimator_lib import errors

log = logging.getLogger('estimator_lib')

_MOST_DIGITS = 20  # of an integer of 64 bits, with its sign


def read_json(path: str) -> Optional[Dict[str, Any]]:
    """Read the object in a JSON file; None if the file does not exist.

    Raises:
        errors.DataError: the file is unreadable, malformed, or holds no object.
    """
    try:
        with tf.io.gfile.GFile(path, 'rb') as file:
            content = json.loads(file.read(), parse_int=_integer, parse_float=_float)
    except tf.errors.NotFoundError:
        return None
    except (tf.errors.FailedPreconditionError, tf.errors.PermissionDeniedError) as error:
        reason = 'it is a folder' if tf.io.gfile.isdir(path) else errors.first_line(error)
        raise errors.DataError(f'{path} cannot be read: {reason}.') from None
    # A file of 100,000 opening brackets exceeds Python's depth of calls in the parser.
    except (ValueError, RecursionError) as error:
        raise errors.DataError(f'{path} is not JSON: {errors.first_line(error)}') from None
    if not isinstance(content, dict):
        raise errors.DataError(f'{path} has a JSON {type(content).__name__}; expected an object.')
    return content


def _integer(text: str) -> int:
    """Parse an integer of 64 bits: a longer one of a damaged file would take minutes."""
    if len(text) > _MOST_DIGITS:
        raise ValueError(f'it has an integer of {len(text)} characters.')
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    # JSON has no infinity, but `1e999` is read as one.
    if math.isinf(value):
        raise ValueError(f'the number {text:.20} is too large.')
    return value


def set_aside(path: str, reason: object) -> str:
    """Rename a damaged file, so that a new one can begin, and log a warning.

    Args:
        path: of the file, such as `results.csv`.
        reason: a sentence about it.

    Returns:
        The new path: `results.1.csv`, or the next free number.
    """
    copy = free_name(path)
    tf.io.gfile.rename(path, copy)
    log.warning('%s The file is %s now, and a new one begins.', reason, copy)
    return copy


def free_name(path: str) -> str:
    """Return the next free name for an old file: `results.1.csv` of `results.csv`."""
    start, end = os.path.splitext(path)
    # The ending stays, so that programs still know the kind of the file.
    names = (f'{start}.{number}{end}' for number in itertools.count(1))
    return next(name for name in names if not tf.io.gfile.exists(name))


def read_state(path: str) -> Dict[str, Any]:
    """Read a state file; the result is empty if the file is missing or corrupt."""
    try:
        return read_json(path) or {}
    except errors.DataError as error:
        log.warning('%s It counts as empty.', error)
        return {}
