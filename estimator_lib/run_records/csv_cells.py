"""Cells of CSV files: text of users is neither a command of a terminal nor a formula."""

from __future__ import annotations

from typing import Any

from estimator_lib import errors

# Spreadsheets compute a cell that begins with one of these.
_FORMULA_STARTS = ('=', '+', '-', '@')


def plain(value: Any) -> Any:
    """Return a cell whose text has no control characters and is no formula.

    A text that a spreadsheet would compute gets an apostrophe before it.

    Args:
        value: text; a value of another type stays.
    """
    if not isinstance(value, str):
        return value
    text = errors.escaped(value)
    return f"'{text}" if text.startswith(_FORMULA_STARTS) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
