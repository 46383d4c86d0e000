"""`--from=coco`, through the command."""

import copy
import json

import numpy as np
import pytest

from model_fns.datasets.rotated import boxes as rotated
from model_fns.structures.label_map import LabelMap
from tests.model_fns.datasets.converted import boxes, masks, records_of, run, values, write_image

COCO = {
    'images': [{'id': 7, 'file_name': 'a.png', 'height': 20, 'width': 30}],
    'categories': [{'id': 18, 'name': 'dog'}, {'id': 3, 'name': 'car'}],
    'annotations': [
        {
            'id': 1,
            'image_id': 7,
            'category_id': 18,
            'bbox': [3, 5, 6, 10],
            'area': 55.5,
            'iscrowd': 0,
            'segmentation': [[3, 5, 9, 5, 9, 15, 3, 15]],
            'keypoints': [6, 10, 2, 0, 0, 0],
            'num_keypoints': 1,
        },
        {
            'id': 2,
            'image_id': 7,
            'category_id': 3,
            'bbox': [0, 0, 30, 20],
            'area': 2,
            'iscrowd': 1,
            # Column by column: 1 zero, 2 ones, the rest zeros.
            'segmentation': {'size': [20, 30], 'counts': [1, 2, 597]},
        },
    ],
}


def convert(folder, content, *more):
    write_image(folder / 'images' / 'a.png')
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / 'instances.json').write_text(text)
    return run(
        '--from=coco',
        f'--images={folder / "images"}',
        f'--annotations={folder / "instances.json"}',
        f'--label_map={folder / "map.pbtxt"}',
        f'--output_prefix={folder / "out" / "train"}',
        '--num_shards=1',
        *more,
    )


def changed(section, place, **fields):
    """The file with fields of an entry changed; None takes one away."""
    content = copy.deepcopy(COCO)
    entry = content[section][place]
    for name, value in fields.items():
        if value is None:
            del entry[name]
        else:
            entry[name] = value
    return content


def test_a_record(tmp_path):
    assert convert(tmp_path, COCO) == 0
    # Ids of a label map have no gaps: the categories keep their order.
    assert LabelMap.read(str(tmp_path / 'map.pbtxt')).names == {1: 'car', 2: 'dog'}
    feature = records_of(tmp_path / 'out' / 'train')['7']
    assert values(feature, 'image/object/class/label') == [2, 1]
    assert values(feature, 'image/object/class/text') == [b'dog', b'car']
    assert values(feature, 'image/object/is_crowd') == [0, 1]
    assert values(feature, 'image/object/area') == [55.5, 2]
    assert values(feature, 'image/object/weight') == [1, 0]
    assert boxes(feature) == pytest.approx(np.array([[0.25, 0.1, 0.75, 0.3], [0, 0, 1, 1]]))
    assert values(feature, 'image/object/keypoint/x') == pytest.approx([0.2, 0, 0, 0])
    assert values(feature, 'image/object/keypoint/visibility') == [2, 0, 0, 0]
    assert values(feature, 'image/object/keypoint/num') == [1, 0]
    first, second = masks(feature)
    assert first.sum() == 60 and first[5:15, 3:9].all()
    assert second.sum() == 2 and second[1:3, 0].all()
    assert values(feature, 'image/object/mask/weight') == []


def test_masks_can_be_left_out(tmp_path):
    assert convert(tmp_path, COCO, '--no_masks') == 0
    assert values(records_of(tmp_path / 'out' / 'train')['7'], 'image/object/mask') == []


@pytest.mark.parametrize('segmentation', [None, []])
def test_an_object_without_a_segmentation_leaves_the_masks_of_the_others(tmp_path, segmentation):
    content = changed('annotations', 1, segmentation=segmentation, bbox=[10, 4, 2, 3])
    assert convert(tmp_path, content) == 0
    feature = records_of(tmp_path / 'out' / 'train')['7']
    first, second = masks(feature)
    assert first.sum() == 60
    # Its box, which has no weight.
    assert second.sum() == 6 and second[4:7, 10:12].all()
    assert values(feature, 'image/object/mask/weight') == [1, 0]


