"""Texts of users without control characters, for terminals, lines, markup and spreadsheets."""

from __future__ import annotations

import re
from typing import Any

# Control characters, separators of lines, marks that reorder text, and halves of characters.
_CONTROL = re.compile('[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]')
# Spreadsheets compute a cell that begins with one of these.
_FORMULA_STARTS = ('=', '+', '-', '@')


def escaped(text: str, kept: str = '') -> str:
    r"""Write control characters as Python does: a line break becomes the two characters `\n`.

    Args:
        text: any text.
        kept: control characters that stay, such as those between lines.
    """
    return _CONTROL.sub(lambda match: match[0] if match[0] in kept else _code(match[0]), text)


def _code(letter: str) -> str:
    return letter.encode('unicode_escape').decode('ascii')


def csv_cell(value: Any) -> Any:
    """Return a cell of a CSV file: text without control characters, which is no formula.

    A text that a spreadsheet would compute begins with an apostrophe, which it does not show.

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
