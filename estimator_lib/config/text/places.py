"""Places of a config's tokens: the messages that a token is in, by braces and names of fields."""

from __future__ import annotations

import collections
import dataclasses
from typing import Counter, Iterator, List, NamedTuple, Optional, Sequence

from google.protobuf import descriptor as descriptor_lib

from estimator_lib.config import schema
from estimator_lib.config.text.tokens import CLOSERS, OPENERS, SYMBOL, WORD, Token


@dataclasses.dataclass
class Frame:
    """An open message.

    Attributes:
        message: its kind; None: the schema has no such field.
        name: its name in a path, with an index in a list; empty for the whole text.
        opener: its opening brace; None for the whole text.
        closed: the last message that it held.
        in_list: whether a bracket is open.
        names: the names of its fields so far.
        opened: the number of messages so far, by name.
    """

    message: Optional[descriptor_lib.Descriptor]
    name: str = ''
    opener: Optional[Token] = None
    closed: Optional[descriptor_lib.Descriptor] = None
    in_list: bool = False
    names: List[Token] = dataclasses.field(default_factory=list)
    opened: Counter[str] = dataclasses.field(default_factory=collections.Counter)

    def has(self, name: str) -> bool:
        """Return whether the message has a field of this name."""
        return self.message is not None and name in self.message.fields_by_name

    @property
    def field(self) -> Optional[descriptor_lib.FieldDescriptor]:
        """The field of the last name; None if the message has no such field."""
        if not self.names or not self.has(self.names[-1].text):
            return None
        return self.message.fields_by_name[self.names[-1].text]


class Place(NamedTuple):
    """A token and where it stands.

    Attributes:
        token: the token.
        previous: the token before it; None: it is the first.
        frames: the open messages, the whole text first, as they are before the token.
    """

    token: Token
    previous: Optional[Token]
    frames: Sequence[Frame]

    @property
    def path(self) -> str:
        """The path of the innermost message: `eval_input_reader.1`."""
        return '.'.join(frame.name for frame in self.frames if frame.name)

    @property
    def is_value(self) -> bool:
        """Whether the token stands where the value of a field is expected."""
        before = self.previous.text if self.previous else ''
        return before == ':' or (self.frames[-1].in_list and before in ('[', ','))

    @property
    def is_name(self) -> bool:
        """Whether the token stands where the name of a field is expected."""
        frame = self.frames[-1]
        return not (self.is_value or frame.in_list or self.previous in frame.names[-1:])


def walk(tokens: Sequence[Token], root: descriptor_lib.Descriptor) -> Iterator[Place]:
    """Yield the place of each token; a place is valid until the next one.

    Args:
        tokens: from `tokens.tokenize`.
        root: the message that the text holds.
    """
    frames = [Frame(root)]
    previous = None
    for token in tokens:
        place = Place(token, previous, frames)
        yield place
        frame = frames[-1]
        # Also a name without its colon or brace, so that the error can say what is missing.
        if token.kind == WORD and place.is_name:
            frame.names.append(token)
        elif token.kind == SYMBOL and token.text in '[]':
            frame.in_list = token.text == '['
        elif token.kind == SYMBOL and token.text in OPENERS:
            frames.append(_open(frame, token))
        elif token.kind == SYMBOL and token.text in CLOSERS and len(frames) > 1:
            closed = frames.pop().message
            frames[-1].closed = closed
        previous = token


def _open(frame: Frame, opener: Token) -> Frame:
    """Return the frame of a message that begins in another."""
    name, field = frame.names[-1].text if frame.names else '', frame.field
    if field is None:
        return Frame(None, name, opener)
    if schema.is_repeated(field):
        frame.opened[name] += 1
        name = f'{name}.{frame.opened[name] - 1}'
    return Frame(field.message_type, name, opener)
