"""Well-formed annotations with another meaning, in each format, and in `../shared/cases`.

An image has 120 x 160 pixels. Objects are at x 20 to 60, y 30 to 70, and at x 90 to 150, y 20 to
110, unless a test says something else.
"""

import json
import logging

import numpy as np
import pytest
from PIL import Image

from estimator_lib import errors
from estimator_lib.data import inputs
from model_fns.datasets import codecs
from protos import input_reader_pb2
from tests.model_fns.datasets.converted import boxes, records_of, run, values
from tests.model_fns.datasets.id_files import png

COUNT = 4
SIDES = [120, 160, 120, 160]
CORNERS = [[20, 30, 60, 70], [90, 20, 150, 110]]
SIZES = [[20, 30, 40, 40], [90, 20, 60, 90]]
SHARES = [160, 120, 160, 120]


def normalized(rows):
    return [[number / side for number, side in zip(row, SHARES)] for row in rows]


def write_images(folder, count=COUNT):
    (folder / 'images').mkdir(parents=True, exist_ok=True)
    for index in range(count):
        pixels = np.full([120, 160, 3], index, np.uint8)
        (folder / 'images' / f'im{index}.png').write_bytes(codecs.encode_png(pixels))


def write_coco(folder, rows, **fields):
    """Write an object for each row; fields are of all objects, those that are lists of each."""
    write_images(folder)
    entries = [
        {
            'id': image * len(rows) + index,
            'image_id': image,
            'category_id': 1 + index,
            'bbox': row,
            **{key: value[index] for key, value in fields.items()},
        }
        for image in range(COUNT)
        for index, row in enumerate(rows)
    ]
    content = {
        'images': [{'id': index, 'file_name': f'im{index}.png'} for index in range(COUNT)],
        'categories': [{'id': 1, 'name': 'a'}, {'id': 2, 'name': 'b'}],
        'annotations': entries,
    }
    (folder / 'ann').write_text(json.dumps(content))


def write_csv(folder, rows):
    write_images(folder)
    lines = ['filename,class,xmin,ymin,xmax,ymax']
    for image in range(COUNT):
        lines += [f'im{image}.png,a,{",".join(map(str, row))}' for row in rows]
    (folder / 'ann').write_text('\n'.join(lines))


def write_files(folder, ending, text):
    """Write the same text as the annotation of each image."""
    write_images(folder)
    (folder / 'ann').mkdir(exist_ok=True)
    for image in range(COUNT):
        (folder / 'ann' / f'im{image}.{ending}').write_text(text)


def voc_object(row, more=''):
    tags = zip(('xmin', 'ymin', 'xmax', 'ymax'), row)
    sides = ''.join(f'<{tag}>{number}</{tag}>' for tag, number in tags)
    return f'<object><name>a</name><bndbox>{sides}</bndbox>{more}</object>'


def write_voc(folder, rows, more=''):
    objects = ''.join(voc_object(row, more) for row in rows)
    write_files(folder, 'xml', f'<annotation>{objects}</annotation>')


def write_yolo(folder, rows):
    lines = [f'0 {" ".join(map(str, row))}' for row in rows]
    write_files(folder, 'txt', '\n'.join(lines))
    (folder / 'ann' / 'classes.txt').write_text('a\n')


def write_labelme(folder, shapes):
    write_files(folder, 'json', json.dumps({'shapes': shapes}))


def shape(row, **fields):
    left, top, right, bottom = row
    points = [[left, top], [right, top], [right, bottom], [left, bottom]]
    return {'label': 'a', 'shape_type': 'polygon', 'points': points, **fields}


def write_dota(folder, rows):
    lines = [f'{l} {t} {r} {t} {r} {b} {l} {b} a 0' for l, t, r, b in rows]  # noqa: E741
    write_files(folder, 'txt', '\n'.join(lines))


def convert(folder, name, *more, images='images', annotations='ann'):
    return run(
        f'--from={name}',
        f'--images={folder / images}',
        f'--annotations={folder / annotations}',
        f'--label_map={folder / "map.pbtxt"}',
        f'--output_prefix={folder / "out" / "train"}',
        '--num_shards=1',
        *more,
    )


