"""Comparison of a config's text with its schema, up to the first problem."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Callable, Dict, NoReturn, Optional, Sequence, Union

from google.protobuf import descriptor as descriptor_lib

from estimator_lib import errors
from estimator_lib.config import schema
from estimator_lib.config.text.tokens import (
    CLOSERS,
    END,
    OPENERS,
    STRING,
    UNCLOSED_STRING,
    WORD,
    Token,
)

# Kinds of problems that need their own explanation.
UNKNOWN_FIELD = 'unknown field'
DUPLICATE = 'duplicate'
UNBALANCED = 'unbalanced'
ESCAPE = 'escape'

# Faults of closing braces that may cause a later problem.
MISSING = 'missing'
EXTRA = 'extra'

Field = descriptor_lib.FieldDescriptor

_INTEGER_RANGES = {
    Field.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    Field.CPPTYPE_UINT32: (0, 2**32 - 1),
    Field.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    Field.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_OCTAL = re.compile(r'^([-+]?)0(\d+)$')
_BOOLEANS = {
    **dict.fromkeys(('true', 'True', 't', '1'), True),
    **dict.fromkeys(('false', 'False', 'f', '0'), False),
}
# A backslash before a letter in a path, and an escape of a control character elsewhere.
_DRIVE = re.compile(r'.[A-Za-z]:\\(?!\\)')
_PATH_ESCAPE = re.compile(r'(?<!\\)(\\\\)*\\[A-Za-z]')
_CONTROL_ESCAPE = re.compile(r'(?<!\\)(\\\\)*\\(?P<letter>[abfnrtv])')
_PATH_FIELD = re.compile(r'path|checkpoint|(^|_)(dir|file)')


@dataclasses.dataclass(frozen=True)
class Problem:
    """Something in a text that its schema does not allow.

    Attributes:
        kind: `UNKNOWN_FIELD`, `DUPLICATE`, `UNBALANCED`, `ESCAPE`, or '' for any other.
        text: one sentence with the expectation and the actual token.
        token: the place of the problem.
        path: the message path: `model.classification`.
        message: the message that the walk was in.
        other: the earlier token that this one contradicts.
        brace: `MISSING` or `EXTRA` if such a closing brace further up may be the cause; else ''.
    """

    kind: str
    text: str
    token: Token
    path: str = ''
    message: Optional[descriptor_lib.Descriptor] = None
    other: Optional[Token] = None
    brace: str = ''


class _StopError(Exception):
    """Signal that ends a walk at its first problem."""

    def __init__(self, problem: Problem):
        super().__init__(problem.text)
        self.problem = problem


@dataclasses.dataclass
class _Frame:
    """A message that the walk is in; `closed` is the last message that it held."""

    message: descriptor_lib.Descriptor
    name: str
    opener: Optional[Token]
    closed: Optional[descriptor_lib.Descriptor] = None
    first: Dict[str, Token] = dataclasses.field(default_factory=dict)
    count: Dict[str, int] = dataclasses.field(default_factory=dict)


class Walk:
    """Walk over the tokens of a text.

    Args:
        tokens: from `tokens.tokenize`.
        root: the message that the text holds.
    """

    def __init__(self, tokens: Sequence[Token], root: descriptor_lib.Descriptor):
        self.root = root
        self._tokens = tokens
        self._next = 0
        self._frames = [_Frame(root, '', None)]

    def run(self) -> Optional[Problem]:
        """Walk to the first problem and return it; return None if there is none."""
        try:
            self._message_body()
        except _StopError as stop:
            return stop.problem
        return None

    @property
    def _path(self) -> str:
        return '.'.join(frame.name for frame in self._frames if frame.name)

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._token
        if token.kind != END:
            self._next += 1
        return token

    def _take_if(self, *texts: str) -> bool:
        if self._token.kind != STRING and self._token.text in texts:
            self._take()
            return True
        return False

    def _fail(
        self, text: str, kind: str = '', token: Optional[Token] = None, **details
    ) -> NoReturn:
        message = self._frames[-1].message
        token = token or self._token
        raise _StopError(Problem(kind, text, token, self._path, message, **details))

    def _message_body(self) -> None:
        frame = self._frames[-1]
        while True:
            token = self._token
            if token.kind == END:
                if frame.opener is not None:
                    text = f"expected '{OPENERS[frame.opener.text]}', got the end of the text."
                    self._fail(text, UNBALANCED, brace=MISSING)
                return
            if token.text in CLOSERS:
                self._close(frame)
                return
            self._field(frame)
            self._take_if(',', ';')

    def _close(self, frame: _Frame) -> None:
        token = self._take()
        if frame.opener is None:
            text = f"this '{token.text}' closes nothing."
            self._fail(text, UNBALANCED, token, brace=EXTRA)
        if token.text != OPENERS[frame.opener.text]:
            self._fail(f"expected '{OPENERS[frame.opener.text]}', got {token.text!r}.", '', token)

    def _field(self, frame: _Frame) -> None:
        token = self._take()
        if token.kind != WORD:
            self._fail(f'expected the name of a field, got {_shown(token)}.', '', token)
        field = frame.message.fields_by_name.get(token.text)
        if field is None:
            text = f'unknown field {token.text!r}.'
            self._fail(text, UNKNOWN_FIELD, token, brace=self._brace_before(frame, token.text))
        self._check_first(frame, field, token)
        if schema.is_message(field):
            self._take_if(':')
            self._values(frame, field, self._message)
        else:
            if not self._take_if(':'):
                self._fail(f"expected ':' after {field.name!r}, got {_shown(self._token)}.")
            self._values(frame, field, self._scalar)

    def _brace_before(self, frame: _Frame, name: str) -> str:
        """Return the brace fault that may be the cause of a misplaced field."""
        if any(name in each.message.fields_by_name for each in self._frames[:-1]):
            return MISSING
        closed = frame.closed
        return EXTRA if closed is not None and name in closed.fields_by_name else ''

    def _check_first(self, frame: _Frame, field: Field, token: Token) -> None:
        """Check that a singular field, or its oneof, is not set yet."""
        if schema.is_repeated(field):
            return
        brace = self._brace_before(frame, field.name)
        details: Dict[str, Any] = {'kind': DUPLICATE, 'token': token, 'brace': brace}
        if field.name in frame.first:
            text = f'{field.name!r} is given twice, first on line {{line}}; it takes one value.'
            self._fail(text, other=frame.first[field.name], **details)
        oneof = field.containing_oneof
        if oneof is not None:
            for other in oneof.fields:
                if other.name in frame.first:
                    text = f'{field.name!r} excludes {other.name!r}, which line {{line}} gives.'
                    self._fail(text, other=frame.first[other.name], **details)
        frame.first[field.name] = token

    def _values(self, frame: _Frame, field: Field, read: Callable[[_Frame, Field], None]) -> None:
        """Read one value, or a list in brackets for a repeated field."""
        if self._token.text != '[':
            read(frame, field)
            return
        if not schema.is_repeated(field):
            self._fail(f'{field.name!r} takes one value, not a list.')
        self._take()
        if self._take_if(']'):
            return
        while True:
            read(frame, field)
            if self._take_if(']'):
                return
            if not self._take_if(','):
                self._fail(f"expected ',' or ']' in a list, got {_shown(self._token)}.")

    def _message(self, frame: _Frame, field: Field) -> None:
        token = self._token
        if token.kind == STRING or token.text not in OPENERS:
            kind = schema.short_name(field.message_type)
            text = f"expected '{{': {field.name!r} is a message ({kind}), got {_shown(token)}."
            self._fail(text)
        self._take()
        name = field.name
        if schema.is_repeated(field):
            index = frame.count.get(name, 0)
            frame.count[name] = index + 1
            name = f'{name}.{index}'
        self._frames.append(_Frame(field.message_type, name, token))
        self._message_body()
        self._frames.pop()
        frame.closed = field.message_type

    def _scalar(self, frame: _Frame, field: Field) -> None:
        del frame
        token = self._token
        if field.cpp_type == Field.CPPTYPE_STRING and token.kind == STRING:
            while self._token.kind == STRING:  # adjacent strings are one value
                self._check_escapes(field, self._take())
            return
        if token.kind != WORD or scalar_value(field, token.text) is None:
            hint = _value_hint(field, token)
            self._fail(f'{field.name!r} expects {expectation(field)}, got {_shown(token)}{hint}')
        self._take()

    def _check_escapes(self, field: Field, token: Token) -> None:
        """Check that no backslash of a path is read as an escape."""
        raw = token.text
        if _DRIVE.match(raw) or (_PATH_FIELD.search(field.name) and _PATH_ESCAPE.search(raw)):
            self._fail(
                'a backslash in a string begins an escape (\\n is a new line), so this is not the '
                f'path that it looks like; write {raw.replace(chr(92), "/")} with slashes, or '
                'double each backslash.',
                ESCAPE,
                token,
            )
        control = _CONTROL_ESCAPE.search(raw)
        if control:
            letter = control.group('letter')
            self._fail(
                f'"\\{letter}" in a string is a control character; for a backslash and '
                f'{letter!r} write "\\\\{letter}".',
                ESCAPE,
                token,
            )


def expectation(field: Field) -> str:
    """Describe the values that a field allows."""
    if field.cpp_type in _INTEGER_RANGES:
        low, high = _INTEGER_RANGES[field.cpp_type]
        return f'a whole number from {low} to {high}'
    if field.cpp_type in (Field.CPPTYPE_FLOAT, Field.CPPTYPE_DOUBLE):
        return 'a number'
    if field.cpp_type == Field.CPPTYPE_BOOL:
        return 'true or false'
    if field.cpp_type == Field.CPPTYPE_ENUM:
        return f'one of {", ".join(schema.value_names(field))}'
    return 'a string in quotes'


def scalar_value(field: Field, text: str) -> Union[int, float, bool, None]:
    """Parse a word as the value of a field that is neither a message nor a string.

    Returns:
        The value (the number of an enum value); None if the word is not a value of the field.
    """
    number = _integer(text)
    if field.cpp_type in _INTEGER_RANGES:
        low, high = _INTEGER_RANGES[field.cpp_type]
        return number if number is not None and low <= number <= high else None
    if field.cpp_type in (Field.CPPTYPE_FLOAT, Field.CPPTYPE_DOUBLE):
        return _number(text)
    if field.cpp_type == Field.CPPTYPE_BOOL:
        return _BOOLEANS.get(text)
    if field.cpp_type == Field.CPPTYPE_ENUM:
        if number in field.enum_type.values_by_number:
            return number
        value = field.enum_type.values_by_name.get(text)
        return None if value is None else value.number
    return None


def _integer(text: str) -> Optional[int]:
    """Parse an integer in any notation of protobuf text; None for another word."""
    try:
        return int(_OCTAL.sub(r'\g<1>0o\2', text), 0)
    except ValueError:
        return None


def _number(text: str) -> Optional[float]:
    """Parse a number; None for another word."""
    for candidate in (text, text[:-1] if text[-1:] in ('f', 'F') else text):
        try:
            return float(candidate)
        except ValueError:
            continue
    return None


def _value_hint(field: Field, token: Token) -> str:
    """Return the correct spelling of an almost valid value, as the end of a sentence."""
    if token.kind == STRING and scalar_value(field, token.text[1:-1]) is not None:
        return f': write {token.text[1:-1]} without quotes.'
    if field.cpp_type == Field.CPPTYPE_STRING and token.kind == WORD:
        return f': write "{token.text}".'
    return enum_hint(field, token.text.strip('"\''))


def enum_hint(field: Field, text: str) -> str:
    """Return the end of a sentence about a wrong value, with the nearest value of an enum."""
    if field.cpp_type == Field.CPPTYPE_ENUM:
        near = errors.nearest(text, schema.value_names(field))
        return f'; did you mean {near}?' if near else '.'
    return '.'


def _shown(token: Token) -> str:
    """Quote a token for a message."""
    if token.kind == END:
        return 'the end of the text'
    if token.kind in (STRING, UNCLOSED_STRING):
        return f'the string {token.text}'
    return repr(token.text)
