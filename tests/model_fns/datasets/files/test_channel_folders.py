"""Channels of images in folders of their own, through the converter."""

import io
import shutil

import numpy as np
import pytest
from PIL import Image

from estimator_lib.data.image_decoding import ADDITIONAL_CHANNELS
from tests.model_fns.datasets import converted
from tests.more_channels import deep_png

DEEP = np.random.RandomState(0).randint(0, 65536, [40, 60]).astype(np.uint16)


def write(folder):
    """Write an image with a box, and two channels: of 16 bits, and of 8 as a TIFF."""
    converted.write_image(folder / 'images' / 'a.png', 40, 60)
    for name in ('near', 'far'):
        (folder / name).mkdir()
    (folder / 'near' / 'a.png').write_bytes(deep_png(DEEP))
    Image.fromarray((DEEP >> 8).astype(np.uint8)).save(folder / 'far' / 'a.tif')
    (folder / 'labels.csv').write_text('filename,class,xmin,ymin,xmax,ymax\na.png,cat,2,3,30,20\n')


def convert(folder, *flags):
    return converted.run(
        '--from=csv',
        f'--images={folder / "images"}',
        f'--annotations={folder / "labels.csv"}',
        f'--label_map={folder / "map.pbtxt"}',
        f'--output_prefix={folder / "out" / "all"}',
        '--num_shards=1',
        *(f'--additional_channels={folder / name}' for name in ('near', 'far')),
        *flags,
    )


def channels_of(feature):
    encoded = converted.values(feature, ADDITIONAL_CHANNELS)
    return [np.array(Image.open(io.BytesIO(each))).astype(int) for each in encoded]


def test_channels_are_stored_as_they_are(tmp_path):
    write(tmp_path)
    assert convert(tmp_path) == 0
    (feature,) = converted.records_of(tmp_path / 'out' / 'all').values()
    near, far = channels_of(feature)
    np.testing.assert_array_equal(near, DEEP)
    np.testing.assert_array_equal(far, DEEP >> 8)


def test_channels_are_cut_into_tiles(tmp_path):
    write(tmp_path)
    assert convert(tmp_path, '--tile=32', '--overlap=8') == 0
    found = converted.records_of(tmp_path / 'out' / 'all')
    assert len(found) == 6
    (tile,) = (name for name in found if name.startswith('a__1__24___8'))
    near, far = channels_of(found[tile])
    np.testing.assert_array_equal(near, DEEP[8:40, 24:56])
    np.testing.assert_array_equal(far, DEEP[8:40, 24:56] >> 8)


def test_stems_that_only_a_class_has_once_are_found_in_its_folder(tmp_path):
    for index, name in enumerate(('cat', 'dog')):
        converted.write_image(tmp_path / 'images' / name / '1.png', 4, 6)
        (tmp_path / 'near' / name).mkdir(parents=True)
        near = np.full([4, 6], 100 + index, np.uint8)
        Image.fromarray(near).save(tmp_path / 'near' / name / '1.png')
    status = converted.run(
        '--from=folders',
        f'--images={tmp_path / "images"}',
        f'--label_map={tmp_path / "map.pbtxt"}',
        f'--output_prefix={tmp_path / "all"}',
        '--num_shards=1',
        f'--additional_channels={tmp_path / "near"}',
    )
    assert status == 0
    features = converted.records_of(tmp_path / 'all').values()
    found = {converted.values(one, 'image/class/text')[0]: channels_of(one)[0] for one in features}
    assert {name: near.max() for name, near in found.items()} == {b'cat': 100, b'dog': 101}


@pytest.mark.parametrize(
    'damage, expected',
    [
        (lambda folder: (folder / 'near' / 'a.png').unlink(), 'has 0 images called a; expected'),
        (
            lambda folder: converted.write_image(folder / 'near' / 'in' / 'a.png'),
            'has 2 images called a; expected one',
        ),
        (
            lambda folder: converted.write_image(folder / 'near' / 'a.png', 40, 50),
            'a.png has 40 x 50 pixels; the image has 40 x 60',
        ),
        (
            lambda folder: (folder / 'near' / 'a.png').write_bytes(b'none'),
            "a.png: the image starts with b'none'",
        ),
        (lambda folder: shutil.rmtree(folder / 'near'), 'near: there is no such folder'),
    ],
)
def test_bad_channels_get_one_sentence(tmp_path, capsys, damage, expected):
    write(tmp_path)
    damage(tmp_path)
    assert convert(tmp_path) == 2
    said = capsys.readouterr().err
    assert '--additional_channels: ' in said and expected in said and 'Traceback' not in said


def test_images_of_sixteen_bits_may_stay(tmp_path, capsys):
    write(tmp_path)
    (tmp_path / 'images' / 'a.png').write_bytes(deep_png(DEEP >> 4))
    assert convert(tmp_path) == 2 and 'expected --bits=N' in capsys.readouterr().err
    assert convert(tmp_path, '--keep_bits', '--bits=12') == 2
    assert '--keep_bits and --bits=12: expected one of them' in capsys.readouterr().err
    assert convert(tmp_path, '--keep_bits', '--tile=32', '--overlap=8') == 2
    assert '--keep_bits: tiles have 8 bits' in capsys.readouterr().err
    assert convert(tmp_path, '--keep_bits') == 0
    (feature,) = converted.records_of(tmp_path / 'out' / 'all').values()
    (encoded,) = converted.values(feature, 'image/encoded')
    np.testing.assert_array_equal(np.array(Image.open(io.BytesIO(encoded))), DEEP >> 4)
