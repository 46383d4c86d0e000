"""Recipes: configs whose decided fields have their reasons, and their text with comments."""

from __future__ import annotations

import textwrap
from typing import Dict, Iterator, List, Mapping, NamedTuple, Sequence

from google.protobuf import descriptor as descriptor_lib
from google.protobuf import message as message_lib
from google.protobuf import text_format

from estimator_lib.config import field_settings, schema
from protos import pipeline_pb2

Field = descriptor_lib.FieldDescriptor

_WIDTH = 100


class Decision(NamedTuple):
    """The value of a field, and its reason.

    Attributes:
        path: of the field: `train_config.batch_size`.
        value: as text, see `field_settings.apply_setting`.
        reason: a sentence without its period; '': it needs none.
    """

    path: str
    value: object
    reason: str = ''


class Recipe:
    """A config that is decided field by field.

    Args:
        config: to begin with; it is changed.

    Attributes:
        config: with all decisions.
        reasons: by the path of the field.
        warnings: sentences on what will hurt a run and no field can help.
    """

    def __init__(self, config: pipeline_pb2.TrainEvalPipelineConfig):
        self.config = config
        self.reasons: Dict[str, str] = {}
        self.warnings: List[str] = []

    def decide(self, *decisions: Decision) -> None:
        """Set the fields of decisions, in their order."""
        for path, value, reason in decisions:
            # Protobuf's text has true and false.
            text = str(value).lower() if isinstance(value, bool) else str(value)
            field_settings.apply_setting(self.config, f'{path}={text}')
            if reason:
                self.reasons[path] = reason

    def set_reason(self, path: str, reason: str) -> None:
        """Give a field a reason in place of its own and of those of the fields in it.

        Args:
            path: of the field; an element of a list has the reasons of the list.
            reason: a sentence without its period.
        """
        path = '.'.join(part for part in path.split('.') if not part.isdecimal())
        for known in [each for each in self.reasons if each.startswith(f'{path}.')]:
            del self.reasons[known]
        self.reasons[path] = reason

    def text(self, heading: Sequence[str]) -> str:
        """Return the text of the config.

        Args:
            heading: sentences for the top.
        """
        lines = [line for text in heading for line in _comment(text, '')]
        return '\n'.join([*lines, '', *format_message(self.config, self.reasons)]) + '\n'


def format_message(
    message: message_lib.Message, reasons: Mapping[str, str] = {}, path: str = '', indent: str = ''
) -> Iterator[str]:
    """Yield the lines of a message, with reasons as comments above their fields.

    What has no reasons fills lines, as many fields as fit: a config of two screens is read.

    Args:
        message: the message.
        reasons: by the path of the field.
        path: of the message, with its last period.
        indent: before each line.
    """
    waiting: List[str] = []
    for field, value in message.ListFields():
        own = path + field.name
        if own in reasons:
            yield from _filled(waiting, indent)
            waiting = []
            yield from _comment(f'{reasons[own]}.', indent)
        if _is_map(field):
            waiting += _entries(field, value)
            continue
        is_message = field.type == Field.TYPE_MESSAGE
        for each in value if schema.is_repeated(field) and is_message else [value]:
            whole = f'{field.name} {{ {_one_line(each)}}}' if is_message else _scalars(field, each)
            has_reasons = any(other.startswith(f'{own}.') for other in reasons)
            if is_message and (has_reasons or len(indent + whole) > _WIDTH):
                yield from _filled(waiting, indent)
                waiting = []
                yield from _format_field(field.name, each, reasons, own, indent)
            else:
                waiting.append(whole)
        if own in reasons:
            yield from _filled(waiting, indent)
            waiting = []
    yield from _filled(waiting, indent)


def _comment(text: str, indent: str) -> List[str]:
    """Return the lines of a comment; paths in it stay whole."""
    start = f'{indent}# '
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=start,
        subsequent_indent=start,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _filled(parts: Sequence[str], indent: str) -> Iterator[str]:
    """Yield lines of parts, none of which is broken."""
    line = ''
    for part in parts:
        if line and len(f'{indent}{line} {part}') > _WIDTH:
            yield indent + line
            line = ''
        line = f'{line} {part}'.strip()
    if line:
        yield indent + line


def _format_field(
    name: str, message: message_lib.Message, reasons: Mapping[str, str], path: str, indent: str
) -> Iterator[str]:
    """Yield the lines of a field that is a message; one of a single message begins its line too."""
    start, end = f'{name} {{', '}'
    while len(message.ListFields()) == 1:
        (field, value) = message.ListFields()[0]
        if (
            field.type != Field.TYPE_MESSAGE
            or schema.is_repeated(field)
            or f'{path}.{field.name}' in reasons
        ):
            break
        start, end, path, message = (
            f'{start} {field.name} {{',
            f'{end} }}',
            f'{path}.{field.name}',
            value,
        )
    scalars = (
        _scalar_parts(message) if not any(each.startswith(f'{path}.') for each in reasons) else []
    )
    if scalars:  # nothing is nested: the braces share the lines of the fields
        parts = [*scalars[:-1], f'{scalars[-1]} {end}']
        first, *rest = _filled([f'{start} {parts[0]}', *parts[1:]], f'{indent}  ')
        yield from (indent + first.strip(), *rest)
        return
    yield indent + start
    yield from format_message(message, reasons, f'{path}.', f'{indent}  ')
    yield indent + end


def _scalar_parts(message: message_lib.Message) -> List[str]:
    """Return the fields of a message without messages in it; empty for any other."""
    fields = message.ListFields()
    if any(field.type == Field.TYPE_MESSAGE for field, _ in fields):
        return []
    return [_scalars(field, value) for field, value in fields]


def _to_line(message: message_lib.Message) -> str:
    return text_format.MessageToString(
        message, as_utf8=True, as_one_line=True, use_short_repeated_primitives=True
    )


def _one_line(message: message_lib.Message) -> str:
    text = _to_line(message)
    return f'{text} ' if text else ''


def _is_map(field: Field) -> bool:
    return field.type == Field.TYPE_MESSAGE and field.message_type.GetOptions().map_entry


def _entries(field: Field, values: Mapping[str, float]) -> Iterator[str]:
    """Yield the entries of a map of scalars."""
    for key in sorted(values):
        holder = field.containing_type._concrete_class()
        getattr(holder, field.name)[key] = values[key]
        yield _to_line(holder)


def _scalars(field: Field, value: object) -> str:
    """Return the line of a field without fields of its own."""
    # text_format prints messages only, so the field is set in an empty one of its type.
    holder = field.containing_type._concrete_class()
    if schema.is_repeated(field):
        getattr(holder, field.name).extend(value)
    else:
        setattr(holder, field.name, value)
    return _to_line(holder)