CENTERS = [[40, 50, 40, 40], [120, 65, 60, 90]]
POLYGONS = [[20, 30, 60, 30, 60, 70], [90, 20, 150, 20, 150, 110]]
OTHER_UNITS = {
    'coco': (lambda folder: write_coco(folder, normalized(SIZES)), 'normalized, it seems'),
    'csv': (lambda folder: write_csv(folder, normalized(CORNERS)), 'normalized, it seems'),
    'voc': (lambda folder: write_voc(folder, normalized(CORNERS)), 'normalized, it seems'),
    'labelme': (
        lambda folder: write_labelme(folder, [shape(row) for row in normalized(CORNERS)]),
        'normalized, it seems',
    ),
    'dota': (lambda folder: write_dota(folder, normalized(CORNERS)), 'normalized, it seems'),
    'yolo': (lambda folder: write_yolo(folder, CENTERS), 'pixels, it seems'),
}


@pytest.mark.parametrize('name', list(OTHER_UNITS))
def test_numbers_of_another_unit_are_an_error(tmp_path, capsys, name):
    write, said = OTHER_UNITS[name]
    write(tmp_path)
    assert convert(tmp_path, name, '--on_error=skip') == 2  # all objects mean something else
    text = capsys.readouterr().err
    assert f': {said} (first: {tmp_path}' in text and 'all 8 boxes make no sense' in text
    assert not (tmp_path / 'out').exists()


def test_polygons_of_yolo_in_pixels(tmp_path, capsys):
    write_yolo(tmp_path, POLYGONS)
    assert convert(tmp_path, 'yolo') == 2
    assert 'pixels, it seems' in capsys.readouterr().err


@pytest.mark.parametrize(
    ('name', 'write', 'rows'),
    [('coco', write_coco, CORNERS), ('csv', write_csv, SIZES), ('voc', write_voc, SIZES)],
)
def test_corners_for_sizes_and_the_reverse(tmp_path, capsys, name, write, rows):
    write(tmp_path, rows)
    assert convert(tmp_path, name) == 2
    text = capsys.readouterr().err
    orders = ['x, y, width, height', 'xmin, ymin, xmax, ymax']
    expected, written = orders if name == 'coco' else orders[::-1]
    assert f'make no sense as {expected} in pixels, and 8 do as {written} in pixels' in text


RUN_LENGTHS = {'size': [120, 160], 'counts': [20 * 120 + 30, 40, *[80, 40] * 39]}
RUN_LENGTHS['counts'].append(120 * 160 - sum(RUN_LENGTHS['counts']))


@pytest.mark.parametrize('segmentation', [[[20, 30, 60, 30, 60, 70, 20, 70]], RUN_LENGTHS])
def test_boxes_measured_from_the_bottom(tmp_path, capsys, segmentation):
    write_coco(tmp_path, [[20, 50, 40, 40]], segmentation=[segmentation])
    assert convert(tmp_path, 'coco') == 2
    assert 'y measured from the bottom of the image' in capsys.readouterr().err
    write_coco(tmp_path, [[20, 30, 40, 40]], segmentation=[segmentation])
    assert convert(tmp_path, 'coco') == 0


def test_all_crowds_are_an_error_and_some_a_warning(tmp_path, capsys):
    write_coco(tmp_path, SIZES, iscrowd=[1, 1])
    assert convert(tmp_path, 'coco') == 2
    assert 'all 8 objects are crowds (iscrowd: 1): training ignores' in capsys.readouterr().err
    write_coco(tmp_path, SIZES, iscrowd=[0, 1])
    assert convert(tmp_path, 'coco') == 0
    assert '4 of 8 objects are crowds' in capsys.readouterr().err


def test_all_difficult_is_a_warning(tmp_path, capsys):
    write_voc(tmp_path, CORNERS, '<difficult>1</difficult>')
    assert convert(tmp_path, 'voc') == 0
    assert (
        'all 8 objects are difficult: an evaluation does not count them' in capsys.readouterr().err
    )


def rotation(degrees):
    pair = f'<name>rotation</name><value>{degrees}</value>'
    return f'<attributes><attribute>{pair}</attribute></attributes>'


