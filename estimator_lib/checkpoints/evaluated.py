"""Metrics of a checkpoint's evaluation: `metrics.json` in the checkpoint's folder."""

from __future__ import annotations

import json
import logging
import math
import os
from typing import Any, Dict, Mapping, Tuple

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files, state_files

log = logging.getLogger('estimator_lib')

METRICS_FILE = 'metrics.json'
_STEP = 'global_step'


def write(folder: str, step: int, metrics: Mapping[str, Mapping[str, float]]) -> None:
    """Write `metrics.json`; a damaged one is set aside.

    NaN (a metric without data) and infinity become null in the file.

    Args:
        folder: the folder of the checkpoint.
        step: the global step of the checkpoint.
        metrics: the metrics by evaluation set; the file keeps the order of the sets.
    """
    by_set = {name: dict(sorted(values.items())) for name, values in metrics.items()}
    _replace(folder, {_STEP: step, **by_set})


def read(checkpoint: str) -> Dict[str, Any]:
    """Read the `metrics.json` beside a checkpoint.

    Args:
        checkpoint: the prefix of the checkpoint.

    Returns:
        See `read_file`; also empty if the file is of another step.
    """
    content = read_file(os.path.join(os.path.dirname(checkpoint), METRICS_FILE))
    return content if content.get(_STEP) == checkpoint_files.checkpoint_step(checkpoint) else {}


def read_file(path: str) -> Dict[str, Any]:
    """Read a `metrics.json`.

    Args:
        path: the path of the file.

    Returns:
        The step, and the metrics of each set that are numbers; empty if there is no file, or a
        damaged one.
    """
    try:
        content = _read_valid(path)
    except errors.DataError as error:
        log.warning('%s It counts as empty.', error)
        return {}
    return {name: value if name == _STEP else _finite(value) for name, value in content.items()}


def copy(checkpoint: str, folder: str) -> None:
    """Copy the `metrics.json` of a checkpoint to another folder, if there is one."""
    content = read(checkpoint)
    if content:
        _replace(folder, content)


def first_set(content: Mapping[str, Any]) -> Dict[str, float]:
    """Return the metrics of the first evaluation set.

    Args:
        content: the result of `read` or `read_file`.
    """
    sets = [values for values in content.values() if isinstance(values, Mapping)]
    return dict(sets[0]) if sets else {}


def to_json(values: Mapping[str, Any]) -> str:
    """Format values as the text of a JSON file.

    JSON has no NaN and no infinity: both become null.
    """
    # `allow_nan=False` raises for a NaN that was missed: by default Python writes NaN, which is not
    # JSON.
    return json.dumps(_replace_nan(values), indent=2, allow_nan=False) + '\n'


def _replace_nan(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _replace_nan(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replace_nan(each) for each in value]
    return value


def _replace(folder: str, content: Mapping[str, Any]) -> None:
    """Write the file of a folder; set a damaged one aside."""
    path = os.path.join(folder, METRICS_FILE)
    try:
        _read_valid(path)
    except errors.DataError as error:
        if not tf.io.gfile.isdir(path):
            state_files.set_aside(path, error)
    checkpoint_files.write_atomically(path, to_json(content))


def _read_valid(path: str) -> Dict[str, Any]:
    """Read a file as it is; empty if there is none.

    Raises:
        errors.DataError: it is malformed, or has values of wrong types.
    """
    content = state_files.read_json(path) or {}
    for name, value in content.items():
        if name == _STEP:
            _require(path, name, value, (int,), 'an integer')
            continue
        _require(path, name, value, (dict,), 'metrics')
        for metric, number in value.items():
            _require(path, f'{name}/{metric}', number, (int, float, type(None)), 'a number')
    return content


def _require(path: str, name: str, value: Any, kinds: Tuple[type, ...], expected: str) -> None:
    # A bool is an int in Python: `"global_step": true` would pass.
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise errors.DataError(f'{path}: {name} is {value!r:.40}; expected {expected}.')


def _finite(metrics: Mapping[str, Any]) -> Dict[str, float]:
    """Return the metrics that are finite. Earlier versions wrote NaN, which Python reads."""
    return {
        name: value for name, value in metrics.items() if value is not None and math.isfinite(value)
    }
