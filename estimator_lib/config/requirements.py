"""Checks of the rules `requires`, `needs` and `excludes`: fields that depend on other fields.

A condition names a field, either of the same message or by its path in the whole config, and the
value that it must have.

    `fine_tune_checkpoint`            set, and not 0, false or empty
    `cache: MEMORY|FILE`              one of these values
    `top_k_percent_pixels < 1`        a smaller (`>`: larger) number; of a list, of entries
    `sync_replicas or mode: CLONES`   one of several conditions
"""

from __future__ import annotations

import operator
import re
from typing import Iterator, NamedTuple, Tuple

from google.protobuf import message as message_lib

from estimator_lib.config import schema, support
from estimator_lib.config.rules import ConfigRules, PipelineConfig, Problem
from estimator_lib.config.section import Section
from protos import field_rules

_CONDITION = re.compile(r'([\w.]+)(?:: ([\w|]+)| ([<>]) ([\d.]+))?')
_COMPARE = {'<': (operator.lt, 'below', 'fewer than'), '>': (operator.gt, 'above', 'more than')}
_OR = ' or '


class _Condition(NamedTuple):
    """One condition.

    Attributes:
        path: the path of the required field.
        values: its allowed values; empty: any value that is set.
        sign: `<`, `>` or empty.
        bound: the bound of its number, if there is a sign.
    """

    path: str
    values: Tuple[str, ...]
    sign: str
    bound: float


def unmet(rules: ConfigRules, config: PipelineConfig) -> Iterator[str]:
    """Yield a sentence for each field that is set without the field that it requires.

    Args:
        rules: the rules of the task.
        config: a pipeline config.
    """
    for part in support.set_messages(rules, Section(config)):
        message = part.message
        for field, value in message.ListFields():
            text = field_rules.get_rule(field).requires
            if not text or not rules.is_supported(field):
                continue
            needed = _find_unmet(text, message, config)
            if needed and not support.is_default(field, value):
                yield f'{part.at(field.name)} has no effect without {needed}.'


def violated(rules: ConfigRules, section: Section[message_lib.Message]) -> Iterator[Problem]:
    """Yield a problem for each field that is set without what it needs, or with what it excludes.

    Args:
        rules: the rules of the task.
        section: a pipeline config, or a part of one.
    """
    for part in support.set_messages(rules, section):
        message = part.message
        for field, value in message.ListFields():
            rule = field_rules.get_rule(field)
            if not (rule.needs or rule.excludes) or support.is_default(field, value):
                continue
            if not rules.is_supported(field):
                continue
            for text in rule.needs:
                needed = _find_unmet(text, message, message)
                if needed:
                    yield part.problem(field.name, f'it needs {needed}.')
            for text in rule.excludes:
                if not _find_unmet(text, message, message):
                    yield part.problem(field.name, f'it excludes {_excluded(text, message)}.')


def _find_unmet(text: str, message: message_lib.Message, config: message_lib.Message) -> str:
    """Describe the conditions of which none is met; empty if one is."""
    conditions = [_parse(part) for part in text.split(_OR)]
    if any(_is_met(each, message, config) for each in conditions):
        return ''
    return _OR.join(_described(each, message, config) for each in conditions)


def _excluded(text: str, message: message_lib.Message) -> str:
    """Describe what a field excludes, and what to do."""
    condition = _parse(text)
    if condition.values or condition.sign:
        return _described(condition, message, message)
    owner, name = _owner(condition.path, message, message)
    is_switch = isinstance(getattr(owner, name), bool)
    return f'{text}; expected {text}: false' if is_switch else f'{text}; set one'


def _parse(text: str) -> _Condition:
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise ValueError(f'{text!r} is no condition on a field.')
    path, values, sign, bound = match.groups()
    alternatives = tuple(values.split('|')) if values else ()
    return _Condition(path, alternatives, sign or '', float(bound or 0))


def _owner(
    path: str, message: message_lib.Message, config: message_lib.Message
) -> Tuple[message_lib.Message, str]:
    """Return the message that has the field of a condition, and the name of the field."""
    *parents, name = path.split('.')
    first = (*parents, name)[0]
    owner = message if first in message.DESCRIPTOR.fields_by_name else config
    for parent in parents:
        owner = getattr(owner, parent)
    return owner, name


def _is_met(
    condition: _Condition, message: message_lib.Message, config: message_lib.Message
) -> bool:
    owner, name = _owner(condition.path, message, config)
    field, value = owner.DESCRIPTOR.fields_by_name[name], getattr(owner, name)
    if condition.sign:
        number = len(value) if schema.is_repeated(field) else value
        return _COMPARE[condition.sign][0](number, condition.bound)
    if condition.values:
        return schema.value_text(field, value) in condition.values
    if schema.is_message(field) and not schema.is_repeated(field):
        return owner.HasField(name)
    return bool(value)


def _described(
    condition: _Condition, message: message_lib.Message, config: message_lib.Message
) -> str:
    if condition.values:
        return f'{condition.path}: {_OR.join(condition.values)}'
    if not condition.sign:
        return condition.path
    owner, name = _owner(condition.path, message, config)
    _, than, of_entries = _COMPARE[condition.sign]
    if schema.is_repeated(owner.DESCRIPTOR.fields_by_name[name]):
        entries = 'entry' if condition.bound == 1 else 'entries'
        return f'{of_entries} {condition.bound:g} {entries} in {condition.path}'
    return f'{condition.path} {than} {condition.bound:g}'
