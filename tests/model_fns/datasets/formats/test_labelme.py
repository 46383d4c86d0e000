"""`--from=labelme`, through the command."""

import base64
import json

import numpy as np
import pytest

from model_fns.datasets.annotations import polygons
from model_fns.structures import id_images
from model_fns.structures.label_map import LabelMap
from tests.model_fns.datasets.converted import boxes, masks, records_of, run, values, write_image
from tests.model_fns.datasets.id_files import png

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


def test_a_file_of_another_stem_belongs_to_the_image_that_it_names(tmp_path):
    write_image(tmp_path / 'images' / 'b.png')
    content = {'shapes': [RECTANGLE], 'imagePath': '../photos/b.png'}
    (tmp_path / 'images' / '0001.json').write_text(json.dumps(content))
    assert convert(tmp_path, {'shapes': [POLYGON]}) == 0
    found = records_of(tmp_path / 'out' / 'train')
    assert values(found['b.png'], 'image/object/class/text') == [b'dog']
    assert values(found['a.png'], 'image/object/class/text') == [b'cat']


def mask_shape(pixels, left, top, **changes):
    height, width = np.shape(pixels)
    return {
        'label': 'cat',
        'shape_type': 'mask',
        'points': [[left, top], [left + width - 1, top + height - 1]],
        'mask': base64.b64encode(png(np.asarray(pixels), 8)).decode(),
        **changes,
    }


