"""Images of more channels and bits, beside NumPy."""

import io
import re

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from PIL import Image

from estimator_lib.task_interfaces.image_format import ImageFormat
from model_fns.datasets import codecs
from model_fns.structures import channels
from model_fns.structures.channels import Channels
from protos import pipeline_pb2
from tests.more_channels import deep_png

tf1 = tf.compat.v1
IMAGE = np.random.RandomState(0).randint(0, 256, [5, 7, 3]).astype(np.uint8)
FURTHER = np.random.RandomState(1).randint(0, 65536, [2, 5, 7]).astype(np.uint16)


def example(further, encoded=None):
    record = tf.train.Example()
    feature = record.features.feature
    encoded = codecs.encode_png(IMAGE) if encoded is None else encoded
    feature['image/encoded'].bytes_list.value.append(encoded)
    feature[channels.KEY].bytes_list.value.extend(further)
    return record


def decode(own, record, max_pixels=100):
    with tf.Graph().as_default(), tf1.Session() as session:
        keys = {'image/encoded': tf.io.FixedLenFeature([], tf.string), **own.keys()}
        parsed = tf.io.parse_single_example(record.SerializeToString(), keys)
        image = own.decode(parsed, max_pixels)
        assert image.shape.as_list() == [None, None, own.total]
        return session.run(image)


def test_further_channels_follow_the_colors():
    gray = [codecs.encode_png((part >> 8).astype(np.uint8)) for part in FURTHER]
    image = decode(Channels(ImageFormat(2)), example(gray))
    assert image.dtype == np.uint8
    np.testing.assert_array_equal(image[..., :3], IMAGE)
    np.testing.assert_array_equal(image[..., 3:], np.moveaxis(FURTHER >> 8, 0, 2))


@pytest.mark.parametrize('bits', [9, 12, 16])
def test_sixteen_bits_keep_their_fractions(bits):
    values = FURTHER >> (16 - bits)
    record = example([deep_png(values[0]), codecs.encode_png(IMAGE[..., 1])])
    image = decode(Channels(ImageFormat(2, bits)), record)
    assert image.dtype == np.float32
    # Images of 8 bits keep their values.
    np.testing.assert_array_equal(image[..., :3], IMAGE)
    np.testing.assert_array_equal(image[..., 4], IMAGE[..., 1])
    expected = values[0] * (255.0 / (2**bits - 1))
    np.testing.assert_allclose(image[..., 3], expected, rtol=1e-6)
    assert np.unique(image[..., 3]).size == np.unique(values[0]).size


def test_colors_of_sixteen_bits():
    """By the only library at hand that writes them."""
    deep = np.random.RandomState(2).randint(0, 65536, [5, 7, 3]).astype(np.uint16)
    with tf.Graph().as_default(), tf1.Session() as session:
        encoded = session.run(tf.io.encode_png(deep))
    image = decode(Channels(ImageFormat(0, 16)), example([], encoded))
    np.testing.assert_allclose(image, deep / 257.0, rtol=1e-6)
    brighter = decode(Channels(ImageFormat(0, 12)), example([], encoded))
    np.testing.assert_allclose(brighter, np.minimum(deep / (4095 / 255), 255.0), rtol=1e-6)


@pytest.mark.parametrize(
    'further, expected',
    [
        ([], 'has 0 images; expected 2 .train_input_reader.num_additional_channels.$'),
        ([codecs.encode_png(IMAGE[:4, :, 0])] * 2, r'.0.: 4 x 7 pixels; the image has 5 x 7$'),
        ([codecs.encode_png(IMAGE[..., 0]), b'none'], r'.1.: the image is not a JPEG'),
    ],
)
def test_bad_channels_are_found_and_fail(further, expected):
    own = Channels(ImageFormat(2))
    record = example(further)
    problem = own.find_problem(record.features.feature)
    assert problem.startswith(channels.KEY)
    assert re.search(expected, problem)
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode(own, record)
    assert Channels().find_problem(record.features.feature) is None


def test_large_channels_are_refused():
    gray = [codecs.encode_png(np.zeros([11, 11], np.uint8))]
    with pytest.raises(tf.errors.InvalidArgumentError, match='121 pixels; expected at most 100'):
        decode(Channels(ImageFormat(1)), example(gray))


PIXELS = np.random.RandomState(3).uniform(0, 255, [2, 3, 5]).astype(np.float32)


def test_normalization_of_the_network_is_for_colors():
    own = Channels(ImageFormat(2))
    ours = own.normalize(tf.constant(PIXELS), lambda colors: colors - [1.0, 2.0, 3.0]).numpy()
    np.testing.assert_allclose(ours[..., :3], PIXELS[..., :3] - [1, 2, 3], rtol=1e-6)
    np.testing.assert_allclose(ours[..., 3:], PIXELS[..., 3:] / 127.5 - 1, atol=1e-6)
    back = own.denormalize(tf.constant(ours), lambda colors: colors + [1.0, 2.0, 3.0]).numpy()
    np.testing.assert_allclose(back, PIXELS, atol=1e-4)
    assert own.padding_color((9.0, 8.0, 7.0)) == (9.0, 8.0, 7.0, 127.5, 127.5)


@pytest.mark.parametrize('deviations', [(), (2.0, 4.0, 5.0, 8.0, 10.0)])
def test_means_and_deviations_of_the_config_are_for_all_channels(deviations):
    means = (10.0, 20.0, 30.0, 40.0, 50.0)
    text = 'num_additional_channels: 2 image_bits: 12 '
    text += ' '.join(f'channel_means: {mean}' for mean in means)
    text += ' '.join(f' channel_deviations: {deviation}' for deviation in deviations)
    config = pipeline_pb2.TrainEvalPipelineConfig()
    text_format.Parse(text, config.eval_input_reader.add())
    own = channels.from_config(config)
    assert own == Channels(ImageFormat(2, 12), means, deviations)
    ours = own.normalize(tf.constant(PIXELS), None).numpy()
    np.testing.assert_allclose(ours, (PIXELS - means) / (deviations or 1.0), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(own.denormalize(tf.constant(ours), None), PIXELS, atol=1e-3)
    assert own.padding_color((9.0, 8.0, 7.0)) == means


def test_colors_are_changed_alone():
    image = tf.constant(PIXELS)
    changed = channels.change_colors(image, lambda colors: colors * 0.0).numpy()
    assert not changed[..., :3].any()
    np.testing.assert_array_equal(changed[..., 3:], PIXELS[..., 3:])
    gray = channels.change_colors(image[..., :1], lambda colors: colors * 0.0)
    assert not gray.numpy().any()


def test_a_palette_and_alpha_are_read_as_before():
    file = io.BytesIO()
    Image.fromarray(IMAGE).quantize(8).save(file, 'PNG')
    palette = decode(Channels(ImageFormat(0, 16)), example([], file.getvalue()))
    expected = decode(Channels(), example([], file.getvalue()))
    np.testing.assert_array_equal(palette, expected)
