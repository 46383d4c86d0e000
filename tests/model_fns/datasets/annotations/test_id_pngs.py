"""What masks and instances share; the rest is tested with them, through the command."""

import argparse

import pytest

from model_fns.datasets import sources
from model_fns.datasets.annotations import id_pngs
from model_fns.structures import images
from tests.model_fns.datasets import id_files


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


def test_the_size_is_checked_before_the_pixels():
    header = images.ImageHeader('jpeg', 4, 6)
    id_pngs.check_size(id_files.claiming(4, 6), header)
    with pytest.raises(sources.SizeError, match='of 20000 x 20000 pixels; the image has 4 x 6'):
        id_pngs.check_size(id_files.claiming(20_000, 20_000), header)
