import math

import numpy as np
import pytest

from estimator_lib import errors
from model_fns.datasets import sources
from model_fns.structures.images import ImageHeader
from model_fns.structures.label_map import LabelMap

HEADER = ImageHeader('png', 20, 40)


def test_images_of_a_folder(tmp_path):
    for name in ('b.JPG', 'a.webp', 'c.tiff', 'd.txt', 'e.xml'):
        (tmp_path / name).write_text('')
    names = [path.rsplit('/', 1)[1] for path in sources.list_images(str(tmp_path))]
    assert names == ['a.webp', 'b.JPG', 'c.tiff']
    with pytest.raises(errors.DataError, match='nowhere: there is no such folder'):
        sources.list_images('nowhere')


def test_stems_differ():
    assert sources.index_by_stem(['x/a.png', 'x/b.c.png']) == {'a': 'x/a.png', 'b.c': 'x/b.c.png'}
    with pytest.raises(errors.DataError, match=r'x/a.jpg: another file has the same stem: x/a.png'):
        sources.index_by_stem(['x/a.png', 'x/a.jpg'])


def test_sizes():
    sources.check_size(HEADER, 20, 40)
    sources.check_size(HEADER, None, 0)
    with pytest.raises(sources.SizeError, match='of 40 x 20 pixels; the image has 20 x 40'):
        sources.check_size(HEADER, 40, 20)


def test_class_ids():
    classes = LabelMap.from_names(['cat', 'dog'])
    assert sources.class_id(classes, 'dog') == 2
    with pytest.raises(errors.DataError, match="'dug' is not in the label map; did you mean 'dog'"):
        sources.class_id(classes, 'dug')


@pytest.mark.parametrize(
    'value, expected',
    [(3, 3.0), (2.5, 2.5), (True, None), ('3', None), (None, None), (math.nan, None)]
    + [(math.inf, None), ([1], None)],
)
def test_numbers(value, expected):
    assert sources.number(value) == expected


@pytest.mark.parametrize(
    'box, message',
    [
        ([0, 0, 20, 40], None),
        ([-1, -0.5, 21, 41], None),
        ([3, 3, 3, 3], None),
        ([-1.1, 0, 2, 2], 'reaches outside of the image, which has 20 x 40 pixels'),
        ([0, 0, 20, 41.5], 'reaches outside'),
        ([5, 0, 4, 2], r'the box \[5, 0, 4, 2\] \(ymin, xmin, ymax, xmax\) is inverted'),
        ([0, 5, 2, 4], 'is inverted'),
        ([0, math.nan, 2, 4], 'has a side that is no number'),
        ([0, 0, math.inf, 4], 'has a side that is no number'),
    ],
)
def test_boxes_are_checked(box, message):
    if message is None:
        sources.Report(clips=False).fit(box, HEADER)
        return
    with pytest.raises(errors.DataError, match=message):
        sources.Report(clips=False).fit(box, HEADER)


@pytest.mark.parametrize(
    'box, expected, num_clipped',
    [
        ([1, 2, 3, 4], [1, 2, 3, 4], 0),
        ([-0.5, 2, 3, 41], [0, 2, 3, 40], 0),
        ([-9, 2, 30, 99], [0, 2, 20, 40], 1),
        ([5, 5, 5, 5], [5, 5, 5, 5], 0),
        ([20, 2, 25, 4], None, 0),
        ([-4, 2, -3, 4], None, 0),
    ],
)
def test_boxes_are_cut_at_the_border(box, expected, num_clipped):
    report = sources.Report()
    if expected is None:
        with pytest.raises(errors.DataError, match='is outside of the image, which has 20 x 40'):
            report.fit(box, HEADER)
    else:
        assert report.fit(box, HEADER) == expected
    assert report.num_clipped == num_clipped


def test_boxes_become_fractions_of_the_image():
    features = sources.box_features([[-1, 10, 5, 20]], [2], ['dog'], HEADER)
    sides = ('ymin', 'xmin', 'ymax', 'xmax')
    assert [features[f'image/object/bbox/{side}'].tolist() for side in sides] == [
        [0.0],
        [0.25],
        [0.25],
        [0.5],
    ]
    assert features['image/object/bbox/ymin'].dtype == np.float32
    assert features['image/object/class/label'].tolist() == [2]
    assert features['image/object/class/text'] == ['dog']
    assert sources.box_features([], [], [], HEADER)['image/object/bbox/ymin'].shape == (0,)
