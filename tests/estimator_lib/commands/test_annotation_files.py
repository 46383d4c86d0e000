"""Annotations of YOLO and Pascal VOC, by hand, and read back by the converter."""

import math
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml

from estimator_lib import errors
from estimator_lib.commands import annotation_files, prediction_files
from estimator_lib.commands.prediction_files import Entry
from estimator_lib.task import Region
from model_fns.structures import rotated_rectangles
from tests.model_fns.datasets.converted import boxes, masks, records_of, run, values, write_image

SIZE = (20, 40)  # height and width
CLASSES = ['cat', 'no', 'traffic light']
MASK = np.zeros(SIZE, bool)
MASK[5:10, 10:20] = True
MASK[7, 12] = False
ROTATED = [10.0, 20.0, 4.0, 12.0, 0.5]
REGIONS = {
    'boxes': [Region(2, [5.0, 10.0, 15.0, 30.0]), Region(0, [-1.0, 0.5, 30.0, 20.5])],
    'masks': [
        Region(1, [5.0, 10.0, 10.0, 20.0], mask=MASK[4:12, 8:], origin=(4, 8)),
        Region(0, [0.0, 0.0, 2.0, 4.0], mask=np.zeros(SIZE, bool)),
    ],
    'rotated': [
        Region(
            1,
            [0.0, 0.0, 20.0, 40.0],
            rotated=ROTATED,
            corners=rotated_rectangles.corners(np.array(ROTATED)),
        )
    ],
}


def write(folder, kind, output_format, regions=None):
    files = prediction_files.PredictionFiles(str(folder), output_format)
    files.write_shared(CLASSES)
    entry = Entry('photos/a.png', 1, SIZE)
    files.write_annotations(entry, 'a', REGIONS[kind] if regions is None else regions, CLASSES)
    files.add(entry)
    files.write()


def read_back(folder, output_format, *flags):
    """Convert the annotations to records, and return the features of the image."""
    write_image(folder / 'images' / 'a.png', *SIZE)
    annotations = annotation_files.FORMATS[output_format].folder
    status = run(
        f'--from={output_format}',
        f'--images={folder / "images"}',
        f'--annotations={folder / annotations}',
        f'--label_map={folder / "map.pbtxt"}',
        f'--output_prefix={folder / "records" / "train"}',
        '--num_shards=1',
        '--on_error=fail',
        *flags,
    )
    assert status == 0
    return records_of(folder / 'records' / 'train')['a.png']


YOLO = {
    # Centers and sides by hand; the second box is clipped to the image.
    'boxes': '2 0.500000 0.500000 0.500000 0.500000\n0 0.262500 0.500000 0.500000 1.000000\n',
    # Around the mask, from its first point to the hole, around it, and back.
    'masks': '1 0.250000 0.250000 0.500000 0.250000 0.500000 0.500000 0.250000 0.500000 '
    '0.250000 0.250000 '
    '0.300000 0.400000 0.300000 0.350000 0.325000 0.350000 0.325000 0.400000 '
    '0.300000 0.400000 0.250000 0.250000\n'
    '0 0.050000 0.050000 0.100000 0.100000\n',
}


@pytest.mark.parametrize('kind', sorted(YOLO))
def test_yolo_by_hand(tmp_path, kind):
    write(tmp_path, kind, 'yolo')
    written = (tmp_path / 'labels' / 'a.txt').read_text()
    if kind == 'boxes':
        assert written == YOLO[kind]
        return
    # The order around a hole is free.
    line, box = written.splitlines()
    expected, expected_box = YOLO[kind].splitlines()
    assert box == expected_box and line.startswith(expected[: len('1') + 10 * 9])
    assert sorted(line.split()) == sorted(expected.split())


def test_yolo_of_rotated_boxes_by_hand(tmp_path):
    write(tmp_path, 'rotated', 'yolo')
    number, *written = (tmp_path / 'labels' / 'a.txt').read_text().split()
    cosine, sine = math.cos(0.5), math.sin(0.5)
    expected = []
    for along, across in ((-6, -2), (6, -2), (6, 2), (-6, 2)):
        x, y = 20 + along * cosine - across * sine, 10 + along * sine + across * cosine
        expected += [x / 40, y / 20]
    assert number == '1'
    np.testing.assert_allclose(np.array(written, float), expected, atol=1e-6)


def test_yolo_shared_files(tmp_path):
    write(tmp_path, 'boxes', 'yolo')
    assert (tmp_path / 'data.yaml').read_text() == (
        '# Written by --mode=predict.\npath: .\ntrain: images\nval: images\nnames:\n'
        '  0: "cat"\n  1: "no"\n  2: "traffic light"\n'
    )
    files = annotation_files.yolo_shared_files(['red: no', '"'])
    assert yaml.safe_load(files['data.yaml'])['names'] == {0: 'red: no', 1: '"'}
    assert (tmp_path / 'classes.txt').read_text() == 'cat\nno\ntraffic light\n'


@pytest.mark.parametrize('names_file', ['classes.txt', 'data.yaml'])
def test_yolo_boxes_are_read_back(tmp_path, names_file):
    write(tmp_path, 'boxes', 'yolo')
    found = read_back(tmp_path, 'yolo', f'--names={tmp_path / names_file}')
    assert values(found, 'image/object/class/text') == [b'traffic light', b'cat']
    assert values(found, 'image/object/class/label') == [3, 1]
    expected = [[0.25, 0.25, 0.75, 0.75], [0, 0.0125, 1, 0.5125]]
    np.testing.assert_allclose(boxes(found), expected, atol=1e-6)


