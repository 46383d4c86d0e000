"""Values of masks: numbers of classes, or levels of gray."""

import re

import pytest

from model_fns.datasets.meaning.annotated import Annotated
from model_fns.datasets.meaning.issues import Severity
from model_fns.datasets.meaning.pixels import PixelValues


def find(*images, ignored=255, are_ids=True):
    check = PixelValues(ignored, are_ids, 'A hint.')
    for pixels in images:
        check.add(Annotated('a.png', (10, 10), pixels=pixels))
    return check.issues()


@pytest.mark.parametrize(
    ('values', 'said'),
    [
        ([0, 128], 'the values 0 and 128: levels of gray.*0:background,128:NAME$'),
        ([0, 85, 170], '0, 85 and 170: .*--mask_values=0:background,85:NAME_1,170:NAME_2$'),
        ([38, 75], '38 and 75: levels'),
        ([0, 254], '0 and 254'),
        ([0, 1, 2, 3], ''),
        ([0, 1, 3], ''),  # no pixel of class 2
        ([0, 3], ''),
        ([0, 7, 8, 11, 12, 13, 17, 19, 20, 21, 22], ''),  # ids of Cityscapes
        ([0, 5, 150], ''),
        ([0, 1, 255], ''),
    ],
)
def test_levels_of_gray(values, said):
    issues = find(dict.fromkeys(values, 10))
    assert [issue.severity for issue in issues] == [Severity.ERROR] * bool(said)
    if said:
        assert re.search(said, str(issues[0])), issues[0]
        assert find(dict.fromkeys(values, 10), are_ids=False) == []  # the label map has names


def test_values_of_several_masks_count_together():
    assert find({0: 5, 20: 5}) and not find({0: 5, 20: 5}, {0: 5, 1: 5})


@pytest.mark.parametrize('are_ids', [True, False])
def test_masks_without_a_class(are_ids):
    (issue,) = find({0: 9, 255: 1}, {0: 9}, are_ids=are_ids)
    assert str(issue) == (
        'all 2 masks have no pixel of a class: all are 0, the background, or 255, which is '
        'ignored. A hint.'
    )
    assert find({0: 9, 255: 1}, ignored=None, are_ids=False) == []
    assert find() == []


def test_smooth_outlines():
    smooth = dict.fromkeys(range(256), 1)
    (issue,) = find({**smooth, 0: 5000, 255: 4000}, ignored=None)
    assert '255 values between those of nearly all pixels: their outlines are smoothed' in str(
        issue
    )
    # 150 classes, of which one has half of the pixels.
    many = dict.fromkeys(range(151), 100)
    assert find({**many, 4: 15000}) == []
