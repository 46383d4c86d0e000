"""The decision on tiles, by hand."""

import numpy as np
import pytest

from estimator_lib.drawing.tiling import Tiling
from model_fns.recipes import tiles as recipe_tiles
from model_fns.recipes.facts import Facts, ImageFacts

SIZE = (1080, 1920)


def facts_of(share, size=SIZE, count=10):
    """Images with objects that have a share of both sides."""
    starts = np.linspace(0, 1 - share, count)
    boxes = np.stack([starts, starts, starts + share, starts + share], axis=1)
    image = ImageFacts(size, boxes, ('bolt',) * count)
    return Facts([image] * 3, [image], ['bolt'])


def test_far_larger_images_with_small_objects_are_cut():
    """The root of the area is 1440: objects have 28.8 pixels, 8 at 400 x 400. In a tile of
    28.8 / 24 * 256 = 307 pixels they have 24; 320 is the next multiple of 32. Their longer side is
    38.4 pixels, less than a quarter of that."""
    choice = recipe_tiles.choose(facts_of(0.02), 400.0, 256.0)
    assert choice.tiling == Tiling(320, 80)
    assert choice.reason == (
        'Images have about 1920 x 1080 pixels: at 400 x 400 the median object would have 8, and in '
        'a tile of 320 x 320 it has 23 at 256 x 256'
    )
    config = [(each.path, each.value) for each in recipe_tiles.decisions(choice)]
    assert config == [
        ('train_input_reader.tiles', '{ size: 320 overlap: 80 drop_empty: true }'),
        ('eval_config.tiles', '{ size: 320 overlap: 80 }'),
    ]


@pytest.mark.parametrize(
    ('share', 'size', 'side'),
    [
        (0.1, SIZE, 256.0),  # 26 pixels
        (0.02, (480, 640), 400.0),  # images that a larger input holds
        (0.02, SIZE, 640.0),  # 12.8 pixels, by --size
        (0.05, (4000, 2000), 256.0),  # 12.8 pixels
    ],
)
def test_others_stay_whole(share, size, side):
    assert recipe_tiles.choose(facts_of(share, size), side, 256.0) is None


def test_images_without_objects_stay_whole():
    image = ImageFacts(SIZE, np.zeros([0, 4]))
    assert recipe_tiles.choose(Facts([image], [], []), 256.0, 256.0) is None


def test_tiles_of_tiny_objects_are_bounded():
    """Objects of 5.8 pixels: their tile is not smaller than half of the input."""
    assert recipe_tiles.choose(facts_of(0.004), 640.0, 256.0).tiling.size == 128


def test_the_overlap_holds_long_objects():
    image = ImageFacts(SIZE, np.array([[0.1, 0.1, 0.105, 0.18]] * 9))  # 5.4 x 153.6 pixels
    choice = recipe_tiles.choose(Facts([image], [], ['a']), 400.0, 256.0)
    assert choice.tiling == Tiling(320, 154)


def test_facts_of_tiles():
    """An image of 100 x 160 pixels in tiles of 100 that share 40. Of two objects at its left one
    reaches the second tile with a sixth of its area, and a third one is in the second tile."""
    boxes = np.array([[0, 0, 0.5, 0.25], [0.5, 0.125, 1, 0.4375], [0, 0.75, 0.1, 1]])
    image = ImageFacts((100, 160), boxes, ('a', 'b', 'c'))
    small = ImageFacts((50, 60), boxes[:1], ('a',))
    empty = ImageFacts((100, 160), boxes[:0])
    cut = Facts([image, small, empty], [image], ['a', 'b', 'c']).cut(Tiling(100, 40), 0.7)
    assert [each.labels for each in cut.train] == [('a', 'b'), ('c',), ('a',)]
    assert [each.size for each in cut.train] == [(100, 100), (100, 100), (50, 60)]
    np.testing.assert_allclose(cut.train[0].boxes, [[0, 0, 0.5, 0.4], [0.5, 0.2, 1, 0.7]])
    np.testing.assert_allclose(cut.train[1].boxes, [[0, 0.6, 0.1, 1]])
    assert len(cut.evaluation) == 2
