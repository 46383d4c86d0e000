"""Parser of config texts with error messages that say where, in which message, and why.

The protobuf parser decides what is valid. `schema_walk` compares only two kinds of text with the
schema: a text that the parser refuses, to tell the user how to fix it; and a text with backslashes,
because the parser accepts a Windows path but reads its backslashes as escapes.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Optional, Sequence

from google.protobuf import descriptor as descriptor_lib
from google.protobuf import message as message_lib
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.config import schema
from estimator_lib.config.text import schema_walk
from estimator_lib.config.text.tokens import (
    STRING,
    UNCLOSED_STRING,
    WORD,
    Source,
    Token,
    find_brace_fault,
    tokenize,
)

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
        problem = schema_walk.Walk(tokenize(text), message.DESCRIPTOR).run()
        if problem is not None and problem.kind == schema_walk.ESCAPE:
            raise errors.ConfigError(_render(source, problem, problem.text))


def _explain(source: Source, root: descriptor_lib.Descriptor, error: text_format.ParseError) -> str:
    """Build the whole error message for a text that the protobuf parser refused."""
    tokens = tokenize(source.text)
    walk = schema_walk.Walk(tokens, root)
    problem = walk.run()
    if problem is None:  # The walk found nothing: fall back to the parser's own message.
        return f'{source.name}:{error.GetLine() or 1}:{error.GetColumn() or 1}: {error}'
    if _HTML_FILE.match(source.text) or _HTML_TAG.search(source.line(problem.token.offset)):
        return _render(source, problem, _HTML_TEXT)
    braces = _explain_braces(source, tokens, problem)
    if braces:
        return _render(source, problem, braces)
    if problem.kind == schema_walk.UNKNOWN_FIELD:
        return _explain_unknown_field(source, walk, problem)
    if problem.kind == schema_walk.DUPLICATE:
        first = source.line_number(problem.other.offset)
        return _render(source, problem, problem.text.format(line=first))
    return _render(source, problem, problem.text + _cause(source, problem.token))


def _render(source: Source, problem: schema_walk.Problem, text: str, *more: str) -> str:
    """Format place, message path, explanation, the line with a caret, and further lines."""
    path = f'in {problem.path}: ' if problem.path else ''
    offset = problem.token.offset
    return '\n'.join([f'{source.place(offset)}: {path}{text}', source.picture(offset), *more])


_HTML_TEXT = (
    'this is a web page (HTML), not the config that it shows; download the raw file ("Raw" on '
    'a page that shows source code), or copy only the text.'
)


def _cause(source: Source, token: Token) -> str:
    """Explain the token at the error if it is a common mistake; else return an empty string."""
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
    if rest[:1] == '[':
        return ' Extensions, [package.name], are not known here.'
    if token.text and not token.text.isascii():
        character = next(each for each in token.text if ord(each) > 127)
        title = unicodedata.name(character, 'a character without a name')
        return f' There is a {title} (U+{ord(character):04X}) here.'
    return ''


def _explain_braces(
    source: Source, tokens: Sequence[Token], problem: schema_walk.Problem
) -> Optional[str]:
    """Explain a problem that a missing or extra brace causes; None for other problems."""
    fault = find_brace_fault(source, tokens) if problem.brace else None
    if fault is None or fault.token.offset > problem.token.offset:
        return None
    if fault.is_unclosed != (problem.brace == schema_walk.MISSING):
        return None
    number = source.line_number(fault.token.offset)
    line = source.line(fault.token.offset).strip()
    if not fault.is_unclosed:
        return f'there is one closing brace too many, most likely {line!r} on line {number}.'
    column = source.column(fault.token.offset)
    text = f'the brace opened on line {number}, column {column} ({line!r}) is not closed'
    if fault.closed_by is not None:
        closer = source.line_number(fault.closed_by.offset)
        text += f": the '{fault.closed_by.text}' on line {closer} stands left of it"
    if problem.kind == schema_walk.UNKNOWN_FIELD:
        text += f', so {problem.token.text!r} is read as a part of it'
    return text + '.'


def _explain_unknown_field(
    source: Source, walk: schema_walk.Walk, problem: schema_walk.Problem
) -> str:
    """Explain an unknown field: list the known ones, and the paths where such a field exists."""
    name, message = problem.token.text, problem.message
    lines = [schema.known_fields(name, message)]
    elsewhere = schema.fields_elsewhere(name, walk.root)
    if '.' in name.strip('.') and problem.token.kind == WORD:
        lines.insert(0, 'A dotted path is for settings; in a file, messages are nested in braces.')
    elif elsewhere:
        lines.insert(0, f'Here it is {" or ".join(elsewhere)}.')
    elif errors.nearest(name, message.fields_by_name) is None:
        lines.insert(
            0,
            'No message of this schema has such a field: it may be of another version or variant '
            'of the config.',
        )
    return _render(source, problem, schema.unknown_field(name, message), *lines)
