"""Real files of every format, of every orientation."""

import io

import numpy as np
import pytest
from PIL import Image

from estimator_lib import errors
from model_fns.datasets import codecs, image_files
from model_fns.structures import images

# A picture of which every corner differs, as people see it: 32 high and 48 wide.
# Corners end where blocks of a JPEG do, which would blur them.
SEEN = np.zeros([32, 48, 3], np.uint8)
SEEN[:16, :24] = [250, 0, 0]
SEEN[:16, 24:] = [0, 250, 0]
SEEN[16:, :24] = [0, 0, 250]
SEEN[16:, 24:] = [250, 250, 250]

# How a camera stores that picture, by the orientation that it notes (Exif 2.3, table 6).
STORED = {
    1: SEEN,
    2: SEEN[:, ::-1],
    3: SEEN[::-1, ::-1],
    4: SEEN[::-1],
    5: SEEN.transpose(1, 0, 2),
    6: np.rot90(SEEN),
    7: SEEN.transpose(1, 0, 2)[::-1, ::-1],
    8: np.rot90(SEEN, -1),
}


def encoded(pixels, name, orientation=None, **options):
    file = io.BytesIO()
    image = Image.fromarray(np.ascontiguousarray(pixels))
    if orientation is not None:
        exif = Image.Exif()
        exif[0x0112] = orientation
        options['exif'] = exif.tobytes()
    if name == 'JPEG':
        options = {'quality': 100, 'subsampling': 0, **options}
    image.save(file, name, **options)
    return file.getvalue()


@pytest.fixture(scope='module')
def decode():
    """As training decodes."""
    with codecs.ImageCodec() as codec:
        yield codec.decode


@pytest.mark.parametrize('orientation', sorted(STORED))
@pytest.mark.parametrize('name', ['JPEG', 'PNG', 'WEBP', 'TIFF'])
def test_pictures_stand_as_people_see_them(decode, name, orientation):
    options = {'lossless': True} if name == 'WEBP' else {}
    content = encoded(STORED[orientation], name, orientation, **options)
    image = image_files.prepare(content)
    most = 4 if name == 'JPEG' else 0
    assert np.abs(decode(image.encoded).astype(int) - SEEN).max() <= most
    assert image.header == ('jpeg' if name == 'JPEG' else 'png', 32, 48)
    if name != 'TIFF':
        assert image.orientation == orientation
        assert image.swaps_sides == (orientation >= 5)
    # Nothing turns it once more.
    assert image_files.prepare(image.encoded).encoded == image.encoded


@pytest.mark.parametrize('orientation', [1, 6])
def test_orientations_can_be_ignored(decode, orientation):
    content = encoded(STORED[orientation], 'JPEG', orientation)
    image = image_files.prepare(content, apply_exif=False)
    assert image.encoded == content
    assert image.header[1:] == STORED[orientation].shape[:2]
    assert image.orientation == orientation
    webp = encoded(STORED[orientation], 'WEBP', orientation, lossless=True)
    prepared = image_files.prepare(webp, apply_exif=False)
    np.testing.assert_array_equal(decode(prepared.encoded), STORED[orientation])
    tiff = image_files.prepare(encoded(STORED[orientation], 'TIFF', orientation), apply_exif=False)
    np.testing.assert_array_equal(decode(tiff.encoded), SEEN)


@pytest.mark.parametrize('name', ['JPEG', 'PNG', 'GIF', 'BMP'])
def test_files_that_need_no_change_get_none(name):
    content = encoded(SEEN, name)
    assert image_files.prepare(content) == (content, (name.lower(), 32, 48), 1)


@pytest.mark.parametrize('orientation', [0, 9, 77])
def test_an_orientation_that_there_is_not(orientation):
    content = encoded(SEEN, 'JPEG', orientation)
    assert image_files.prepare(content).encoded == content


GRAY = SEEN[..., 0]


