"""`--from=yolo`, through the command."""

import numpy as np
import pytest

from estimator_lib import errors
from model_fns.datasets.formats import yolo
from model_fns.structures.label_map import LabelMap
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


def test_masks_of_polygons_can_be_left_out(named, monkeypatch):
    monkeypatch.setattr(yolo.polygons, 'draw', None)  # nothing is drawn
    assert convert(named, LABELS, '--no_masks') == 0
    feature = records_of(named / 'out' / 'train')['a.png']
    assert values(feature, 'image/object/mask') == []
    expected = [[0.3, 0.4, 0.7, 0.6], [0.25, 0.1, 0.75, 0.3]]
    assert boxes(feature) == pytest.approx(np.array(expected))


def test_a_deep_data_file_ends_at_once(tmp_path):
    """The parser takes the square of the depth: hours for this one."""
    path = tmp_path / 'data.yaml'
    path.write_text(f'names: {"[" * 200_000}\n')
    with pytest.raises(errors.DataError, match='in each other 21 times; expected at most 20'):
        yolo.read_names(str(path))


def test_aliases_of_a_data_file_are_not_read(tmp_path, capsys):
    text = 'a: &a [x,x,x,x,x,x,x,x,x,x]\n'
    for one, other in zip('abcdefgh', 'bcdefghi'):
        text += f'{other}: &{other} [{",".join([f"*{one}"] * 10)}]\n'
    (tmp_path / 'data.yaml').write_text(f'{text}names: [*i]\n')
    assert convert(tmp_path) == 2
    assert 'data.yaml: aliases (*name) are not read' in capsys.readouterr().err


def test_names_by_flag_and_by_label_map(tmp_path, capsys):
    assert convert(tmp_path) == 2
    assert 'no file has the class names: expected --names=FILE' in capsys.readouterr().err
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
    ('0 1.5 0.5 0.2 0.1', 'is outside of the image, which has 20 x 30 pixels'),
    (f'{"9" * 5000} 0.5 0.5 0.1 0.1', "the class is '9999"),
    ('0.5 0.5 0.5 0.1 0.1', "the class is '0.5'"),
    # Box, then x, y and visibility of two keypoints.
    ('0 0.5 0.5 0.2 0.4 0.5 0.4 2 0.5 0.6 1', 'keypoints behind a box, it seems: name the data'),
    ('0 0.5 0.5 -0.1 0.1', 'is inverted'),
    ('0 0.1 0.1 0.2 0.2 inf 0.5', 'has a side that is no number'),
]


@pytest.mark.parametrize('line, expected', BAD_LINES, ids=[line[:40] for line, _ in BAD_LINES])
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
    said = capsys.readouterr().err
    assert 'no image in' in said and 'has the stem of 1 text file: c.txt.' in said
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
    said = capsys.readouterr().err
    assert (
        'has no text file with the stem of any of the images in ' in said and '(2 images).' in said
    )


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
    assert yolo.read_names(str(tmp_path / 'data.yaml')) == {0: 'cell', 1: 'big dog'}


@pytest.mark.parametrize(
    'text, expected',
    [
        # Keys in another order, with a gap, and names that YAML would read as other things.
        ("names:\n  '4': no\n  1: 'it''s'\n", {1: "it's", 4: 'no'}),
        ('names:\n    - "a, b"\n    - 1.0  # note\nnc: 2', {0: 'a, b', 1: '1.0'}),
        ('{names: {2: "a: b", 0: [c]}}', None),
        ('names: {x: a}', None),
        ('names: {0: a, 00: b}', None),
        ('names: ["\\ud800"]', None),
        ('names: [a', None),
        ('- a', None),
    ],
)
def test_names_of_yaml_files_keep_their_numbers(tmp_path, text, expected):
    path = tmp_path / 'data.yaml'
    path.write_text(text)
    if expected is None:
        with pytest.raises(errors.DataError, match='data.yaml'):
            yolo.read_names(str(path))
    else:
        assert yolo.read_names(str(path)) == expected


