"""What is wrong with a config that parses: fields not honoured, bad values, contradictions.

Every check yields `Problem`s instead of raising, so that a user sees all of them at once.
"""

from __future__ import annotations

import logging
import math
import re
from typing import Any, Callable, Iterator, List, Mapping, Sequence

from estimator_lib import errors
from estimator_lib.config import detection_checks, schedule_checks, schema, support, support_tables
from estimator_lib.config.ranges import RANGES
from estimator_lib.config.reader_checks import check_agreement, check_batch_counts, check_reader
from estimator_lib.config.required import check_parts
from estimator_lib.config.support import Problem
from protos import backbone_pb2, pipeline_pb2, train_pb2

log = logging.getLogger('estimator_lib')

PipelineConfig = pipeline_pb2.TrainEvalPipelineConfig

# The parts of a config that each mode of the front door uses.
_MODEL = ('model', 'graph_rewriter')
_TRAINING = ('train_config', 'train_input_reader')
_EVALUATION = ('eval_config', 'eval_input_reader')
SECTIONS: Mapping[str, Sequence[str]] = {
    'train_and_evaluate': (*_MODEL, *_TRAINING, *_EVALUATION, 'export_config'),
    'train': (*_MODEL, *_TRAINING, 'export_config'),
    'evaluate': (*_MODEL, *_EVALUATION),
    'export': (*_MODEL, 'export_config'),
    'predict': (*_MODEL, 'export_config'),
    'check': (*_MODEL, *_TRAINING, *_EVALUATION, 'export_config'),
}

# What published configs have in place of a path.
_PLACEHOLDER = 'PATH_TO_BE_CONFIGURED'
_CHECKPOINT_TYPES = ('classification', 'detection', 'segmentation')
_DETECTOR_CHECKPOINT_TYPES = ('classification', 'detection')


def validate(config: PipelineConfig, mode: str = 'train_and_evaluate') -> List[str]:
    """Checks a config for a mode; see `config.validate`."""
    used = _sections(config, mode)
    problems = [
        *support.refused(used),
        *_values(used),
        *_model(used),
        *check_parts(used),
        *(problem for check in _CHECKS[mode] for problem in check(used)),
        # The training reader decides for an evaluation too.
        *(check_agreement(config) if 'eval_input_reader' in SECTIONS[mode] else ()),
    ]
    if problems:
        raise errors.ConfigError(support.listed(problems))
    warnings = [*support.without_effect(used), *_doubts(used, mode)]
    for warning in warnings:
        log.warning('config: %s', warning)
    return warnings


def _sections(config: PipelineConfig, mode: str) -> PipelineConfig:
    """The parts of a config that a mode uses."""
    if mode not in SECTIONS:
        raise ValueError(f'unknown mode {mode!r}; expected one of {", ".join(SECTIONS)}.')
    used = PipelineConfig()
    used.CopyFrom(config)
    for field, _ in config.ListFields():
        if field.name not in SECTIONS[mode]:
            used.ClearField(field.name)
    return used


def _values(config: PipelineConfig) -> Iterator[Problem]:
    """Single values: ranges, numbers that are none, placeholders, patterns."""
    for path, message, field, value in support.set_fields(config):
        if schema.is_message(field):
            continue
        repeated = schema.is_repeated(field)
        for index, each in enumerate(value if repeated else [value]):
            text = _value_problem(f'{message}.{field.name}', each)
            if text:
                yield Problem(f'{path}.{index}' if repeated else path, text)


def _value_problem(field: str, value: Any) -> str:
    """What is wrong with one value; empty when nothing is."""
    if isinstance(value, str):
        if _PLACEHOLDER in value:
            return f'{value!r} is a placeholder; expected a path of yours.'
        return _pattern_problem(value) if field in _PATTERNS else ''
    if isinstance(value, float) and not math.isfinite(value):
        return f'{value}; expected a finite number.'
    allowed = RANGES.get(field)
    if allowed is not None and not allowed.holds(value):
        return f'{value:g}; expected {allowed}.'
    return ''


# Fields with regular expressions.
_PATTERNS = (
    'TrainConfig.freeze_variables',
    'TrainConfig.update_trainable_variables',
    'GradientMultiplier.variable_pattern',
)


def _pattern_problem(pattern: str) -> str:
    if not pattern:
        return 'an empty pattern, which every variable matches; expected a regular expression.'
    try:
        re.compile(pattern)
    except re.error as error:
        return f'{pattern!r} is not a regular expression: {error}.'
    return ''


def _model(config: PipelineConfig) -> Iterator[Problem]:
    kind = support.model_kind(config)
    if not kind:
        choices = ', '.join(sorted(support_tables.HONOURED['DetectionModel']))
        held = 'is empty' if config.HasField('model') else 'is missing'
        yield Problem('model', f'{held}; expected one of: {choices}.')
    if kind == 'classification':
        model = config.model.classification
        if not model.HasField('num_classes'):
            yield Problem('model.classification.num_classes', 'not set; expected at least 1.')
        yield from _backbone_name('model.classification.backbone', model.backbone, 'mobilenet_v1')
    if kind == 'segmentation':
        model = config.model.segmentation
        yield from _backbone_name('model.segmentation.backbone', model.backbone, 'mobilenet_v2')
    if kind == 'ssd':
        yield from detection_checks.check_ssd(config.model.ssd)


