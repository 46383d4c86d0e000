"""Values of single fields in texts, and descriptions of them for messages."""

from __future__ import annotations

from typing import Union

from google.protobuf import descriptor as descriptor_lib
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.config import schema
from estimator_lib.config.text.tokens import END, STRING, UNCLOSED_STRING, WORD, Token, tokenize

Field = descriptor_lib.FieldDescriptor

_INTEGER_RANGES = {
    Field.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    Field.CPPTYPE_UINT32: (0, 2**32 - 1),
    Field.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    Field.CPPTYPE_UINT64: (0, 2**64 - 1),
}


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
    word, *_ = tokenize(text)
    if word.kind != WORD or word.text != text:
        return None
    # `message_factory` has no one name for this in protobuf 4 to 7.
    message = field.containing_type._concrete_class()
    try:
        text_format.Parse(f'{field.name}: {text}', message)
    except text_format.ParseError:
        return None
    value = getattr(message, field.name)
    return value[0] if schema.is_repeated(field) else value


def value_hint(field: Field, token: Token) -> str:
    """Return the correct spelling of an almost valid value, as the end of a sentence."""
    if token.kind == STRING and scalar_value(field, token.text[1:-1]) is not None:
        return f': write {token.text[1:-1]} without quotes.'
    if field.cpp_type == Field.CPPTYPE_STRING and token.kind == WORD:
        return f': write "{token.text}".'
    return enum_hint(field, token.text.strip('"\''))


def enum_hint(field: Field, text: str) -> str:
    """Return the end of a sentence about a wrong value, with the nearest value of an enum."""
    near = None
    if field.cpp_type == Field.CPPTYPE_ENUM:
        near = errors.nearest(text, schema.value_names(field))
    return f'; did you mean {near}?' if near else '.'


def shown(token: Token) -> str:
    """Quote a token for a message."""
    if token.kind == END:
        return 'the end of the text'
    if token.kind in (STRING, UNCLOSED_STRING):
        return f'the string {token.text}'
    return repr(token.text)
