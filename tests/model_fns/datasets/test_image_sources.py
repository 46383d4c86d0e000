"""Images of files, folders, lists and TFRecords, with their EXIF orientation applied."""

import gzip
import io
import os

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps

from estimator_lib import errors
from model_fns.datasets import image_sources
from tests.model_fns.datasets.converted import write_image


@pytest.fixture(scope='module')
def array():
    return np.random.RandomState(0).randint(0, 256, [6, 9, 3]).astype(np.uint8)


def encoded(array, kind, **options):
    file = io.BytesIO()
    Image.fromarray(array).save(file, kind, **options)
    return file.getvalue()


def save(path, array, kind='PNG'):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encoded(array, kind))
    return str(path)


def names(found, start):
    return [os.path.relpath(image.name, start) for image in found]


# Pixels.


@pytest.mark.parametrize('orientation', range(1, 9))
@pytest.mark.parametrize('kind', ['JPEG', 'PNG', 'WEBP'])
def test_exif_is_applied_or_ignored(array, orientation, kind):
    exif = Image.Exif()
    exif[0x0112] = orientation
    content = encoded(array, kind, exif=exif, **({'lossless': True} if kind == 'WEBP' else {}))
    turned = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(content))).convert('RGB'))
    got = image_sources.Decoder(apply_exif=True)(content, 'a')
    as_stored = image_sources.Decoder(apply_exif=False)(content, 'a')
    assert got.shape == turned.shape and as_stored.shape == array.shape
    if kind == 'JPEG':  # decoders differ a little
        np.testing.assert_allclose(got.astype(int), turned, atol=3)
    else:
        np.testing.assert_array_equal(got, turned)
        np.testing.assert_array_equal(as_stored, array)


def test_tiff_is_read(array):
    np.testing.assert_array_equal(image_sources.Decoder()(encoded(array, 'TIFF'), 'a'), array)


def test_pixels_are_those_of_training(array):
    content = encoded(array, 'JPEG')
    expected = tf.io.decode_image(content).numpy()
    np.testing.assert_array_equal(image_sources.Decoder()(content, 'a'), expected)


