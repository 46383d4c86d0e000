"""Queries of the config's schema: names, paths to fields, and reachable messages."""

from __future__ import annotations

import collections
import functools
import textwrap
from typing import Any, Dict, List

from google.protobuf import descriptor as descriptor_lib
from google.protobuf import message as message_lib

from estimator_lib import errors
from protos.other_names import ELSEWHERE

PACKAGE = 'vision_model_fns.protos.'

_ROOT = 'TrainEvalPipelineConfig'
_MOST_PATHS = 3


@functools.cache
def short_name(message: descriptor_lib.Descriptor) -> str:
    """Return the name of a message or enum without its package: `TrainConfig`, `Outer.Inner`."""
    name = message.full_name
    return name[len(PACKAGE) :] if name.startswith(PACKAGE) else name


def is_map(field: descriptor_lib.FieldDescriptor) -> bool:
    """Return whether a field is a map."""
    return is_message(field) and field.message_type.GetOptions().map_entry


def is_message(field: descriptor_lib.FieldDescriptor) -> bool:
    """Return whether a field's values are messages."""
    return field.cpp_type == field.CPPTYPE_MESSAGE


def is_repeated(field: descriptor_lib.FieldDescriptor) -> bool:
    """Return whether a field is repeated."""
    if hasattr(field, 'is_repeated'):  # protobuf 6 and later; 7 has no labels
        return field.is_repeated
    return field.label == field.LABEL_REPEATED


@functools.cache
def reachable_messages(
    root: descriptor_lib.Descriptor,
) -> Dict[descriptor_lib.Descriptor, str]:
    """Return every message that a message can hold, itself included, with a shortest path.

    The entry messages of maps are left out: the path to a map's values ends with the map's field.
    """
    paths = {root: ''}
    # Breadth first: the first path to a message is a shortest one.
    queue = collections.deque([root])
    while queue:
        message = queue.popleft()
        for field in message.fields:
            if not is_message(field):
                continue
            held = field.message_type
            if is_map(field):
                held = held.fields_by_name['value'].message_type
            if held is not None and held not in paths:
                paths[held] = join(paths[message], field.name)
                queue.append(held)
    return paths


def fields_elsewhere(name: str, root: descriptor_lib.Descriptor) -> List[str]:
    """Return the paths of fields of a name, shortest first, or the field that it has become."""
    paths = [
        join(path, name)
        for message, path in reachable_messages(root).items()
        if name in message.fields_by_name
    ]
    if paths:
        return sorted(paths, key=lambda path: path.count('.'))[:_MOST_PATHS]
    if short_name(root) == _ROOT and name in ELSEWHERE:
        return [ELSEWHERE[name]]
    return []


def unknown_field(name: str, message: descriptor_lib.Descriptor) -> str:
    """Describe a field that a message does not have, in one sentence."""
    hint = errors.nearest_hint(name, message.fields_by_name)
    return f'{short_name(message)} has no field {name!r}{hint}'


def known_fields(name: str, message: descriptor_lib.Descriptor) -> str:
    """List the fields of a message in one sentence, those most similar to `name` first."""
    known = errors.nearest_first(name, message.fields_by_name)
    listed = ', '.join(known) if known else '(none)'
    return textwrap.fill(
        f'Fields of {short_name(message)}, nearest first: {listed}.',
        width=100,
        subsequent_indent='  ',
        break_long_words=False,
        break_on_hyphens=False,
    )


def value_names(field: descriptor_lib.FieldDescriptor) -> List[str]:
    """Return the values of a field of an enum type, without deprecated names."""
    return [value.name for value in field.enum_type.values if not value.GetOptions().deprecated]


def value_text(field: descriptor_lib.FieldDescriptor, value: Any) -> str:
    """Format a scalar as in a config, without quotes."""
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name
    return str(value).lower() if isinstance(value, bool) else str(value)


def decimal_number(value: float) -> float:
    """Return the decimal number that a float32 field was written as: 0.7, not 0.699999988.

    Where sizes are rounded down, the difference could cost a pixel.
    """
    # float32 has 24 bits, which are 7.2 decimal digits.
    return float(f'{value:.7g}')


def scalar_fields(message: message_lib.Message) -> Dict[str, Any]:
    """Return the numbers, flags and texts of a message by name, defaults included."""
    fields = message.DESCRIPTOR.fields
    return {field.name: getattr(message, field.name) for field in fields if not field.message_type}


def join(path: str, name: str) -> str:
    """Return the path of a field of the message at a path."""
    return f'{path}.{name}' if path else name
