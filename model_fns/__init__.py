"""The tasks, and the factory that makes one out of a pipeline config."""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Callable, Optional

from estimator_lib import errors
from estimator_lib.config import support

if TYPE_CHECKING:
    from estimator_lib.model_fn import ModelFn
    from estimator_lib.task import Task
    from protos import pipeline_pb2

log = logging.getLogger(__name__)

# One line a task: the field of `model`, and the class that it describes. A task's module is
# imported when a config asks for it.
_TASKS = {
    'classification': ('model_fns.classification.task', 'ClassificationTask'),
    'segmentation': ('model_fns.segmentation.task', 'SegmentationTask'),
    'ssd': ('model_fns.detection.task', 'DetectionTask'),
}


def build_task(config: pipeline_pb2.TrainEvalPipelineConfig) -> Task:
    """The task that `config.model` describes.

    Raises:
        errors.ConfigError: there is no model, or none of a kind that there is a task for.
    """
    kind = config.model.WhichOneof('model')
    if kind is None:
        raise errors.ConfigError(
            f'model: empty; expected one of {", ".join(sorted(_TASKS))}: model {{ '
            'classification { ... } }.'
        )
    if kind not in _TASKS:
        raise errors.ConfigError(
            f'model.{kind}: there is no task for it; expected one of {", ".join(sorted(_TASKS))}.'
        )
    if config.HasField('graph_rewriter'):
        reason = support.refusal('TrainEvalPipelineConfig', 'graph_rewriter')
        log.warning('graph_rewriter is left out: %s.', reason)
    module, name = _TASKS[kind]
    return getattr(importlib.import_module(module), name).from_config(config)


def create_model_fn(
    config: pipeline_pb2.TrainEvalPipelineConfig,
    graph_hook_fn: Optional[Callable[[], None]] = None,
) -> ModelFn:
    """The `model_fn` of a pipeline config, for any `tf.estimator.Estimator`.

    Args:
        config: from `estimator_lib.config.load_pipeline_config`.
        graph_hook_fn: see `estimator_lib.model_fn.create_model_fn`.
    """
    # Here, so that a backbone or a converter is imported without the engine.
    from estimator_lib import model_fn

    return model_fn.create_model_fn(build_task(config), config, graph_hook_fn)
