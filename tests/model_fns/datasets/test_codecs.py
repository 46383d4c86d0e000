import concurrent.futures
import threading

import numpy as np
import pytest

from estimator_lib import errors
from model_fns.datasets import codecs
from model_fns.structures import images


@pytest.fixture(scope='module')
def codec():
    with codecs.ImageCodec() as codec:
        yield codec


def test_jpeg_and_back(codec):
    ramp = np.broadcast_to(np.arange(0, 250, 5, dtype=np.uint8)[:, None, None], (50, 40, 3))
    encoded = codec.encode_jpeg(ramp)
    assert images.image_header(encoded) == ('jpeg', 50, 40)
    assert np.abs(codec.decode(encoded).astype(int) - ramp).max() < 8


@pytest.mark.parametrize(
    'data, reason',
    [
        (b'', 'the image is empty'),
        (b'text', "the image is not a JPEG, PNG, GIF or BMP: it starts with b'text'"),
        (b'\xff\xd8\xff', 'a corrupt JPEG header, or ends within it, after 3 bytes'),
    ],
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


def test_sessions_that_come_after_have_all_threads(monkeypatch):
    """The first session of a process makes the pool of threads that all others use."""
    options = []
    session = codecs.tf1.Session

    def recorded(graph, config):
        options.append(config)
        return session(graph=graph, config=config)

    monkeypatch.setattr(codecs.tf1, 'Session', recorded)
    with codecs.ImageCodec():
        pass
    (config,) = options
    assert config.intra_op_parallelism_threads == config.inter_op_parallelism_threads == 0


def test_the_last_images_are_kept():
    decoded = []
    images = codecs.DecodedImages(lambda path: decoded.append(path) or path.upper())
    assert [images.get(path) for path in 'aabbab'] == list('AABBAB')
    assert decoded == ['a', 'b']
    images.get('c')
    assert images.get('b') == 'B' and decoded == ['a', 'b', 'c']
    assert images.get('a') == 'A' and decoded == ['a', 'b', 'c', 'a']


def test_threads_wait_for_the_first_that_asks():
    begun, go_on, decoded = threading.Event(), threading.Event(), []

    def decode(path):
        decoded.append(path)
        begun.set()
        assert go_on.wait(60)
        return path

    images = codecs.DecodedImages(decode)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(images.get, 'a') for _ in range(3)]
        assert begun.wait(60)
        go_on.set()
        assert [one.result(60) for one in asked] == ['a'] * 3
    assert decoded == ['a']


def test_what_cannot_be_decoded_is_said_for_each_record():
    def decode(path):
        raise ValueError(path)

    images = codecs.DecodedImages(decode)
    for _ in range(2):
        with pytest.raises(ValueError, match='a'):
            images.get('a')
