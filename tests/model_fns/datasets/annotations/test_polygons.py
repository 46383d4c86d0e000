"""Masks from shapes; what is refused is tested with `--from=coco`."""

import io

import numpy as np
import pytest
from faster_coco_eval.core import mask as coco_masks
from PIL import Image

from estimator_lib import errors
from model_fns.datasets.annotations import polygons
from model_fns.structures.images import ImageHeader

HEADER = ImageHeader('png', 6, 8)


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)))


def test_two_polygons_are_one_mask():
    shape = [[0, 0, 2, 0, 2, 2, 0, 2], [5, 3, 8, 3, 8, 6, 5, 6]]
    mask = polygons.draw(shape, HEADER).whole(HEADER)
    expected = np.zeros([6, 8])
    expected[:2, :2] = expected[3:, 5:] = 1
    np.testing.assert_array_equal(mask, expected)


def test_run_lengths_go_down_the_columns():
    mask = polygons.draw({'size': [6, 8], 'counts': [7, 3, 38]}, HEADER).whole(HEADER)
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
    np.testing.assert_array_equal(other, mask.whole(HEADER))
    assert features['image/object/mask/weight'].tolist() == [0, 1]


def test_a_window_changes_no_pixel():
    """Polygons are drawn as on the whole image, also where they leave it."""
    random = np.random.default_rng(0)
    header = ImageHeader('png', 37, 53)
    for _ in range(500):
        center, extent = random.uniform(-15, 65, 2), random.uniform(0.2, 30)
        corners = center + random.uniform(-extent, extent, [random.integers(3, 9), 2])
        shape = [corners.round(random.integers(0, 4)).ravel().tolist()]
        whole = coco_masks.merge(coco_masks.frPyObjects(shape, 37, 53))
        drawn = polygons.draw(shape, header)
        np.testing.assert_array_equal(drawn.whole(header), coco_masks.decode(whole), str(shape))
        assert drawn.pixels.size <= (2 * extent + 3) ** 2


@pytest.mark.parametrize('size', [6, None, '68', [6], {'height': 6}])
def test_a_size_that_is_none_is_refused(size):
    with pytest.raises(errors.DataError, match=r'is of size .*; the image has \[6, 8\]'):
        polygons.draw({'size': size, 'counts': [48]}, HEADER)


def test_no_masks_at_all():
    assert polygons.mask_features([None, None], [[0, 0, 1, 1]] * 2, HEADER) == {}
    assert polygons.mask_features([], [], HEADER) == {}
