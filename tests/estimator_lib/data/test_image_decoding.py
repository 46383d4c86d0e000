"""Why files do not decode; what is decoded is tested with `model_fns.images`."""

import io

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
