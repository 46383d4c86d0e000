"""Regions to ignore, from the files of several formats to records."""

import json

import numpy as np
import pytest

from model_fns.datasets import ignored_regions, sources
from model_fns.datasets.annotations.class_maps import FIRST_IGNORED_ID
from model_fns.structures import id_images
from model_fns.structures.label_map import LabelMap
from tests.model_fns.datasets.converted import boxes, records_of, run, values, write_image
from tests.model_fns.datasets.id_files import png

CLASSES = LabelMap.from_names(['a', 'b'])


def test_a_region_is_a_crowd_of_each_class_by_hand():
    features = {
        'image/source_id': 'x',
        'image/object/bbox/ymin': np.array([0.1, 0.2, 0.3], np.float32),
        'image/object/class/label': np.array([1, FIRST_IGNORED_ID, 2]),
        'image/object/class/text': ['a', 'DontCare', 'b'],
        'image/object/mask': [b'0', b'1', b'2'],
        'image/object/keypoint/y': np.array([1, 2, 3, 4, 5, 6], np.float32),  # two of an object
    }
    report = sources.Report()
    report.observe('x: 2', name='DontCare')
    expanded, counts = ignored_regions.expand(features, CLASSES, report)
    assert counts == {'DontCare': 1}
    assert report.objects[0].ignored and not report.objects[0].name
    assert expanded['image/object/class/label'].tolist() == [1, 2, 1, 2]
    assert expanded['image/object/class/text'] == ['a', 'b', 'a', 'b']
    assert expanded['image/object/is_crowd'].tolist() == [0, 0, 1, 1]
    assert expanded['image/object/weight'].tolist() == [1, 1, 0, 0]
    assert expanded['image/object/mask'] == [b'0', b'2', b'1', b'1']
    assert expanded['image/object/keypoint/y'].tolist() == [1, 2, 5, 6, 3, 4, 3, 4]
    np.testing.assert_allclose(expanded['image/object/bbox/ymin'], [0.1, 0.3, 0.2, 0.2])
    assert expanded['image/source_id'] == 'x'
    plain = {'image/object/class/label': np.array([1])}
    assert ignored_regions.expand(plain, CLASSES, report) == (plain, {})


def _command(folder, name, annotations, *more):
    write_image(folder / 'images' / 'a.png')
    return run(
        f'--from={name}',
        f'--images={folder / "images"}',
        f'--annotations={folder / annotations}',
        f'--label_map={folder / "map.pbtxt"}',
        f'--output_prefix={folder / "out" / "train"}',
        '--num_shards=1',
        *more,
    )


def _coco(folder):
    names = ['DontCare', 'cat', 'dog']
    shapes = [[3, 2, 9, 4], [1, 1, 4, 4], [20, 10, 5, 5]]
    content = {
        'images': [{'id': 1, 'file_name': 'a.png', 'height': 20, 'width': 30}],
        'categories': [{'id': index, 'name': name} for index, name in enumerate(names)],
        'annotations': [
            {'id': k, 'image_id': 1, 'category_id': k, 'bbox': box, 'area': 9, 'iscrowd': 0}
            for k, box in enumerate(shapes)
        ],
    }
    (folder / 'a.json').write_text(json.dumps(content))
    return _command(folder, 'coco', 'a.json')


def _voc(folder):
    shapes = {'DontCare': (3, 2, 12, 6), 'cat': (1, 1, 5, 5), 'dog': (20, 10, 25, 15)}
    objects = ''.join(
        f'<object><name>{name}</name><bndbox><xmin>{x + 1}</xmin><ymin>{y + 1}</ymin>'
        f'<xmax>{right}</xmax><ymax>{bottom}</ymax></bndbox></object>'
        for name, (x, y, right, bottom) in shapes.items()
    )
    (folder / 'xml').mkdir()
    (folder / 'xml' / 'a.xml').write_text(f'<annotation>{objects}</annotation>')
    return _command(folder, 'voc', 'xml')


YOLO = [(0, 3, 2, 9, 4), (1, 1, 1, 4, 4), (2, 20, 10, 5, 5)]


def _yolo(folder, *more, rows=YOLO, last_line=''):
    (folder / 'data.yaml').write_text('names: [crowded, cat, dog]\n')
    (folder / 'labels').mkdir(exist_ok=True)
    text = [
        f'{key} {(x + w / 2) / 30} {(y + h / 2) / 20} {w / 30} {h / 20}' for key, x, y, w, h in rows
    ]
    (folder / 'labels' / 'a.txt').write_text('\n'.join([*text, last_line]))
    return _command(folder, 'yolo', 'labels', '--ignore_class=crowded', *more)


