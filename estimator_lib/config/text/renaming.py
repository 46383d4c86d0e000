"""Translation of field names of other schema versions to those of this schema.

The table is `protos.other_names.RENAMED`; none of its names parses here. A text that does not parse
is edited without changing its line breaks. So an error in it still names the line of the file.
"""

from __future__ import annotations

from typing import List, Mapping, NamedTuple, Optional, Sequence, Tuple

from estimator_lib import errors
from estimator_lib.config.text.tokens import CLOSERS, OPENERS, SYMBOL, WORD, Source, Token, tokenize
from protos.other_names import RENAMED, Renamed


class Change(NamedTuple):
    """A part of a text that is replaced.

    Attributes:
        start: offset of its first character.
        end: offset after its last one.
        text: the replacement.
    """

    start: int
    end: int
    text: str


def apply(text: str, name: str, renamed: Mapping[str, Renamed] = RENAMED) -> Tuple[str, List[str]]:
    """Translate the field names of a text to those of this schema.

    Args:
        text: protobuf text.
        name: the name of the text in messages: a file name.
        renamed: the rules by `message field/field`; see `Renamed`.

    Returns:
        The translated text, and a sentence for each translated name.

    Raises:
        errors.ConfigError: the text has a name whose meaning is not available here.
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
        notes.append(f'{source.place(token.offset)}: {token.text} is {_describe(rule, value)}.')
    return _changed(text, changes), notes


def _describe(rule: Renamed, value: Optional[Token]) -> str:
    """Describe the translation of a field."""
    if not rule.now:
        return f'left out: {rule.why}' if rule.why else 'left out'
    if rule.becomes:
        return f'read as {rule.now}: {_became(rule, value)}'
    return f'read as {rule.now} with {rule.more}' if rule.more else f'read as {rule.now}'


def _became(rule: Renamed, value: Token) -> str:
    """Translate a value of another version."""
    return rule.becomes[rule.values.index(_unquoted(value))]


def _unquoted(value: Token) -> str:
    return value.text.strip('"\'')


def _is_field(tokens: Sequence[Token], index: int) -> bool:
    """Return whether a word is a field name: a value or a message follows it."""
    following = tokens[index + 1].text
    return following == ':' or following in OPENERS


def _name_before(tokens: Sequence[Token], index: int) -> str:
    """Return the name of the field whose message an opening brace begins."""
    before = index - 1
    if before >= 0 and tokens[before].text == ':':
        before -= 1
    return tokens[before].text if before >= 0 else ''


def _value(tokens: Sequence[Token], index: int) -> Optional[Token]:
    """Return the value after a field name; None for a message."""
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
        # Blanks of the same length, so that later columns of the line stay.
        return [Change(token.offset, end, ' ' * (end - token.offset))]
    changes = [Change(token.offset, end, rule.now)]
    if rule.becomes:
        value = tokens[index + 2]
        changes.append(Change(value.offset, value.offset + len(value.text), _became(rule, value)))
    if rule.more:
        opener = next(token for token in tokens[index:] if token.text in OPENERS)
        changes.append(Change(opener.offset + 1, opener.offset + 1, f' {rule.more} '))
    return changes


def _changed(text: str, changes: Sequence[Change]) -> str:
    # From the end, so that earlier offsets stay valid.
    for change in sorted(changes, reverse=True):
        text = text[: change.start] + change.text + text[change.end :]
    return text
