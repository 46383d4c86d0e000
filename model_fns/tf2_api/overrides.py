"""Values that programs of the Object Detection API pass by keyword or as `hparams`."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

from estimator_lib import config as config_lib
from estimator_lib import errors
from protos import optimizer_pb2, pipeline_pb2

Config = pipeline_pb2.TrainEvalPipelineConfig

# Keywords and the fields that they set. `*`: each element of a repeated field.
_FIELDS: Mapping[str, Tuple[str, ...]] = {
    'batch_size': ('train_config.batch_size',),
    'eval_input_path': ('eval_input_reader.*.tf_record_input_reader.input_path',),
    'eval_with_moving_averages': ('eval_config.use_moving_averages',),
    'label_map_path': ('train_input_reader.label_map_path', 'eval_input_reader.*.label_map_path'),
    'mask_type': ('train_input_reader.mask_type', 'eval_input_reader.*.mask_type'),
    'num_classes': ('model.{model}.num_classes',),
    'sample_1_of_n_eval_examples': ('eval_input_reader.*.sample_1_of_n_examples',),
    'train_input_path': ('train_input_reader.tf_record_input_reader.input_path',),
    'train_steps': ('train_config.num_steps',),
    'use_bfloat16': ('train_config.use_bfloat16',),
}
_RATE, _MOMENTUM = 'learning_rate', 'momentum_optimizer_value'
_LISTS = ('eval_input_path', 'train_input_path')
# The published sections that have another name here.
_SECTIONS = {'train_input_config': 'train_input_reader', 'eval_input_config': 'eval_input_reader.0'}

# The rate at which each schedule begins to decay.
_INITIAL_RATES = {
    'constant_learning_rate': 'learning_rate',
    'deeplab_learning_rate': 'base_learning_rate',
    'exponential_decay_learning_rate': 'initial_learning_rate',
    'manual_step_learning_rate': 'initial_learning_rate',
    'polynomial_decay_learning_rate': 'initial_learning_rate',
    'cosine_decay_learning_rate': 'learning_rate_base',
    'exponential_decay_with_warmup_learning_rate': 'learning_rate_base',
    'warmup_stable_decay_learning_rate': 'learning_rate_base',
}


def hparams_values(hparams: Any) -> Dict[str, Any]:
    """Return the values of a program's `hparams`, by name.

    Args:
        hparams: an object with a method `values`, such as `HParams`, a mapping, or None.
    """
    if hparams is None:
        return {}
    return dict(hparams if isinstance(hparams, Mapping) else hparams.values())


def apply(config: Config, values: Mapping[str, Any]) -> Config:
    """Return a config with the values that a program passes by keyword.

    Args:
        config: the config before.
        values: by the names of the published programs, such as `learning_rate`, or by dotted paths
            of fields, such as `train_config.batch_size`. None leaves a field as it is.

    Raises:
        errors.ConfigError: a name is not known, or the config has no field for it.
    """
    for name, value in values.items():
        if value is not None:
            config = config_lib.apply_settings(config, _settings(config, name, value))
    return config


def _rate_settings(config: Config, rate: Any) -> List[str]:
    """Return the settings of an initial learning rate.

    The rates of a warm-up and of manual steps keep their ratio to it: steps of 0.1, 0.01 and 0.001
    become 0.2, 0.02 and 0.002 for a rate of 0.2.
    """
    optimizer = config.train_config.optimizer
    kind = optimizer.WhichOneof('optimizer')
    schedules = getattr(optimizer, kind).learning_rate if kind else optimizer_pb2.LearningRate()
    chosen = schedules.WhichOneof('learning_rate')
    if chosen is None:
        raise errors.ConfigError(
            f'{_RATE}={rate}: train_config.optimizer has no learning rate; expected a schedule, '
            'whose initial rate this is.'
        )
    schedule, field = getattr(schedules, chosen), _INITIAL_RATES[chosen]
    scaled = {}
    if getattr(schedule, 'warmup_steps', 0):
        scaled['warmup_learning_rate'] = schedule.warmup_learning_rate
    # As the published override does: manual steps, and the warm-up of a cosine schedule, keep their
    # proportion.
    for index, step in enumerate(getattr(schedule, 'schedule', ())):
        scaled[f'schedule.{index}.learning_rate'] = step.learning_rate
    path = f'train_config.optimizer.{kind}.learning_rate.{chosen}'
    settings = [f'{path}.{field}={rate}']
    config_lib.apply_settings(config, settings)  # raises if the rate is not a number
    before = getattr(schedule, field)
    # An initial rate of 0 has no ratio to keep.
    factor = float(rate) / before if before else 1.0
    return settings + [f'{path}.{name}={value * factor}' for name, value in scaled.items()]


def _momentum_path(config: Config) -> str:
    optimizer = config.train_config.optimizer
    kind = optimizer.WhichOneof('optimizer')
    chosen = getattr(optimizer, kind) if kind else optimizer
    if _MOMENTUM not in chosen.DESCRIPTOR.fields_by_name:
        raise errors.ConfigError(
            f'{_MOMENTUM}: {kind or "train_config.optimizer"} has no momentum; expected '
            'momentum_optimizer or rms_prop_optimizer.'
        )
    return f'train_config.optimizer.{kind}.{_MOMENTUM}'


def _settings(config: Config, name: str, value: Any) -> List[str]:
    """Return the settings of fields, as `--set` takes them, of one keyword."""
    if isinstance(value, bool):
        # Text of protobuf has true and false, not True and False.
        value = str(value).lower()
    elif name in _LISTS or isinstance(value, (list, tuple)):
        entries = value if isinstance(value, (list, tuple)) else str(value).split(',')
        value = '[' + ', '.join(f'"{entry}"' for entry in entries) + ']'
    if name == _RATE:
        return _rate_settings(config, value)
    if name == _MOMENTUM:
        return [f'{_momentum_path(config)}={value}']
    if '.' in name:
        section, _, rest = name.partition('.')
        return [f'{_SECTIONS.get(section, section)}.{rest}={value}']
    if name not in _FIELDS:
        raise errors.ConfigError(
            f'{name} is not an argument of this loop'
            f'{errors.did_you_mean(name, [*_FIELDS, _RATE, _MOMENTUM])} Fields of the config are '
            'set by config_override, or by their path, such as '
            '**{"train_config.batch_size": 8}.'
        )
    settings = []
    for path in _FIELDS[name]:
        path = path.replace('{model}', config.model.WhichOneof('model') or 'ssd')
        places = range(len(config.eval_input_reader)) if '*' in path else [0]
        settings += [f'{path.replace("*", str(place))}={value}' for place in places]
    return settings
