"""What masks and instances share; the rest is tested with them, through the command."""

import argparse

import pytest

from model_fns.datasets.annotations import id_pngs


def test_long_lists_are_cut():
    assert id_pngs.listed(range(3)) == '0, 1, 2'
    assert id_pngs.listed(range(12)) == '0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ..'


@pytest.mark.parametrize(
    'given, default, expected',
    [(None, 255, 255), (None, None, None), ('none', 255, None), (0, 255, 0), (7, None, 7)],
)
def test_ignore_label(given, default, expected):
    arguments = argparse.Namespace(ignore_label=given)
    assert id_pngs.ignore_label(arguments, default) == expected