def test_area_and_crowd_may_be_left_out(tmp_path):
    assert convert(tmp_path, changed('annotations', 0, area=None, iscrowd=None)) == 0
    feature = records_of(tmp_path / 'out' / 'train')['7']
    assert values(feature, 'image/object/area') == [60, 2]
    assert values(feature, 'image/object/is_crowd') == [0, 1]


NAN = float('nan')
BAD_OBJECTS = [
    ({'bbox': 'null'}, "bbox is 'null'; expected four numbers"),
    ({'bbox': [None] * 4}, 'bbox is [None, None, None, None]; expected four numbers'),
    ({'bbox': [1, 2, NAN, 4]}, 'bbox is [1, 2, nan, 4]'),
    ({'bbox': [1, 2, 3]}, 'bbox is [1, 2, 3]'),
    ({'bbox': None}, 'bbox is None'),
    ({'bbox': [1, 2, -3, 4]}, 'the box [2, 1, 6, -2] (ymin, xmin, ymax, xmax) is inverted'),
    ({'bbox': [30, 2, 4, 4]}, 'is outside of the image, which has 20 x 30 pixels'),
    ({'bbox': [10**400, 2, 4, 4]}, 'expected four numbers'),
    ({'category_id': 5}, 'category_id is 5, which is the id of no category'),
    ({'category_id': None}, 'category_id is None'),
    ({'category_id': [18]}, 'category_id is [18]'),
    ({'area': NAN}, 'area is nan'),
    ({'area': 'big'}, "area is 'big'"),
    ({'iscrowd': 'no'}, "iscrowd is 'no'; expected 0 or 1"),
    ({'segmentation': [[1, 2]]}, 'a polygon with 2 numbers; expected x and y of at least three'),
    ({'segmentation': [[1, 2, 3, 4, 5, 6, 7]]}, 'a polygon with 7 numbers'),
    ({'segmentation': [[1, 2, NAN, 4, 5, 6]]}, 'a point at nan; expected a number of pixels'),
    ({'segmentation': [[1, 2, 1e9, 4, 5, 6]]}, 'a point at 1000000000.0'),
    ({'segmentation': ['abc']}, 'a polygon with no list of numbers'),
    (
        {'segmentation': 'abc'},
        "the segmentation is 'abc'; expected a list of polygons, or run lengths",
    ),
    ({'segmentation': {'size': [20, 30], 'counts': [1, 2]}}, 'counts 3 pixels; the image has 600'),
    (
        {'segmentation': {'size': [20, 30], 'counts': [-1, 601]}},
        'has the count -1; expected whole numbers from 0',
    ),
    (
        {'segmentation': {'size': [20, 30], 'counts': 'abc'}},
        'the segmentation cannot be drawn as a mask',
    ),
    ({'segmentation': {'size': [30, 20], 'counts': 'abc'}}, 'of size [30, 20]; the image has'),
    ({'keypoints': [1, 2]}, 'keypoints are 2 numbers; expected x, y and visibility of each.'),
    ({'keypoints': [1, NAN, 2]}, 'keypoints are [1, nan, 2]; expected a list of numbers'),
]


@pytest.mark.parametrize('fields, expected', BAD_OBJECTS, ids=[text for _, text in BAD_OBJECTS])
def test_one_bad_object_is_named_and_left_out(tmp_path, capsys, fields, expected):
    content = changed('annotations', 0, **fields)
    assert convert(tmp_path, content) == 2
    said = capsys.readouterr().err
    assert 'instances.json: object 1: ' in said and expected in said and 'a.png: ' in said
    assert '1 problem:' in said and 'Traceback' not in said
    assert convert(tmp_path, content, '--on_error=skip') == 0
    feature = records_of(tmp_path / 'out' / 'train')['7']
    assert values(feature, 'image/object/class/text') == [b'car']
    assert masks(feature)[0].sum() == 2


def test_keypoints_are_as_many_as_their_category_has(tmp_path, capsys):
    content = changed('categories', 0, keypoints=['nose', 'tail', 'ear'])
    assert convert(tmp_path, content) == 2
    assert 'object 1: keypoints are 6 numbers; expected x, y and visibility of each of 3' in (
        capsys.readouterr().err
    )


