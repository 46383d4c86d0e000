"""What the messages of a config must have, and which of their numbers may not be above another."""

from __future__ import annotations

from typing import Iterator, List

from google.protobuf import descriptor as descriptor_lib
from google.protobuf import message as message_lib

from estimator_lib.config import schema, support
from estimator_lib.config.rules import SUPPORTED, ConfigRules, Problem


def check_parts(
    rules: ConfigRules, config: message_lib.Message, where: str = ''
) -> Iterator[Problem]:
    """What is missing, not chosen or out of order in the messages that a config has set.

    Args:
        rules: the engine's and the task's.
        config: a pipeline config, or a part of one.
        where: where in a pipeline config the part is.
    """
    for path, message in support.set_messages(rules, config, where):
        name = schema.short_name(message.DESCRIPTOR)
        yield from _missing(rules, path, message)
        for oneof in _must_choose(rules, message.DESCRIPTOR):
            if message.WhichOneof(oneof) is None:
                known = _members(rules, message.DESCRIPTOR, oneof)
                yield Problem(path, f'empty; expected one of: {known}.')
        for low, high in rules.ordered.get(name, ()):
            values = getattr(message, low), getattr(message, high)
            if values[0] > values[1]:
                text = f'{values[0]:g}; expected at most {values[1]:g}, {high}.'
                yield Problem(f'{path}.{low}', text)


def _missing(rules: ConfigRules, path: str, message: message_lib.Message) -> Iterator[Problem]:
    set_fields = {field.name for field, value in message.ListFields() if value != ''}
    for name in rules.required.get(schema.short_name(message.DESCRIPTOR), ()):
        if name not in set_fields:
            field = message.DESCRIPTOR.fields_by_name[name]
            yield Problem(f'{path}.{name}', _expected(rules, field))


def _expected(rules: ConfigRules, field: descriptor_lib.FieldDescriptor) -> str:
    """What is said of a field that is not set."""
    if schema.is_repeated(field):
        return 'empty; expected at least one.'
    if schema.is_message(field):
        for oneof in _must_choose(rules, field.message_type):
            return f'is missing; expected one of: {_members(rules, field.message_type, oneof)}.'
        return 'is missing.'
    allowed = rules.ranges.get(f'{schema.short_name(field.containing_type)}.{field.name}')
    return 'not set.' if allowed is None else f'not set; expected {allowed}.'


def _members(rules: ConfigRules, message: descriptor_lib.Descriptor, oneof: str) -> str:
    """The supported members of a oneof, for an error message."""
    name, fields = schema.short_name(message), message.oneofs_by_name[oneof].fields
    return ', '.join(
        field.name for field in fields if rules.support(name, field.name) == [SUPPORTED]
    )


def _must_choose(rules: ConfigRules, message: descriptor_lib.Descriptor) -> List[str]:
    return [oneof.name for oneof in message.oneofs if oneof.name in rules.choices]
