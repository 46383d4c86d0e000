"""Why files do not decode; what is decoded is tested with `model_fns.structures.images`."""

import io
import struct

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from estimator_lib.data import image_decoding

NOISE = np.random.RandomState(0).randint(0, 256, [60, 80, 3]).astype(np.uint8)


def encoded(name):
    file = io.BytesIO()
    Image.fromarray(NOISE).save(file, name)
    return file.getvalue()


@pytest.fixture(scope='module')
def decode():
    with tf.Graph().as_default():
        content = tf.compat.v1.placeholder(tf.string, [])
        image = image_decoding.decode_image(content)
        session = tf.compat.v1.Session()
    return lambda data: session.run(image, {content: data})


@pytest.mark.parametrize('name', ['JPEG', 'PNG', 'GIF', 'BMP'])
def test_files_that_end_too_early_are_called_truncated(decode, name):
    content = encoded(name)
    assert decode(content).shape == (60, 80, 3)
    half = content[: len(content) // 2]
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode(half)
    assert image_decoding.decoding_problem(half) == (
        f'is truncated: the data of the {name} end too early, after {len(half)} bytes'
    )


@pytest.mark.parametrize(
    'content, problem',
    [
        (b'', 'is empty (0 bytes)'),
        (b'some text', "is not a JPEG, PNG, GIF or BMP: it starts with b'some tex'"),
        (encoded('WEBP'), "is not a JPEG, PNG, GIF or BMP: it starts with b'RIFF"),
        (b'\xff\xd8\xff', 'has a corrupt JPEG header, or ends within it, after 3 bytes'),
        (encoded('PNG')[:20], 'is truncated: the data of the PNG end too early, after 20 bytes'),
        (encoded('PNG')[:200] + b'????' + encoded('PNG')[204:], 'is a corrupt PNG: broken'),
    ],
)
def test_other_problems(decode, content, problem):
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode(content)
    assert image_decoding.decoding_problem(content).startswith(problem)


def _announcing(name, width, height):
    """A file whose header announces a size, and that holds another."""
    content = bytearray(encoded(name))
    if name == 'JPEG':
        start = content.index(b'\xff\xc0') + 5
        content[start : start + 4] = struct.pack('>HH', height, width)
    else:
        start, form = {'PNG': (16, '>II'), 'GIF': (6, '<HH'), 'BMP': (18, '<ii')}[name]
        content[start : start + struct.calcsize(form)] = struct.pack(form, width, height)
    return bytes(content)


@pytest.fixture(scope='module')
def limit():
    with tf.Graph().as_default():
        content = tf.compat.v1.placeholder(tf.string, [])
        most = tf.compat.v1.placeholder(tf.int64, [])
        limited = image_decoding.limit_pixels(content, most, 'it')
        session = tf.compat.v1.Session()
    return lambda data, number: session.run(limited, {content: data, most: number})


@pytest.mark.parametrize(
    ('name', 'width', 'height'),
    [
        ('JPEG', 20000, 300),
        ('PNG', 20000, 20000),
        ('PNG', 2**31 - 1, 2**31 - 1),
        ('GIF', 40000, 2),
        ('BMP', 20000, -7),
    ],
)
def test_the_header_tells_how_many_pixels_there_are(limit, name, width, height):
    content, pixels = _announcing(name, width, height), width * abs(height)
    assert limit(content, pixels) == content
    with pytest.raises(tf.errors.InvalidArgumentError, match=f'it has {pixels} pixels'):
        limit(content, pixels - 1)


@pytest.mark.parametrize('content', [b'', b'text', b'\x89PNG', b'GIF8'])
def test_what_has_no_size_is_left_to_the_decoder(limit, content):
    assert limit(content, 0) == content
