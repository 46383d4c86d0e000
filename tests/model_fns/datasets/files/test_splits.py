"""Splits keep copies and frames of a scene on one side, and are always the same."""

import pytest

from estimator_lib import errors
from model_fns.datasets.files import splits


@pytest.mark.parametrize(
    ('name', 'group'),
    [
        ('a/cam2_0017.rf.0f3a9c7d.jpg', 'a/cam2'),
        ('cat_jpg.rf.d41d8cd98f00b204.jpg', 'cat_jpg'),
        ('video-12 frame (3).png', 'video-12 frame (3)'),
        ('0001.png', '0001'),
        ('IMG_20.JPG', 'IMG'),
    ],
)
def test_groups_by_hand(name, group):
    assert splits.find_group(name) == group


def test_copies_and_frames_stay_together():
    names = [
        f'cam{scene}_{frame}.rf.{copy}aaaaaa.jpg'
        for scene in 'abcdefgh'
        for frame in range(3)
        for copy in 'xy'
    ]
    sides = splits.split(names)
    groups = [{splits.find_group(names[place]) for place in side} for side in sides[:2]]
    assert not groups[0] & groups[1]
    assert sides.num_groups == 8 and len(sides.evaluation) == 12  # two of eight scenes of six
    assert sorted([*sides.train, *sides.evaluation]) == list(range(len(names)))


def test_one_prefix_of_all_images_is_cut_into_blocks_of_neighbors():
    names = [f'raccoon-{number}.jpg' for number in range(1, 201)]
    sides = splits.split(names)
    assert len(sides.evaluation) == 40 and sides.num_groups == 20
    blocks = {place // 10 for place in sides.evaluation}
    assert len(blocks) == 4  # ten neighbors in each


def test_the_order_of_the_names_does_not_matter():
    names = [f'{letter}x.jpg' for letter in 'abcdefghij']
    sides = splits.split(names)
    reverse = splits.split(names[::-1])
    assert {names[place] for place in sides.evaluation} == {
        names[::-1][place] for place in reverse.evaluation
    }


def test_each_class_is_split():
    names = [f'{name}/{letter}x.jpg' for name in ('cat', 'dog') for letter in 'abcdefghij']
    sides = splits.split(names, [name.partition('/')[0] for name in names])
    assert [sum(place < 10 for place in sides.evaluation), len(sides.evaluation)] == [2, 4]


def test_few_images_give_both_sides_one():
    assert len(splits.split(['a.jpg', 'b.jpg']).evaluation) == 1
    assert len(splits.split(['5².jpg', '6².jpg']).evaluation) == 1  # `²` is a digit, but no number
    assert len(splits.split(['cat/a.jpg', 'dog/b.jpg'], ['cat', 'dog']).evaluation) == 1
    with pytest.raises(errors.DataError, match='1 image cannot be split'):
        splits.split(['a.jpg'])


def test_groups_of_a_pattern_by_hand():
    names = ['cam1_01', 'cam2_01', 'x', 'cam1_02', 'y']
    assert splits.group_numbers(names, r'^(cam\d+)_') == [0, 1, 2, 0, 3]
    assert splits.group_numbers(names, r'^cam\d+') == [0, 1, 2, 0, 3]
    # A first group that took no part, or is empty, names none.
    for pattern in (r'(cam\d+)?_', r'^(cam\d+|)'):
        assert splits.group_numbers(['cam1_1', 'a_1', 'b_1', 'cam1_2'], pattern) == [0, 1, 2, 0]
    for folder in ('/cam7/', 'gs://cam7_bucket/', 'gs://cam7/a/'):
        inside = [f'{folder}{name}' for name in ('a/cam1_1', 'b/cam1_2', 'b/cam2_1')]
        assert splits.group_numbers(inside, r'cam\d+') == [0, 0, 1]
        assert splits.group_numbers(inside, r'^\w+/') == [0, 1, 1]
    copies = ['a1.rf.0f3a9c.jpg', 'b1.jpg', 'a2.jpg', 'b2.jpg']
    assert splits.group_numbers(copies, splits.AUTO) == [0, 1, 0, 1]
    with pytest.raises(errors.DataError, match='matches none of 5 names, like .cam1_01'):
        splits.group_numbers(names, 'scene')
    with pytest.raises(errors.DataError, match='--group='):
        splits.group_numbers(names, '(')
