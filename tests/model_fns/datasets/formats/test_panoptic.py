"""`--from=panoptic`, through the command."""

import copy
import json

import numpy as np
import pytest

from model_fns.datasets import codecs
from model_fns.structures import id_images
from model_fns.structures.label_map import LabelMap
from tests.model_fns.datasets.converted import boxes, masks, records_of, run, values, write_image

# Each byte of an id is in use: 5 + 256 * 7, and 65536.
SKY, CAR, CROWD = 3, 5 + 256 * 7, 65536
CONTENT = {
    'images': [{'id': 9, 'file_name': 'a.png', 'height': 20, 'width': 30}],
    'categories': [
        {'id': 4, 'name': 'sky', 'isthing': 0},
        {'id': 2, 'name': 'car', 'isthing': 1},
    ],
    'annotations': [
        {
            'image_id': 9,
            'file_name': 'a.png',
            'segments_info': [
                {'id': SKY, 'category_id': 4, 'iscrowd': 0, 'area': 150, 'bbox': [0, 0, 30, 5]},
                {'id': CAR, 'category_id': 2, 'iscrowd': 0, 'area': 12, 'bbox': [4, 6, 4, 3]},
                {'id': CROWD, 'category_id': 2, 'iscrowd': 1, 'area': 10, 'bbox': [9, 9, 5, 2]},
            ],
        }
    ],
}


def segments():
    ids = np.zeros([20, 30], np.int64)
    ids[:5] = SKY
    ids[6:9, 4:8] = CAR
    ids[9:11, 9:14] = CROWD
    return ids


def convert(folder, content=CONTENT, ids=None, *more):
    write_image(folder / 'images' / 'a.png')
    (folder / 'panoptic').mkdir(exist_ok=True)
    ids = segments() if ids is None else ids
    colors = np.stack([ids % 256, ids // 256 % 256, ids // 65536], axis=-1).astype(np.uint8)
    (folder / 'panoptic' / 'a.png').write_bytes(codecs.encode_png(colors))
    (folder / 'panoptic.json').write_text(json.dumps(content))
    return run(
        '--from=panoptic',
        f'--images={folder / "images"}',
        f'--annotations={folder / "panoptic.json"}',
        f'--label_map={folder / "map.pbtxt"}',
        f'--output_prefix={folder / "out" / "train"}',
        '--num_shards=1',
        *more,
    )


def test_no_thing_is_encoded_where_nobody_reads_masks(tmp_path, monkeypatch):
    encoded, encode = [], codecs.encode_png
    monkeypatch.setattr(codecs, 'encode_png', lambda ids: encoded.append(ids) or encode(ids))
    for flags, count in ((['--no_masks'], 0), ([], 2)):
        encoded.clear()
        assert convert(tmp_path, CONTENT, None, *flags) == 0
        (feature,) = records_of(tmp_path / 'out' / 'train').values()
        assert len(boxes(feature)) == 2
        assert len(values(feature, 'image/object/mask')) == count
        things = [ids for ids in encoded if ids.dtype == np.uint8 and ids.max() == 1]
        assert len(things) == count


def test_classes_instances_and_objects(tmp_path, capfd):
    assert convert(tmp_path) == 0
    assert 'lose all of their objects' not in capfd.readouterr().err
    assert LabelMap.read(str(tmp_path / 'map.pbtxt')).names == {1: 'car', 2: 'sky'}
    (feature,) = records_of(tmp_path / 'out' / 'train').values()
    ids = segments()
    expected = np.full([20, 30], 255)
    expected[ids == SKY], expected[ids == CAR] = 2, 1
    (encoded,) = values(feature, 'image/segmentation/class/encoded')
    np.testing.assert_array_equal(id_images.read(encoded), expected)
    (encoded,) = values(feature, 'image/segmentation/instance/encoded')
    np.testing.assert_array_equal(id_images.read(encoded), ids == CAR)
    np.testing.assert_allclose(
        boxes(feature) * [20, 30, 20, 30], [[6, 4, 9, 8], [9, 9, 11, 14]], atol=1e-5
    )
    assert values(feature, 'image/object/is_crowd') == [0, 1]
    assert values(feature, 'image/object/weight') == [1, 0]
    assert values(feature, 'image/object/area') == [12, 10]
    for mask, key in zip(masks(feature), (CAR, CROWD)):
        np.testing.assert_array_equal(mask, ids == key)


def changed(**fields):
    content = copy.deepcopy(CONTENT)
    content['annotations'][0]['segments_info'][1].update(fields)
    return content


def without(key):
    content = copy.deepcopy(CONTENT)
    content['annotations'][0][key] = None
    return content


@pytest.mark.parametrize(
    ('content', 'said'),
    [
        (changed(id=77), 'segment 77: no pixel of the PNG has its id, 77.'),
        (changed(id=0), 'segment 0: id is 0; expected a number from 1'),
        (changed(category_id=8), 'category_id is 8, which is the id of no category'),
        (changed(iscrowd=2), 'iscrowd is 2; expected 0 or 1'),
        (without('segments_info'), 'the image has no list of segments_info'),
        (without('file_name'), 'file_name of its segments is None; expected a name'),
        ({**CONTENT, 'annotations': []}, 'has 0 annotations of the image; expected one'),
        ({'images': []}, 'expected a panoptic file of COCO'),
    ],
)
def test_malformed_files_get_one_sentence(tmp_path, capsys, content, said):
    assert convert(tmp_path, content) == 2
    text = capsys.readouterr().err
    assert said in text and 'Traceback' not in text


def test_a_class_above_others_that_segments_have_stays(tmp_path):
    content = copy.deepcopy(CONTENT)
    content['categories'][0]['supercategory'] = 'none'
    content['categories'][1]['supercategory'] = 'sky'
    assert convert(tmp_path, content) == 0
    assert LabelMap.read(str(tmp_path / 'map.pbtxt')).names == {1: 'car', 2: 'sky'}


def test_a_png_of_another_size_is_refused(tmp_path, capsys):
    assert convert(tmp_path, CONTENT, segments()[:10]) == 2
    assert 'an image of 10 x 30 pixels; the image has 20 x 30' in capsys.readouterr().err


def test_a_missing_png_is_named(tmp_path, capsys):
    content = copy.deepcopy(CONTENT)
    content['annotations'][0]['file_name'] = 'b.png'
    assert convert(tmp_path, content) == 2
    assert 'b.png: there is no such file' in capsys.readouterr().err
