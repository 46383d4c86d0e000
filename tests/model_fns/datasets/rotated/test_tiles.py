"""Records of tiles; `test_dota` cuts whole images through the command."""

import numpy as np
import pytest

from estimator_lib.drawing import tiling
from model_fns.datasets import codecs, records
from model_fns.datasets.annotations import tiles as whole_tiles
from model_fns.datasets.rotated import boxes as rotated
from model_fns.datasets.rotated import tiles
from model_fns.structures.images import image_header

BOXES = [[20.0, 30, 10, 20, 0.0], [50, 50, 10, 20, 0.0], [20, 58, 10, 20, 0.0]]


def test_names():
    assert tiles.tile_name('P0001.png', (200, 824, 10, 10)) == 'P0001__1__824___200.png'


def test_a_part_of_a_crowd_is_one_too():
    image = np.zeros([100, 120, 3], np.uint8)
    header = image_header(codecs.encode_png(image))
    features = {
        **records.image_features(codecs.encode_png(image), header, 'P1.png', 'P1__1__30___5.png'),
        **rotated.box_features([*BOXES, [90, 100, 4, 4, 0]], [1, 2, 3, 3], list('abcc'), header),
        'image/object/is_crowd': np.array([1, 0, 0, 1]),
    }
    # Columns 35 to 75: a quarter of the first box, from 20 to 40, whose center is at 30.
    found, positions, _ = whole_tiles.cut(features, image, tiling.Window(5, 35, 40, 40), 0.9)
    assert positions.tolist() == [0, 2] and found['image/object/is_crowd'].tolist() == [1, 0]
    numbers = [found[key][0] for key in rotated.KEYS]
    # Rows 10 to 20 and columns 0 to 5: the longer side is the width, and it is vertical.
    np.testing.assert_allclose(numbers[:4], [15 / 40, 2.5 / 40, 5 / 40, 10 / 40], atol=1e-6)
    assert abs(numbers[4]) == pytest.approx(np.pi / 2)


@pytest.mark.parametrize('least, kept, indices', [(0.5, ['a', 'c'], [0, 2]), (0.65, ['a'], [0])])
def test_objects_of_a_tile(least, kept, indices):
    image = np.arange(100 * 120 * 3, dtype=np.uint32).reshape(100, 120, 3).astype(np.uint8)
    encoded = codecs.encode_png(image)
    header = image_header(encoded)
    features = {
        **records.image_features(encoded, header, 'P1.png', 'P1__1__10___5.png'),
        **rotated.box_features(BOXES, [1, 2, 3], ['a', 'b', 'c'], header),
        'image/object/difficult': np.array([0, 1, 1]),
    }
    # Columns 10 to 60: 12 of 20 of the last box are inside, and its center is.
    found, positions, _ = whole_tiles.cut(features, image, tiling.Window(5, 10, 40, 50), least)
    assert found['image/object/class/text'] == kept
    assert positions.tolist() == indices
    assert found['image/filename'] == 'P1__1__10___5.png'
    assert (found['image/height'], found['image/width']) == (40, 50)
    numbers = [found[key][0] for key in rotated.KEYS]
    np.testing.assert_allclose(numbers, [15 / 40, 20 / 50, 10 / 40, 20 / 50, 0], atol=1e-6)
    assert found['image/object/difficult'].tolist() == [0, 1][: len(kept)]
    assert 'image/object/bbox/ymin' not in found
