"""Splits, processes, orientation and sizes, through the command."""

import collections
import io
import os

import numpy as np
import pytest
from PIL import Image

from model_fns.datasets import conversion
from model_fns.datasets.files import image_lists
from tests.model_fns.datasets.converted import (
    records_of,
    run,
    serialized_records,
    values,
    write_image,
)


@pytest.fixture
def photos(tmp_path):
    for name, count in (('cat', 10), ('dog', 30)):
        for index in range(count):
            write_image(tmp_path / 'photos' / name / f'{name}{index}.png', value=index)
    return tmp_path


def convert(folder, *more, out='out/'):
    return run(
        '--from=folders',
        f'--images={folder / "photos"}',
        f'--label_map={folder / "map.pbtxt"}',
        f'--output_prefix={folder}/{out}',
        '--num_shards=2',
        *more,
    )


def test_a_split_keeps_the_classes_in_proportion(photos, capsys):
    assert convert(photos, '--split=train:0.7,val:0.2,test:0.1') == 0
    out = photos / 'out'
    parts = {name: records_of(out / name) for name in ('train', 'val', 'test')}
    ids = [one for part in parts.values() for one in part]
    assert len(ids) == len(set(ids)) == 40
    counts = {
        name: collections.Counter(one.split('/')[0] for one in part) for name, part in parts.items()
    }
    assert counts == {
        'train': {'cat': 7, 'dog': 21},
        'val': {'cat': 2, 'dog': 6},
        'test': {'cat': 1, 'dog': 3},
    }
    said = capsys.readouterr().out
    assert f'28 records in {out}/train-?????-of-?????.tfrecord' in said
    assert f'4 records in {out}/test-?????-of-?????.tfrecord' in said
    assert len(list(out.glob('train-*-of-00002.tfrecord'))) == 2


def test_a_seed_chooses_the_split(photos):
    split = '--split=train:0.5,val:0.5'
    for out, seed in (('a/', 1), ('b/', 1), ('c/', 2)):
        assert convert(photos, split, f'--seed={seed}', out=out) == 0
    a, b, c = ([*records_of(photos / out / 'val')] for out in 'abc')
    assert a == b and set(a) != set(c)


def test_a_part_that_gets_nothing(photos, capsys):
    assert convert(photos, '--split=train:0.99,val:0.01') == 2
    said = capsys.readouterr().err
    assert 'Nothing is left to write for' in said and 'out/val: --split gives it no image' in said
    assert not list((photos / 'out').iterdir())


@pytest.mark.parametrize(
    'strata, shares, expected',
    [
        ('', [1.0], {}),
        ('aaaa', [1.0], {('a', 0): 4}),
        ('abababab', [0.5, 0.5], {('a', 0): 2, ('a', 1): 2, ('b', 0): 2, ('b', 1): 2}),
        # Of classes with one image each the whole is in proportion.
        ('abcde', [0.8, 0.2], {('a', 0): 1, ('b', 0): 1, ('c', 1): 1, ('d', 0): 1, ('e', 0): 1}),
    ],
)
def test_split_by(strata, shares, expected):
    parts = image_lists.assign_parts(list(strata), shares)
    assert collections.Counter(zip(strata, parts)) == expected


def test_prefixes():
    assert conversion._prefixes('data/cells', ['train', 'val']) == [
        'data/cells-train',
        'data/cells-val',
    ]
    assert conversion._prefixes('data/', ['train']) == ['data/train']
    assert conversion._prefixes('data/train', []) == ['data/train']


def test_processes_write_the_same_bytes(photos, capsys):
    (photos / 'photos' / 'cat' / 'broken.jpg').write_bytes(b'\xff\xd8\xff\xe0 broken')
    assert convert(photos, '--on_error=skip', out='threads/all') == 0
    assert convert(photos, '--on_error=skip', '--num_workers=2', out='processes/all') == 0
    said = capsys.readouterr().err
    assert said.count('broken.jpg: the image has a corrupt JPEG header') == 2
    threads = serialized_records(photos / 'threads' / 'all')
    assert len(threads) == 40
    assert serialized_records(photos / 'processes' / 'all') == threads