PIXELS = [[0, 0, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]


def test_masks_are_pixels_between_two_points(tmp_path):
    grouped = [mask_shape(PIXELS, 3, 5, group_id=1), {**POLYGON, 'group_id': 1}]
    content = {'shapes': [mask_shape(PIXELS, 12, 2, label='dog'), *grouped]}
    assert convert(tmp_path / 'a', content) == 0
    (feature,) = records_of(tmp_path / 'a' / 'out' / 'train').values()
    expected = [[3, 13, 5, 16], [4, 2, 10, 8]]
    np.testing.assert_allclose(boxes(feature) * [20, 30, 20, 30], expected, atol=1e-5)
    first, second = masks(feature)
    whole = np.zeros([20, 30])
    whole[2:5, 12:16] = PIXELS
    np.testing.assert_array_equal(first, whole)
    assert second.sum() == 36  # its pixels at x 4 to 6, y 6 and 7 are inside of the polygon

    assert convert(tmp_path / 'b', content, '--boxes=rotated') == 0
    assert convert(tmp_path / 'c', content, '--class_masks') == 0
    (feature,) = records_of(tmp_path / 'c' / 'out' / 'train').values()
    (encoded,) = values(feature, 'image/segmentation/class/encoded')
    np.testing.assert_array_equal(id_images.read(encoded) == 2, whole)


@pytest.mark.parametrize(
    ('changes', 'said'),
    [
        ({'mask': 'no base 64!'}, 'the mask is no PNG in base 64'),
        ({'mask': None}, 'the mask is no PNG in base 64'),
        ({'points': [[0, 0], [4, 2]]}, 'the mask has 3 x 4 pixels; expected 3 x 5'),
        ({'points': [[28, 2], [31, 4]]}, 'the image has 20 x 30 pixels'),
        ({'points': [[0, 0], [3, 0], [3, 2], [0, 2]]}, 'the mask has 4 points; expected 2'),
        ({'mask': base64.b64encode(png(np.zeros([3, 4], int), 8)).decode()}, 'has no pixels'),
    ],
)
def test_malformed_masks(tmp_path, capsys, changes, said):
    assert convert(tmp_path, {'shapes': [mask_shape(PIXELS, 3, 5, **changes)]}) == 2
    assert said in capsys.readouterr().err


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


def test_rectangles_of_four_points_and_rotation_shapes(tmp_path):
    rectangle = {**RECTANGLE, 'points': [[10, 2], [20, 2], [20, 8], [10, 8]]}
    # Sides of 4 and 2 times the square root of 2 around x 10, y 10.
    rotation = {
        **POLYGON,
        'shape_type': 'rotation',
        'points': [[13, 11], [11, 13], [7, 9], [9, 7]],
        'direction': 0.785,
    }
    content = {'shapes': [rectangle, rotation]}
    assert convert(tmp_path / 'a', content) == 0
    (feature,) = records_of(tmp_path / 'a' / 'out' / 'train').values()
    expected = [[2, 10, 8, 20], [7, 7, 13, 13]]
    np.testing.assert_allclose(boxes(feature) * [20, 30, 20, 30], expected, atol=1e-5)

    assert convert(tmp_path / 'b', content, '--boxes=rotated') == 0
    (feature,) = records_of(tmp_path / 'b' / 'out' / 'train').values()
    sides = [values(feature, f'image/object/rbbox/{side}')[1] for side in ('cy', 'cx', 'h', 'w')]
    scaled = np.multiply(sides, [20, 30, 20, 30])
    np.testing.assert_allclose(scaled[:2], [10, 10], atol=1e-4)
    np.testing.assert_allclose(sorted(scaled[2:]), [8**0.5, 32**0.5], atol=1e-4)


def test_nothing_is_drawn_where_nobody_reads_masks(tmp_path, monkeypatch):
    drawn, draw = [], polygons.draw
    monkeypatch.setattr(polygons, 'draw', lambda *shape: drawn.append(shape) or draw(*shape))
    content = {'shapes': [POLYGON, RECTANGLE, CIRCLE]}
    assert convert(tmp_path, content, '--no_masks') == 0
    (feature,) = records_of(tmp_path / 'out' / 'train').values()
    assert len(boxes(feature)) == 3 and not values(feature, 'image/object/mask')
    assert not drawn
    assert convert(tmp_path, content) == 0
    (feature,) = records_of(tmp_path / 'out' / 'train').values()
    assert len(masks(feature)) == 3 and len(drawn) == 3


def test_labels_that_are_no_classes_are_ignored_regions(tmp_path):
    ignored = {**RECTANGLE, 'label': '__ignore__', 'points': [[10, 2], [20, 8]]}
    background = {**RECTANGLE, 'label': '_background_', 'points': [[22, 2], [26, 8]]}
    content = {
        'shapes': [POLYGON, ignored, background, {**RECTANGLE, 'points': [[1, 12], [9, 18]]}]
    }
    assert convert(tmp_path, content, '--class_masks', '--no_masks') == 0
    assert LabelMap.read(str(tmp_path / 'map.pbtxt')).names == {1: 'cat', 2: 'dog'}
    (feature,) = records_of(tmp_path / 'out' / 'train').values()
    # A region is one of each class: metrics ignore what a crowd of the same class covers.
    assert values(feature, 'image/object/class/label') == [1, 2, 1, 2, 1, 2]
    assert values(feature, 'image/object/class/text')[2:4] == [b'cat', b'dog']
    # Regions are last: training may leave these out.
    assert values(feature, 'image/object/is_crowd') == [0, 0, 1, 1, 1, 1]
    assert values(feature, 'image/object/weight') == [1, 1, 0, 0, 0, 0]
    assert not values(feature, 'image/object/mask')
    (encoded,) = values(feature, 'image/segmentation/class/encoded')
    expected = np.zeros([20, 30])
    expected[4:10, 2:8] = 1
    expected[2:8, 10:20] = 255
    expected[12:18, 1:9] = 2
    np.testing.assert_array_equal(id_images.read(encoded), expected)
    assert convert(tmp_path, content, '--boxes=rotated') == 0
    (feature,) = records_of(tmp_path / 'out' / 'train').values()
    assert values(feature, 'image/object/weight') == [1, 1, 0, 0, 0, 0]


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
        (
            shape(shape_type='rectangle', points=[[1, 2], [3, 4], [5, 6]]),
            'the rectangle has 3 points; expected 2 or 4',
        ),
        (shape(shape_type='rotation', points=[[1, 2], [3, 4]]), 'has 2 points; expected 4'),
        (shape(shape_type='circle'), 'the circle has 4 points; expected 2'),
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
