"""Tasks of other packages: `model { external { task: "package.module:Class" } }`."""

from __future__ import annotations

import importlib
import inspect
import re
import traceback
import types
from typing import Type

from estimator_lib import errors
from estimator_lib.config.rules import ConfigRules, PipelineConfig, find_build_problems
from estimator_lib.task import CheckpointMapping, DataChecks, Presentation, Task

_FIELD = 'model.external.task'
_IDENTIFIER = r'[^\W\d]\w*'
_SYNTAX = re.compile(rf'({_IDENTIFIER}(?:\.{_IDENTIFIER})*):({_IDENTIFIER})')

# A task of an older release has their methods itself.
_PARTS = {
    'checks': DataChecks,
    'checkpoints': CheckpointMapping,
    'presentation': Presentation,
}

_RULES = ConfigRules(supported={'DetectionModel': frozenset({'external'})})


def load_task_class(config: PipelineConfig) -> Type[Task]:
    """Import the class that `model.external.task` names.

    Raises:
        errors.ConfigError: the name is malformed, the import fails, or the class is not a complete
            task.
    """
    text = config.model.external.task
    match = _SYNTAX.fullmatch(text)
    if match is None:
        raise errors.ConfigError(f'{_FIELD}: {text!r}; expected "package.module:Class".')
    module_name, class_name = match.groups()
    module = _import(module_name)
    if not hasattr(module, class_name):
        classes = [name for name, kind in vars(module).items() if _is_task(kind)]
        hint = errors.did_you_mean(class_name, classes)
        raise errors.ConfigError(f'{_FIELD}: {module_name} has no {class_name!r}{hint}')
    kind = getattr(module, class_name)
    if not _is_task(kind):
        raise errors.ConfigError(f'{_FIELD}: {text} is no subclass of estimator_lib.task.Task.')
    missing = sorted(kind.__abstractmethods__)
    if inspect.getattr_static(kind, 'from_config') is inspect.getattr_static(Task, 'from_config'):
        missing.append('from_config')
    if missing:
        raise errors.ConfigError(f'{_FIELD}: {text} does not define {", ".join(missing)}.')
    for part, of_part in _PARTS.items():
        names = sorted(name for name in vars(of_part) if name[0] != '_' and hasattr(kind, name))
        if names and getattr(kind, part) is getattr(Task, part):
            raise errors.ConfigError(
                f'{_FIELD}: {text} defines {", ".join(names)}, which nobody calls there; expected '
                f'in its part `{part}`, a {of_part.__name__}.'
            )
    return kind


def config_rules(config: PipelineConfig) -> ConfigRules:
    """Return the rules of a config with `model.external`.

    A field that neither the engine nor the rules of the task know is an error. Where the task
    cannot be loaded, the reason is reported as the problem.
    """
    if not config.model.external.task:
        return _RULES
    try:
        kind = load_task_class(config)
    except errors.ConfigError:
        return _RULES + ConfigRules(
            problems=(lambda config: find_build_problems(load_task_class, config),)
        )
    reason = f'neither the engine nor {config.model.external.task} reads it'
    return _RULES + (kind.config_rules(config) or ConfigRules()) + ConfigRules(unlisted=reason)


def _is_task(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, Task) and value is not Task


def _import(name: str) -> types.ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        # A module that the task itself imports may be missing too: that is the other error.
        if missing and f'{name}.'.startswith(f'{missing}.'):
            raise errors.ConfigError(
                f'{_FIELD}: there is no module {missing!r}; expected the task in a package that '
                'is installed, or in a folder of PYTHONPATH.'
            ) from None
        raise errors.ConfigError(
            f'{_FIELD}: importing {name} fails{_place(error)}: {type(error).__name__}: '
            f'{errors.first_line(error)}'
        ) from error


def _place(error: Exception) -> str:
    """Return the line of the imported code that failed; empty where none of its lines ran."""
    # The first frame is the call here; those of importlib tell a user nothing.
    frames = traceback.extract_tb(error.__traceback__)[1:]
    frames = [frame for frame in frames if 'importlib' not in frame.filename]
    return f' in {frames[-1].filename}, line {frames[-1].lineno}' if frames else ''
