"""Modules of the package `vision_extras`, which an installation may lack."""

from __future__ import annotations

import importlib
import types

from estimator_lib import environment, errors

_PACKAGE = 'vision_extras'
# The modules that run a mode of the front door, as `run(options)`.
MODES = {
    'benchmark': 'benchmark.mode',
    'compare': 'compare.mode',
    'replay': 'replay.mode',
}


def load(module: str, subject: str) -> types.ModuleType:
    """Import a module of `vision_extras`.

    Args:
        module: its name within the package.
        subject: flag that needs it.

    Raises:
        errors.UserError: the package, or this part of it, is not installed.
    """
    name = f'{_PACKAGE}.{module}'
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # The extras are there, and one of their own imports is missing: another fault.
        if error.name is None or not f'{name}.'.startswith(f'{error.name}.'):
            raise
    raise errors.UserError(
        f'{subject}: {name} is not installed; expected the folder {_PACKAGE} of this project '
        f'beside model_fns, or: pip install {environment.PACKAGE}'
    )
