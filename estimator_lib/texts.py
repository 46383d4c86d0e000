"""Texts for people: counts, groups of problems, and names without what a terminal obeys."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Tuple

# Control characters, separators of lines, marks that reorder text, and halves of characters.
# The marks that reorder text are those of CVE-2021-42574 ("Trojan Source").
_CONTROL = re.compile('[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]')
# OWASP, "CSV Injection".
_FORMULA_STARTS = ('=', '+', '-', '@')  # of cells that spreadsheets compute
# Numbers and bytes, which differ between two problems of one kind; names in quotes stay.
_VARYING = re.compile(r"b'[^']*'|('[^']*')|-?\d[\d.,]*(?:e[+-]?\d+)?|-?\b(?:nan|inf)\b")
_MOST_PLACES = 3  # that are listed for each kind of problem
_MOST_KINDS = 40


def counted(number: int, noun: str, plural: str = '') -> str:
    """Return `1 file` or `2 files`; `plural` is for other nouns, as `classes`."""
    return f'{number:,} {noun if number == 1 else plural or noun + "s"}'


def grouped(problems: Iterable[Tuple[str, str]], subject: str = '') -> List[str]:
    """Return a line for each kind of problem, in the order of their first places.

    Problems are of one kind where only their numbers differ. `[('a.txt, line 1', 'x is 7.'),
    ('a.txt, line 3', 'x is 9.')]` gives `2 like this: x is 7 (a.txt, line 1; a.txt, line 3)`.

    Args:
        problems: the place of each, which may be empty, and a sentence.
        subject: what has the problems, in the plural; '': whatever the places are.
    """
    kinds: Dict[str, List[Tuple[str, str]]] = {}
    for place, text in problems:
        kind = _VARYING.sub(lambda match: match[1] or '#', text)
        kinds.setdefault(kind, []).append((place, text))
    lines = []
    for alike in list(kinds.values())[:_MOST_KINDS]:
        place, text = alike[0]
        line = f'{place}: {text}' if place else text
        if len(alike) > 1:
            places = [place for place, _ in alike[:_MOST_PLACES] if place]
            more = [f'and {len(alike) - len(places):,} more'] * (len(alike) > len(places))
            line = f'{len(alike):,}{subject and f" {subject}"} like this: {text.rstrip(".")}'
            line += f' ({"; ".join([*places, *more])})'
        lines.append(line)
    if len(kinds) > _MOST_KINDS:
        lines.append(f'and {len(kinds) - _MOST_KINDS:,} more kinds of problems')
    return lines


def escaped(text: str, kept: str = '') -> str:
    r"""Write control characters as Python does: a line break becomes the two characters `\n`.

    Names of classes and files may hold what a terminal obeys, or what ends a line.

    Args:
        text: any text.
        kept: control characters that stay, such as those between lines.
    """
    return _CONTROL.sub(lambda match: match[0] if match[0] in kept else _code(match[0]), text)


def printable(text: str) -> str:
    """Return a message of one or more lines without what a terminal obeys."""
    return escaped(text, kept='\n\t')


def _code(letter: str) -> str:
    return letter.encode('unicode_escape').decode('ascii')


def csv_cell(value: Any) -> Any:
    """Return a cell of a CSV file whose text has no control characters and is no formula.

    A text that a spreadsheet would compute gets an apostrophe before it.

    Args:
        value: text; a value of another type stays.
    """
    if not isinstance(value, str):
        return value
    text = escaped(value)
    return f"'{text}" if text.startswith(_FORMULA_STARTS) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def encodable(text: str) -> str:
    r"""Return a text that UTF-8 can encode: `\udcff` where the name of a file is not UTF-8."""
    return text.encode('utf-8', 'backslashreplace').decode()