@pytest.mark.parametrize(
    'content, problem',
    [
        (b'', 'a.jpg: the image is empty'),
        (b'no image at all', 'a.jpg: the image starts with'),
        ('JPEG', 'a.jpg: the image is truncated'),
        ('WEBP', 'a.jpg: the image is'),
    ],
    ids=['empty', 'text', 'jpeg', 'webp'],
)
def test_a_bad_image_is_named_with_its_fault(array, content, problem):
    if isinstance(content, str):
        whole = encoded(np.tile(array, [20, 20, 1]), content)
        content = whole[: len(whole) // 2]
    with pytest.raises(errors.DataError, match=problem):
        image_sources.Decoder()(content, 'a.jpg')


# Names of what is written.


@pytest.mark.parametrize(
    'paths, stems',
    [
        (['d/a.jpg', 'd/b.png'], ['a', 'b']),
        (['d/a.jpg', 'd/a.png', 'd/b.png'], ['a.jpg', 'a.png', 'b']),
        (['d/x/a.jpg', 'd/y/a.jpg', 'd/x/b.jpg'], ['x-a.jpg', 'y-a.jpg', 'b']),
        (['d/x/a.jpg', 'd/x/a.png', 'd/y/a.jpg'], ['x-a.jpg', 'a.png', 'y-a.jpg']),
        (['d/x/a.jpg', 'd/x-a.jpg', 'd/a.jpg'], ['x-a.jpg', 'x-a', 'a.jpg']),
        ([], []),
    ],
)
def test_stems_are_short_and_no_two_are_equal(paths, stems):
    assert image_sources.unique_stems(paths) == stems
    assert len(set(stems)) == len(paths)


def test_numbers_are_those_of_coco_where_names_are_numbers(array, tmp_path):
    for name in ('000000000139.png', '285.png'):
        save(tmp_path / name, array)
    assert [image.id for image in image_sources.find_images(str(tmp_path))] == [139, 285]
    save(tmp_path / '0285.png', array)  # which is 285 once more
    assert [image.id for image in image_sources.find_images(str(tmp_path))] == [1, 2, 3]


# Where images come from.


def test_a_glob_a_file_and_a_folder(array, tmp_path):
    for name in ('b.png', 'a.PNG', 'in/c.png', '.hidden.png'):
        save(tmp_path / name, array)
    (tmp_path / 'notes.md').write_text('text')
    (tmp_path / 'bad.jpg').write_text('text')
    find = image_sources.find_images
    assert names(find(f'{tmp_path}/b*.png'), tmp_path) == ['b.png']
    assert names(find(str(tmp_path)), tmp_path) == ['a.PNG', 'b.png', 'bad.jpg', 'in/c.png']
    assert names(find(f'{tmp_path}/b.png'), tmp_path) == ['b.png']
    assert find(str(tmp_path)).count() == 4
    strange = save(tmp_path / 'a[1].png', array)
    assert names(find(strange), tmp_path) == ['a[1].png']


def test_a_folder_among_files_is_reported(array, tmp_path):
    (tmp_path / 'a.png').mkdir()
    save(tmp_path / 'b.png', array)
    folder, image = image_sources.find_images(f'{tmp_path}/*.png')
    np.testing.assert_array_equal(image.read(), array)
    with pytest.raises(errors.DataError, match=r'a\.png: it cannot be read: it is a folder'):
        folder.read()


def test_a_list_of_paths(array, tmp_path):
    save(tmp_path / 'in' / 'a.png', array)
    other = save(tmp_path / 'b.png', array)
    text = f'a.png\n\n{other}\n gone.png \na.png\n'
    (tmp_path / 'in' / 'list.txt').write_text(text, encoding='utf-8-sig')
    found = list(image_sources.find_images(f'{tmp_path}/in/list.txt'))
    assert names(found, tmp_path) == ['in/a.png', 'b.png', 'in/gone.png']
    np.testing.assert_array_equal(found[0].read(), array)
    with pytest.raises(errors.DataError, match=r'gone\.png: there is no such file'):
        found[2].read()


def record(content, source_id='x'):
    example = tf.train.Example()
    if content is not None:
        example.features.feature['image/encoded'].bytes_list.value.append(content)
    example.features.feature['image/source_id'].bytes_list.value.append(source_id.encode())
    return example.SerializeToString()


@pytest.mark.parametrize('compression', ['', 'GZIP'])
def test_records_are_images_and_bad_ones_are_named(array, tmp_path, compression):
    path = tmp_path / 'val-00000-of-00001'
    contents = [record(encoded(array, 'PNG'), '77'), record(None), b'\xff\xff', record(b'bad')]
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for content in contents:
            writer.write(content)
    found = image_sources.find_images(f'{tmp_path}/val-*')
    assert found.count() == 4
    first, empty, other, bad = found
    assert (first.name, first.id) == (f'{path}#00000', 77)
    np.testing.assert_array_equal(first.read(), array)
    assert len({image.stem for image in found}) == 4
    for image, problem in (
        (empty, '#00001: the record has no image/encoded'),
        (other, '#00002: the record is not a tf.train.Example'),
        (bad, '#00003: the image starts with'),
    ):
        with pytest.raises(errors.DataError, match=problem):
            image.read()


def test_a_corrupt_record_ends_its_file_and_no_other(array, tmp_path):
    for name in ('a.tfrecord', 'b.tfrecord'):
        with tf.io.TFRecordWriter(str(tmp_path / name)) as writer:
            for _ in range(2):
                writer.write(record(encoded(array, 'PNG')))
    content = bytearray((tmp_path / 'a.tfrecord').read_bytes())
    content[-8] ^= 255  # in the last payload
    (tmp_path / 'a.tfrecord').write_bytes(content)
    images = list(image_sources.find_images(f'{tmp_path}/*.tfrecord'))
    assert [os.path.basename(image.name) for image in images] == [
        'a.tfrecord#00000',
        'a.tfrecord#00001',
        'b.tfrecord#00000',
        'b.tfrecord#00001',
    ]
    with pytest.raises(errors.DataError, match='#00001: the record is corrupt, and the rest'):
        images[1].read()
    np.testing.assert_array_equal(images[3].read(), array)


@pytest.mark.parametrize(
    'pattern, problem',
    [
        ('none/*.jpg', "no file matches '.*none/\\*.jpg'"),
        ('folder', 'the folder .*folder has no images; expected files that end in .jpg'),
        ('empty.txt', 'empty.txt is empty; expected a path in each line'),
        ('binary.txt', 'binary.txt is not a list of paths'),
        ('nul.txt', 'nul.txt is not a list of paths: it has a NUL'),
    ],
)
def test_nothing_to_predict_is_said(tmp_path, pattern, problem):
    (tmp_path / 'folder').mkdir()
    (tmp_path / 'folder' / 'notes.md').write_text('text')
    (tmp_path / 'empty.txt').write_text('\n')
    (tmp_path / 'nul.txt').write_text('a\0.png\n')
    (tmp_path / 'binary.txt').write_bytes(gzip.compress(b'\xff\xfe' * 50))
    with pytest.raises(errors.DataError, match=problem):
        image_sources.find_images(str(tmp_path / pattern))


def test_loops_of_links_end(tmp_path):
    folder = tmp_path / 'images'
    (folder / 'inner').mkdir(parents=True)
    write_image(folder / 'inner' / 'a.png')
    (folder / 'up').symlink_to(folder)
    (folder / 'inner' / 'up').symlink_to(folder)
    assert image_sources.find_images(str(folder)).paths == [str(folder / 'inner' / 'a.png')]


def test_names_of_files_that_are_no_text(tmp_path):
    write_image(tmp_path / 'b.png')
    (tmp_path / os.fsdecode(b'caf\xe9.png')).write_bytes((tmp_path / 'b.png').read_bytes())
    images = list(image_sources.find_images(str(tmp_path)))
    assert [image.stem for image in images] == ['b', r'caf\udce9']
    assert images[1].name == str(tmp_path / r'caf\udce9.png')
    assert images[1].read().shape == (20, 30, 3)


def test_stems_of_absolute_and_relative_paths():
    assert image_sources.unique_stems(['/x/a.png', 'y/b.png']) == ['a', 'b']


def test_a_list_may_name_images_of_another_file_system(tmp_path):
    (tmp_path / 'list.txt').write_text('gs://bucket/a.png\nb.png\n')
    found = image_sources.find_images(str(tmp_path / 'list.txt'))
    assert list(found.paths) == ['gs://bucket/a.png', str(tmp_path / 'b.png')]


def test_names_of_thousands_of_digits_are_no_numbers(tmp_path):
    (tmp_path / 'list.txt').write_text(f'{"7" * 5000}.png\n')
    (image,) = image_sources.find_images(str(tmp_path / 'list.txt'))
    assert image.id == 1
