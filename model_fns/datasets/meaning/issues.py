"""Issues about a whole data set: one for each kind of problem, with a count and an example."""

from __future__ import annotations

import enum
from typing import NamedTuple


class Severity(enum.Enum):
    """Severity of an issue.

    `ERROR`: a training would learn nonsense. `WARNING`: the data are allowed, and probably a
    mistake.
    """

    ERROR = 'error'
    WARNING = 'warning'


class Issue(NamedTuple):
    """Problem of a whole data set.

    Attributes:
        severity: error or warning.
        number: count of affected objects or images.
        total: number of all of them.
        subject: their name in messages: `objects`, `images`.
        text: what they are, and what to write instead; follows the count.
        example: the first affected file and object; '' where the text has it.
        is_certain: images that were not seen cannot make it wrong.
    """

    severity: Severity
    number: int
    total: int
    subject: str
    text: str
    example: str = ''
    is_certain: bool = False

    def __str__(self) -> str:
        is_all = self.number == self.total > 1
        counted = f'all {self.total:,}' if is_all else f'{self.number:,} of {self.total:,}'
        example = f' (first: {self.example})' if self.example else ''
        return f'{counted} {self.subject} {self.text}{example}'
