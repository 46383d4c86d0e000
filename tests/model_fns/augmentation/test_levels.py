import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageEnhance, ImageOps

from model_fns.augmentation import levels


@pytest.fixture(scope='module', params=['noise', 'dark', 'flat', 'pixel'])
def image(request):
    random = np.random.RandomState(0)
    return {
        'noise': random.randint(0, 256, [21, 17, 3]),
        'dark': random.randint(20, 60, [15, 40, 3]) + np.arange(40)[:, np.newaxis],
        'flat': np.full([5, 6, 3], 77),
        'pixel': np.full([1, 1, 3], [1, 128, 255]),
    }[request.param].astype(np.uint8)


def assert_as_pillow(found, expected, tolerance):
    assert found.dtype == tf.uint8
    off = np.abs(found.numpy().astype(int) - np.asarray(expected).astype(int))
    assert off.max() <= tolerance


def test_equalization(image):
    expected = ImageOps.equalize(Image.fromarray(image))
    assert_as_pillow(levels.equalize(tf.constant(image)), expected, 0)


def test_auto_contrast(image):
    expected = ImageOps.autocontrast(Image.fromarray(image))
    assert_as_pillow(levels.auto_contrast(tf.constant(image)), expected, 1)


@pytest.mark.parametrize('threshold', [0, 26, 200, 256])
def test_solarization(image, threshold):
    expected = ImageOps.solarize(Image.fromarray(image), threshold)
    assert_as_pillow(levels.solarize(tf.constant(image), threshold), expected, 0)


@pytest.mark.parametrize('bits', [4, 7, 8])
def test_posterization(image, bits):
    expected = ImageOps.posterize(Image.fromarray(image), bits)
    assert_as_pillow(levels.posterize(tf.constant(image), bits), expected, 0)


@pytest.mark.parametrize('factor', [0.1, 0.7, 1.0, 1.9])
@pytest.mark.parametrize(
    ('function', 'enhance'),
    [
        (levels.change_color, ImageEnhance.Color),
        (levels.change_contrast, ImageEnhance.Contrast),
        (levels.change_brightness, ImageEnhance.Brightness),
        (levels.change_sharpness, ImageEnhance.Sharpness),
    ],
)
def test_factors(image, factor, function, enhance):
    # Pillow truncates the gray or smooth image and the result, each by less than 1.
    expected = enhance(Image.fromarray(image)).enhance(factor)
    assert_as_pillow(function(tf.constant(image), tf.constant(factor)), expected, 2)
