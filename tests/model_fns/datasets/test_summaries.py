"""The last lines of a conversion."""

import numpy as np

from model_fns.datasets import summaries


def test_objects_images_and_what_is_odd_are_counted():
    summary = summaries.Summary()
    for names, digest, clipped, left_out in (
        (['cat', 'cat', 'dog'], 'x', 1, 0),
        (['cat'], 'y', 2, 1),
        ([], 'x', 0, 0),
    ):
        features = {
            'image/object/class/text': names,
            'image/object/class/label': np.ones([len(names)], np.int64),
            'image/key/sha256': digest,
        }
        summary.add(summaries.summarize(features, clipped, left_out))
    assert str(summary).splitlines() == [
        'converted 3 images:',
        'cat: 3 objects in 2 images',
        'dog: 1 object in 1 image',
        '1 image without objects',
        '1 image equal to another one',
        '3 objects cut at the border of the image',
        '1 object left out for a problem',
    ]


def test_images_of_pixels_have_no_list_of_objects():
    summary = summaries.Summary()
    summary.add(summaries.summarize({'image/key/sha256': 'x'}, 0, 0))
    summary.add(None)
    assert str(summary) == 'converted 1 image:'