def test_a_gap_in_the_names_does_not_shift_classes(tmp_path):
    (tmp_path / 'data.yaml').write_text('names: {3: dog, 1: cell}\n')
    assert convert(tmp_path, '3 0.5 0.5 0.2 0.4\n1.0 0.5 0.5 0.2 0.4\n') == 0
    assert LabelMap.read(str(tmp_path / 'map.pbtxt')).names == {1: 'cell', 2: 'dog'}
    feature = records_of(tmp_path / 'out' / 'train')['a.png']
    assert values(feature, 'image/object/class/text') == [b'dog', b'cell']


@pytest.mark.parametrize('numbers', [2, 3])
def test_keypoints(tmp_path, numbers):
    (tmp_path / 'data.yaml').write_text(f'names: [cell, dog]\nkpt_shape: [2, {numbers}]\n')
    points = '0.5 0.4 2 0 0 0' if numbers == 3 else '0.5 0.4 0 0'
    assert convert(tmp_path, f'1 0.5 0.5 0.2 0.4 {points}\n0 0.5 0.5 0.2 0.4\n') == 0
    feature = records_of(tmp_path / 'out' / 'train')['a.png']
    assert boxes(feature) == pytest.approx(np.array([[0.3, 0.4, 0.7, 0.6]] * 2))
    assert values(feature, 'image/object/mask') == []
    assert values(feature, 'image/object/keypoint/x') == pytest.approx([0.5, 0, 0, 0])
    assert values(feature, 'image/object/keypoint/y') == pytest.approx([0.4, 0, 0, 0])
    assert values(feature, 'image/object/keypoint/visibility') == [2, 0, 0, 0]
    assert values(feature, 'image/object/keypoint/num') == [1, 0]


def test_keypoints_are_as_many_as_the_data_file_says(tmp_path, capsys):
    (tmp_path / 'classes.txt').write_text('cell\ndog\n')
    (tmp_path / 'data.yaml').write_text('kpt_shape: [3, 2]\n')
    assert convert(tmp_path, '1 0.5 0.5 0.2 0.4 0.5 0.4 0.1 0.1\n') == 2
    assert '8 numbers after the class; expected a box and 3 x 2' in capsys.readouterr().err
    (tmp_path / 'data.yaml').write_text('kpt_shape: many\n')
    assert convert(tmp_path) == 2
    assert "kpt_shape is 'many'; expected a number of keypoints" in capsys.readouterr().err


def test_boxes_over_the_border_are_cut_and_counted(named, capsys):
    line = '0 0.5 0.5 0.2 2\n'
    assert convert(named, line) == 0
    (box,) = boxes(records_of(named / 'out' / 'train')['a.png'])
    assert box == pytest.approx([0, 0.4, 1, 0.6])
    assert '1 object cut at the border of the image' in capsys.readouterr().err
    assert convert(named, line, '--outside=error') == 2
    assert 'reaches outside of the image, which has 20 x 30 pixels' in capsys.readouterr().err


def test_folders_in_place_of_files(named, capsys):
    (named / 'classes.txt').mkdir()
    (named / 'labels' / 'empty.txt').mkdir(parents=True)
    assert convert(named) == 2
    said = capsys.readouterr().err
    assert 'empty.txt: it cannot be read: it is a folder' in said and 'Traceback' not in said


@pytest.mark.parametrize(
    'text, message',
    [
        ('', 'holds no class names'),
        ('a\nb\na\n', 'holds a name twice'),
        ('a\n\nb\n', "has '' for class 1; expected a name"),
    ],
)
def test_files_of_names_are_checked(tmp_path, capsys, text, message):
    (tmp_path / 'classes.txt').write_text(text)
    assert convert(tmp_path) == 2
    assert f'classes.txt {message}' in capsys.readouterr().err
    assert convert(tmp_path, LABELS, '--names=nowhere') == 2
    assert '--names: there is no file nowhere' in capsys.readouterr().err
