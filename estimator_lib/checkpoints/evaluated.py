"""Metrics of a checkpoint's evaluation: `metrics.json` in the checkpoint's folder."""

from __future__ import annotations

import json
import math
import os
from typing import Any, Dict, Mapping

from estimator_lib.checkpoints import checkpoint_files, state_files

METRICS_FILE = 'metrics.json'
_STEP = 'global_step'


def write(folder: str, step: int, metrics: Mapping[str, Mapping[str, float]]) -> None:
    """Write `metrics.json`.

    NaN (a metric without data) and infinity become null in the file.

    Args:
        folder: the folder of the checkpoint.
        step: the global step of the checkpoint.
        metrics: the metrics by evaluation set; the file keeps the order of the sets.
    """
    by_set = {name: dict(sorted(values.items())) for name, values in metrics.items()}
    checkpoint_files.write_atomically(
        os.path.join(folder, METRICS_FILE), to_json({_STEP: step, **by_set})
    )


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
        The step, and the metrics of each set that are numbers; empty if there is no file.
    """
    content = state_files.read_state(path)
    step = {_STEP: content[_STEP]} if isinstance(content.get(_STEP), int) else {}
    sets = {name: value for name, value in content.items() if isinstance(value, Mapping)}
    return {**step, **{name: _numbers(value) for name, value in sets.items()}}


def copy(checkpoint: str, folder: str) -> None:
    """Copy the `metrics.json` of a checkpoint to another folder, if there is one."""
    content = read(checkpoint)
    if content:
        checkpoint_files.write_atomically(os.path.join(folder, METRICS_FILE), to_json(content))


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
    return json.dumps(_replace_nan(values), indent=2, allow_nan=False) + '\n'


def _replace_nan(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _replace_nan(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replace_nan(each) for each in value]
    return value


def _numbers(metrics: Mapping[str, Any]) -> Dict[str, float]:
    """Return the metrics that are finite. Earlier versions wrote NaN, which Python reads."""
    return {
        name: value
        for name, value in metrics.items()
        if isinstance(value, (int, float)) and math.isfinite(value)
    }