# 60 x 20 pixels around x 80, y 60, by 90 degrees; and by 30 degrees, clockwise.
TURNED = {90: [30, 70, 90, 90], 30: [36.33975, 49.01924, 83.66025, 110.98076]}


@pytest.mark.parametrize('degrees', list(TURNED))
@pytest.mark.parametrize('name', ['coco', 'voc'])
def test_a_rotation_of_cvat_is_applied(tmp_path, name, degrees):
    if name == 'coco':
        write_coco(tmp_path, [[50, 50, 60, 20]], attributes=[{'rotation': float(degrees)}])
    else:
        write_voc(tmp_path, [[50, 50, 110, 70]], rotation(degrees))
    assert convert(tmp_path, name) == 0
    for feature in records_of(tmp_path / 'out' / 'train').values():
        np.testing.assert_allclose(boxes(feature) * SIDES, [TURNED[degrees]], atol=1e-3)
    assert convert(tmp_path, name, '--boxes=rotated') == 0
    for feature in records_of(tmp_path / 'out' / 'train').values():
        found = [values(feature, f'image/object/rbbox/{key}')[0] for key in ('cy', 'cx', 'h', 'w')]
        np.testing.assert_allclose(np.multiply(found, SIDES), [60, 80, 20, 60], atol=1e-3)
        (angle,) = values(feature, 'image/object/rbbox/ang')
        turns = (angle - np.radians(degrees)) / np.pi  # half a turn is the same box
        assert abs(turns - round(turns)) < 1e-6


def test_a_rotation_that_is_no_number_is_a_problem(tmp_path, capsys):
    write_coco(tmp_path, [[50, 50, 60, 20]], attributes=[{'rotation': 'left'}])
    assert convert(tmp_path, 'coco') == 2
    assert "attributes.rotation is 'left'; expected degrees" in capsys.readouterr().err


def test_tags_and_keys_of_files_that_nobody_reads_are_named(tmp_path, capsys):
    more = '<pose>Left</pose><ignore>1</ignore><ignore>0</ignore>'
    text = f'<a>{voc_object(CORNERS[0], more)}{voc_object(CORNERS[1])}</a>'
    write_files(tmp_path / 'voc', 'xml', text)
    assert convert(tmp_path / 'voc', 'voc') == 0
    assert "4 of 8 objects have keys that nobody reads: 'ignore'" in capsys.readouterr().err
    shape = {'label': 'a', 'shape_type': 'rectangle', 'points': [[20, 30], [60, 70]]}
    shapes = [
        {**shape, 'flags': {'blurred': True}, 'description': 'a cat'},
        {**shape, 'flags': {'blurred': False}, 'difficult': False},
    ]
    write_files(tmp_path / 'labelme', 'json', json.dumps({'shapes': shapes}))
    assert convert(tmp_path / 'labelme', 'labelme') == 0
    assert "4 of 8 objects have keys that nobody reads: 'flags'" in capsys.readouterr().err


def write_photographs(folder):
    """Write a table whose images 1 and 3 are photographs with boxes of the stored picture."""
    write_csv(folder, CORNERS)
    exif = Image.Exif()
    exif[0x0112] = 6
    for index in (1, 3):
        path = folder / 'images' / f'im{index}.png'
        Image.open(path).save(path.with_suffix('.jpg'), exif=exif.tobytes())
        path.unlink()
    table = folder / 'ann'
    table.write_text(table.read_text().replace('im1.png', 'im1.jpg').replace('im3.png', 'im3.jpg'))


PHOTOGRAPHS = (
    'all 2 photographs that EXIF orientations lay on their side have annotations of the picture as '
    'stored; write {} (first: '
)


def test_photographs_with_boxes_of_the_stored_picture_are_counted(tmp_path, capsys):
    write_photographs(tmp_path)
    convert(tmp_path, 'csv', '--on_error=skip')
    assert PHOTOGRAPHS.format('--exif=ignore') in capsys.readouterr().err
    assert convert(tmp_path, 'csv', '--exif=ignore') == 0
    assert 'photographs' not in capsys.readouterr().err


