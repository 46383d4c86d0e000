"""Parser of config texts with error messages that say where, in which message, and why.

The protobuf parser decides what is valid, and where a text is not. `places` then knows the message
and the field there. It also finds the fields of strings with backslashes, because the parser
accepts a Windows path but reads its backslashes as escapes.
"""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from typing import Optional, Sequence

from google.protobuf import descriptor as descriptor_lib
from google.protobuf import message as message_lib
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.config import schema
from estimator_lib.config.text import places, values
from estimator_lib.config.text.places import Place
from estimator_lib.config.text.tokens import (
    CLOSERS,
    END,
    OPENERS,
    STRING,
    UNCLOSED_STRING,
    WORD,
    Source,
    Token,
    find_brace_fault,
    tokenize,
)

# What the parser says of a field that is set twice, by itself or by another member of a oneof.
# Its errors have no codes, only these texts.
_TWICE = re.compile(r'multiple "(\w+)" fields|with field "(\w+)", another member')
# What it says where the text ends too early.
_AT_END = re.compile(r" : (Expected \"[}>]\"\.$|'': )")
# A backslash before a letter in a path, and an escape of a control character elsewhere.
_DRIVE = re.compile(r'.[A-Za-z]:\\(?!\\)')
_PATH_ESCAPE = re.compile(r'(?<!\\)(\\\\)*\\[A-Za-z]')
_CONTROL_ESCAPE = re.compile(r'(?<!\\)(\\\\)*\\(?P<letter>[abfnrtv])')
_PATH_FIELD = re.compile(r'path|checkpoint|(^|_)(dir|file)')
_SMART_QUOTES = '“”„‟‘’‚‛«»′″＂＇`´'
_HTML_FILE = re.compile(r'\s*<(!doctype|html|head|body|\?xml)\b', re.IGNORECASE)
_HTML_TAG = re.compile(
    r'<!--|</?(a|b|body|br|code|div|em|head|html|li|link|meta|p|pre|script|span|table|tbody|td|tr)'
    r'(\s[^<>]*)?/?>|&(lt|gt|amp|quot|nbsp|#\d+);',
    re.IGNORECASE,
)


