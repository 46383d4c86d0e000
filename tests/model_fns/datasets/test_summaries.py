"""The last lines of a conversion."""

import numpy as np

from model_fns.datasets import summaries


def test_objects_images_and_what_is_odd_are_counted():
    summary = summaries.Summary()
    for names, digest, clipped in (
        (['cat', 'cat', 'dog'], 'x', 1),
        (['cat'], 'y', 2),
        ([], 'x', 0),
    ):
        features = {
            'image/object/class/text': names,
            'image/object/class/label': np.ones([len(names)], np.int64),
            'image/key/sha256': digest,
        }
        summary.add(summaries.summarize(features, clipped))
    assert str(summary).splitlines() == [
        'converted 3 images:',
        'cat: 3 objects in 2 images',
        'dog: 1 object in 1 image',
        '1 image without objects',
        '1 image equal to another one',
        '3 objects cut at the border of the image',
    ]


def test_images_of_pixels_have_no_list_of_objects():
    summary = summaries.Summary()
    summary.add(summaries.summarize({'image/key/sha256': 'x'}, 0))
    summary.add(None)
    assert str(summary) == 'converted 1 image:'


def test_tiles_are_counted_and_objects_that_no_tile_holds():
    summary = summaries.Summary()
    # Of the five objects of a.png three are in the tiles, one of them in both.
    tiles = [('a.png', 5, [0, 2], True), ('a.png', 5, [2, 3], True), ('a.png', 5, [], False)]
    for index, values in enumerate([*tiles, ('b.png', 0, [], True)]):
        tile = summaries.Tile(*values)
        features = {
            'image/object/class/text': ['ship'] * len(tile.kept),
            'image/object/class/label': np.ones([len(tile.kept)], np.int64),
            'image/key/sha256': str(index),
        }
        summary.add(summaries.summarize(features, 0, tile))
    assert str(summary).splitlines() == [
        'converted 3 images:',
        'ship: 4 objects in 2 images',
        '1 image without objects',
        '3 tiles of 2 images, each counted as an image',
        '1 tile without objects left out',
        '2 objects in no tile',
    ]
