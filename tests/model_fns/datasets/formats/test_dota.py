"""`--from=dota`, through the command: whole images, and tiles."""

import math

import numpy as np
import pytest

from model_fns.datasets import codecs
from model_fns.datasets.rotated import boxes as rotated
from model_fns.structures import rotated_rectangles
from model_fns.structures.label_map import LabelMap
from tests.model_fns.datasets.converted import records_of, run, values, write_image

# An axis-aligned one 20 wide and 10 high, and a square on its corner.
LINES = """imagesource:GoogleEarth
gsd:0.146343590398
10 10 30 10 30 20 10 20 ship 0
60 20 70 30 60 40 50 30 storage-tank 1
"""


def convert(folder, content, *more, size=(50, 100)):
    write_image(folder / 'images' / 'P0001.png', *size)
    (folder / 'labelTxt').mkdir(exist_ok=True)
    (folder / 'labelTxt' / 'P0001.txt').write_text(content)
    return run(
        '--from=dota',
        f'--images={folder / "images"}',
        f'--annotations={folder / "labelTxt"}',
        f'--label_map={folder / "map.pbtxt"}',
        f'--output_prefix={folder / "out" / "train"}',
        '--num_shards=1',
        *more,
    )


def boxes_of(feature, height, width):
    numbers = np.array([values(feature, key) for key in rotated.KEYS]).T
    return rotated_rectangles.from_record(numbers, height, width)


def test_a_record(tmp_path):
    assert convert(tmp_path, LINES) == 0
    (feature,) = records_of(tmp_path / 'out' / 'train').values()
    root = math.sqrt(200)
    found = boxes_of(feature, 50, 100)
    np.testing.assert_allclose(found[0], [15, 20, 10, 20, 0], atol=1e-4)
    np.testing.assert_allclose(found[1, :4], [30, 60, root, root], atol=1e-4)
    assert abs(found[1, 4]) == pytest.approx(math.pi / 4, abs=1e-5)
    assert values(feature, 'image/object/class/text') == [b'ship', b'storage-tank']
    assert values(feature, 'image/object/difficult') == [0, 1]
    assert LabelMap.read(str(tmp_path / 'map.pbtxt')).names == {1: 'ship', 2: 'storage-tank'}


@pytest.mark.parametrize(
    'line, expected',
    [
        ('10 10 30 20 30 10 10 20 ship 0', 'crosses itself'),
        ('10 10 30 10 30 10 10 10 ship 0', 'has a side of 0'),
        ('10 10 30 10 30 20 ship 0', 'has 8 words'),
        ('10 10 30 10 30 20 10 x ship 0', 'a word where a number is expected'),
        ('510 10 530 10 530 20 510 20 ship 0', 'its center outside of the image'),
        ('10 10 30 10 30 20 10 20 shop 0', "class 'shop' is not in the label map"),
    ],
)
def test_one_bad_line_is_named_and_left_out(tmp_path, capsys, line, expected):
    LabelMap.from_names(['ship', 'storage-tank']).write(str(tmp_path / 'map.pbtxt'))
    assert convert(tmp_path, LINES + line) == 2
    said = capsys.readouterr().err
    assert 'P0001.txt, line 5: ' in said and expected in said
    assert convert(tmp_path, LINES + line, '--on_error=skip') == 0
    (feature,) = records_of(tmp_path / 'out' / 'train').values()
    assert len(values(feature, 'image/object/difficult')) == 2


def test_tiles(tmp_path):
    flags = ['--tile=50', '--overlap=10', '--min_area_inside=0.6']
    assert convert(tmp_path, LINES, *flags) == 0
    by_name = records_of(tmp_path / 'out' / 'train')
    features = {values(one, 'image/source_id')[0].decode(): one for one in by_name.values()}
    assert sorted(features) == [
        'P0001__1__0___0.png',
        'P0001__1__40___0.png',
        'P0001__1__50___0.png',
    ]
    of_names = {
        name: list(zip(values(one, 'image/object/class/text'), boxes_of(one, 50, 50).tolist()))
        for name, one in features.items()
    }
    ((text, box),) = of_names['P0001__1__0___0.png']
    assert text == b'ship'
    np.testing.assert_allclose(box, [15, 20, 10, 20, 0], atol=1e-4)
    ((text, box),) = of_names['P0001__1__40___0.png']
    assert text == b'storage-tank'
    np.testing.assert_allclose(box[:2], [30, 20], atol=1e-4)
    # All of its left half and nothing else would be outside: it is kept with all of its sides.
    ((text, box),) = of_names['P0001__1__50___0.png']
    np.testing.assert_allclose(box[:2], [30, 10], atol=1e-4)


def test_tiles_share_a_quarter_where_no_overlap_is_given(tmp_path):
    assert convert(tmp_path, LINES, '--tile=40') == 0
    names = [
        values(one, 'image/source_id')[0] for one in records_of(tmp_path / 'out' / 'train').values()
    ]
    columns = sorted({int(name.split(b'__')[2].split(b'___')[0]) for name in names})
    assert columns == [0, 30, 60]


def test_an_image_is_decoded_once_for_all_of_its_tiles(tmp_path, monkeypatch):
    decoded = []

    def decode(codec, encoded, decode=codecs.ImageCodec.decode):
        decoded.append(encoded)
        return decode(codec, encoded)

    monkeypatch.setattr(codecs.ImageCodec, 'decode', decode)
    assert convert(tmp_path, LINES, '--tile=20', '--overlap=10') == 0
    assert len(records_of(tmp_path / 'out' / 'train')) > 10
    assert len(decoded) == 1


def test_a_problem_is_told_once_whatever_the_number_of_tiles(tmp_path, capsys):
    flags = ['--tile=50', '--overlap=10']
    assert convert(tmp_path, LINES + 'x y', *flags) == 2
    said = capsys.readouterr().err
    assert '1 problem:' in said and said.count('line 5: ') == 1


@pytest.mark.parametrize('content', [b'\xff\xfe', b''])
def test_files_that_are_no_text(tmp_path, capsys, content):
    assert convert(tmp_path, LINES) == 0
    (tmp_path / 'map.pbtxt').unlink()
    write_image(tmp_path / 'images' / 'P0002.png')
    (tmp_path / 'labelTxt' / 'P0002.txt').write_bytes(content)
    assert convert(tmp_path, LINES) == (2 if content else 0)
    assert ('P0002.txt is not text of UTF-8' in capsys.readouterr().err) == bool(content)


def test_tiles_without_objects(tmp_path):
    flags = ['--tile=50', '--overlap=10', '--min_area_inside=0.6']
    ship = LINES.splitlines()[2]
    assert convert(tmp_path, ship, *flags) == 0
    assert len(records_of(tmp_path / 'out' / 'train')) == 3
    assert convert(tmp_path, ship, *flags, '--empty_tiles=drop') == 0
    (feature,) = records_of(tmp_path / 'out' / 'train').values()
    assert values(feature, 'image/source_id') == [b'P0001__1__0___0.png']


@pytest.mark.parametrize(
    'flags, expected',
    [
        (['--empty_tiles=drop'], 'there are no tiles without --tile'),
        (['--tile=50', '--overlap=50'], 'expected 0 <= overlap < tile'),
        (['--boxes=upright'], '--from=dota has rotated boxes'),
    ],
)
def test_flags_that_contradict(tmp_path, capsys, flags, expected):
    assert convert(tmp_path, LINES, *flags) == 2
    assert expected in capsys.readouterr().err