BAD_ENTRIES = [
    ('images', {'file_name': None}, 'images[1], id 8: file_name is None; expected text'),
    ('images', {'file_name': 3}, 'images[1], id 8: file_name is 3; expected text'),
    ('images', {'id': None}, 'images[1]: id is None; expected a number or text'),
    ('images', {'id': 7}, 'images[1], id 7: another entry has the same id'),
    ('images', {}, "images[1], id 8: another image has the file_name 'a.png'"),
    ('images', {'file_name': '/z.png'}, "file_name '/z.png' is not a path in --images"),
    ('images', {'file_name': '../images/z.png'}, "'../images/z.png' is not a path in --images"),
    ('images', {'file_name': 'x/../../z.png'}, "'x/../../z.png' is not a path in --images"),
    ('images', {'file_name': 'gs://bucket/z.png'}, 'is not a path in --images'),
    ('annotations', {'image_id': None}, 'annotations[2], id 8: image_id is None, which is the id'),
    ('annotations', {'image_id': 99}, 'annotations[2], id 8: image_id is 99, which is the id of'),
    ('categories', {'name': None}, 'categories[2], id 8: name is None; expected text'),
    ('categories', {'name': '\ud800'}, "categories[2], id 8: name is '\\ud800'; expected text"),
    ('categories', {'name': 'car'}, "categories[2], id 8: another category has the name 'car'"),
    ('images', {'file_name': 'a\0.png'}, "file_name is 'a\\x00.png'; expected text"),
    ('images', {'id': '\ud800'}, "id is '\\ud800'; expected a number or text"),
]


@pytest.mark.parametrize('section, fields, expected', BAD_ENTRIES, ids=[x[2] for x in BAD_ENTRIES])
def test_one_bad_entry_is_named_and_left_out(tmp_path, capsys, section, fields, expected):
    content = copy.deepcopy(COCO)
    entry = {**copy.deepcopy(COCO[section][0]), 'id': 8, **fields}
    content[section].append({name: value for name, value in entry.items() if value is not None})
    assert convert(tmp_path, content) == 2
    said = capsys.readouterr().err
    assert expected in said and 'Traceback' not in said and '1 problem:' in said
    assert convert(tmp_path, content, '--on_error=skip') == 0
    feature = records_of(tmp_path / 'out' / 'train')['7']
    assert values(feature, 'image/object/class/text') == [b'dog', b'car']


@pytest.mark.parametrize('section', ['images', 'annotations', 'categories'])
def test_what_is_no_entry(tmp_path, capsys, section):
    content = copy.deepcopy(COCO)
    content[section].append('x')
    assert convert(tmp_path, content) == 2
    assert f"{section}[{len(COCO[section])}]: 'x' is no entry" in capsys.readouterr().err


def test_boxes_over_the_border_are_cut(tmp_path, capsys):
    content = changed('annotations', 0, bbox=[24, -5, 36, 15], area=None, segmentation=None)
    assert convert(tmp_path, content) == 0
    feature = records_of(tmp_path / 'out' / 'train')['7']
    assert boxes(feature)[0] == pytest.approx([0, 0.8, 0.5, 1])
    assert values(feature, 'image/object/area')[0] == 60
    assert '1 object cut at the border of the image' in capsys.readouterr().err
    assert convert(tmp_path, content, '--outside=error') == 2


def test_a_root_without_a_name_is_malformed(tmp_path, capsys):
    content = copy.deepcopy(COCO)
    content['categories'].append({'id': 0, 'supercategory': 'none'})
    assert convert(tmp_path, content) == 2
    assert 'categories[2], id 0: name is None; expected text' in capsys.readouterr().err


