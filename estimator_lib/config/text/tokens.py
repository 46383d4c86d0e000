"""Tokens of a config's text with their positions, for error messages."""

from __future__ import annotations

import dataclasses
import re
from typing import Iterator, List, Optional, Sequence

WORD = 'word'  # a name, a number or an enum value
STRING = 'string'
UNCLOSED_STRING = 'unclosed string'
SYMBOL = 'symbol'
END = 'end'

OPENERS = {'{': '}', '<': '>'}
CLOSERS = {'}': '{', '>': '<'}

_TOKEN = re.compile(
    r"""(?P<blank>(?:\s|\#[^\n]*)+)
      | (?P<word>[-+]?[A-Za-z0-9_.][A-Za-z0-9_.+-]*)
      | (?P<string>"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*')
      | (?P<unclosed>["'][^\n]*)
      | (?P<symbol>.)""",
    re.VERBOSE,
)
_KINDS = {'word': WORD, 'string': STRING, 'unclosed': UNCLOSED_STRING, 'symbol': SYMBOL}
_LONGEST_LINE = 110


@dataclasses.dataclass(frozen=True)
class Token:
    """A piece of a config's text.

    Attributes:
        kind: `WORD`, `STRING` (with its quotes), `UNCLOSED_STRING` (to the end of its line),
            `SYMBOL` (one character) or `END` (empty, after the last token).
        text: the characters, as written.
        offset: the index of the first character.
    """

    kind: str
    text: str
    offset: int


def tokenize(text: str) -> List[Token]:
    """Split a text into tokens, without blanks and comments, and append an `END`."""
    tokens = []
    end = 0
    for match in _TOKEN.finditer(text):
        if match.lastgroup != 'blank':
            tokens.append(Token(_KINDS[match.lastgroup], match.group(), match.start()))
            end = match.end()
    return tokens + [Token(END, '', end)]


class Source:
    """A named text, with positions by offset.

    Args:
        text: the whole text.
        name: the name of the text in messages: a file name.
    """

    def __init__(self, text: str, name: str):
        self.text = text
        self.name = name

    def offset(self, line: int, column: int) -> int:
        """Return the offset of a line and a column, both from 1."""
        lines = self.text.split('\n')
        return sum(len(each) + 1 for each in lines[: line - 1]) + column - 1

    def line_number(self, offset: int) -> int:
        """Return the line of an offset, from 1."""
        return self.text.count('\n', 0, offset) + 1

    def column(self, offset: int) -> int:
        """Return the column of an offset, from 1, in characters."""
        return offset - self._line_start(offset) + 1

    def line(self, offset: int) -> str:
        """Return the line around an offset, without its end."""
        start = self._line_start(offset)
        end = self.text.find('\n', start)
        return self.text[start : len(self.text) if end < 0 else end].rstrip('\r')

    def indentation(self, offset: int) -> int:
        """Return the indentation of the line around an offset; a tab counts as eight."""
        line = self.line(offset).expandtabs(8)
        return len(line) - len(line.lstrip())

    def starts_line(self, token: Token) -> bool:
        """Return whether a token is the first one of its line."""
        return not self.text[self._line_start(token.offset) : token.offset].strip()

    def place(self, offset: int) -> str:
        """Format an offset as `file:line:column`."""
        return f'{self.name}:{self.line_number(offset)}:{self.column(offset)}'

    def picture(self, offset: int) -> str:
        """Return the line around an offset, with a caret under the offset."""
        line = self.line(offset)
        position = min(offset - self._line_start(offset), len(line))
        if len(line) > _LONGEST_LINE:
            first = max(0, position - _LONGEST_LINE // 2)
            line, position = line[first : first + _LONGEST_LINE], position - first
        # The margin keeps tabs, so that the caret is under its character at any tab width.
        margin = ''.join('\t' if character == '\t' else ' ' for character in line[:position])
        return f'{line}\n{margin}^'

    def _line_start(self, offset: int) -> int:
        return self.text.rfind('\n', 0, offset) + 1


@dataclasses.dataclass(frozen=True)
class BraceFault:
    """The brace that is most likely the cause of unbalanced braces.

    Attributes:
        token: an opening brace that nothing closes, or a closing brace that closes nothing.
        closed_by: the closing brace that is too far left to belong to `token`, if there is one.
    """

    token: Token
    closed_by: Optional[Token] = None

    @property
    def is_unclosed(self) -> bool:
        """True if a closing brace is missing, False if there is one too many."""
        return self.token.text in OPENERS


def find_brace_fault(source: Source, tokens: Sequence[Token]) -> Optional[BraceFault]:
    """Find the most likely cause of unbalanced braces by the indentation.

    The count of braces only shows that one is missing. The indentation shows which one: the first
    closing brace that is left of the line of its opening brace was meant for an outer one.

    Args:
        source: the text.
        tokens: its tokens.

    Returns:
        The most likely fault; None if the braces are balanced.
    """
    opened: List[Token] = []
    too_far_left: Optional[BraceFault] = None
    too_far_right: Optional[BraceFault] = None
    for token in _braces(tokens):
        if token.text in OPENERS:
            opened.append(token)
            continue
        if not opened:
            return too_far_right or BraceFault(token)
        opener = opened.pop()
        shift = _shift(source, opener, token)
        if shift < 0 and too_far_left is None:
            too_far_left = BraceFault(opener, token)
        elif shift > 0 and too_far_right is None:
            too_far_right = BraceFault(token)
    if not opened:
        return None
    return too_far_left or BraceFault(opened[-1])


def _braces(tokens: Sequence[Token]) -> Iterator[Token]:
    return (
        token
        for token in tokens
        if token.kind == SYMBOL and (token.text in OPENERS or token.text in CLOSERS)
    )


def _shift(source: Source, opener: Token, closer: Token) -> int:
    """Return how far a closing brace is right of its opener's line; 0 inside a line."""
    same_line = source.line_number(opener.offset) == source.line_number(closer.offset)
    if same_line or not source.starts_line(closer):
        return 0
    return source.indentation(closer.offset) - source.indentation(opener.offset)