def test_yolo_masks_are_read_back(tmp_path):
    write(tmp_path, 'masks', 'yolo')
    found = read_back(tmp_path, 'yolo')
    np.testing.assert_array_equal(masks(found)[0], MASK)
    np.testing.assert_allclose(boxes(found), [[0.25, 0.25, 0.5, 0.5], [0, 0, 0.1, 0.1]])
    assert values(found, 'image/object/mask/weight') == [1, 0]


def rotated_of(feature):
    """Return cy, cx, h, w in pixels and the angle of the first box of a record."""
    names = ('cy', 'cx', 'h', 'w', 'ang')
    numbers = [values(feature, f'image/object/rbbox/{name}')[0] for name in names]
    return np.array(numbers) * [20, 40, 20, 40, 1]


@pytest.mark.parametrize('output_format', ['yolo', 'voc'])
def test_rotated_boxes_are_read_back(tmp_path, output_format):
    write(tmp_path, 'rotated', output_format)
    found = read_back(tmp_path, output_format, '--boxes=rotated')
    np.testing.assert_allclose(rotated_of(found), ROTATED, atol=1e-4)
    assert values(found, 'image/object/class/text') == [b'no']


def test_voc_by_hand(tmp_path):
    write(tmp_path, 'boxes', 'voc', REGIONS['boxes'][:1])
    assert (tmp_path / 'Annotations' / 'a.xml').read_text() == (
        '<annotation>\n'
        '  <filename>a.png</filename>\n'
        '  <size>\n'
        '    <width>40</width>\n'
        '    <height>20</height>\n'
        '    <depth>3</depth>\n'
        '  </size>\n'
        '  <segmented>0</segmented>\n'
        '  <object>\n'
        '    <name>traffic light</name>\n'
        '    <pose>Unspecified</pose>\n'
        '    <truncated>0</truncated>\n'
        '    <difficult>0</difficult>\n'
        '    <bndbox>\n'
        '      <xmin>10.00</xmin>\n'
        '      <ymin>5.00</ymin>\n'
        '      <xmax>30.00</xmax>\n'
        '      <ymax>15.00</ymax>\n'
        '    </bndbox>\n'
        '  </object>\n'
        '</annotation>\n'
    )
    assert (tmp_path / 'labelmap.txt').read_text() == (
        '# Written by --mode=predict.\n# label:color_rgb:parts:actions\n'
        'cat:::\nno:::\ntraffic light:::\n'
    )


def test_voc_boxes_are_read_back(tmp_path):
    write(tmp_path, 'boxes', 'voc')
    found = read_back(tmp_path, 'voc')
    assert values(found, 'image/object/class/text') == [b'traffic light', b'cat']
    np.testing.assert_allclose(
        boxes(found), [[0.25, 0.25, 0.75, 0.75], [0, 0.0125, 1, 0.5125]], atol=1e-6
    )


def test_voc_of_a_name_that_is_not_ascii(tmp_path):
    files = prediction_files.PredictionFiles(str(tmp_path), 'voc')
    files.write_annotations(
        Entry('ä & b.png', 1, SIZE), 'a', [Region(0, [0.0, 0.0, 5.0, 5.0])], ['<Öl>']
    )
    found = read_back(tmp_path, 'voc')
    assert values(found, 'image/object/class/text') == ['<Öl>'.encode()]


@pytest.mark.parametrize('output_format', ['yolo', 'voc'])
def test_an_image_without_regions_has_a_file(tmp_path, output_format):
    write(tmp_path, 'boxes', output_format)
    write(tmp_path, 'boxes', output_format, [])  # a second run replaces the file
    (path,) = (tmp_path / annotation_files.FORMATS[output_format].folder).iterdir()
    assert path.stem == 'a' and 'object' not in path.read_text()
    assert output_format == 'voc' or path.read_text() == ''


@pytest.mark.parametrize('output_format', ['yolo', 'voc'])
def test_annotations_of_others_are_not_overwritten(tmp_path, output_format):
    own = annotation_files.FORMATS[output_format]
    (tmp_path / own.folder).mkdir()
    prediction_files.PredictionFiles(str(tmp_path), output_format)  # an empty folder is free
    drawn_by_hand = tmp_path / own.folder / f'a{own.ending}'
    drawn_by_hand.write_text('by hand')
    with pytest.raises(errors.UserError, match='has annotations of another program'):
        prediction_files.PredictionFiles(str(tmp_path), output_format)
    drawn_by_hand.unlink()
    (tmp_path / own.mark_file).write_text('of another program')
    with pytest.raises(errors.UserError, match=f'{own.mark_file}.*expected another folder'):
        prediction_files.PredictionFiles(str(tmp_path), output_format)


def test_control_characters_are_escaped():
    """XML has no place for them; a line break would add a class to the shared files."""
    classes = ['a\x1b[2J\nb']
    region = Region(0, [1.0, 2.0, 3.0, 4.0])
    text = annotation_files.voc_file('im\x01.png', (10, 10), [region], classes)
    root = ElementTree.fromstring(text)
    assert root.findtext('filename') == 'im\\x01.png'
    assert root.findtext('object/name') == 'a\\x1b[2J\\nb'
    shared = annotation_files.yolo_shared_files(classes)
    assert shared['classes.txt'] == b'a\\x1b[2J\\nb\n'
    labels = annotation_files.voc_shared_files(classes)['labelmap.txt']
    assert labels.splitlines()[2:] == [b'a\\x1b[2J\\nb:::']
