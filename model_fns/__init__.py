"""The tasks, and the factory that makes one out of a pipeline config."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Callable, List, Optional, Type

from estimator_lib import config as config_lib
from estimator_lib.config.rules import ConfigRules, PipelineConfig, Problem
from protos import field_rules

if TYPE_CHECKING:
    from estimator_lib.model_fn import ModelFn
    from estimator_lib.task import Task

# One line a task: the field of `model`, and the class that it describes. A task's module is
# imported when a config asks for it.
_TASKS = {
    'classification': ('model_fns.classification.task', 'ClassificationTask'),
    'segmentation': ('model_fns.segmentation.task', 'SegmentationTask'),
    'ssd': ('model_fns.detection.task', 'DetectionTask'),
    'faster_rcnn': ('model_fns.detection.task', 'DetectionTask'),
    'center_net': ('model_fns.detection.task', 'DetectionTask'),
}
# The field of `model` that names the class of a task by itself.
_EXTERNAL = 'external'


def task_class(config: PipelineConfig) -> Optional[Type[Task]]:
    """Returns the class of the task that `config.model` describes; None where there is none.

    Raises:
        errors.ConfigError: `model.external` names no task, see `external.load_task_class`.
    """
    model = config.model.WhichOneof('model') or ''
    if model == _EXTERNAL:
        from model_fns import external  # imports the engine

        return external.load_task_class(config)
    module, name = _TASKS.get(model, ('', ''))
    return getattr(importlib.import_module(module), name) if module else None


def validate(config: PipelineConfig, mode: Optional[str] = 'train_and_evaluate') -> List[str]:
    """Checks a pipeline config against the rules of the engine and of its task.

    Args:
        config: the config.
        mode: see `estimator_lib.config.validate`.

    Returns:
        Warnings, one sentence each.

    Raises:
        errors.ConfigError: with every problem, a line each.
    """
    return config_lib.validate(config, mode, rules_of_task(config))


def rules_of_task(config: PipelineConfig) -> ConfigRules:
    """Returns the rules of a config's fields beyond those of the engine."""
    if config.model.WhichOneof('model') == _EXTERNAL:
        from model_fns import external  # imports the engine

        return external.config_rules(config)
    kind = task_class(config)
    if kind is None:
        return ConfigRules(problems=(_no_task,))
    return kind.config_rules(config)


def build_task(config: PipelineConfig, mode: Optional[str] = None) -> Task:
    """The task that a pipeline config describes.

    Args:
        config: from `estimator_lib.config.load_pipeline_config`.
        mode: what the task is for (a `--mode` of the front door): the parts of the config that
            this does not use are not looked at. None: all that is there has to be right, and
            nothing but the model has to be there.

    Raises:
        errors.ConfigError: what `validate` finds, or what the task finds when it is made.
    """
    validate(config, mode)
    return make_task(config)


def make_task(config: PipelineConfig) -> Task:
    """The task of a config that `validate` has looked at, or that need not be valid as a whole.

    Raises:
        errors.ConfigError: the task cannot be made.
    """
    kind = task_class(config)
    if kind is None:
        validate(config, None)
    return kind.from_config(config)


def create_model_fn(
    config: PipelineConfig, graph_hook_fn: Optional[Callable[[], None]] = None
) -> ModelFn:
    """The `model_fn` of a pipeline config, for any `tf.estimator.Estimator`.

    Args:
        config: see `build_task`.
        graph_hook_fn: see `estimator_lib.model_fn.create_model_fn`.

    Raises:
        errors.ConfigError: see `build_task`.
    """
    # Here, so that a backbone or a converter is imported without the engine.
    from estimator_lib import model_fn

    return model_fn.create_model_fn(build_task(config), config, graph_hook_fn)


def _no_task(config: PipelineConfig) -> List[Problem]:
    """What is said of a config that no task is for."""
    kind = config.model.WhichOneof('model')
    rule = field_rules.get_rule(config.model.DESCRIPTOR.fields_by_name[kind]) if kind else None
    known = f'expected one of: {", ".join(sorted([*_TASKS, _EXTERNAL]))}.'
    if rule is not None and rule.unsupported:
        return []  # the reason is a problem already
    if kind:
        return [Problem(f'model.{kind}', f'there is no task for it; {known}')]
    held = 'is empty' if config.HasField('model') else 'is missing'
    return [Problem('model', f'{held}; {known}')]
