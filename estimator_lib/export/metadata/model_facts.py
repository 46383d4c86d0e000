"""Facts of a model, for the metadata of its file: a file alone is complete.

`task`, `names`, `imgsz`, `stride`, `batch` and `channels` are the keys that the loaders of
Ultralytics read (their public exports show them); `resize`, `pixel_range` and `threshold` are
ours. The same facts are in `export.json`.
"""

from __future__ import annotations

import json
from typing import Any, Dict, Mapping, Optional

from estimator_lib import environment
from estimator_lib.checkpoints import evaluated
from estimator_lib.export.writers import Source
from estimator_lib.task_interfaces.deployable import Deployable

_STRIDE = 32  # of the deepest features; the sides of many inputs are multiples of it
_PIXEL_RANGE = [0, 255]


def describe(source: Source, deployable: Deployable, batch: Optional[int]) -> Dict[str, Any]:
    """Return the facts of a model.

    Args:
        source: the model.
        deployable: its network.
        batch: number of images of the input; None: any.
    """
    height, width, channels = deployable.input_shape
    sides = [] if height is None or width is None else [height, width]
    is_even = sides and all(side % _STRIDE == 0 for side in sides)
    return {
        'task': deployable.kind or source.task.name,
        'names': dict(enumerate(source.task.presentation.class_names)),
        **({'imgsz': sides} if sides else {}),
        'stride': _STRIDE if is_even else 1,
        'batch': batch or 1,
        'channels': channels,
        **({'resize': str(deployable.resize)} if deployable.resize is not None else {}),
        'pixel_range': _PIXEL_RANGE,
        **describe_origin(source),
    }


def describe_origin(source: Source) -> Dict[str, Any]:
    """Return the facts of a model of any format: `threshold`, `version`, `license`, if known."""
    metrics = evaluated.first_set(evaluated.read(source.checkpoint))
    threshold = source.task.presentation.least_score(metrics)
    license_name = source.config.export_config.license
    return {
        **({} if threshold is None else {'threshold': round(threshold, 6)}),
        'version': environment.package_version(),
        **({'license': license_name} if license_name else {}),
    }


def as_texts(facts: Mapping[str, Any]) -> Dict[str, str]:
    """Return facts as texts, as the metadata of ONNX have them: literals of Python."""
    return {key: value if isinstance(value, str) else repr(value) for key, value in facts.items()}


def as_json(facts: Mapping[str, Any]) -> str:
    """Return facts as JSON, as the archive in a TFLite file has them."""
    return json.dumps(facts, ensure_ascii=False, indent=1)
