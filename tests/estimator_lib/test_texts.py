"""Texts for people, terminals and spreadsheets."""

import pytest

from estimator_lib import texts


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
    assert texts.escaped(text) == expected


def test_line_breaks_may_stay():
    assert texts.escaped('a\nb\x1b', kept='\n') == 'a\nb\\x1b'


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
    assert texts.csv_cell(cell) == expected


def test_problems_that_differ_in_numbers_are_grouped():
    problems = [('a.txt, line 1', 'x is 7.'), ('', 'no y.'), ('a.txt, line 3', 'x is 9.')]
    assert texts.grouped(problems) == [
        '2 like this: x is 7 (a.txt, line 1; a.txt, line 3)',
        'no y.',
    ]
    assert texts.counted(1, 'class', 'classes') == '1 class'
    assert texts.counted(2000, 'file') == '2,000 files'
