"""Tiles with axis-aligned boxes, masks, keypoints and classes of pixels, by hand."""

import json

import numpy as np
import pytest

from estimator_lib import errors
from estimator_lib.drawing.tiling import Window
from model_fns.datasets import codecs, records
from model_fns.datasets.annotations import class_maps, tiles
from model_fns.structures import id_images
from model_fns.structures.images import image_header
from tests.model_fns.datasets import converted

IMAGE = np.arange(40 * 60 * 3, dtype=np.uint32).reshape(40, 60, 3).astype(np.uint8)
WINDOW = Window(10, 20, 16, 24)


def image_features():
    encoded = codecs.encode_png(IMAGE)
    return records.image_features(encoded, image_header(encoded), 'a.png', 'a__1__20___10.png')


def object_features(boxes):
    sides = np.array(boxes, np.float64) / [40, 60, 40, 60]
    names = ('ymin', 'xmin', 'ymax', 'xmax')
    count = len(boxes)
    return {
        **image_features(),
        **{f'image/object/bbox/{name}': row for name, row in zip(names, sides.T)},
        'image/object/class/label': np.arange(count) + 1,
        'image/object/class/text': [f'class {index}' for index in range(count)],
        'image/object/area': np.full([count], 100.0),
        'image/object/weight': np.arange(count, dtype=np.float32),
    }


# Inside; three quarters inside; a quarter inside; outside.
BOXES = [[12, 22, 18, 30], [12, 38, 22, 46], [6, 30, 11, 34], [30, 2, 34, 8]]


@pytest.mark.parametrize('least, kept', [(0.7, [0, 1]), (0.2, [0, 1, 2]), (1, [0])])
def test_boxes_are_clipped_and_kept_by_their_share(least, kept):
    made, indices, has_classes = tiles.cut(object_features(BOXES), IMAGE, WINDOW, least)
    assert indices.tolist() == kept and not has_classes
    expected = np.array([[2, 2, 8, 10], [2, 18, 12, 24], [0, 10, 1, 14]])[: len(kept)]
    np.testing.assert_allclose(converted_boxes(made) * [16, 24, 16, 24], expected, atol=1e-5)
    assert made['image/object/class/label'].tolist() == [index + 1 for index in kept]
    assert made['image/object/class/text'] == [f'class {index}' for index in kept]
    assert made['image/object/weight'].tolist() == kept
    shares = [100, 75, 20][: len(kept)]
    np.testing.assert_allclose(made['image/object/area'], shares, atol=1e-3)
    assert (made['image/height'], made['image/width']) == (16, 24)
    assert made['image/filename'] == 'a__1__20___10.png'


def converted_boxes(features):
    names = ('ymin', 'xmin', 'ymax', 'xmax')
    return np.stack([features[f'image/object/bbox/{name}'] for name in names], axis=1)


def test_a_part_of_a_crowd_is_one_too():
    features = object_features(BOXES)
    features['image/object/is_crowd'] = np.array([0, 0, 1, 1])
    made, indices, _ = tiles.cut(features, IMAGE, WINDOW, 0.7)
    assert indices.tolist() == [0, 1, 2]  # a quarter of the third is inside
    assert made['image/object/is_crowd'].tolist() == [0, 0, 1]
    np.testing.assert_allclose(converted_boxes(made)[2] * [16, 24, 16, 24], [0, 10, 1, 14])


def test_masks_are_cropped():
    features = object_features(BOXES[:2])
    pixels = np.zeros([2, 40, 60], np.uint8)
    pixels[0, 12:18, 22:30] = 1
    pixels[1, 12:22, 38:46] = 1
    features['image/object/mask'] = [codecs.encode_png(mask) for mask in pixels]
    made, _, _ = tiles.cut(features, IMAGE, WINDOW, 0.5)
    for png, mask in zip(made['image/object/mask'], pixels):
        np.testing.assert_array_equal(id_images.read(png), mask[10:26, 20:44])
    np.testing.assert_allclose(made['image/object/area'], [100, 75])


