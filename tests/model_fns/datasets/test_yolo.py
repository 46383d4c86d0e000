"""`--from=yolo`, through the command."""

import numpy as np
import pytest

from model_fns.datasets import yolo
from model_fns.label_map import LabelMap
from tests.model_fns.datasets.converted import boxes, masks, records_of, run, values, write_image

LABELS = '1 0.5 0.5 0.2 0.4\n0 0.1 0.25 0.3 0.25 0.3 0.75 0.1 0.75\n'


def convert(folder, labels=LABELS, *more):
    write_image(folder / 'images' / 'a.png')
    write_image(folder / 'images' / 'empty.png')
    (folder / 'labels').mkdir(exist_ok=True)
    (folder / 'labels' / 'a.txt').write_text(labels)
    return run(
        '--from=yolo',
        f'--images={folder / "images"}',
        f'--annotations={folder / "labels"}',
        f'--label_map={folder / "map.pbtxt"}',
        f'--output_prefix={folder / "out" / "train"}',
        '--num_shards=1',
        *more,
    )


@pytest.fixture
def named(tmp_path):
    (tmp_path / 'data.yaml').write_text('path: here\nnames: [cell, dog]\nnc: 2\n')
    return tmp_path


def test_boxes_and_polygons(named):
    assert convert(named) == 0
    assert LabelMap.read(str(named / 'map.pbtxt')).names == {1: 'cell', 2: 'dog'}
    found = records_of(named / 'out' / 'train')
    feature = found['a.png']
    assert values(feature, 'image/object/class/label') == [2, 1]
    assert values(feature, 'image/object/class/text') == [b'dog', b'cell']
    expected = [[0.3, 0.4, 0.7, 0.6], [0.25, 0.1, 0.75, 0.3]]
    assert boxes(feature) == pytest.approx(np.array(expected))
    box, polygon = masks(feature)
    assert box[6:14, 12:18].all() and box.sum() == 8 * 6
    assert polygon[5:15, 3:9].all() and polygon.sum() == 60
    assert values(feature, 'image/object/mask/weight') == [0, 1]
    # An image without a file has no objects.
    assert values(found['empty.png'], 'image/object/class/label') == []


def test_no_polygon_no_masks(named):
    assert convert(named, '0 0.5 0.5 1 1\n\n') == 0
    assert values(records_of(named / 'out' / 'train')['a.png'], 'image/object/mask') == []


def test_names_by_flag_and_by_label_map(tmp_path, capsys):
    assert convert(tmp_path) == 2
    assert 'the class names are nowhere: expected --names=FILE' in capsys.readouterr().err
    LabelMap.from_names(['x', 'y']).write(str(tmp_path / 'map.pbtxt'))
    assert convert(tmp_path) == 0
    feature = records_of(tmp_path / 'out' / 'train')['a.png']
    assert values(feature, 'image/object/class/text') == [b'y', b'x']
    (tmp_path / 'names').write_text('y\nx\n')
    assert convert(tmp_path, LABELS, f'--names={tmp_path / "names"}') == 0
    feature = records_of(tmp_path / 'out' / 'train')['a.png']
    assert values(feature, 'image/object/class/text') == [b'x', b'y']
    assert values(feature, 'image/object/class/label') == [1, 2]


BAD_LINES = [
    ('2 0.5 0.5 0.1 0.1', 'class 2 has no name; there are 2, counted from 0'),
    ('dog 0.5 0.5 0.1 0.1', "the class is 'dog'; expected `class center_x"),
    ('-1 0.5 0.5 0.1 0.1', "the class is '-1'"),
    ('0 0.5 0.5 0.1', '3 numbers after the class; expected `class center_x'),
    ('0 0.5 0.5 0.1 0.1 0.9', '5 numbers after the class'),
    ('0 0.5 0.5 0.1 x', "could not convert string to float: 'x'; expected"),
    ('0 0.5 0.5 nan 0.1', 'has a side that is no number'),
    ('0 0.5 0.5 2 0.1', 'reaches outside of the image, which has 20 x 30 pixels'),
    ('0 0.5 0.5 -0.1 0.1', 'is inverted'),
    ('0 0.1 0.1 0.2 0.2 inf 0.5', 'has a side that is no number'),
]


@pytest.mark.parametrize('line, expected', BAD_LINES, ids=[line for line, _ in BAD_LINES])
def test_one_bad_line_is_named_and_left_out(named, capsys, line, expected):
    assert convert(named, f'{LABELS}{line}\n') == 2
    said = capsys.readouterr().err
    assert 'a.txt, line 3: ' in said and expected in said and '1 problem:' in said
    assert 'Traceback' not in said
    assert convert(named, f'{LABELS}{line}\n', '--on_error=skip') == 0
    feature = records_of(named / 'out' / 'train')['a.png']
    assert values(feature, 'image/object/class/label') == [2, 1]


def test_folders_that_do_not_belong_together(named, capsys):
    assert convert(named) == 0
    (named / 'labels' / 'c.txt').write_text('')
    assert convert(named) == 2
    assert 'c.txt: no image in' in capsys.readouterr().err
    (named / 'labels' / 'a.txt').unlink()
    write_image(named / 'images' / 'a.png')
    (named / 'labels' / 'c.txt').rename(named / 'labels' / 'd.txt')
    status = run(
        '--from=yolo',
        f'--images={named / "images"}',
        f'--annotations={named / "labels"}',
        f'--label_map={named / "map.pbtxt"}',
        f'--output_prefix={named / "out" / "train"}',
    )
    assert status == 2
    assert 'has no text file with the stem of any of the 2 images' in capsys.readouterr().err


@pytest.mark.parametrize(
    'text',
    [
        'names: [\'cell\', "big dog"]\nnc: 2',
        'train: x\nnames:\n  0: cell\n  1: big dog  # a note\n\nnc: 2\n',
        'names:\n- cell\n- big dog\ntest: y\n',
        'names: {0: cell, 1: big dog}',
    ],
)
def test_names_of_yaml_files(tmp_path, text):
    (tmp_path / 'data.yaml').write_text(text)
    assert yolo.read_names(str(tmp_path / 'data.yaml')) == ['cell', 'big dog']


@pytest.mark.parametrize(
    'text, message', [('', 'holds no class names'), ('a\nb\na\n', 'holds a name twice')]
)
def test_files_of_names_are_checked(tmp_path, capsys, text, message):
    (tmp_path / 'classes.txt').write_text(text)
    assert convert(tmp_path) == 2
    assert f'classes.txt {message}' in capsys.readouterr().err
    assert convert(tmp_path, LABELS, '--names=nowhere') == 2
    assert '--names: there is no file nowhere' in capsys.readouterr().err
