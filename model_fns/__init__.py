"""The tasks, and the factory that builds one from a pipeline config.

Its import loads neither TensorFlow nor the messages of the config: the front door shows its help
without them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Callable, List, Optional, Type

from estimator_lib.data import file_examples
from estimator_lib.task_interfaces import weight_files
from model_fns.datasets.formats import reader_fields

if TYPE_CHECKING:
    from estimator_lib.config.rules import ConfigRules, PipelineConfig, Problem
    from estimator_lib.model_fn import ModelFn
    from estimator_lib.task import Task
    from protos import input_reader_pb2

# By field of `model`: the module and the class of the task. A module is imported when a config asks
# for its task.
_TASKS = {
    'classification': ('model_fns.classification.task', 'ClassificationTask'),
    'segmentation': ('model_fns.segmentation.task', 'SegmentationTask'),
    'ssd': ('model_fns.detection.task', 'DetectionTask'),
    'faster_rcnn': ('model_fns.detection.task', 'DetectionTask'),
    'center_net': ('model_fns.detection.task', 'DetectionTask'),
}
# In place of that of `classification`, where images have several labels.
_MULTI_LABEL = ('model_fns.classification.multi_label', 'MultiLabelTask')
# The field of `model` with the name of a task's class.
_EXTERNAL = 'external'


def _open_files(reader: input_reader_pb2.InputReader, index: int) -> file_examples.FileExamples:
    """Open one of the data sets of a reader, see `file_examples.OPENERS`."""
    from model_fns.datasets import readers  # imports TensorFlow

    return readers.open_files(reader, index)


for _kind in reader_fields.FORMATS:
    file_examples.OPENERS.add(_kind, _open_files)


def _find_weights(name: str, where: str) -> str:
    """Find weights of a hub, see `weight_files.FINDERS`."""
    from model_fns.backbones.hub_weights import hub

    return hub.find(name, where)


def _open_weights(path: str) -> weight_files.WeightReader:
    """Open a file of weights, see `weight_files.READERS`."""
    from model_fns.backbones.hub_weights import families, files  # imports TensorFlow
    from model_fns.detection.networks import torchvision_weights

    return files.open_weights(path, (*torchvision_weights.families(path), *families.FAMILIES))


weight_files.FINDERS['hub:'] = _find_weights
# The engine opens weights by their ending: it knows no network, and so no names in a file.
for _ending in ('.safetensors', '.pth', '.pt'):
    weight_files.READERS[_ending] = _open_weights


def task_class(config: PipelineConfig) -> Optional[Type[Task]]:
    """Return the class of the task that `config.model` describes; None where there is none.

    Raises:
        errors.ConfigError: `model.external` names no task, see `external.load_task_class`.
    """
    model = config.model.WhichOneof('model') or ''
    if model == _EXTERNAL:
        from model_fns import external  # imports the engine

        return external.load_task_class(config)
    module, name = _TASKS.get(model, ('', ''))
    # Reading a field of an unset message gives its default, and sets nothing.
    if config.model.classification.multi_label:
        module, name = _MULTI_LABEL
    return getattr(importlib.import_module(module), name) if module else None


def validate(config: PipelineConfig, mode: Optional[str] = 'train_and_evaluate') -> List[str]:
    """Check a pipeline config against the rules of the engine and of its task.

    Args:
        config: the config.
        mode: the `--mode` that the config is used for, whose parts are checked; None: all parts
            that are present, and none is required.

    Returns:
        Warnings, one sentence each.

    Raises:
        errors.ConfigError: the config has problems; the message has a line for each.
    """
    from estimator_lib import config as config_lib

    return config_lib.validate(config, mode, rules_of_task(config))


def rules_of_task(config: PipelineConfig) -> ConfigRules:
    """Return the rules of a config's fields beyond those of the engine."""
    if config.model.WhichOneof('model') == _EXTERNAL:
        from model_fns import external  # imports the engine

        return external.config_rules(config)
    kind = task_class(config)
    if kind is None:
        from estimator_lib.config.rules import ConfigRules

        return ConfigRules(problems=(_no_task,))
    return kind.config_rules(config)


def durations_in_steps(config: PipelineConfig) -> PipelineConfig:
    """Return a config with all durations in steps, as training needs it.

    Epochs need the number of training examples. It is `train_input_reader.num_examples`; else the
    examples are counted.

    Args:
        config: from `estimator_lib.config.load_pipeline_config`; it stays as it is.

    Raises:
        errors.UserError: a duration is out of range, or the number of examples is not known.
    """
    from estimator_lib.config import durations

    def count() -> int:
        from estimator_lib.data import epochs

        _write_label_maps(config)
        return epochs.count_examples(config.train_input_reader)

    return durations.resolve(config, count)


def build_task(config: PipelineConfig, mode: Optional[str] = None) -> Task:
    """Build the task that a pipeline config describes.

    Args:
        config: from `estimator_lib.config.load_pipeline_config`.
        mode: the use of the task (a `--mode` of the front door): parts of the config that it does
            not use are not checked. None: all present parts are checked, and only the model is
            required.

    Raises:
        errors.ConfigError: `validate` or the task finds a problem.
    """
    validate(config, mode)
    return make_task(config)


def make_task(config: PipelineConfig) -> Task:
    """Build the task of a config without checking the whole config.

    Label maps of readers of files are written where there are none.

    Raises:
        errors.ConfigError: the task cannot be built.
    """
    kind = task_class(config)
    if kind is None:
        validate(config, None)
    _write_label_maps(config)
    return kind.from_config(config)


def _write_label_maps(config: PipelineConfig) -> None:
    """Write missing label maps of readers of files, and register these readers."""
    from protos import reader_paths

    all_readers = (config.train_input_reader, *config.eval_input_reader)
    if any(map(reader_paths.files_kind, all_readers)):
        from model_fns.datasets import readers  # imports TensorFlow

        readers.write_label_maps(config)


def create_model_fn(
    config: PipelineConfig, graph_hook_fn: Optional[Callable[[], None]] = None
) -> ModelFn:
    """Create the `model_fn` of a pipeline config, for any `tf.estimator.Estimator`.

    Args:
        config: from `estimator_lib.config.load_pipeline_config`.
        graph_hook_fn: rewrites the forward graph, called in each graph after the losses are built
            and before the gradients.

    Raises:
        errors.ConfigError: see `build_task`.
    """
    # Imported here, so that a backbone or a converter does not import the engine.
    from estimator_lib import model_fn

    return model_fn.create_model_fn(build_task(config), config, graph_hook_fn)


def _no_task(config: PipelineConfig) -> List[Problem]:
    """Return the problem of a config without a task."""
    from estimator_lib.config.rules import Problem
    from protos import field_rules

    kind = config.model.WhichOneof('model')
    rule = field_rules.get_rule(config.model.DESCRIPTOR.fields_by_name[kind]) if kind else None
    known = f'expected one of: {", ".join(sorted([*_TASKS, _EXTERNAL]))}.'
    if rule is not None and rule.unsupported:
        return []  # Validation reports the reason.
    if kind:
        return [Problem(f'model.{kind}', f'there is no task for it; {known}')]
    held = 'is empty' if config.HasField('model') else 'is missing'
    return [Problem('model', f'{held}; {known}')]
