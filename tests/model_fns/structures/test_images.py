import io
import struct
import warnings
import zlib

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies
from PIL import Image

from estimator_lib import errors
from model_fns.structures import images

tf1 = tf.compat.v1

RAINBOW = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3) * 14
# The first frame of this GIF is 3x2 pixels of palette entries 0, 1, 2, 2, 1, 0 (LZW, minimum code
# size 2: clear, 0, 1, 2, 2, 1, 0, end).
GIF_PALETTE = bytes([1, 2, 3, 40, 50, 60, 250, 0, 7, 0, 0, 0])


def _chunk(kind, data):
    body = kind + data
    return struct.pack('>I', len(data)) + body + struct.pack('>I', zlib.crc32(body))


def _png(width, height, bit_depth, color_type, rows, palette=b''):
    data = b''.join(b'\0' + row for row in rows)
    header = struct.pack('>IIBBBBB', width, height, bit_depth, color_type, 0, 0, 0)
    chunks = [(b'IHDR', header), (b'IDAT', zlib.compress(data)), (b'IEND', b'')]
    if palette:
        chunks.insert(1, (b'PLTE', palette))
    return b'\x89PNG\r\n\x1a\n' + b''.join(_chunk(*chunk) for chunk in chunks)


def _bmp(width, height, bits, rows, palette=b''):
    """Rows from the top; the file has them from the bottom, each padded to 4 bytes."""
    data = b''.join(row + b'\0' * (-len(row) % 4) for row in rows[::-1])
    offset = 54 + len(palette)
    return (
        b'BM'
        + struct.pack('<IHHI', offset + len(data), 0, 0, offset)
        + struct.pack('<IiiHHIIiiII', 40, width, height, 1, bits, 0, len(data), 0, 0, 0, 0)
        + palette
        + data
    )