def refuse_bytes(text: str, name: str) -> None:
    """Refuse a text with bytes that were not UTF-8, as a command line of Latin-1 gives them.

    Args:
        text: the text.
        name: of the text in the message, such as the path of its file.

    Raises:
        errors.ConfigError: there are such bytes.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise errors.ConfigError(
            f'{name}: {text[: error.end]!r:.100} is not UTF-8 at its end; expected characters.'
        ) from None


def parse(text: str, message: message_lib.Message, name: str) -> None:
    """Parse protobuf text into an empty message.

    Args:
        text: the text.
        message: an empty message of the kind that the text should hold.
        name: the name of the text in error messages: a file name.

    Raises:
        errors.ConfigError: the text does not parse. The error shows `name:line:column`, the message
            path, the expectation, the line with a caret, and the nearest valid names.
    """
    refuse_bytes(text, name)
    source = Source(text, name)
    try:
        text_format.Parse(text, message)
    except text_format.ParseError as error:
        raise errors.ConfigError(_explain(source, message.DESCRIPTOR, error)) from None
    if '\\' in text:
        for place in places.walk(tokenize(text), message.DESCRIPTOR):
            problem = _escape_problem(place)
            if problem:
                raise errors.ConfigError(_render(source, place, problem))


def _escape_problem(place: Place) -> str:
    """Describe a backslash in a string that is read as an escape; empty if there is none."""
    raw, field = place.token.text, place.frames[-1].field
    if place.token.kind != STRING or field is None:
        return ''
    if _DRIVE.match(raw) or (_PATH_FIELD.search(field.name) and _PATH_ESCAPE.search(raw)):
        return (
            'a backslash in a string begins an escape (\\n is a new line), so this is not the '
            f'path that it looks like; write {raw.replace(chr(92), "/")} with slashes, or '
            'double each backslash.'
        )
    control = _CONTROL_ESCAPE.search(raw)
    if control is None:
        return ''
    letter = control.group('letter')
    return (
        f'"\\{letter}" in a string is a control character; for a backslash and '
        f'{letter!r} write "\\\\{letter}".'
    )


def _explain(source: Source, root: descriptor_lib.Descriptor, error: text_format.ParseError) -> str:
    """Build the whole error message for a text that the protobuf parser refused."""
    tokens = tokenize(source.text)
    twice = _TWICE.search(str(error))
    offset = len(source.text)
    if not _AT_END.search(str(error)):
        offset = source.offset(error.GetLine() or 1, error.GetColumn() or 1)
    behind = twice[1] if twice else '[' if 'xtension' in str(error) else None
    if behind:  # The parser is behind the name of the field.
        named = (token for token in reversed(tokens) if token.offset <= offset)
        offset = next((token.offset for token in named if token.text == behind), offset)
    place = _find(tokens, root, offset)
    if _HTML_FILE.match(source.text) or _HTML_TAG.search(source.line(place.token.offset)):
        return _render(source, place, _HTML_TEXT)
    is_word = place.is_name and place.token.kind == WORD
    is_unknown = is_word and not place.frames[-1].has(place.token.text)
    return (
        _explain_braces(source, tokens, place, is_unknown, bool(twice))
        or (is_unknown and _explain_unknown_field(source, root, place))
        or _render(source, place, _describe(source, place, error, twice))
    )


def _find(tokens: Sequence[Token], root: descriptor_lib.Descriptor, offset: int) -> Place:
    """Return the place of the token at an offset."""
    found = None
    for place in places.walk(tokens, root):
        if found is not None and place.token.offset > offset:
            break
        # Copies, as `walk` changes its frames after it has yielded a place.
        frames = [dataclasses.replace(frame, names=[*frame.names]) for frame in place.frames]
        found = place._replace(frames=frames)
    assert found is not None
    return found


def _describe(
    source: Source,
    place: Place,
    error: text_format.ParseError,
    twice: Optional[re.Match],
) -> str:
    """Describe what the parser refused, and what was expected."""
    token, frame = place.token, place.frames[-1]
    field, shown = frame.field, values.shown(token)
    if twice:
        other = twice[1] or twice[2]
        first = next((name for name in frame.names if name.text == other), token)
        line = source.line_number(first.offset)
        if twice[1]:
            return f'{other!r} is given twice, first on line {line}; it takes one value.'
        return f'{token.text!r} excludes {other!r}, which line {line} gives.'
    if not place.is_name:
        if frame.in_list and not place.is_value:
            text = f"expected ',' or ']' in a list, got {shown}."
        elif field is None or (token.kind == STRING and field.cpp_type == field.CPPTYPE_STRING):
            return _escape_problem(place) or f'{error}.'
        else:
            text = _expected_value(place, field)
    elif token.text in CLOSERS and frame.opener is None:
        text = f"this '{token.text}' closes nothing."
    elif _is_valid(place):
        # The parser stops behind a string that it cannot decode.
        return f'{error}.'
    elif frame.opener and (token.kind == END or token.text in CLOSERS):
        text = f"expected '{OPENERS[frame.opener.text]}', got {shown}."
    else:
        text = f'expected the name of a field, got {shown}.'
    return text + _cause(source, place)


def _is_valid(place: Place) -> bool:
    """Return whether a token in the place of a name is a known field or closes its message."""
    token, frame = place.token, place.frames[-1]
    closes = frame.opener is not None and token.text == OPENERS[frame.opener.text]
    return closes or (token.kind == WORD and frame.has(token.text))


def _expected_value(place: Place, field: descriptor_lib.FieldDescriptor) -> str:
    """Describe what was expected behind the name of a field."""
    token, shown = place.token, values.shown(place.token)
    if token.text == '[' and not schema.is_repeated(field):
        return f'{field.name!r} takes one value, not a list.'
    if schema.is_message(field):
        kind = schema.short_name(field.message_type)
        return f"expected '{{': {field.name!r} is a message ({kind}), got {shown}."
    if not place.is_value:
        return f"expected ':' after {field.name!r}, got {shown}."
    hint = values.value_hint(field, token)
    return f'{field.name!r} expects {values.expectation(field)}, got {shown}{hint}'


def _render(source: Source, place: Place, text: str, *more: str) -> str:
    """Format place, message path, explanation, the line with a caret, and further lines."""
    path = f'in {place.path}: ' if place.path else ''
    offset = place.token.offset
    return '\n'.join([f'{source.place(offset)}: {path}{text}', source.picture(offset), *more])


_HTML_TEXT = (
    'this is a web page (HTML), not the config that it shows; download the raw file ("Raw" on '
    'a page that shows source code), or copy only the text.'
)


def _cause(source: Source, place: Place) -> str:
    """Explain the token at the error if it is a common mistake; else return an empty string."""
    token = place.token
    rest = source.text[token.offset : token.offset + 2]
    if token.kind != STRING and any(quote in token.text for quote in _SMART_QUOTES):
        return (
            ' There is a typographic ("smart") quote here, as word processors and chat programs '
            'make them; use the plain quotes " or \'.'
        )
    if token.kind == UNCLOSED_STRING:
        if re.match(r'.[A-Za-z]:\\', token.text):
            return ' A backslash before a quote keeps the string open; write paths with slashes.'
        return ' The string that begins here has no closing quote in its line.'
    if rest[:1] == '=':
        return ' Fields are set with ":", not with "=".'
    if rest in ('//', '/*'):
        return ' Comments begin with "#".'
    if token.offset == 0 and rest[:1] in ('{', '['):
        return ' This looks like JSON; a config is protobuf text: `name: value`, `name { ... }`.'
    if rest[:1] == '[' and place.is_name:
        return ' Extensions, [package.name], are not known here.'
    if token.text and not token.text.isascii():
        character = next(each for each in token.text if ord(each) > 127)
        title = unicodedata.name(character, 'a character without a name')
        return f' There is a {title} (U+{ord(character):04X}) here.'
    return ''


def _explain_braces(
    source: Source, tokens: Sequence[Token], place: Place, is_unknown: bool, is_twice: bool
) -> str:
    """Explain a problem that a missing or extra brace causes; empty for other problems."""
    token, (*outer, frame) = place.token, place.frames
    misses = place.is_name and token.kind == END and bool(outer)
    exceeds = place.is_name and token.text in CLOSERS and not outer
    if is_unknown or is_twice:
        misses = any(each.has(token.text) for each in outer)
        closed = frame.closed
        exceeds = not misses and closed is not None and token.text in closed.fields_by_name
    fault = find_brace_fault(source, tokens) if misses or exceeds else None
    if fault is None or fault.token.offset > token.offset or fault.is_unclosed != misses:
        return ''
    number = source.line_number(fault.token.offset)
    line = source.line(fault.token.offset).strip()
    if not fault.is_unclosed:
        text = f'there is one closing brace too many, most likely {line!r} on line {number}.'
        return _render(source, place, text)
    column = source.column(fault.token.offset)
    text = f'the brace opened on line {number}, column {column} ({line!r}) is not closed'
    if fault.closed_by is not None:
        closer = source.line_number(fault.closed_by.offset)
        text += f": the '{fault.closed_by.text}' on line {closer} stands left of it"
    if is_unknown:
        text += f', so {token.text!r} is read as a part of it'
    return _render(source, place, f'{text}.')


def _explain_unknown_field(source: Source, root: descriptor_lib.Descriptor, place: Place) -> str:
    """Explain an unknown field: list the known ones, and the paths where such a field exists."""
    name, message = place.token.text, place.frames[-1].message
    assert message is not None
    lines = [schema.known_fields(name, message)]
    elsewhere = schema.fields_elsewhere(name, root)
    if '.' in name.strip('.'):
        lines.insert(0, 'A dotted path is for settings; in a file, messages are nested in braces.')
    elif elsewhere:
        lines.insert(0, f'Here it is {" or ".join(elsewhere)}.')
    elif errors.nearest(name, message.fields_by_name) is None:
        lines.insert(
            0,
            'No message of this schema has such a field: it may be of another version or variant '
            'of the config.',
        )
    return _render(source, place, schema.unknown_field(name, message), *lines)
