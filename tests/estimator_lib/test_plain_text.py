"""Control characters and formulas in texts of users."""

import pytest

from estimator_lib import plain_text


@pytest.mark.parametrize(
    'text, expected',
    [
        ('cat (b) Ä 猫', 'cat (b) Ä 猫'),
        ('a\nb\tc', 'a\\nb\\tc'),
        ('\x1b[31mred\x07\x9b', '\\x1b[31mred\\x07\\x9b'),
        ('\u202etxt.exe\u2028', '\\u202etxt.exe\\u2028'),
        ('\udcff', '\\udcff'),
    ],
)
def test_control_characters_are_escaped(text, expected):
    assert plain_text.escaped(text) == expected


def test_line_breaks_may_stay():
    assert plain_text.escaped('a\nb\x1b', kept='\n') == 'a\nb\\x1b'


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
    assert plain_text.csv_cell(cell) == expected
