"""Checks for required fields, for required choices, and for pairs of numbers in order."""

from __future__ import annotations

from typing import Iterator, List

from google.protobuf import descriptor as descriptor_lib
from google.protobuf import message as message_lib

from estimator_lib.config import schema, support
from estimator_lib.config.rules import ConfigRules, Problem
from protos import field_rules


def check_parts(
    rules: ConfigRules, config: message_lib.Message, where: str = ''
) -> Iterator[Problem]:
    """Check the messages that are set in a config for missing fields and numbers out of order.

    Args:
        rules: the rules of the task.
        config: a pipeline config, or a part of one.
        where: the path of the part in the pipeline config.

    Yields:
        The problems.
    """
    for path, message in support.set_messages(rules, config, where):
        descriptor = message.DESCRIPTOR
        yield from _missing(rules, path, message)
        for oneof in _must_choose(descriptor):
            if message.WhichOneof(oneof.name) is None:
                yield Problem(path, f'empty; expected one of: {_members(rules, oneof)}.')
        for field in field_rules.find_fields(descriptor, 'not_above'):
            other = field_rules.get_rule(field).not_above
            low, high = getattr(message, field.name), getattr(message, other)
            if low > high and rules.is_supported(field):
                text = f'{low:g}; expected at most {high:g}, {other}.'
                yield Problem(f'{path}.{field.name}', text)


def _missing(rules: ConfigRules, path: str, message: message_lib.Message) -> Iterator[Problem]:
    set_fields = {field.name for field, value in message.ListFields() if value != ''}
    for field in rules.required_fields(message.DESCRIPTOR):
        if field.name not in set_fields:
            yield Problem(f'{path}.{field.name}', _expected(rules, field))


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
