"""Mutations of valid bytes, text, JSON and messages, by a seeded generator."""

from __future__ import annotations

import copy
import json
import random
import re
from typing import Any, List, MutableMapping, Tuple

from google.protobuf import message as message_lib

from estimator_lib.config import schema

_TEXTS = (
    '-1', '0', '1', '2', '7', '1e9', '-1e9', '1e-30', '1e39', '1e308', '-0', '0.5', 'nan', 'inf',
    '-inf', '2147483647', '4294967295', '4294967296', '9223372036854775807',
    '18446744073709551615', '99999999999999999999', '²', '٣', '0x10', '1_000', 'true', 'None', '',
    ' ', '*', '[', '(', '\\', '/', '..', '/dev/null', 'a' * 3000, '\x00', '\ufeff', '日本',
    '9' * 5000, '{', '}', '"', "'", ':', '%s', '${x}', 'gs://x/y', '#', '<', '&x;', '\n', '\t',
)  # fmt: skip
_NUMBERS = (-1, 0, 1, 2, 3, 7, 255, 256, 1000, 65536, 2**31 - 1, 2**32 - 1, 2**63 - 1, -(2**31))
_FLOATS = (-1.0, 0.0, 0.5, 1.0, 1e-30, 1e9, -1e9, 3e38, float('nan'), float('inf'), float('-inf'))
_VALUES = (
    None, True, -1, 0, 1, 2.5, 1e308, 2**70, float('nan'), float('inf'), '', 'x', '\x00', '²', [],
    {}, [[]], [None], {'a': 1}, '../..', '/etc/passwd', [1, 2, 3], [[1.0, 2.0]], 'a' * 3000,
    '\ud800', 'a\x00b', 10**400,
)  # fmt: skip
_WORD = re.compile(r'[\w.+-]+')


def mutate_bytes(generator: random.Random, content: bytes) -> bytes:
    """Change, remove, repeat or insert some bytes."""
    mutated = bytearray(content)
    for _ in range(generator.randint(1, 4)):
        size = len(mutated)
        at = generator.randrange(size + 1)
        to = min(size, at + generator.choice((1, 2, 4, 16, 200)))
        kind = generator.randrange(6)
        if kind == 0 and at < size:
            mutated[at] ^= 1 << generator.randrange(8)
        elif kind == 1:
            mutated[at:to] = bytes(generator.choice((0, 1, 127, 128, 255)) for _ in range(to - at))
        elif kind == 2:
            del mutated[at:to]
        elif kind == 3:
            mutated[at:at] = mutated[at:to]
        elif kind == 4:
            mutated[at:at] = generator.getrandbits(8 * 9).to_bytes(9, 'little')
        elif generator.random() < 0.3:
            del mutated[at:]
    return bytes(mutated)


def mutate_text(generator: random.Random, text: str) -> bytes:
    """Change, remove or repeat words or lines; sometimes the bytes are no text afterwards."""
    if generator.random() < 0.15:
        return mutate_bytes(generator, text.encode())
    for _ in range(generator.randint(1, 3)):
        words = list(_WORD.finditer(text))
        lines = text.splitlines(keepends=True)
        kind = generator.randrange(6)
        if kind <= 2 and words:
            word = generator.choice(words)
            others = [generator.choice(words).group()] if kind == 2 else _TEXTS
            text = text[: word.start()] + generator.choice(others) + text[word.end() :]
        elif kind == 3 and lines:
            del lines[generator.randrange(len(lines))]
            text = ''.join(lines)
        elif kind == 4 and lines:
            lines.insert(generator.randrange(len(lines)), generator.choice(lines))
            text = ''.join(lines)
        else:
            at = generator.randrange(len(text) + 1)
            text = text[:at] + generator.choice(_TEXTS) + text[at:]
    return text.encode()


def mutate_json(generator: random.Random, value: Any) -> bytes:
    """Change kinds of values, remove keys, repeat entries; sometimes the result is no JSON."""
    if generator.random() < 0.1:
        return mutate_text(generator, json.dumps(value))
    if generator.random() < 0.01:
        return b'[' * 100_000
    value = copy.deepcopy(value)
    for _ in range(generator.randint(1, 3)):
        places = _places(value)
        if not places:
            break
        holder, key = generator.choice(places)
        kind = generator.randrange(4)
        if kind <= 1:
            holder[key] = copy.deepcopy(generator.choice(_VALUES))
        elif kind == 2:
            del holder[key]
        elif isinstance(holder, list):
            holder.insert(0, copy.deepcopy(holder[key]))
        else:
            holder[generator.choice(('Cluster', 'id', 'x', key.upper()))] = holder.pop(key)
    return json.dumps(value).encode()


def mutate_message(generator: random.Random, message: message_lib.Message) -> message_lib.Message:
    """Return a message with odd values in a few fields, set ones and others."""
    message = copy.deepcopy(message)
    for _ in range(generator.randint(1, 3)):
        holder = generator.choice([one for one in _messages(message) if one.DESCRIPTOR.fields])
        field = generator.choice(holder.DESCRIPTOR.fields)
        if schema.is_repeated(field):
            values = getattr(holder, field.name)
            if isinstance(values, MutableMapping):
                values.clear()  # its keys and values are not messages that can be added
            elif field.cpp_type == field.CPPTYPE_MESSAGE:
                values.add()
            else:
                values.append(_odd_value(generator, field))
        elif generator.random() < 0.2:
            holder.ClearField(field.name)
        elif field.cpp_type == field.CPPTYPE_MESSAGE:
            getattr(holder, field.name).SetInParent()
        else:
            setattr(holder, field.name, _odd_value(generator, field))
    return message


def _odd_value(generator: random.Random, field: Any) -> Any:
    if field.enum_type is not None:
        return generator.choice(field.enum_type.values).number
    if field.cpp_type == field.CPPTYPE_STRING:
        texts = [text for text in _TEXTS if '\ud800' not in text]
        text = generator.choice(texts)
        return text.encode() if field.type == field.TYPE_BYTES else text
    if field.cpp_type == field.CPPTYPE_BOOL:
        return generator.random() < 0.5
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return generator.choice(_FLOATS)
    low, high = {
        field.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
        field.CPPTYPE_UINT32: (0, 2**32 - 1),
        field.CPPTYPE_UINT64: (0, 2**64 - 1),
    }.get(field.cpp_type, (-(2**63), 2**63 - 1))
    return generator.choice([number for number in _NUMBERS if low <= number <= high])


def _messages(message: message_lib.Message) -> List[message_lib.Message]:
    """Return a message and all that are set in it."""
    found = [message]
    for field, value in message.ListFields():
        if field.cpp_type == field.CPPTYPE_MESSAGE:
            if field.message_type.GetOptions().map_entry:
                continue
            each = value if schema.is_repeated(field) else [value]
            found += [inner for one in each for inner in _messages(one)]
    return found


def _places(value: Any) -> List[Tuple[Any, Any]]:
    """Return (holder, key) of everything in lists and dicts."""
    if isinstance(value, dict):
        keys: Any = list(value)
    elif isinstance(value, list):
        keys = range(len(value))
    else:
        return []
    return [place for key in keys for place in ((value, key), *_places(value[key]))]
