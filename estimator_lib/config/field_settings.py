"""Settings, which set one field of a config by its dotted path: `train_config.batch_size=8`."""

from __future__ import annotations

from typing import Any, List, NoReturn, Tuple

from google.protobuf import descriptor as descriptor_lib
from google.protobuf import message as message_lib

from estimator_lib import errors
from estimator_lib.config import schema
from estimator_lib.config.text import parsing
from estimator_lib.config.text import values as value_texts

Field = descriptor_lib.FieldDescriptor

_MOST_DIGITS = 9  # of an index


def apply_setting(config: message_lib.Message, setting: str) -> None:
    """Set one field of a config.

    A path consists of field names, of indices after repeated fields (an index equal to the length
    appends) and of keys after maps. The setting replaces the whole value at the path:
    `model.classification={...}` sets a new message, `train_config.freeze_variables=["a", "b"]` a
    new list. A member of a oneof replaces another member. Strings may be quoted; escapes in them
    are not interpreted.

    Args:
        config: changed in place.
        setting: `path=value`.

    Raises:
        errors.ConfigError: the field does not exist, or the value does not fit it.
    """
    parsing.refuse_bytes(setting, 'setting')
    path, equals, value = setting.partition('=')
    if not equals:
        raise errors.ConfigError(
            f'the setting {setting!r} has no "="; expected train_config.batch_size=8 or the like.'
        )
    _Setting(setting, path.strip(), value.strip()).apply(config)


class _Setting:
    """A setting being applied, with the texts that its error messages quote."""

    def __init__(self, setting: str, path: str, value: str):
        self._setting = setting
        self._path = path
        self._parts = path.split('.')
        self._value = value

    def apply(self, config: message_lib.Message) -> None:
        """Set the field in `config`."""
        message, done = config, 0
        while True:
            field = self._field(message, done)
            done += 1
            if done == len(self._parts):
                self._set_whole(message, field)
                return
            if schema.is_map(field):
                message, done = self._into_map(message, field, done)
            elif schema.is_repeated(field):
                message, done = self._into_list(message, field, done)
            elif schema.is_message(field):
                message = getattr(message, field.name)
                message.SetInParent()
            else:
                self._fail(done, f'{field.name!r} is not a message: nothing can follow it.')
            if message is None:
                return

    def _field(self, message: message_lib.Message, done: int) -> Field:
        name = self._parts[done]
        field = message.DESCRIPTOR.fields_by_name.get(name)
        if field is None:
            hint = ''
            elsewhere = schema.fields_elsewhere(self._parts[-1], message.DESCRIPTOR)
            if done == 0 and elsewhere:
                hint = f' Here it is {" or ".join(elsewhere)}.'
            unknown = schema.unknown_field(name, message.DESCRIPTOR)
            known = schema.known_fields(name, message.DESCRIPTOR)
            self._fail(done, f'{unknown}{hint}', known)
        return field

    def _set_whole(self, message: message_lib.Message, field: Field) -> None:
        """Replace the whole value of a field."""
        if schema.is_map(field):
            self._fail(len(self._parts), f'{field.name!r} is a map; set {self._path}.KEY=VALUE.')
        if schema.is_repeated(field):
            values = self._values(message, field)
            message.ClearField(field.name)
            getattr(message, field.name).extend(values)
        elif schema.is_message(field):
            value = self._parse_message(getattr(message, field.name))
            message.ClearField(field.name)
            getattr(message, field.name).CopyFrom(value)
        else:
            setattr(message, field.name, self._scalar(field, self._value))

    def _into_list(self, message: message_lib.Message, field: Field, done: int) -> Tuple[Any, int]:
        """Follow an index, and set the element if the path ends there."""
        values = getattr(message, field.name)
        index = self._index(field, len(values), done)
        last = done + 1 == len(self._parts)
        if schema.is_message(field):
            element = values.add() if index == len(values) else values[index]
            if not last:
                return element, done + 1
            element.CopyFrom(self._parse_message(element))
        elif not last:
            self._fail(done + 1, f'{field.name!r} holds no messages: nothing can follow the index.')
        elif index == len(values):
            values.append(self._scalar(field, self._value))
        else:
            values[index] = self._scalar(field, self._value)
        return None, done + 1

    def _index(self, field: Field, length: int, done: int) -> int:
        part = self._parts[done]
        if part.isdecimal() and len(part) <= _MOST_DIGITS and int(part) <= length:
            return int(part)
        so_far = '.'.join(self._parts[:done])
        held = {0: 'is empty', 1: 'holds one value'}.get(length, f'holds {length} values')
        choices = ' or '.join(f'{so_far}.{index}' for index in sorted({0, length}))
        self._fail(
            done,
            f'{field.name!r} is a list and {held}; expected an index ({choices}; the length '
            f'appends), got {part!r:.40}.',
        )

    def _into_map(self, message: message_lib.Message, field: Field, done: int) -> Tuple[Any, int]:
        """Follow a map key, and set the value if the path ends there or the value is a scalar."""
        entry = field.message_type.fields_by_name
        key = self._scalar(entry['key'], self._parts[done])
        values = getattr(message, field.name)
        last = done + 1 == len(self._parts)
        if not schema.is_message(entry['value']):
            if not last:
                self._fail(done + 1, f'{field.name!r} holds no messages: nothing follows the key.')
            values[key] = self._scalar(entry['value'], self._value)
            return None, done + 1
        if last:
            values[key].CopyFrom(self._parse_message(values[key]))
            return None, done + 1
        return values[key], done + 1

    def _values(self, message: message_lib.Message, field: Field) -> List[Any]:
        """Parse the values of a whole list: `[a, b]`, or one value."""
        text = self._value
        if not text.startswith('['):
            text = f'[{text}]' if schema.is_message(field) else text
            if not schema.is_message(field):
                return [self._scalar(field, text)]
        parsed = type(message)()
        parsing.parse(f'{field.name}: {text}', parsed, f'setting {self._path}')
        return list(getattr(parsed, field.name))

    def _parse_message(self, like: message_lib.Message) -> message_lib.Message:
        """Parse the value as a message, with or without braces around it."""
        text = self._value
        if text.startswith('{') and text.endswith('}'):
            text = text[1:-1]
        parsed = type(like)()
        parsing.parse(text, parsed, f'setting {self._path}')
        return parsed

    def _scalar(self, field: Field, text: str) -> Any:
        """Parse a value of a field that is not a message."""
        if len(text) > 1 and text[0] in '"\'' and text[-1] == text[0]:
            text = text[1:-1]
        if field.cpp_type == Field.CPPTYPE_STRING:
            return text
        value = value_texts.scalar_value(field, text)
        if value is None:
            hint = value_texts.enum_hint(field, text)
            self._fail(
                len(self._parts),
                f'{field.name!r} expects {value_texts.expectation(field)}, got {text!r}{hint}',
            )
        return value

    def _fail(self, part: int, text: str, *more: str) -> NoReturn:
        """Raise an error with a caret under one part of the path, or under the value."""
        before = '.'.join(self._parts[:part])
        margin = ' ' * (len(before) + bool(before))
        lines = [f'setting {self._path}: {text}', self._setting, f'{margin}^', *more]
        raise errors.ConfigError('\n'.join(lines))
