import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from estimator_lib import errors
from model_fns.datasets import codecs
from model_fns.structures import id_images
from tests.model_fns.datasets.id_files import claiming, png

IDS = np.arange(5 * 7).reshape(5, 7)


@pytest.fixture(scope='module')
def decode():
    with tf.Graph().as_default():
        encoded = tf.compat.v1.placeholder(tf.string, [])
        ids = id_images.decode(encoded, 'the label')
        session = tf.compat.v1.Session()
    return lambda content: session.run(ids, {encoded: content})


@pytest.mark.parametrize('bits', [1, 2, 4, 8, 16])
def test_ids_of_all_depths(decode, bits):
    ids = (IDS * (1801 if bits == 16 else 1)) % 2**bits
    content = png(ids, bits)
    assert id_images.find_problem(content) is None
    for decoded in (decode(content), id_images.read(content)):
        np.testing.assert_array_equal(decoded, ids)
        assert decoded.dtype == np.int32


@pytest.mark.parametrize('bits', [1, 2, 4, 8])
def test_the_indices_into_a_palette_are_ids(bits):
    ids = IDS % 2**bits
    np.testing.assert_array_equal(id_images.read(png(ids, bits, palette=True)), ids)


def test_alpha_is_left_out(decode):
    file = io.BytesIO()
    alpha = np.full(IDS.shape, 9)
    Image.fromarray(np.stack([IDS, alpha], -1).astype(np.uint8)).save(file, 'PNG')
    for decoded in (decode(file.getvalue()), id_images.read(file.getvalue())):
        np.testing.assert_array_equal(decoded, IDS)


@pytest.mark.parametrize(
    'content, problem',
    [
        (png(IDS, 8, True), 'a PNG of a palette; expected a gray one'),
        (codecs.encode_png(np.zeros([4, 5, 3], np.uint8)), 'a PNG of colors;'),
        (codecs.encode_png(np.zeros([4, 5, 4], np.uint8)), 'a PNG of colors and alpha;'),
        (b'', 'not a PNG file'),
        (b'\xff\xd8\xff\xe0' * 20, 'not a PNG file'),
        (png(IDS)[:20], 'a PNG file with a corrupt header'),
    ],
)
def test_what_is_no_file_of_ids(decode, content, problem):
    assert id_images.find_problem(content).startswith(problem)
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode(content)
    if 'palette' not in problem:
        with pytest.raises(errors.DataError, match=problem.split(';')[0]):
            id_images.read(content)


def test_the_graph_says_what_it_expected(decode):
    with pytest.raises(tf.errors.InvalidArgumentError, match='the label is not a gray PNG of ids'):
        decode(png(IDS, 8, True))


@pytest.mark.parametrize('length', [20, 45])
def test_a_corrupt_file(decode, length):
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode(png(IDS)[:length])
    with pytest.raises(errors.DataError, match='corrupt'):
        id_images.read(png(IDS)[:length])


@pytest.mark.parametrize('read', [id_images.read, id_images.read_colors])
def test_more_pixels_than_images_may_have_are_refused_by_the_header(read):
    with pytest.raises(errors.DataError, match='a PNG of 1600000000 pixels; expected at most 53'):
        read(claiming(40_000, 40_000))
    with pytest.raises(errors.DataError, match='corrupt'):
        read(claiming(4, 4))
