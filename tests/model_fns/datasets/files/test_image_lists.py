"""Lists of images: stems and paths."""

import pytest

from estimator_lib import errors
from model_fns.datasets.files import image_lists
from model_fns.datasets.sources import Item

ITEMS = [
    Item('a', '/data/cat/a.png', 'cat/a.png'),
    Item('a', '/data/dog/a.jpg', 'dog/a.jpg'),
    Item('my dog.old', '/data/dog/my dog.old.jpg', 'dog/my dog.old.jpg'),
]


@pytest.mark.parametrize(
    'line, expected',
    [
        ('a', [0, 1]),
        ('dog/a.jpg', [1]),
        ('/other/dog/a', [1]),
        (r'..\dog\a.jpg', [1]),
        ('images/a.txt -1', [0, 1]),
        ('my dog.old', [2]),
        ('x/my dog.old.jpg', [2]),
    ],
)
def test_a_path_names_the_image_whose_own_is_most_like_it(line, expected):
    assert image_lists.select(ITEMS, [line]) == [ITEMS[index] for index in expected]


def test_lines_without_an_image_are_told():
    with pytest.raises(errors.DataError, match='--list: 2 of 3 stems have no image .*: b, c.d.'):
        image_lists.select(ITEMS, ['b', 'a', 'c.d', 'b'])
    assert image_lists.select(ITEMS, None) == ITEMS


def test_whole_groups_go_to_one_part():
    groups = [0, 1, 0, 2, 0, 3, 1, 4, 5, 6]
    parts = image_lists.assign_parts([''] * 10, [0.7, 0.3], groups)
    assert all(len({part for part, own in zip(parts, groups) if own == k}) == 1 for k in range(7))
    assert parts.count(0) == 7 and parts.count(1) == 3
