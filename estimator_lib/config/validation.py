"""Validation of a parsed config: unsupported fields, bad values, contradictions.

Each check yields `Problem`s instead of raising, so that a user sees all of them at once.
"""

from __future__ import annotations

import logging
from typing import Iterator, List, Mapping, Optional, Sequence

from estimator_lib import errors
from estimator_lib.config import durations, metric_choices, requirements, schedule_checks, support
from estimator_lib.config.message_checks import find_problems
from estimator_lib.config.reader_checks import check_agreement, check_batch_counts, check_reader
from estimator_lib.config.rules import ConfigRules, PipelineConfig, Problem
from estimator_lib.config.section import Section
from estimator_lib.environment import MODES

log = logging.getLogger('estimator_lib')

# Rules of all tasks beyond those of single fields.
_ENGINE = ConfigRules(same_in_readers={'max_image_pixels': ''})

# The parts of a config that a mode of the command does not use.
_TRAINING = ('train_config', 'train_input_reader')
_EVALUATION = ('eval_config', 'eval_input_reader')
_UNUSED: Mapping[str, Sequence[str]] = {
    'train': _EVALUATION,
    'evaluate': (*_TRAINING, 'export_config'),
    'export': (*_TRAINING, *_EVALUATION),
    'predict': (*_TRAINING, *_EVALUATION),
    'benchmark': (*_TRAINING, 'export_config'),
    'compare': (*_TRAINING, *_EVALUATION),
    'replay': (*_EVALUATION, 'export_config'),
}


def pixel_limit(config: PipelineConfig) -> int:
    """Return the `max_image_pixels` of a config's readers, which agree."""
    readers = [config.train_input_reader] if config.HasField('train_input_reader') else []
    return [*readers, *config.eval_input_reader, config.train_input_reader][0].max_image_pixels


def validate(
    config: PipelineConfig,
    mode: Optional[str] = 'train_and_evaluate',
    rules: Optional[ConfigRules] = None,
) -> List[str]:
    """Check that a config is complete, supported and consistent.

    Args:
        config: the config.
        mode: the `--mode` that the config is used for. Only the parts that this mode uses are
            checked: an export does not use `train_config`. None: all parts that are present are
            checked, and none is required.
        rules: the rules of the task (`Task.config_rules`; `model_fns.validate` finds them). None:
            only the fields of the engine are checked, not `model` or other fields of tasks.

    Returns:
        Warnings, one sentence each: fields that are set without effect, and values that are allowed
        but probably mistakes.

    Raises:
        errors.ConfigError: something is missing, contradictory, out of range, or not supported. The
            message lists all problems, a line each, with their paths.
    """
    used, rules = _sections(config, mode), _ENGINE + (rules or ConfigRules())
    trains, evaluates = _uses(mode, 'train_config'), _uses(mode, 'eval_config')
    problems = [
        *find_problems(rules, Section(used)),
        *(problem for check in rules.problems for problem in check(used)),
        *(_training(rules, used, needed=mode is not None) if trains else ()),
        *(_evaluation(used, needed=mode is not None) if evaluates else ()),
        *(_evaluation_in_training(used) if mode and trains and evaluates else ()),
        *_choices(used),
        # The training reader decides for an evaluation too.
        *(check_agreement(config, rules.same_in_readers) if evaluates else ()),
    ]
    if problems:
        raise errors.ConfigError(support.listed(problems), list(map(str, problems)))
    warnings = [
        *support.ignored(rules, used),
        *requirements.unmet(rules, used),
        *requirements.conflict_warnings(rules, used),
        *_find_warnings(used, mode),
    ]
    warnings += [warning for check in rules.warnings for warning in check(used)]
    for warning in warnings:
        log.warning('config: %s', warning)
    return warnings


def _uses(mode: Optional[str], section: str) -> bool:
    return section not in _UNUSED.get(mode or '', ())


def _sections(config: PipelineConfig, mode: Optional[str]) -> PipelineConfig:
    """Return the parts of a config that a mode uses."""
    if mode is not None and mode not in MODES:
        raise ValueError(f'unknown mode {mode!r}; expected one of {", ".join(MODES)}.')
    # A copy: the caller's config keeps the sections that are cleared here.
    used = PipelineConfig()
    used.CopyFrom(config)
    for section in _UNUSED.get(mode or '', ()):
        used.ClearField(section)
    return used


def _training(rules: ConfigRules, config: PipelineConfig, needed: bool) -> Iterator[Problem]:
    """Check the training parts of a config; if they are `needed`, also for missing ones."""
    if not config.HasField('train_config'):
        if needed:
            yield Problem('train_config', 'is missing; training needs it.')
        return
    train_config = config.train_config
    for found in durations.find(config):
        yield Problem(
            found.path, 'a duration that is not in steps yet; see model_fns.durations_in_steps.'
        )
    if needed or train_config.HasField('optimizer'):
        yield from schedule_checks.check_optimizer(train_config.optimizer, train_config.num_steps)
    if config.HasField('train_input_reader'):
        reader = config.train_input_reader
        yield from check_reader(Section(reader, 'train_input_reader'), needed)
        yield from check_batch_counts(reader, train_config.batch_size)
    elif needed:
        yield Problem('train_input_reader', 'is missing; training needs examples.')
    yield from _checkpoint_type(rules, train_config.fine_tune_checkpoint_type)
    for multiplier in Section(config).children('train_config.gradient_multipliers'):
        if not multiplier.message.HasField('variable_pattern'):
            text = 'not set; expected a regular expression for variable names.'
            yield multiplier.problem('variable_pattern', text)


def _checkpoint_type(rules: ConfigRules, kind: str) -> Iterator[Problem]:
    for nothing, known in rules.checkpoint_types.items():
        if kind and kind not in known:
            text = f'{kind!r}; expected one of {", ".join(known)}, or nothing for {nothing}.'
            yield Problem('train_config.fine_tune_checkpoint_type', text)


def _evaluation(config: PipelineConfig, needed: bool) -> Iterator[Problem]:
    for reader in Section(config).children('eval_input_reader'):
        yield from check_reader(reader, needed)
        if config.eval_config.tiles.size and reader.message.tiles.size:
            yield reader.problem(
                'tiles',
                'eval_config.tiles merges the predictions for tiles of whole images; expected one '
                'of them.',
            )
    names = [reader.name for reader in config.eval_input_reader if reader.name]
    for name in sorted(set(names)):
        if names.count(name) > 1:
            yield Problem(
                'eval_input_reader', f'{names.count(name)} are named {name!r}; expected one.'
            )


def _evaluation_in_training(config: PipelineConfig) -> Iterator[Problem]:
    """Check for fields that need evaluations in a run without evaluations."""
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


def _choices(config: PipelineConfig) -> Iterator[Problem]:
    for field, choice in metric_choices.choices(config):
        if not choice.metric:
            yield Problem(f'{field}.metric', 'not set; expected a metric or "loss".')


def _find_warnings(config: PipelineConfig, mode: Optional[str]) -> Iterator[str]:
    """Yield warnings about values that are allowed but probably mistakes."""
    if mode == 'train_and_evaluate' and not config.eval_input_reader:
        yield 'there is no eval_input_reader: the run does not evaluate.'
    train_config = config.train_config
    if mode == 'train' and train_config.HasField('early_stopping'):
        yield 'train_config.early_stopping has no effect: --mode=train does not evaluate.'
    yield from schedule_checks.find_warnings(train_config)
    yield from metric_choices.contradictions(config)