def _csv(folder):
    lines = ['filename,width,height,class,xmin,ymin,xmax,ymax']
    lines += ['a.png,30,20,DontCare,3,2,12,6', 'a.png,30,20,cat,1,1,5,5']
    lines += ['a.png,30,20,dog,20,10,25,15']
    (folder / 'a.csv').write_text('\n'.join(lines))
    return _command(folder, 'csv', 'a.csv')


@pytest.mark.parametrize('convert', [_coco, _voc, _yolo, _csv])
def test_objects_of_such_a_name_are_crowds_in_every_format(convert, tmp_path, capfd):
    assert convert(tmp_path) == 0
    assert LabelMap.read(str(tmp_path / 'map.pbtxt')).names == {1: 'cat', 2: 'dog'}
    (feature,) = records_of(tmp_path / 'out' / 'train').values()
    assert values(feature, 'image/object/class/label') == [1, 2, 1, 2]
    assert values(feature, 'image/object/is_crowd') == [0, 0, 1, 1]
    assert values(feature, 'image/object/weight') == [1, 1, 0, 0]
    expected = [[1, 1, 5, 5], [10, 20, 15, 25], [2, 3, 6, 12], [2, 3, 6, 12]]
    np.testing.assert_allclose(boxes(feature) * [20, 30, 20, 30], expected, atol=1.01)
    said = capfd.readouterr().err
    assert '1 region to ignore' in said and 'cat: 1 object in 1 image' in said


def test_a_name_of_the_label_map_is_that_of_a_class(tmp_path):
    LabelMap.from_names(['cat', 'dog', 'DontCare']).write(str(tmp_path / 'map.pbtxt'))
    assert _coco(tmp_path) == 0
    (feature,) = records_of(tmp_path / 'out' / 'train').values()
    assert values(feature, 'image/object/class/label') == [3, 1, 2]


def test_pixels_of_such_a_name_count_for_nothing(tmp_path):
    assert _yolo(tmp_path, '--class_masks', '--no_masks') == 0
    (feature,) = records_of(tmp_path / 'out' / 'train').values()
    (encoded,) = values(feature, 'image/segmentation/class/encoded')
    pixels = id_images.read(encoded)
    assert pixels[4, 8] == 255 and pixels[2, 2] == 1 and pixels[12, 22] == 2
    assert pixels[3, 4] == 1  # a region is below the objects
    masks = tmp_path / 'masks'
    (masks / 'png').mkdir(parents=True)
    (masks / 'png' / 'a.png').write_bytes(png(np.full([20, 30], 7) - np.eye(20, 30, dtype=int)))
    flags = ['--mask_values=6:cell,7:ignored regions']
    assert _command(masks, 'masks', 'png', *flags) == 0
    (feature,) = records_of(masks / 'out' / 'train').values()
    (encoded,) = values(feature, 'image/segmentation/class/encoded')
    assert np.unique(id_images.read(encoded)).tolist() == [1, 255]


@pytest.mark.parametrize('kind', [[], ['--boxes=rotated']])
def test_tiles_keep_regions(tmp_path, capfd, kind):
    assert _yolo(tmp_path, '--tile=20', '--overlap=10', *kind) == 0
    found = records_of(tmp_path / 'out' / 'train').values()
    crowds = [sum(values(feature, 'image/object/is_crowd')) for feature in found]
    assert crowds == [2, 2]
    said = capfd.readouterr().err
    assert '1 region to ignore' in said and 'cat: 1 object in 1 image' in said
    assert 'in no tile' not in said


@pytest.mark.parametrize('kind', [[], ['--boxes=rotated']])
def test_a_tile_of_regions_only_is_empty(tmp_path, capfd, kind):
    flags = ['--tile=20', '--overlap=10', '--empty_tiles=drop', *kind]
    assert _yolo(tmp_path, *flags, rows=YOLO[:2]) == 0
    assert list(records_of(tmp_path / 'out' / 'train')) == ['a__1__0___0.png']
    assert '1 tile without objects left out' in capfd.readouterr().err


@pytest.mark.parametrize('tiles', [[], ['--tile=20', '--overlap=10']])
def test_an_image_whose_objects_have_problems_is_left_out_with_its_regions(tmp_path, tiles):
    write_image(tmp_path / 'images' / 'b.png', value=7)
    (tmp_path / 'labels').mkdir()
    (tmp_path / 'labels' / 'b.txt').write_text('1 0.2 0.2 0.1 0.1\n2 0.8 0.8 0.1 0.1')
    assert _yolo(tmp_path, '--on_error=skip', *tiles, rows=YOLO[:1], last_line='1 0.5') == 0
    assert {name[0] for name in records_of(tmp_path / 'out' / 'train')} == {'b'}
