"""Parts of a config with their paths, so that problems name their places."""

from __future__ import annotations

import dataclasses
import operator
from typing import Any, Generic, List, Optional, TypeVar

from estimator_lib import errors
from estimator_lib.config import schema
from estimator_lib.config.rules import Problem

Message = TypeVar('Message', covariant=True)


@dataclasses.dataclass(frozen=True)
class Section(Generic[Message]):
    """A message of a config and its path.

    A `field` is the name of a field, or several names joined by points. One that the schema lacks
    is an `AttributeError`, so that no path can be wrong.

    Attributes:
        message: a pipeline config, or a part of one.
        path: its path as in a setting: `eval_input_reader.0`; empty for a whole config.

    Example:
        `Section(config).child('train_config').problem('num_steps', expected='at least 1')` is
        "train_config.num_steps: 0; expected at least 1."
    """

    message: Message
    path: str = ''

    def at(self, field: str) -> str:
        """Return the path of a field."""
        operator.attrgetter(field)(self.message)
        return schema.join(self.path, field)

    def child(self, field: str) -> Section[Any]:
        """Return the message of a field."""
        return Section(operator.attrgetter(field)(self.message), schema.join(self.path, field))

    def children(self, field: str) -> List[Section[Any]]:
        """Return the messages of a repeated field in order, or of a map by its sorted keys."""
        path, held = self.at(field), operator.attrgetter(field)(self.message)
        entries = sorted(held.items()) if hasattr(held, 'items') else enumerate(held)
        return [Section(message, f'{path}.{key}') for key, message in entries]

    def chosen(self, oneof: str) -> Optional[Section[Any]]:
        """Return the message that is set in a oneof; None if none is."""
        kind = operator.methodcaller('WhichOneof', oneof)(self.message)
        return None if kind is None else self.child(kind)

    def problem(self, field: str, text: str = '', expected: str = '') -> Problem:
        """Describe a problem of a field.

        Args:
            field: the field; empty: the message itself.
            text: the problem, a sentence.
            expected: in place of a text: what the value should be. The value goes before it, of a
                list the number of values.
        """
        if expected:
            text = f'{self.shown(field)}; expected {expected}.'
        return Problem(self.at(field) if field else self.path, text)

    def error(self, field: str, text: str = '', expected: str = '') -> errors.ConfigError:
        """Return the error of a problem: see `problem`."""
        return errors.ConfigError(str(self.problem(field, text, expected)))

    def shown(self, field: str) -> str:
        """Return the value of a field as in messages, of a oneof the name of its member."""
        *parents, name = field.split('.')
        message: Any = operator.attrgetter('.'.join(parents))(self.message) if parents else None
        message = message or self.message
        if name in message.DESCRIPTOR.oneofs_by_name:
            return message.WhichOneof(name) or 'none'
        value, descriptor = getattr(message, name), message.DESCRIPTOR.fields_by_name[name]
        if schema.is_repeated(descriptor):
            return f'{len(value)} values'
        if isinstance(value, float):
            return f'{value:g}'
        return repr(value) if isinstance(value, str) else schema.value_text(descriptor, value)
