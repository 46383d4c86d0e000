"""What masks and instances share; the rest is tested with them, through the command."""

import argparse
import io

import numpy as np
import pytest
from PIL import Image

from model_fns.datasets.annotations import id_pngs


@pytest.mark.parametrize('largest, dtype', [(255, np.uint8), (256, np.uint16)])
def test_classes_have_as_many_bits_as_they_need(largest, dtype):
    classes = np.array([[0, 1], [2, largest]])
    features = id_pngs.class_features(classes)
    pixels = np.asarray(Image.open(io.BytesIO(features['image/segmentation/class/encoded'])))
    np.testing.assert_array_equal(pixels, classes)
    assert pixels.dtype == dtype
    assert features['image/segmentation/class/format'] == 'png'


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