@pytest.mark.parametrize(
    'image, expected',
    [
        (Image.fromarray(GRAY), np.repeat(GRAY[..., None], 3, 2)),
        (Image.fromarray(GRAY > 0), np.repeat((GRAY[..., None] > 0) * 255, 3, 2)),
        (Image.fromarray(GRAY.astype(np.uint16) * 257), np.repeat(GRAY[..., None], 3, 2)),
        (Image.fromarray(SEEN).quantize(8), SEEN),
        (Image.fromarray(np.dstack([SEEN, GRAY])), SEEN),
        (Image.fromarray(SEEN).convert('CMYK'), SEEN),
    ],
    ids=['gray', 'one bit', '16 bits', 'palette', 'alpha', 'CMYK'],
)
def test_tiffs_of_every_kind(decode, image, expected):
    file = io.BytesIO()
    image.save(file, 'TIFF')
    prepared = image_files.prepare(file.getvalue())
    assert np.abs(decode(prepared.encoded).astype(int) - expected).max() <= 1


@pytest.mark.parametrize('name', ['JPEG', 'PNG', 'WEBP', 'TIFF'])
def test_a_header_that_announces_too_many_pixels(name):
    file = io.BytesIO()
    Image.new('RGB', [6, 5]).save(file, name)
    assert image_files.prepare(file.getvalue(), max_pixels=30).header[1:] == (5, 6)
    with pytest.raises(errors.DataError, match='has 30 pixels; expected at most 29'):
        image_files.prepare(file.getvalue(), max_pixels=29)


@pytest.mark.parametrize('name', ['PNG', 'JPEG', 'BMP'])
def test_an_image_is_as_large_as_what_can_be_decoded(name, monkeypatch):
    """Pillow refuses images of twice the pixels of its limit, as attacks."""
    file = io.BytesIO()
    Image.new('RGB', (6, 5)).save(file, name)
    monkeypatch.setattr(Image, 'MAX_IMAGE_PIXELS', 10)
    assert image_files.prepare(file.getvalue()).header[1:] == (5, 6)
    monkeypatch.setattr(images, 'MOST_DECODED', 29)
    with pytest.raises(errors.DataError, match='the image has 30 pixels; expected at most 29'):
        image_files.prepare(file.getvalue())


def test_a_tiff_that_pillow_does_not_decode_is_not_called_corrupt(monkeypatch):
    file = io.BytesIO()
    Image.new('RGB', (6, 5)).save(file, 'TIFF')
    monkeypatch.setattr(Image, 'MAX_IMAGE_PIXELS', 10)
    with pytest.raises(errors.DataError, match='a TIFF of more than 20 pixels.*save it as a PNG'):
        image_files.prepare(file.getvalue())


def test_the_first_page_of_a_tiff(decode):
    file = io.BytesIO()
    Image.fromarray(SEEN).save(
        file, 'TIFF', save_all=True, append_images=[Image.fromarray(SEEN[::-1])]
    )
    np.testing.assert_array_equal(decode(image_files.prepare(file.getvalue()).encoded), SEEN)


NOISE = np.random.RandomState(0).randint(0, 256, [40, 50, 3]).astype(np.uint8)


@pytest.mark.parametrize(
    'content, message',
    [
        (b'', 'the image is empty'),
        (b'some text', "starts with b'some tex', and is not a JPEG, PNG, GIF, BMP, WebP or TIFF"),
        (b'\xff\xd8\xff\xe0 broken', 'has a corrupt JPEG header'),
        (encoded(NOISE, 'JPEG', 6)[:1500], 'is truncated: the data of the JPEG end too early'),
        (encoded(NOISE, 'WEBP', lossless=True)[:900], 'the image is '),
        (encoded(NOISE, 'TIFF')[:900], 'the image '),
        (encoded(NOISE[..., 0].astype(np.float32), 'TIFF'), 'a TIFF of F pixels; expected 8 or 16'),
    ],
)
def test_what_cannot_be_read(content, message):
    with pytest.raises(errors.DataError, match=message):
        image_files.prepare(content)
