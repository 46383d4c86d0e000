"""Masks from shapes; what is refused is tested with `--from=coco`."""

import io

import numpy as np
import pytest
from PIL import Image

from estimator_lib import errors
from model_fns.datasets.annotations import polygons
from model_fns.structures.images import ImageHeader

HEADER = ImageHeader('png', 6, 8)


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)))


def test_two_polygons_are_one_mask():
    mask = pixels(polygons.draw([[0, 0, 2, 0, 2, 2, 0, 2], [5, 3, 8, 3, 8, 6, 5, 6]], HEADER))
    expected = np.zeros([6, 8])
    expected[:2, :2] = expected[3:, 5:] = 1
    np.testing.assert_array_equal(mask, expected)


def test_run_lengths_go_down_the_columns():
    mask = pixels(polygons.draw({'size': [6, 8], 'counts': [7, 3, 38]}, HEADER))
    expected = np.zeros([6, 8])
    expected[1:4, 1] = 1
    np.testing.assert_array_equal(mask, expected)


def test_an_object_without_a_mask_gets_its_box_and_no_weight():
    mask = polygons.draw([[0, 0, 2, 0, 2, 2, 0, 2]], HEADER)
    features = polygons.mask_features([None, mask], [[-0.4, 1, 2, 9], [0, 0, 2, 2]], HEADER)
    box, other = map(pixels, features['image/object/mask'])
    expected = np.zeros([6, 8])
    expected[:2, 1:] = 1
    np.testing.assert_array_equal(box, expected)
    np.testing.assert_array_equal(other, pixels(mask))
    assert features['image/object/mask/weight'].tolist() == [0, 1]


@pytest.mark.parametrize('size', [6, None, '68', [6], {'height': 6}])
def test_a_size_that_is_none_is_refused(size):
    with pytest.raises(errors.DataError, match=r'is of size .*; the image has \[6, 8\]'):
        polygons.draw({'size': size, 'counts': [48]}, HEADER)


def test_no_masks_at_all():
    assert polygons.mask_features([None, None], [[0, 0, 1, 1]] * 2, HEADER) == {}
    assert polygons.mask_features([], [], HEADER) == {}