def _gif(frames):
    """3x2 pixels of 4 colors; each frame is six palette indices."""
    out = b'GIF89a' + struct.pack('<HHBBB', 3, 2, 0x91, 0, 0) + GIF_PALETTE
    for indices in frames:
        # Codes of 3 bits grow to 4 after four codes; a clear code (4) before each pixel keeps 3.
        codes = [code for index in indices for code in (4, index)] + [5]
        number = sum(code << (3 * i) for i, code in enumerate(codes))
        data = number.to_bytes((3 * len(codes) + 7) // 8, 'little')
        out += b',' + struct.pack('<HHHHB', 0, 0, 3, 2, 0) + b'\x02'
        out += bytes([len(data)]) + data + b'\0'
    return out + b';'


@pytest.fixture(scope='module')
def decode():
    """A function from bytes and a number of channels to pixels."""
    graph = tf.Graph()
    with graph.as_default():
        encoded = tf1.placeholder(tf.string, [])
        decoded = {channels: images.decode_image(encoded, channels) for channels in (1, 3)}
    with tf1.Session(graph=graph) as session:
        yield lambda data, channels=3: session.run(decoded[channels], {encoded: data})


def _jpeg(pixels):
    with tf.Graph().as_default(), tf1.Session() as session:
        return session.run(tf.io.encode_jpeg(tf.constant(pixels), quality=100))


def test_png_of_every_kind(decode):
    gray16 = np.array([[200, 13200, 26200], [39200, 52200, 65200]], np.uint16)
    rows = [row.astype('>u2').tobytes() for row in gray16]
    high_bytes = gray16 // 256
    np.testing.assert_array_equal(decode(_png(3, 2, 16, 0, rows))[:, :, 1], high_bytes)
    np.testing.assert_array_equal(decode(_png(3, 2, 16, 0, rows), 1)[:, :, 0], high_bytes)
    rgb = _png(3, 2, 8, 2, [row.tobytes() for row in RAINBOW])
    np.testing.assert_array_equal(decode(rgb), RAINBOW)
    with_alpha = np.concatenate([RAINBOW, np.full((2, 3, 1), 7, np.uint8)], 2)
    rgba = _png(3, 2, 8, 6, [row.tobytes() for row in with_alpha])
    np.testing.assert_array_equal(decode(rgba), RAINBOW)
    gray_alpha = _png(2, 1, 8, 4, [bytes([10, 255, 20, 0])])
    assert decode(gray_alpha).tolist() == [[[10] * 3, [20] * 3]]
    palette = _png(2, 1, 8, 3, [bytes([1, 0])], bytes([1, 2, 3, 200, 100, 50]))
    assert decode(palette).tolist() == [[[200, 100, 50], [1, 2, 3]]]
    one_bit = _png(3, 1, 1, 0, [bytes([0b10100000])])
    assert decode(one_bit)[0, :, 0].tolist() == [255, 0, 255]


def test_bmp_of_every_kind(decode):
    blue_first = RAINBOW[:, :, ::-1]
    bits24 = _bmp(3, 2, 24, [row.tobytes() for row in blue_first])
    np.testing.assert_array_equal(decode(bits24), RAINBOW)
    four = np.concatenate([blue_first, np.full((2, 3, 1), 9, np.uint8)], 2)
    np.testing.assert_array_equal(decode(_bmp(3, 2, 32, [r.tobytes() for r in four])), RAINBOW)
    indices = np.array([[0, 1, 0], [1, 1, 0]])
    palette = bytes([3, 2, 1, 0, 50, 100, 200, 0])
    bits8 = _bmp(3, 2, 8, [bytes(row.tolist()) for row in indices], palette + bytes(254 * 4))
    np.testing.assert_array_equal(
        decode(bits8), np.array([[1, 2, 3], [200, 100, 50]], np.uint8)[indices]
    )
    # int(0.2989 R + 0.587 G + 0.114 B)
    assert decode(bits8, 1)[0, :, 0].tolist() == [1, 124, 1]


def test_gif_gives_its_first_frame(decode):
    one, two = [0, 1, 2, 2, 1, 0], [3, 3, 3, 3, 3, 3]
    colors = np.frombuffer(GIF_PALETTE, np.uint8).reshape(4, 3)
    np.testing.assert_array_equal(decode(_gif([one, two])), colors[one].reshape(2, 3, 3))


def test_jpeg(decode):
    flat = np.full((9, 5, 3), 120, np.uint8)
    decoded = decode(_jpeg(flat))
    assert decoded.shape == (9, 5, 3)
    assert np.abs(decoded.astype(int) - 120).max() <= 1
    assert decode(_jpeg(flat), 1).shape == (9, 5, 1)


@pytest.mark.parametrize(
    'data, message',
    [
        (b'', 'Input is empty'),
        (b'not an image', 'Unknown image file format'),
        (_png(2, 2, 8, 0, [b'\0\0', b'\0\0'])[:40], 'Invalid PNG'),
        (b'\xff\xd8\xff\xe0 and so on', 'Invalid JPEG'),
        (b'BM', 'BMP|bmp'),
    ],
)
def test_what_does_not_decode_says_why(decode, data, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        decode(data)


def test_decoding_adds_few_operations_and_sets_the_channels():
    with tf.Graph().as_default() as graph:
        assert images.decode_image(tf.constant(b'')).shape.as_list() == [None, None, 3]
        assert len(graph.get_operations()) < 15
    with pytest.raises(ValueError, match='channels'):
        images.decode_image(tf.constant(b''), channels=4)


@pytest.mark.parametrize(
    'data, expected',
    [
        (_png(300, 2, 8, 0, []), ('png', 2, 300)),
        (_bmp(3, 2, 24, [b'', b'']), ('bmp', 2, 3)),
        (_bmp(3, -2, 24, [b'', b'']), ('bmp', 2, 3)),
        # The header of OS/2 has short fields.
        (
            b'BM' + struct.pack('<IHHI', 50, 0, 0, 26) + struct.pack('<IHHHH', 12, 3, 2, 1, 24),
            ('bmp', 2, 3),
        ),
        (_gif([[0] * 6]), ('gif', 2, 3)),
    ],
)
def test_header(data, expected):
    assert images.image_header(data) == expected


@pytest.mark.parametrize(
    'options',
    [{}, {'progressive': True}, {'exif': b'Exif\0\0' + b'MM\0*\0\0\0\x08\0\0\0\0'}],
)
def test_header_of_jpegs(options):
    file = io.BytesIO()
    Image.new('RGB', (34, 21)).save(file, 'JPEG', **options)
    assert images.image_header(file.getvalue()) == ('jpeg', 21, 34)


def test_header_of_a_truncated_jpeg():
    assert images.image_header(_jpeg(np.zeros((210, 340, 3), np.uint8))[:700]) == ('jpeg', 210, 340)


def test_nothing_is_decoded_for_a_header():
    # 4 GB of pixels; neither a refusal nor a warning.
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        assert images.image_header(_png(40000, 40000, 8, 2, [b''])) == ('png', 40000, 40000)


@pytest.mark.parametrize(
    'data, message',
    [
        (b'', 'empty'),
        (b'RIFF....WEBP', "not a JPEG, PNG, GIF or BMP: it starts with b'RIFF....'"),
        (b'\xff\xd8\xff\xe0\0\4', 'corrupt JPEG header, or ends within it, after 6 bytes'),
        (_jpeg(np.zeros((21, 34, 3), np.uint8))[:90], 'JPEG header, or ends within it, after 90'),
        (_png(3, 2, 8, 0, [])[:20], 'corrupt PNG header, or ends within it, after 20 bytes'),
        (b'GIF89a\1', 'corrupt GIF header'),
        (b'BM123', 'corrupt BMP header'),
        (_png(0, 2, 8, 0, []), 'corrupt PNG header'),
    ],
)
def test_a_bad_header_says_what_is_wrong(data, message):
    with pytest.raises(errors.DataError, match=message):
        images.image_header(data)


@hypothesis.given(
    strategies.binary(max_size=60),
    strategies.sampled_from([b'', b'\xff\xd8', b'\x89PNG\r\n\x1a\n', b'GIF89a', b'BM']),
)
@hypothesis.settings(max_examples=200, deadline=None)
def test_any_bytes_give_a_header_or_a_data_error(data, start):
    try:
        header = images.image_header(start + data)
    except errors.DataError:
        return
    assert header.height > 0 and header.width > 0


def _resize_by_hand(image, height, width, align_corners):
    """Bilinear, one output pixel at a time."""
    rows, columns = image.shape[:2]
    result = np.zeros((height, width, image.shape[2]))
    for i in range(height):
        for j in range(width):
            if align_corners:
                y, x = i * (rows - 1) / (height - 1), j * (columns - 1) / (width - 1)
            else:
                y, x = i * rows / height, j * columns / width
            top, left = int(y), int(x)
            bottom, right = min(top + 1, rows - 1), min(left + 1, columns - 1)
            dy, dx = y - top, x - left
            result[i, j] = (
                (1 - dy) * (1 - dx) * image[top, left]
                + (1 - dy) * dx * image[top, right]
                + dy * (1 - dx) * image[bottom, left]
                + dy * dx * image[bottom, right]
            )
    return result


@pytest.mark.parametrize('align_corners', [False, True])
@pytest.mark.parametrize('size', [(4, 9), (2, 3), (11, 5)])
def test_resize_bilinear(size, align_corners):
    image = np.random.RandomState(0).randint(0, 256, (5, 7, 3)).astype(np.uint8)
    with tf.Graph().as_default(), tf1.Session() as session:
        resized = images.resize(tf.constant(image), *size, align_corners=align_corners)
        batch = images.resize(tf.constant(image[None]), *size, align_corners=align_corners)
        assert resized.dtype == tf.float32
        assert resized.shape == (*size, 3)
        single, batched = session.run([resized, batch])
    expected = _resize_by_hand(image, *size, align_corners)
    np.testing.assert_allclose(single, expected, atol=1e-3)
    np.testing.assert_array_equal(batched[0], single)


@pytest.mark.parametrize('known', [True, False])
def test_resize_of_bytes_gives_the_kernels_numbers_to_the_last_bit(known):
    random = np.random.RandomState(2)
    # Larger and smaller than the result, and so much larger that bytes are not converted before.
    sides = [(5, 7), (40, 30), (150, 170)]
    arrays = [random.randint(0, 256, [*side, 3]).astype(np.uint8) for side in sides]
    kernels = {'bilinear': tf.raw_ops.ResizeBilinear, 'bicubic': tf.raw_ops.ResizeBicubic,
               'area': tf.raw_ops.ResizeArea}  # fmt: skip
    with tf.Graph().as_default(), tf1.Session() as session:
        pairs = []
        for image in arrays:
            given = tf.constant(image)
            if not known:
                given = tf1.placeholder_with_default(given, [None, None, 3])
            for method, kernel in kernels.items():
                resized = images.resize(given, 21, 23, method)
                pairs.append((resized, kernel(images=image[None], size=[21, 23])[0]))
        assert all(one.shape == (21, 23, 3) for one, _ in pairs)
        for ours, kernels_own in session.run(pairs):
            assert ours.tobytes() == kernels_own.tobytes()


def test_resize_by_other_methods_and_to_tensor_sizes():
    image = np.arange(16, dtype=np.uint8).reshape(4, 4, 1)
    with tf.Graph().as_default(), tf1.Session() as session:
        size = tf.constant(2)
        nearest, area, bicubic = session.run(
            [
                images.resize(tf.constant(image), size, size, 'nearest'),
                images.resize(tf.constant(image), 2, size, 'area'),
                images.resize(tf.constant(image), size, 4, 'bicubic'),
            ]
        )
    assert nearest.dtype == np.uint8
    assert nearest[:, :, 0].tolist() == [[0, 2], [8, 10]]
    assert area[:, :, 0].tolist() == [[2.5, 4.5], [10.5, 12.5]]
    np.testing.assert_allclose(bicubic[:, :, 0], image[::2, :, 0], atol=1e-4)


def _window_by_hand(image, start, height, width):
    result = np.zeros((height, width, image.shape[2]), image.dtype)
    for i in range(height):
        for j in range(width):
            y, x = i + start[0], j + start[1]
            if 0 <= y < image.shape[0] and 0 <= x < image.shape[1]:
                result[i, j] = image[y, x]
    return result


def test_reversed_where():
    values = np.arange(24, dtype=np.uint8).reshape([2, 4, 3])
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        happens = tf.compat.v1.placeholder(tf.int32, [])
        reversed_ = images.reversed_where(happens, tf.constant(values), 1)
        assert reversed_.shape == [2, 4, 3]
        none = images.reversed_where(happens, tf.zeros([0, 4, 3]), 2)
        assert session.run(none, {happens: 1}).shape == (0, 4, 3)
        np.testing.assert_array_equal(session.run(reversed_, {happens: 0}), values)
        np.testing.assert_array_equal(session.run(reversed_, {happens: 1}), values[:, ::-1])


def test_window_and_crop_or_pad():
    random = np.random.RandomState(1)
    with tf.Graph().as_default(), tf1.Session() as session:
        image = tf1.placeholder(tf.uint8, [None, None, 3])
        start = tf1.placeholder(tf.int32, [2])
        window = images.window(image, start, 4, 5)
        batch = images.window(image[tf.newaxis], start, 4, 5)
        framed = images.crop_or_pad(image, 4, 5)
        assert window.shape.as_list() == framed.shape.as_list() == [4, 5, 3]
        for _ in range(40):
            pixels = random.randint(0, 256, (random.randint(1, 9), random.randint(1, 9), 3))
            pixels = pixels.astype(np.uint8)
            corner = random.randint(-3, 1, 2) + random.randint(0, pixels.shape[:2])
            feed = {image: pixels, start: corner}
            results = session.run([window, batch, framed], feed)
            expected = _window_by_hand(pixels, corner, 4, 5)
            np.testing.assert_array_equal(results[0], expected)
            np.testing.assert_array_equal(results[1][0], expected)
            middle = [int((n - m) / 2) for n, m in zip(pixels.shape, (4, 5))]
            np.testing.assert_array_equal(results[2], _window_by_hand(pixels, middle, 4, 5))


@pytest.mark.parametrize('color', [None, [7, 8, 9]])
def test_surround(color):
    image = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        filler = None if color is None else tf.constant(color, tf.uint8)
        surrounded = session.run(images.surround(tf.constant(image), [1, 0], [2, 4], filler))
    expected = np.tile(np.array(color or [0, 0, 0], np.uint8), [5, 7, 1])
    expected[1:3, :3] = image
    np.testing.assert_array_equal(surrounded, expected)
