"""Names that another version has for fields that are here, read as what they are here.

The table is `protos.other_names.RENAMED`: none of its names parses here. A text that does not parse
is changed in place: lines stay lines, so that an error in it still names the line of the file.
"""

from __future__ import annotations

from typing import List, Mapping, NamedTuple, Optional, Sequence, Tuple

from estimator_lib import errors
from estimator_lib.config.tokens import CLOSERS, OPENERS, SYMBOL, WORD, Source, Token, tokenize
from protos.other_names import RENAMED, Renamed


class Change(NamedTuple):
    """A part of a text that is replaced.

    Attributes:
        start: offset of its first character.
        end: offset behind its last one.
        text: what takes its place.
    """

    start: int
    end: int
    text: str


def apply(text: str, name: str, renamed: Mapping[str, Renamed] = RENAMED) -> Tuple[str, List[str]]:
    """Return a text in the names of this schema.

    Args:
        text: protobuf text.
        name: what messages call it: a file name.
        renamed: what becomes of `message field/field`; see `Renamed`.

    Returns:
        The text, and a sentence for each name that it had.

    Raises:
        errors.ConfigError: it has a name whose meaning is not available here.
    """
    source, tokens = Source(text, name), tokenize(text)
    changes: List[Change] = []
    notes: List[str] = []
    parents: List[str] = ['']
    for index, token in enumerate(tokens):
        if token.kind == SYMBOL and token.text in CLOSERS and len(parents) > 1:
            parents.pop()
        if token.kind == SYMBOL and token.text in OPENERS:
            parents.append(_name_before(tokens, index))
        rule = renamed.get(f'{parents[-1]}/{token.text}') if token.kind == WORD else None
        if rule is None or not _is_field(tokens, index):
            continue
        value = _value(tokens, index)
        if rule.refused and (value is None or _unquoted(value) not in rule.values):
            raise errors.ConfigError(
                f'{source.place(token.offset)}: {token.text}: {rule.refused}\n'
                f'{source.picture(token.offset)}'
            )
        if rule.becomes and (value is None or _unquoted(value) not in rule.values):
            continue
        changes += _changes(text, tokens, index, rule)
        notes.append(f'{source.place(token.offset)}: {token.text} is {_said(rule, value)}.')
    return _changed(text, changes), notes


def _said(rule: Renamed, value: Optional[Token]) -> str:
    """Return what became of a field with a value."""
    if not rule.now:
        return f'left out: {rule.why}' if rule.why else 'left out'
    if rule.becomes:
        return f'read as {rule.now}: {_became(rule, value)}'
    return f'read as {rule.now} with {rule.more}' if rule.more else f'read as {rule.now}'


def _became(rule: Renamed, value: Token) -> str:
    """Return the value that one of another version has here."""
    return rule.becomes[rule.values.index(_unquoted(value))]


def _unquoted(value: Token) -> str:
    return value.text.strip('"\'')


def _is_field(tokens: Sequence[Token], index: int) -> bool:
    """Return whether a word is the name of a field: a value or a message follows it."""
    following = tokens[index + 1].text
    return following == ':' or following in OPENERS


def _name_before(tokens: Sequence[Token], index: int) -> str:
    """Return the field whose message an opening brace begins."""
    before = index - 1
    if before >= 0 and tokens[before].text == ':':
        before -= 1
    return tokens[before].text if before >= 0 else ''


def _value(tokens: Sequence[Token], index: int) -> Optional[Token]:
    """Return the value behind a field's name; None of a message."""
    if tokens[index + 1].text != ':' or tokens[index + 2].text in OPENERS:
        return None
    return tokens[index + 2]


def _changes(text: str, tokens: Sequence[Token], index: int, rule: Renamed) -> List[Change]:
    token = tokens[index]
    end = token.offset + len(token.text)
    if not rule.now:
        value = _value(tokens, index)
        if value is not None:
            end = value.offset + len(value.text)
        return [Change(token.offset, end, ' ' * (end - token.offset))]
    changes = [Change(token.offset, end, rule.now)]
    if rule.becomes:
        value = tokens[index + 2]
        changes.append(Change(value.offset, value.offset + len(value.text), _became(rule, value)))
    if rule.more:
        opener = next(one for one in tokens[index:] if one.text in OPENERS)
        changes.append(Change(opener.offset + 1, opener.offset + 1, f' {rule.more} '))
    return changes


def _changed(text: str, changes: Sequence[Change]) -> str:
    for change in sorted(changes, reverse=True):
        text = text[: change.start] + change.text + text[change.end :]
    return text