def test_formats_that_records_do_not_hold(tmp_path):
    folder = tmp_path / 'photos' / 'cat'
    folder.mkdir(parents=True)
    pixels = np.full([8, 9, 3], 200, np.uint8)
    Image.fromarray(pixels).save(folder / 'a.webp', lossless=True)
    Image.fromarray(pixels).save(folder / 'b.TIF', 'TIFF')
    assert convert(tmp_path, out='all') == 0
    found = records_of(tmp_path / 'all')
    assert sorted(found) == ['cat/a.webp', 'cat/b.TIF']
    for feature in found.values():
        assert values(feature, 'image/format') == [b'png']
        assert values(feature, 'image/height') == [8]
        decoded = np.asarray(Image.open(io.BytesIO(values(feature, 'image/encoded')[0])))
        np.testing.assert_array_equal(decoded, pixels)


VOC = """<annotation><size><width>{width}</width><height>{height}</height></size>
<object><name>x</name><bndbox><xmin>0</xmin><ymin>0</ymin><xmax>10</xmax><ymax>5</ymax></bndbox>
</object></annotation>"""


def convert_lying(folder, size, *more):
    """A photograph that is 40 high and 20 wide, stored lying on its side."""
    for name in ('images', 'annotations'):
        (folder / name).mkdir(exist_ok=True)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new('RGB', (40, 20)).save(folder / 'images' / 'a.jpg', exif=exif.tobytes())
    (folder / 'annotations' / 'a.xml').write_text(VOC.format(height=size[0], width=size[1]))
    return run(
        '--from=voc',
        f'--images={folder / "images"}',
        f'--annotations={folder / "annotations"}',
        f'--label_map={folder / "map.pbtxt"}',
        f'--output_prefix={folder / "out" / "train"}',
        *more,
    )


@pytest.mark.parametrize(
    'exif, size, other, hint',
    [
        ('apply', (40, 20), (20, 40), 'with --exif=ignore it stays so.'),
        ('ignore', (20, 40), (40, 20), 'with --exif=apply it is rotated.'),
    ],
)
def test_orientation_and_annotations_agree_or_what_helps_is_said(
    tmp_path, capsys, exif, size, other, hint
):
    assert convert_lying(tmp_path, size, f'--exif={exif}') == 0
    feature = records_of(tmp_path / 'out' / 'train')['a.jpg']
    sides = values(feature, 'image/height') + values(feature, 'image/width')
    assert tuple(sides) == size
    assert values(feature, 'image/object/bbox/ymax') == pytest.approx([5 / size[0]])
    assert convert_lying(tmp_path, other, f'--exif={exif}') == 2
    said = capsys.readouterr().err
    assert f'of an image of {other[0]} x {other[1]} pixels; the image has {size[0]} x' in said
    assert 'stored lying on its side (EXIF orientation 6); ' + hint in said


def test_images_are_turned_by_default(tmp_path):
    assert convert_lying(tmp_path, (40, 20)) == 0