def test_keypoints_outside_become_unlabeled():
    features = object_features(BOXES[:2])
    features.update(
        {
            'image/object/keypoint/x': np.array([24, 28, 40, 45]) / 60,
            'image/object/keypoint/y': np.array([12, 14, 14, 14]) / 40,
            'image/object/keypoint/visibility': np.array([2, 0, 2, 2]),
            'image/object/keypoint/num': np.array([1, 2]),
        }
    )
    made, _, _ = tiles.cut(features, IMAGE, WINDOW, 0.5)
    np.testing.assert_allclose(made['image/object/keypoint/x'], [4 / 24, 0, 20 / 24, 0], atol=1e-6)
    np.testing.assert_allclose(made['image/object/keypoint/y'], [2 / 16, 0, 4 / 16, 0], atol=1e-6)
    assert made['image/object/keypoint/visibility'].tolist() == [2, 0, 2, 0]
    assert made['image/object/keypoint/num'].tolist() == [1, 1]


@pytest.mark.parametrize('value, has_content', [(0, False), (255, False), (3, True)])
def test_classes_and_instances_are_cropped(value, has_content):
    classes = np.zeros([40, 60], np.int32)
    classes[20:30, 30:50] = value
    instances = codecs.encode_png((classes * 200).astype(np.uint16))
    features = {**image_features(), **class_maps.class_features(classes)}
    features['image/segmentation/instance/encoded'] = instances
    made, kept, found = tiles.cut(features, IMAGE, WINDOW, 0.7)
    assert found == has_content and not len(kept)
    part = classes[10:26, 20:44]
    read = id_images.read(made['image/segmentation/class/encoded'])
    np.testing.assert_array_equal(read, part)
    read = id_images.read(made['image/segmentation/instance/encoded'])
    np.testing.assert_array_equal(read, part * 200)


def test_a_label_of_an_image_is_refused():
    features = {**image_features(), 'image/class/label': 1}
    with pytest.raises(errors.DataError, match='leave out --tile'):
        tiles.cut(features, IMAGE, WINDOW, 0.7)


def test_the_converter_cuts_large_images(tmp_path, capsys):
    converted.write_image(tmp_path / 'images' / 'large.png', 40, 60)
    converted.write_image(tmp_path / 'images' / 'small.png', 20, 20)
    content = {
        'images': [{'id': 1, 'file_name': 'large.png'}, {'id': 2, 'file_name': 'small.png'}],
        'categories': [{'id': 1, 'name': 'cat'}],
        'annotations': [
            {
                'id': 1,
                'image_id': 1,
                'category_id': 1,
                'bbox': [40, 5, 8, 10],
                'segmentation': [[40, 5, 48, 5, 48, 15, 40, 15]],
            },
            {'id': 2, 'image_id': 1, 'category_id': 5, 'bbox': [0, 0, 2, 2]},
        ],
    }
    (tmp_path / 'file.json').write_text(json.dumps(content))
    flags = [
        '--from=coco',
        f'--images={tmp_path / "images"}',
        f'--annotations={tmp_path / "file.json"}',
        f'--label_map={tmp_path / "map.pbtxt"}',
        '--num_shards=1',
        '--tile=32',
        '--overlap=8',
        '--class_masks',
    ]
    status = converted.run(*flags, f'--output_prefix={tmp_path / "out" / "all"}', '--on_error=skip')
    said = capsys.readouterr().err
    assert status == 0 and said.count('category_id is 5') == 1
    found = converted.records_of(tmp_path / 'out' / 'all')
    tops, lefts = (0, 8), (0, 24, 28)
    names = {f'1__1__{left}___{top}' for top in tops for left in lefts}
    assert set(found) == {*names, '2'}
    tile = found['1__1__24___0']
    np.testing.assert_allclose(converted.boxes(tile) * 32, [[5, 16, 15, 24]], atol=1e-5)
    (mask,) = converted.masks(tile)
    (encoded,) = converted.values(tile, 'image/segmentation/class/encoded')
    expected = np.zeros([32, 32])
    expected[5:15, 16:24] = 1
    np.testing.assert_array_equal(mask, expected)
    np.testing.assert_array_equal(id_images.read(encoded), expected)
    status = converted.run(
        *flags,
        f'--output_prefix={tmp_path / "out" / "some"}',
        '--on_error=skip',
        '--empty_tiles=drop',
    )
    assert status == 0
    # The object is in two columns of tiles: in both rows of one, at least 70 % of it.
    kept = set(converted.records_of(tmp_path / 'out' / 'some'))
    assert kept == {'1__1__24___0', '1__1__28___0', '1__1__24___8', '1__1__28___8', '2'}


def test_folders_have_no_tiles(capsys):
    flags = ('--images=x', '--label_map=x', '--output_prefix=x', '--tile=32')
    assert converted.run('--from=folders', *flags) == 2
    assert 'a label of a whole image is not one of its tiles' in capsys.readouterr().err