def _backbone_name(path: str, backbone: backbone_pb2.Backbone, example: str) -> Iterator[Problem]:
    if not backbone.name:
        text = f'not set; expected the name of a network, like "{example}".'
        yield Problem(f'{path}.name', text)


def _training(config: PipelineConfig) -> Iterator[Problem]:
    if not config.HasField('train_config'):
        yield Problem('train_config', 'is missing; training needs it.')
        return
    train_config = config.train_config
    yield from schedule_checks.check_optimizer(train_config.optimizer, train_config.num_steps)
    if not config.HasField('train_input_reader'):
        yield Problem('train_input_reader', 'is missing; training needs examples.')
    else:
        reader = config.train_input_reader
        yield from check_reader('train_input_reader', reader)
        yield from check_batch_counts(reader, train_config.batch_size)
    yield from _checkpoint_type(config)
    for index, multiplier in enumerate(train_config.gradient_multipliers):
        if not multiplier.HasField('variable_pattern'):
            path = f'train_config.gradient_multipliers.{index}.variable_pattern'
            yield Problem(path, 'not set; expected a regular expression for variable names.')
    if train_config.HasField('early_stopping') and not train_config.early_stopping.metric:
        yield Problem('train_config.early_stopping.metric', 'not set; expected a metric or "loss".')


def _checkpoint_type(config: PipelineConfig) -> Iterator[Problem]:
    kind, known = config.train_config.fine_tune_checkpoint_type, _CHECKPOINT_TYPES
    nothing = 'a checkpoint of the same model'
    if support.is_detector(config):
        known, nothing = _DETECTOR_CHECKPOINT_TYPES, 'classification'
    if kind and kind not in known:
        yield Problem(
            'train_config.fine_tune_checkpoint_type',
            f'{kind!r}; expected one of {", ".join(known)}, or nothing for {nothing}.',
        )


def _evaluation(config: PipelineConfig) -> Iterator[Problem]:
    for index, reader in enumerate(config.eval_input_reader):
        yield from check_reader(f'eval_input_reader.{index}', reader)
    names = [reader.name for reader in config.eval_input_reader if reader.name]
    for name in sorted(set(names)):
        if names.count(name) > 1:
            yield Problem(
                'eval_input_reader', f'{names.count(name)} are named {name!r}; expected one.'
            )


def _evaluation_in_training(config: PipelineConfig) -> Iterator[Problem]:
    """What decides by evaluations, in a run that makes none."""
    reason = ''
    if not config.eval_config.schedule.enabled:
        reason = 'eval_config.schedule.enabled is false'
    elif not config.eval_input_reader:
        reason = 'there is no eval_input_reader'
    deciding = {
        'train_config.early_stopping': config.train_config.HasField('early_stopping'),
        'export_config.best': config.export_config.HasField('best'),
    }
    for path, is_set in deciding.items():
        if reason and is_set:
            yield Problem(path, f'it goes by evaluations, and {reason}.')
    averages = config.train_config.optimizer.use_moving_average
    if config.eval_config.use_moving_averages and not averages:
        yield Problem(
            'eval_config.use_moving_averages',
            'true, but train_config.optimizer.use_moving_average is false: there are no averages.',
        )


def _export(config: PipelineConfig) -> Iterator[Problem]:
    best = config.export_config.best
    if config.export_config.HasField('best') and not best.metric:
        yield Problem('export_config.best.metric', 'not set; expected a metric or "loss".')


def _doubts(config: PipelineConfig, mode: str) -> Iterator[str]:
    """What is allowed, and probably not meant."""
    if mode == 'train_and_evaluate' and not config.eval_input_reader:
        yield 'there is no eval_input_reader: the run does not evaluate.'
    train_config = config.train_config
    if mode == 'train' and train_config.HasField('early_stopping'):
        yield 'train_config.early_stopping has no effect: --mode=train does not evaluate.'
    if not train_config.fine_tune_checkpoint:
        unset = train_pb2.TrainConfig()
        for name in _OF_FINE_TUNING:
            if getattr(train_config, name) != getattr(unset, name):
                yield f'train_config.{name} has no effect without fine_tune_checkpoint.'
    yield from schedule_checks.doubts(train_config)
    if support.is_detector(config):
        yield from detection_checks.doubts(config)


# Fields of `train_config` that say how `fine_tune_checkpoint` is restored.
_OF_FINE_TUNING = (
    'fine_tune_checkpoint_type',
    'from_detection_checkpoint',
    'checkpoint_exclude_scopes',
    'ignore_missing_variables',
    'initialize_last_layer',
    'load_all_detection_checkpoint_vars',
)


_Check = Callable[[PipelineConfig], Iterator[Problem]]
_CHECKS: Mapping[str, Sequence[_Check]] = {
    'train_and_evaluate': (_training, _evaluation, _evaluation_in_training, _export),
    'train': (_training, _export),
    'evaluate': (_evaluation,),
    'export': (),
    'predict': (),
    'check': (_training, _evaluation, _evaluation_in_training, _export),
}