def test_images_of_12_bits_do_not_become_black(tmp_path, capsys):
    folder = tmp_path / 'photos' / 'cell'
    folder.mkdir(parents=True)
    pixels = np.arange(0, 4096, 8, dtype=np.uint16).reshape(16, 32)
    Image.fromarray(pixels).save(folder / 'a.png')
    Image.fromarray(pixels).save(folder / 'b.tif')
    assert convert(tmp_path, out='all') == 2
    said = capsys.readouterr().err
    assert '2 like this' in said and 'expected --bits=N where its values have N bits' in said
    assert convert(tmp_path, '--bits=12', out='all') == 0
    for feature in records_of(tmp_path / 'all').values():
        decoded = np.asarray(Image.open(io.BytesIO(values(feature, 'image/encoded')[0])))
        np.testing.assert_array_equal(decoded[..., 0], pixels // 16)
    # Those that use all of their bits stay as they are.
    Image.fromarray(pixels * 16).save(folder / 'a.png')
    (folder / 'b.tif').unlink()
    assert convert(tmp_path, out='all') == 0


@pytest.mark.parametrize(
    'text, expected',
    [
        ('\ufeffcat3\r\n', ['cat/cat3.png']),
        ('/elsewhere/photos/cat/cat3.png\n', ['cat/cat3.png']),
        ('./cat\\same.png', ['cat/same.png']),
        ('same', ['cat/same.png', 'dog/same.png']),
        ('my cat.jpeg.png\ncat1 -1', ['cat/cat1.png', 'cat/my cat.jpeg.png']),
    ],
)
def test_lists_of_stems_and_paths(photos, text, expected):
    for name in ('cat/same', 'dog/same', 'cat/my cat.jpeg'):
        write_image(photos / 'photos' / f'{name}.png')
    (photos / 'list.txt').write_bytes(text.encode())
    assert convert(photos, f'--list={photos / "list.txt"}', out='all') == 0
    assert sorted(records_of(photos / 'all')) == expected


@pytest.mark.parametrize('content', [None, b'\xff\xfe', b'nobody\0'])
def test_lists_that_are_none(photos, capsys, content):
    path = photos / 'list.txt'
    path.mkdir() if content is None else path.write_bytes(content)
    assert convert(photos, f'--list={path}') == 2
    said = capsys.readouterr().err
    assert said.startswith('error: ') and 'Traceback' not in said


def test_names_of_files_that_are_no_text(photos, capsys):
    (photos / 'photos' / 'cat' / os.fsdecode(b'caf\xe9.png')).write_bytes(b'')
    assert convert(photos, out='all') == 2
    assert r"the file name 'caf\\udce9.png' is not UTF-8" in capsys.readouterr().err


def test_records_are_not_written_without_their_label_map(photos, capsys):
    (photos / 'map.pbtxt.tmp').write_text('a file, no folder')
    status = convert(photos, f'--label_map={photos}/map.pbtxt.tmp/map.pbtxt', out='out/all')
    assert status == 2
    assert 'the label map cannot be written' in capsys.readouterr().err
    assert not list((photos / 'out').glob('*.tfrecord'))


def test_the_last_lines_count_objects(photos, capsys):
    assert convert(photos, out='all') == 0
    # Of every dog and cat of one index the pictures are equal.
    said = capsys.readouterr().err
    for line in (
        'converted 40 images:',
        'dog: 30 objects in 30 images',
        'cat: 10 objects in 10 images',
        '10 images equal to another one',
    ):
        assert line in said


def test_a_truncated_jpeg_is_called_truncated(photos, capsys):
    file = io.BytesIO()
    noise = np.random.RandomState(0).randint(0, 256, [60, 80, 3]).astype(np.uint8)
    Image.fromarray(noise).save(file, 'JPEG')
    (photos / 'photos' / 'cat' / 'cut.jpg').write_bytes(file.getvalue()[:2000])
    assert convert(photos, out='all') == 2
    said = capsys.readouterr().err
    assert 'cut.jpg: the image is truncated: the data of the JPEG end too early, after 2000' in said


def _split_by_camera(folder, *flags):
    for place in range(8):
        write_image(folder / 'images' / 'ab'[place % 2] / f'cam{place // 2}_{place}.png')
    return run(
        '--from=folders',
        f'--images={folder / "images"}',
        f'--label_map={folder / "map.pbtxt"}',
        f'--output_prefix={folder / "out"}/',
        '--num_shards=1',
        *flags,
    )


@pytest.mark.parametrize('pattern', [r'cam\d+', r'/(cam\d+)_', r'^[ab]/(cam\d+)'])
def test_a_pattern_of_groups_is_searched_below_the_images(tmp_path, pattern):
    folder = tmp_path / 'cam7_set'  # the name of the folder has the pattern too
    assert _split_by_camera(folder, '--split=train:0.5,val:0.5', f'--group={pattern}') == 0
    cameras = [
        {source_id.split('/')[-1].split('_')[0] for source_id in records_of(folder / 'out' / part)}
        for part in ('train', 'val')
    ]
    assert len(cameras[0]) == len(cameras[1]) == 2 and not cameras[0] & cameras[1]


def test_fewer_groups_than_parts_are_refused(tmp_path, capfd):
    flags = ['--split=a:0.4,b:0.3,c:0.3', '--group=^[ab]']
    assert _split_by_camera(tmp_path / 'cam7_set', *flags) == 2
    expected = '--group=^[ab]: 8 images are of 2 groups; expected at least one for each of the 3'
    assert expected in capfd.readouterr().err
