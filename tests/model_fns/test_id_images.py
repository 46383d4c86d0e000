import numpy as np
import pytest
import tensorflow as tf

from model_fns import id_images
from model_fns.datasets import codecs
from tests.model_fns.datasets.id_files import png

IDS = np.arange(5 * 7).reshape(5, 7)


@pytest.fixture(scope='module')
def decode():
    with tf.Graph().as_default():
        encoded = tf.compat.v1.placeholder(tf.string, [])
        ids = id_images.decode(encoded, 'the label')
        session = tf.compat.v1.Session()
    return lambda content: session.run(ids, {encoded: content})


@pytest.mark.parametrize('bits', [1, 2, 4, 8, 16])
@pytest.mark.parametrize('palette', [False, True])
def test_ids_of_all_depths(decode, bits, palette):
    if palette and bits == 16:
        return  # there is no such file
    ids = (IDS * (1801 if bits == 16 else 1)) % 2**bits
    content = png(ids, bits, palette)
    assert id_images.png_kind(content) == (bits, 'palette' if palette else 'grey')
    decoded = decode(id_images.without_palette(content))
    np.testing.assert_array_equal(decoded, ids)
    assert decoded.dtype == np.int32


def test_a_grey_file_is_left_alone():
    assert id_images.without_palette(png(IDS)) == png(IDS)
    assert id_images.without_palette(b'no png') == b'no png'


@pytest.mark.parametrize(
    'content, problem',
    [
        (png(IDS, 8, True), 'a PNG of palette, 8 bits; expected a grey one'),
        (codecs.encode_png(np.zeros([4, 5, 3], np.uint8)), 'a PNG of colour, 8 bits'),
        (codecs.encode_png(np.zeros([4, 5, 4], np.uint8)), 'a PNG of colour and alpha, 8 bits'),
        (b'', 'not a PNG file'),
        (b'\xff\xd8\xff\xe0' * 20, 'not a PNG file'),
    ],
)
def test_what_is_no_file_of_ids(decode, content, problem):
    assert id_images.problem_with(content).startswith(problem)
    with pytest.raises(tf.errors.InvalidArgumentError, match='the label is not a grey PNG of ids'):
        decode(content)


@pytest.mark.parametrize('length', [20, 45])
def test_a_damaged_file(decode, length):
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode(png(IDS)[:length])
