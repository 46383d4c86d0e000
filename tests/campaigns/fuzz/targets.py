"""Table of the targets: functions that give a malformed input to what reads such inputs.

A target raises `errors.UserError` where its input is refused, and returns where it is accepted.
Whatever else happens is a fault.
"""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
import random
from typing import Callable, Dict, Sequence

from tests.campaigns.fuzz import (
    annotation_targets,
    config_targets,
    model_targets,
    record_targets,
    run_targets,
)
from tests.campaigns.fuzz.workspace import Workspace, has_onnx

Target = Callable[[random.Random], None]

_GROUPS = [config_targets, record_targets, annotation_targets, model_targets, run_targets]
if importlib.util.find_spec('vision_extras'):
    _GROUPS.append(importlib.import_module('tests.vision_extras.fuzz_targets'))


def create(folder: pathlib.Path, names: Sequence[str] = ()) -> Dict[str, Target]:
    """Return targets by name.

    Args:
        folder: an empty one, for valid and malformed inputs.
        names: of the targets; empty: all for which the packages are installed.
    """
    workspace = Workspace(folder)
    found = {name: target for one in _GROUPS for name, target in one.targets(workspace).items()}
    if not has_onnx():
        del found['onnx']
    return {name: found[name] for name in names or found}