def test_keys_that_nobody_reads_are_named(tmp_path, capsys):
    write_coco(tmp_path, SIZES, angle=[3, 0], attributes=[{'color': 'red'}, {}])
    assert convert(tmp_path, 'coco') == 0
    assert "4 of 8 objects have keys that nobody reads: 'angle'" in capsys.readouterr().err


def test_shapes_of_one_group_that_are_far_apart(tmp_path, capsys):
    write_labelme(tmp_path, [shape(row, group_id=0) for row in CORNERS])
    assert convert(tmp_path, 'labelme') == 0
    said = capsys.readouterr().err
    assert 'distant shapes, which are up to 30 pixels apart, because these have' in said
    assert 'remove group_id' in said


def write_masks(folder, ids):
    write_images(folder)
    (folder / 'ann').mkdir(exist_ok=True)
    for image in range(COUNT):
        (folder / 'ann' / f'im{image}.png').write_bytes(png(ids))


def test_masks_of_levels_of_gray(tmp_path, capsys):
    ids = np.zeros([120, 160], np.int32)
    ids[30:70, 20:60] = 128
    write_masks(tmp_path, ids)
    assert convert(tmp_path, 'masks') == 2
    said = capsys.readouterr().err
    assert 'the values 0 and 128' in said
    assert 'write --mask_values=0:background,128:NAME' in said
    assert convert(tmp_path, 'masks', '--mask_values=0:background,128:cell') == 0


def test_masks_without_a_class_beside_a_label_map(tmp_path, capsys):
    (tmp_path / 'map.pbtxt').write_text("item { id: 1 name: 'a' }")
    write_masks(tmp_path, np.zeros([120, 160], np.int32))
    assert convert(tmp_path, 'masks') == 2
    assert 'all 4 masks have no pixel of a class' in capsys.readouterr().err


def test_labels_of_yolo_that_start_at_1(tmp_path, capsys):
    write_yolo(tmp_path, [[0.5, 0.5, 0.2, 0.2]])
    for path in (tmp_path / 'ann').glob('im*.txt'):
        path.write_text(path.read_text().replace('0 0.5', '1 0.5'))
    assert convert(tmp_path, 'yolo', '--on_error=skip') == 2
    assert 'labels start at 1, it seems; expected 0 to 0' in capsys.readouterr().err


def test_an_image_that_loses_all_objects_is_left_out(tmp_path, capsys):
    write_yolo(tmp_path, [[0.5, 0.5, 0.2, 0.2]])
    (tmp_path / 'ann' / 'im1.txt').write_text('3 0.5 0.5 0.2 0.2')
    (tmp_path / 'ann' / 'im2.txt').write_text('')  # without objects: background
    assert convert(tmp_path, 'yolo', '--on_error=skip') == 0
    assert sorted(records_of(tmp_path / 'out' / 'train')) == ['im0.png', 'im2.png', 'im3.png']
    assert '1 of 4 images lose all of their objects, and are left out' in capsys.readouterr().err


def test_a_tile_of_an_image_that_lost_its_objects_is_left_out(tmp_path):
    write_yolo(tmp_path, [[0.5, 0.5, 0.2, 0.2]])
    (tmp_path / 'ann' / 'im1.txt').write_text('3 0.5 0.5 0.2 0.2')
    tiles = ('--tile=100', '--overlap=20', '--on_error=skip')
    assert convert(tmp_path, 'yolo', *tiles) == 0
    names = {name.partition('__')[0] for name in records_of(tmp_path / 'out' / 'train')}
    assert names == {'im0', 'im2', 'im3'}


def test_classes_without_objects_are_named(tmp_path, capsys):
    (tmp_path / 'map.pbtxt').write_text("item { id: 1 name: 'a' } item { id: 2 name: 'z' }")
    write_csv(tmp_path, CORNERS)
    assert convert(tmp_path, 'csv') == 0
    assert '1 of 2 classes have no object: z' in capsys.readouterr().err


def reader_of(folder, name, **fields):
    reader = input_reader_pb2.InputReader(label_map_path=str(folder / 'map.pbtxt'), **fields)
    message = getattr(reader, f'{name}_input_reader')
    message.image_path.append(str(folder / 'images'))
    message.annotation_path.append(str(folder / 'ann'))
    return reader


