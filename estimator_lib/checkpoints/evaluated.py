"""Results of the evaluation of a checkpoint: `metrics.json` in its folder."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Mapping

import tensorflow as tf

from estimator_lib.checkpoints import checkpoint_files

METRICS_FILE = 'metrics.json'
_STEP = 'global_step'


def write(folder: str, step: int, metrics: Mapping[str, Mapping[str, float]]) -> None:
    """Write `metrics.json`.

    Args:
        folder: where to.
        step: the global step of the checkpoint.
        metrics: by evaluation set; the first one comes first in the file too.
    """
    by_set = {name: dict(sorted(values.items())) for name, values in metrics.items()}
    checkpoint_files.write_atomically(
        os.path.join(folder, METRICS_FILE),
        json.dumps({_STEP: step, **by_set}, indent=2) + '\n',
    )


def read(checkpoint: str) -> Dict[str, Any]:
    """Return the content of `metrics.json` beside a checkpoint.

    Args:
        checkpoint: its prefix.

    Returns:
        Its JSON; empty where there is none, or where it is of another step.
    """
    path = os.path.join(os.path.dirname(checkpoint), METRICS_FILE)
    content = checkpoint_files.read_state(path)
    if content and content.get(_STEP) == checkpoint_files.step_of(checkpoint):
        return content
    return {}


def copy(checkpoint: str, folder: str) -> None:
    """Copy what `read` finds to another folder; nothing where it finds nothing."""
    if read(checkpoint):
        source = os.path.join(os.path.dirname(checkpoint), METRICS_FILE)
        tf.io.gfile.copy(source, os.path.join(folder, METRICS_FILE), overwrite=True)


def of_first_set(content: Mapping[str, Any]) -> Dict[str, float]:
    """Return the metrics of the first evaluation set, from the content of a `metrics.json`."""
    sets = [values for values in content.values() if isinstance(values, Mapping)]
    return dict(sets[0]) if sets else {}
