import concurrent.futures

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns import images
from model_fns.datasets import codecs

tf1 = tf.compat.v1


@pytest.fixture(scope='module')
def codec():
    with codecs.ImageCodec() as codec:
        yield codec


@pytest.mark.parametrize('shape', [(5, 7, 3), (1, 1, 3), (6, 3, 1), (4, 4, 4), (3, 8)])
@pytest.mark.parametrize('dtype', [np.uint8, np.uint16])
def test_png_files_decode_to_what_they_were_made_of(shape, dtype):
    limits = np.iinfo(dtype)
    pixels = np.random.RandomState(0).randint(0, limits.max + 1, shape).astype(dtype)
    encoded = codecs.encode_png(pixels)
    assert images.image_header(encoded) == ('png', *shape[:2])
    with tf.Graph().as_default(), tf1.Session() as session:
        decoded = session.run(tf.io.decode_png(encoded, dtype=tf.as_dtype(dtype)))
    np.testing.assert_array_equal(decoded, pixels.reshape(*shape[:2], -1))


def test_png_of_floats_is_refused():
    with pytest.raises(ValueError, match='float32'):
        codecs.encode_png(np.zeros((2, 2), np.float32))


def test_jpeg_and_back(codec):
    ramp = np.broadcast_to(np.arange(0, 250, 5, dtype=np.uint8)[:, None, None], (50, 40, 3))
    encoded = codec.encode_jpeg(ramp)
    assert images.image_header(encoded) == ('jpeg', 50, 40)
    assert np.abs(codec.decode(encoded).astype(int) - ramp).max() < 8


@pytest.mark.parametrize(
    'data, reason', [(b'', 'empty'), (b'text', 'Unknown image'), (b'\xff\xd8\xff', 'Invalid JPEG')]
)
def test_what_does_not_decode_is_a_data_error_in_one_line(codec, data, reason):
    with pytest.raises(errors.DataError, match=reason) as caught:
        codec.decode(data)
    assert '\n' not in str(caught.value) and 'node' not in str(caught.value)


def test_threads_may_share_a_codec(codec):
    pictures = [np.full((9, 9, 3), i, np.uint8) for i in range(40)]
    files = [codecs.encode_png(picture) for picture in pictures]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for picture, decoded in zip(pictures, pool.map(codec.decode, files)):
            np.testing.assert_array_equal(decoded, picture)
