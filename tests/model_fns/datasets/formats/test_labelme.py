"""`--from=labelme`, through the command."""

import json

import numpy as np
import pytest

from model_fns.structures import id_images
from model_fns.structures.label_map import LabelMap
from tests.model_fns.datasets.converted import boxes, masks, records_of, run, values, write_image

POLYGON = {
    'label': 'cat',
    'shape_type': 'polygon',
    'points': [[2, 4], [8, 4], [8, 10], [2, 10]],
    'group_id': None,
}
RECTANGLE = {'label': 'dog', 'shape_type': 'rectangle', 'points': [[20, 8], [10, 2]]}
CIRCLE = {'label': 'cat', 'shape_type': 'circle', 'points': [[15, 10], [15, 14]]}


def convert(folder, content, *more):
    write_image(folder / 'images' / 'a.png')
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / 'images' / 'a.json').write_text(text)
    return run(
        '--from=labelme',
        f'--images={folder / "images"}',
        f'--annotations={folder / "images"}',
        f'--label_map={folder / "map.pbtxt"}',
        f'--output_prefix={folder / "out" / "train"}',
        '--num_shards=1',
        *more,
    )


def test_shapes_become_boxes_and_masks(tmp_path):
    content = {'shapes': [POLYGON, RECTANGLE], 'imageHeight': 20, 'imageWidth': 30}
    assert convert(tmp_path, content) == 0
    (feature,) = records_of(tmp_path / 'out' / 'train').values()
    assert values(feature, 'image/object/class/text') == [b'cat', b'dog']
    sides = [20, 30, 20, 30]
    np.testing.assert_allclose(boxes(feature) * sides, [[4, 2, 10, 8], [2, 10, 8, 20]], atol=1e-5)
    first, second = masks(feature)
    assert first.sum() == 36 and first[4:10, 2:8].all()
    assert second.sum() == 60 and second[2:8, 10:20].all()
    assert LabelMap.read(str(tmp_path / 'map.pbtxt')).names == {1: 'cat', 2: 'dog'}
    assert not values(feature, 'image/segmentation/class/encoded')


def test_a_circle_has_its_area(tmp_path):
    assert convert(tmp_path, {'shapes': [CIRCLE]}) == 0
    (feature,) = records_of(tmp_path / 'out' / 'train').values()
    np.testing.assert_allclose(boxes(feature) * [20, 30, 20, 30], [[6, 11, 14, 19]], atol=0.02)
    assert abs(masks(feature)[0].sum() - np.pi * 16) < 5


def test_shapes_of_a_group_are_one_object(tmp_path):
    second = {**POLYGON, 'points': [[12, 4], [16, 4], [16, 6], [12, 6]], 'group_id': 1}
    other = {**RECTANGLE, 'group_id': 1}
    assert convert(tmp_path, {'shapes': [{**POLYGON, 'group_id': 1}, other, second]}) == 0
    (feature,) = records_of(tmp_path / 'out' / 'train').values()
    assert values(feature, 'image/object/class/text') == [b'cat', b'dog']
    np.testing.assert_allclose((boxes(feature) * [20, 30, 20, 30])[0], [4, 2, 10, 16], atol=1e-5)
    assert masks(feature)[0].sum() == 36 + 8


def test_rotated_boxes_and_class_masks(tmp_path):
    assert convert(tmp_path / 'a', {'shapes': [RECTANGLE]}, '--boxes=rotated') == 0
    (feature,) = records_of(tmp_path / 'a' / 'out' / 'train').values()
    box = [values(feature, f'image/object/rbbox/{side}')[0] for side in ('cy', 'cx')]
    np.testing.assert_allclose(box, [5 / 20, 15 / 30], atol=1e-6)

    assert convert(tmp_path / 'b', {'shapes': [RECTANGLE, POLYGON]}, '--class_masks') == 0
    (feature,) = records_of(tmp_path / 'b' / 'out' / 'train').values()
    (encoded,) = values(feature, 'image/segmentation/class/encoded')
    expected = np.zeros([20, 30])
    expected[2:8, 10:20] = 2
    expected[4:10, 2:8] = 1
    np.testing.assert_array_equal(id_images.read(encoded), expected)


def shape(**fields):
    return {'shapes': [{**POLYGON, **fields}]}


@pytest.mark.parametrize(
    ('content', 'said'),
    [
        ('{', 'a.json is not JSON'),
        ({}, 'has no "shapes"; expected a file of labelme'),
        ({'shapes': [POLYGON], 'imageHeight': 21, 'imageWidth': 30}, 'the image has 20 x 30'),
        ({'shapes': [POLYGON], 'imageHeight': 'x'}, "imageHeight is 'x'; expected a number"),
        ({'shapes': [POLYGON, 3]}, 'shapes[1]: 3 is no shape'),
        (shape(shape_type='line'), 'shapes[0]: the shape is a line; expected one of polygon'),
        (shape(points=[[1, 2], [3, 4]]), 'a polygon with 4 numbers'),
        (shape(points=[[1, 2], [3, 'x'], [4, 5]]), 'expected a list of x and y'),
        (shape(points=[[1, 2, 3]] * 4), 'expected a list of x and y'),
        (shape(points=[[1, 2], None, [4, 5], [6, 9]]), 'expected a list of x and y'),
        (shape(shape_type='rectangle'), 'the rectangle has 4 points; expected 2'),
        (shape(points=[[100, 100], [110, 100], [110, 110]]), 'outside of the image'),
        ({'shapes': [POLYGON, {**POLYGON, 'label': 5}]}, 'shapes[1]: the label is 5; expected'),
    ],
)  # fmt: skip
def test_malformed_files_get_one_sentence(tmp_path, capsys, content, said):
    assert convert(tmp_path, content) == 2
    text = capsys.readouterr().err
    assert said in text and 'Traceback' not in text


def test_class_masks_need_polygons(tmp_path, capsys):
    status = run(
        '--from=folders', '--images=x', '--label_map=x', '--output_prefix=x', '--class_masks'
    )
    assert status == 2
    assert '--from=folders has no polygons to draw; expected one of' in capsys.readouterr().err
    assert convert(tmp_path, {'shapes': []}, '--class_masks', '--boxes=rotated') == 2
    assert '--boxes=rotated has no polygons' in capsys.readouterr().err
