"""Cells with formulas and control characters."""

import pytest

from estimator_lib.run_records import csv_cells


@pytest.mark.parametrize(
    'cell, expected',
    [
        ('=HYPERLINK("x")', '\'=HYPERLINK("x")'),
        ('+a', "'+a"),
        ('@a', "'@a"),
        ('-a', "'-a"),
        ('-1.5', '-1.5'),
        ('a=b', 'a=b'),
        ('\t=a', '\\t=a'),
        (-1.5, -1.5),
        (None, None),
    ],
)
def test_cells_are_no_formulas(cell, expected):
    assert csv_cells.plain(cell) == expected