def test_the_root_of_roboflow_is_no_class(tmp_path, capsys):
    content = copy.deepcopy(COCO)
    for category in content['categories']:
        category['supercategory'] = 'car'
    content['categories'].insert(0, {'id': 0, 'name': 'car', 'supercategory': 'none'})
    assert convert(tmp_path, content) == 0
    assert LabelMap.read(str(tmp_path / 'map.pbtxt')).names == {1: 'car', 2: 'dog'}
    assert "category 'car' is left out: it is the root" in capsys.readouterr().err
    # One that has objects is a class as any other.
    content['annotations'][0]['category_id'] = 0
    content['categories'][0]['name'] = 'thing'
    content['categories'][1]['supercategory'] = 'thing'
    (tmp_path / 'map.pbtxt').unlink()
    assert convert(tmp_path, content) == 0
    assert LabelMap.read(str(tmp_path / 'map.pbtxt')).names == {1: 'thing', 2: 'car', 3: 'dog'}


def test_paths_of_windows(tmp_path):
    write_image(tmp_path / 'images' / 'part' / 'b.png')
    assert convert(tmp_path, changed('images', 0, file_name='part\\b.png')) == 0
    feature = records_of(tmp_path / 'out' / 'train')['7']
    assert values(feature, 'image/filename') == [b'b.png']


@pytest.mark.parametrize('name', ['images\\a.png', '/home/me/a.png', 'http://host/upload/a.png'])
def test_images_are_found_by_unique_base_names(tmp_path, capsys, name):
    assert convert(tmp_path, changed('images', 0, file_name=name)) == 0
    assert list(records_of(tmp_path / 'out' / 'train')) == ['7']
    assert '1 image is found by the base name, the first: ' in capsys.readouterr().err


def test_whole_numbers_of_pandas_are_ids(tmp_path):
    content = changed('images', 0, id=7.0)
    for entry, image, category in zip(content['annotations'], (7, 7.0), (18.0, 3)):
        entry.update(id=1.0, image_id=image, category_id=category)
    assert convert(tmp_path, content) == 0
    feature = records_of(tmp_path / 'out' / 'train')['7']
    assert values(feature, 'image/object/class/text') == [b'dog', b'car']


def test_why_no_image_is_left_is_said(tmp_path, capsys):
    assert convert(tmp_path, changed('images', 0, file_name='../images/z.png')) == 2
    said = capsys.readouterr().err
    assert "'../images/z.png' is not a path in --images" in said
    assert 'there is no image to convert' in said


def test_a_size_that_is_text(tmp_path, capsys):
    assert convert(tmp_path, changed('images', 0, height='high')) == 2
    assert "height is 'high'; expected a number of pixels" in capsys.readouterr().err


@pytest.mark.parametrize(
    'content, expected',
    [
        ('{', 'is not JSON'),
        ('[' * 100000, 'is not JSON'),
        ('{"images": []}', 'has no "annotations"'),
        ('{"images": 3, "annotations": [], "categories": []}', 'has no "images"'),
        ('[]', 'has no "images"'),
        (
            '{"images": [], "categories": [], "annotations": [{"segments_info": []}]}',
            'is a panoptic file of COCO',
        ),
    ],
)
def test_files_are_checked(tmp_path, capsys, content, expected):
    assert convert(tmp_path, content) == 2
    assert expected in capsys.readouterr().err


def test_rotated_boxes_are_the_smallest_around_polygons(tmp_path):
    # A square on its corner in two parts; the crowd has no polygons and keeps its axis-aligned box.
    parts = [[10, 5, 15, 10, 10, 10], [10, 10, 10, 15, 5, 10]]
    content = changed('annotations', 0, segmentation=parts)
    assert convert(tmp_path, content, '--boxes=rotated', '--no_masks') == 0
    (feature,) = records_of(tmp_path / 'out' / 'train').values()
    numbers = np.array([values(feature, key) for key in rotated.KEYS]).T * [20, 30, 20, 30, 1]
    root = np.sqrt(50)
    np.testing.assert_allclose(numbers[0, :4], [10, 10, root, root], atol=1e-3)
    np.testing.assert_allclose(abs(numbers[0, 4]), np.pi / 4, atol=1e-5)
    np.testing.assert_allclose(numbers[1], [10, 15, 20, 30, 0], atol=1e-3)


def test_formats_without_rotated_boxes(tmp_path, capsys):
    status = run(
        '--from=folders', '--images=a', '--label_map=b', '--output_prefix=c/d', '--boxes=rotated'
    )
    assert status == 2
    assert '--from=folders has none' in capsys.readouterr().err
