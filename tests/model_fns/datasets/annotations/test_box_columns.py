"""Boxes in the columns of a table; spellings are tested with `--from=csv`."""

import pytest

from estimator_lib import errors
from model_fns.datasets.annotations import box_columns


def test_width_and_height_are_of_the_image_beside_corners():
    columns = box_columns.find(['width', 'height', 'xmin', 'ymin', 'xmax', 'ymax'])
    values = {'width': '30', 'height': '20', 'xmin': '3', 'ymin': '5', 'xmax': '9', 'ymax': '15'}
    assert columns.box(values) == [5, 3, 15, 9]
    assert columns.image_size(values) == (20, 30)
    assert columns.image_size({**values, 'width': ''}) == (20, None)


def test_width_and_height_are_of_the_box_beside_one_corner():
    columns = box_columns.find(['width', 'height', 'x', 'y'])
    values = {'width': '6', 'height': '10', 'x': '3', 'y': '5'}
    assert columns.box(values) == [5, 3, 15, 9]
    assert columns.image_size(values) == (None, None)


@pytest.mark.parametrize('text', ['[3, 5, 6, 10]', '(3.0 5.0 6.0 10.0)', '3;5;6;10', '{3,5,6,10}'])
def test_a_box_in_one_column(text):
    assert box_columns.find(['bbox', 'width']).box({'bbox': text}) == [5, 3, 15, 9]


@pytest.mark.parametrize(
    'columns',
    [['x1', 'y1', 'x2'], ['x1', 'y1', 'x2', 'y2', 'x3', 'y3', 'x4', 'y4'], ['bbox_x', 'note']],
)
def test_parts_of_a_box_are_refused(columns):
    with pytest.raises(errors.DataError, match=f'the columns {columns[0]}.* are of boxes'):
        box_columns.find(columns)


def test_other_columns_are_no_box():
    assert box_columns.find(['width', 'height', 'note', 'xylophone']) is None
