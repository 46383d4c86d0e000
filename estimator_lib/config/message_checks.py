"""Checks of single messages: unsupported fields, values, required fields, numbers in order."""

from __future__ import annotations

import math
import re
from typing import Any, Iterable, Iterator, List

from google.protobuf import descriptor as descriptor_lib
from google.protobuf import message as message_lib

from estimator_lib import errors
from estimator_lib.config import requirements, schema, support
from estimator_lib.config.rules import ConfigRules, Field, Problem
from estimator_lib.config.section import Section
from protos import field_rules

# Fields that hold regular expressions.
_PATTERNS = (
    'TrainConfig.freeze_variables',
    'TrainConfig.update_trainable_variables',
    'GradientMultiplier.variable_pattern',
)


def check_message(
    rules: ConfigRules, section: Section[message_lib.Message], further: Iterable[Problem] = ()
) -> None:
    """Check one message that is used without its config.

    Args:
        rules: the rules of the task that reads the message.
        section: a part of a config.
        further: more problems of the message.

    Raises:
        errors.ConfigError: a field is not supported, missing, out of range or out of order.
    """
    problems = [*find_problems(rules, section), *further]
    if problems:
        raise errors.ConfigError(support.listed(problems))


def find_problems(rules: ConfigRules, section: Section[message_lib.Message]) -> Iterator[Problem]:
    """Check the messages that are set in a config, one after the other.

    Args:
        rules: the rules of the task.
        section: a pipeline config, or a part of one.

    Yields:
        Fields that are not supported, missing, out of range or out of order, or that do not go
        together.
    """
    for part in support.set_messages(rules, section):
        for field, value in part.message.ListFields():
            yield from _check_field(rules, part, field, value)
        yield from _missing(rules, part)
        yield from requirements.violated(rules, part)
        yield from _out_of_order(rules, part)
        yield from requirements.conflicts(rules, part, section.message)


def _check_field(
    rules: ConfigRules, part: Section[message_lib.Message], field: Field, value: Any
) -> Iterator[Problem]:
    """Check support, values and number of the entries of a field that is set."""
    refusal = support.refusal(rules, field, value)
    if refusal:
        yield part.problem(field.name, refusal)
    if schema.is_message(field):
        return
    path, repeated = part.at(field.name), schema.is_repeated(field)
    for index, each in enumerate(value if repeated else [value]):
        text = _value_problem(rules, field, each)
        if text:
            yield Problem(f'{path}.{index}' if repeated else path, text)
    rule = field_rules.get_rule(field)
    if rule.entries and len(value) != rule.entries:
        yield part.problem(field.name, expected=f'{rule.entries}, or none')
    if rule.one_for_each:
        count = len(getattr(part.message, rule.one_for_each))
        if count and len(value) != count:
            expected = f'{count}, one for each of {rule.one_for_each}'
            yield part.problem(field.name, expected=expected)


def _out_of_order(rules: ConfigRules, part: Section[message_lib.Message]) -> Iterator[Problem]:
    message = part.message
    for field in field_rules.find_fields(message.DESCRIPTOR, 'not_above'):
        other = field_rules.get_rule(field).not_above
        low, high = getattr(message, field.name), getattr(message, other)
        if low > high and rules.is_supported(field):
            yield part.problem(field.name, expected=f'at most {high:g}, {other}')


def _missing(rules: ConfigRules, section: Section[message_lib.Message]) -> Iterator[Problem]:
    set_fields = {field.name for field, value in section.message.ListFields() if value != ''}
    for field in rules.required_fields(section.message.DESCRIPTOR):
        if field.name not in set_fields:
            yield section.problem(field.name, _expected(rules, field))
    for oneof in _must_choose(section.message.DESCRIPTOR):
        if section.message.WhichOneof(oneof.name) is None:
            yield section.problem('', f'empty; expected one of: {_members(rules, oneof)}.')


def _expected(rules: ConfigRules, field: descriptor_lib.FieldDescriptor) -> str:
    """Return the error text for a required field that is not set."""
    if schema.is_repeated(field):
        return 'empty; expected at least one.'
    if schema.is_message(field):
        for oneof in _must_choose(field.message_type):
            return f'is missing; expected one of: {_members(rules, oneof)}.'
        return 'is missing.'
    allowed = rules.range(field)
    return 'not set.' if allowed is None else f'not set; expected {allowed}.'


def _members(rules: ConfigRules, oneof: descriptor_lib.OneofDescriptor) -> str:
    """List the supported members of a oneof for an error message."""
    return ', '.join(field.name for field in oneof.fields if rules.is_supported(field))


def _must_choose(message: descriptor_lib.Descriptor) -> List[descriptor_lib.OneofDescriptor]:
    return [oneof for oneof in message.oneofs if field_rules.is_needed(oneof)]


def _value_problem(rules: ConfigRules, field: Field, value: Any) -> str:
    """Return the problem of one value; empty if there is none."""
    if isinstance(value, str):
        malformed = _pattern_problem(value) if _name(field) in _PATTERNS else ''
        return errors.placeholder_problem(value) or malformed
    # The text format of protobuf reads `nan` and `inf`, also for fields without a range.
    if isinstance(value, float) and not math.isfinite(value):
        return f'{value}; expected a finite number.'
    allowed = rules.range(field)
    if allowed is not None and not allowed.holds(value):
        return f'{field_rules.format_number(value)}; expected {allowed}.'
    return ''


def _name(field: Field) -> str:
    return f'{schema.short_name(field.containing_type)}.{field.name}'


def _pattern_problem(pattern: str) -> str:
    if not pattern:
        return 'an empty pattern, which every variable matches; expected a regular expression.'
    try:
        re.compile(pattern)
    except re.error as error:
        return f'{pattern!r} is not a regular expression: {error}.'
    return ''