@pytest.mark.parametrize('policy', ['FAIL', 'SKIP'])
@pytest.mark.parametrize('name', ['coco', 'csv', 'voc', 'labelme', 'yolo'])
def test_readers_refuse_what_the_converter_refuses(tmp_path, name, policy):
    write, said = OTHER_UNITS[name]
    write(tmp_path)
    reader = reader_of(tmp_path, name, corrupt_record_policy=policy)
    with pytest.raises(errors.DataError, match=f'{name}_input_reader: all 8 boxes.*{said}'):
        inputs.input_files(reader)


@pytest.fixture
def warnings(monkeypatch):
    """Return the list to which the warnings of all logs are added."""
    logged = []
    monkeypatch.setattr(
        logging.Logger, 'warning', lambda _, text, *rest: logged.append(text % rest)
    )
    return logged


def test_readers_warn_of_the_same_once(tmp_path, warnings):
    write_coco(tmp_path, SIZES, iscrowd=[0, 1])
    (tmp_path / 'map.pbtxt').write_text("item { id: 1 name: 'a' } item { id: 2 name: 'b' }")
    for _ in range(2):
        inputs.input_files(reader_of(tmp_path, 'coco'))
    assert len(warnings) == 1 and '4 of 8 objects are crowds' in warnings[0]


def test_warnings_of_readers_name_their_own_fields(tmp_path, warnings):
    folder = tmp_path / 'a--exif'  # part of a path, not a flag
    write_photographs(folder)
    (folder / 'map.pbtxt').write_text("item { id: 1 name: 'a' }")
    inputs.input_files(reader_of(folder, 'csv', corrupt_record_policy='SKIP'))
    expected = PHOTOGRAPHS.format('options.ignore_exif: true') + str(folder)
    assert [text for text in warnings if expected in text]


def test_readers_name_their_own_fields(tmp_path):
    ids = np.full([120, 160], 128, np.int32)
    write_masks(tmp_path, ids)
    with pytest.raises(errors.DataError, match='write mask_values=0:background,128:NAME'):
        inputs.input_files(reader_of(tmp_path, 'mask'))


def test_sizes_of_photographs_are_those_after_their_rotation(tmp_path):
    # A photograph that is stored lying: 160 x 120 as stored, 120 x 160 as people see it. The box
    # is beyond the stored frame.
    write_coco(tmp_path, [[10, 100, 40, 50]])
    for index in range(COUNT):
        image, exif = Image.new('RGB', (160, 120)), Image.Exif()
        exif[0x0112] = 6
        (tmp_path / 'images' / f'im{index}.png').unlink()
        image.save(tmp_path / 'images' / f'im{index}.jpg', exif=exif)
    text = (tmp_path / 'ann').read_text().replace('.png', '.jpg')
    (tmp_path / 'ann').write_text(text)
    assert convert(tmp_path, 'coco') == 0


CASES = {
    'coco_all_crowd': ('coco', 'ann.json', 'all 8 objects are crowds'),
    'coco_norm': ('coco', 'ann.json', 'normalized, it seems'),
    'coco_mirrored': ('coco', 'ann.json', 'y measured from the bottom'),
    'csv_normalised': ('csv', 'labels.csv', 'normalized, it seems'),
    'yolo_pixels': ('yolo', 'labels', 'pixels, it seems'),
    'masks_128': ('masks', 'masks', '--mask_values=0:background,128:NAME'),
}


@pytest.mark.parametrize('case', list(CASES))
def test_recorded_cases_are_refused(shared, tmp_path, capsys, case):
    name, annotations, said = CASES[case]
    folder = shared / 'cases' / case
    status = run(
        f'--from={name}',
        f'--images={folder / "images"}',
        f'--annotations={folder / annotations}',
        f'--label_map={tmp_path / "map.pbtxt"}',
        f'--output_prefix={tmp_path / "train"}',
        *([f'--names={folder / "classes.txt"}'] if name == 'yolo' else []),
    )
    assert status == 2 and said in capsys.readouterr().err
