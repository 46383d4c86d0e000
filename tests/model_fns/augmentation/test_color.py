import colorsys

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns.augmentation import randomness
from model_fns.detection import fields
from tests.model_fns.detection.data.augmentation.augmentation_cases import (
    assert_is_share,
    assert_only_image_changed,
    over_seeds,
    painted,
    plain,
    run,
)

tf1 = tf.compat.v1

ALL = (
    'random_adjust_brightness {}',
    'random_adjust_contrast {}',
    'random_adjust_hue {}',
    'random_adjust_saturation {}',
    'random_distort_color {}',
    'random_distort_color { color_ordering: 1 }',
    'random_pixel_value_scale {}',
    'random_rgb_to_gray { probability: 0.5 }',
    'rgb_to_gray {}',
    'adjust_gamma { gamma: 0.7 gain: 1.2 }',
)


@pytest.fixture(scope='module')
def example():
    example = painted(6, 5, [[0, 0, 3, 3], [2, 1, 4, 5]])
    image = np.random.RandomState(0).randint(0, 256, [6, 5, 3])
    return {**example, fields.IMAGE: image.astype(np.uint8)}


@pytest.mark.parametrize('step', ALL)
def test_only_the_image_changes_and_stays_in_range(step, example):
    for number in range(5):
        after = run(step, example, (0, number))
        image = after[fields.IMAGE]
        assert image.dtype == np.float32 and image.shape == (6, 5, 3)
        assert image.min() >= 0 and image.max() <= 255
        assert_only_image_changed(example, after)
        # Images that are float already are treated alike.
        floats = {**example, fields.IMAGE: example[fields.IMAGE].astype(np.float32)}
        np.testing.assert_array_equal(run(step, floats, (0, number))[fields.IMAGE], image)


def test_brightness_adds_one_number(example):
    middle = {**example, fields.IMAGE: example[fields.IMAGE] // 4 + 96}
    step = 'random_adjust_brightness { max_delta: 0.3 }'
    added = [
        run(step, middle, (0, number))[fields.IMAGE] - middle[fields.IMAGE] for number in range(60)
    ]
    assert max(np.ptp(each) for each in added) < 1e-3
    means = np.array([each.mean() for each in added])
    assert -76.5 <= means.min() < -60 and 60 < means.max() <= 76.5


def test_brightness_is_cut_at_the_ends(example):
    after = run('random_adjust_brightness { max_delta: 1 }', example, (0, 0))[fields.IMAGE]
    delta = np.median(after - example[fields.IMAGE].astype(np.float32))
    expected = np.clip(example[fields.IMAGE] + delta, 0, 255)
    np.testing.assert_allclose(after, expected, atol=1e-3)


def test_contrast_is_about_the_mean_of_each_channel(example):
    after = run('random_adjust_contrast { min_delta: 1.2 max_delta: 1.2 }', example)
    image = example[fields.IMAGE].astype(np.float64)
    mean = image.mean((0, 1))
    expected = np.clip((image - mean) * 1.2 + mean, 0, 255)
    np.testing.assert_allclose(after[fields.IMAGE], expected, atol=1e-3)


def test_hue_turns(example):
    before = _hsv(example[fields.IMAGE])
    turns = []
    for number in range(30):
        after = _hsv(
            run('random_adjust_hue { max_delta: 0.1 }', example, (0, number))[fields.IMAGE]
        )
        np.testing.assert_allclose(after[..., 1:], before[..., 1:], atol=1e-3)
        turn = (after[..., 0] - before[..., 0] + 0.5) % 1 - 0.5
        assert np.ptp(turn) < 1e-3
        turns.append(turn.mean())
    assert -0.1001 <= min(turns) < -0.05 and 0.05 < max(turns) <= 0.1001


def test_saturation_is_multiplied(example):
    after = run('random_adjust_saturation { min_delta: 0.5 max_delta: 0.5 }', example)
    factors = np.array([1, 0.5, 1])
    np.testing.assert_allclose(
        _hsv(after[fields.IMAGE]), _hsv(example[fields.IMAGE]) * factors, atol=1e-3
    )


@pytest.mark.parametrize('order', [0, 1])
def test_distortions_come_in_their_order(order, example):
    after = run(f'random_distort_color {{ color_ordering: {order} }}', example, (3, 4))
    with tf.Graph().as_default(), tf1.Session() as session:
        seed = randomness.step_seed(tf.constant([3, 4], tf.int64), 0)
        draws = randomness.uniforms(seed, 4)
        image = tf.constant(example[fields.IMAGE] / np.float32(255))
        steps = {
            'brightness': lambda image, u: tf.image.adjust_brightness(
                image, (2 * u - 1) * 32 / 255
            ),
            'saturation': lambda image, u: tf.image.adjust_saturation(image, 0.5 + u),
            'hue': lambda image, u: tf.image.adjust_hue(image, (2 * u - 1) * 0.2),
            'contrast': lambda image, u: tf.image.adjust_contrast(image, 0.5 + u),
        }
        names = [
            ('brightness', 'saturation', 'hue', 'contrast'),
            ('brightness', 'contrast', 'saturation', 'hue'),
        ][order]
        for name, draw in zip(names, draws):
            image = tf.clip_by_value(steps[name](image, draw), 0.0, 1.0)
        expected = session.run(image * 255)
    np.testing.assert_allclose(after[fields.IMAGE], expected, atol=0.05)


def test_gray_is_the_luminance(example):
    after = run('rgb_to_gray {}', example)[fields.IMAGE]
    luminance = (example[fields.IMAGE] * [0.2989, 0.587, 0.114]).sum(-1, keepdims=True)
    np.testing.assert_allclose(after, np.repeat(luminance, 3, 2), rtol=1e-5)


@pytest.mark.parametrize('probability', [0.0, 0.3, 1.0])
def test_random_gray_has_its_probability(probability, example):
    images = over_seeds(
        f'random_rgb_to_gray {{ probability: {probability} }}',
        plain(example),
        lambda after: after[fields.IMAGE],
        300,
    )
    gray = run('rgb_to_gray {}', example)[fields.IMAGE]
    is_gray = np.isclose(images, gray).all((1, 2, 3))
    is_same = (images == example[fields.IMAGE]).all((1, 2, 3))
    assert (is_gray != is_same).all()
    assert_is_share(is_gray, probability)


def test_pixels_are_scaled_one_by_one():
    example = plain(painted(40, 40, []))
    example[fields.IMAGE] = np.full([40, 40, 3], 100, np.uint8)
    scaled = run('random_pixel_value_scale { minval: 0.5 maxval: 1.5 }', example)[fields.IMAGE]
    assert 50 <= scaled.min() < 51 and 149 < scaled.max() <= 150
    assert abs(scaled.mean() - 100) < 4 * 29 / np.sqrt(scaled.size)
    assert len(np.unique(scaled)) > 4000


def test_gamma(example):
    after = run('adjust_gamma { gamma: 2 gain: 1.5 }', example)[fields.IMAGE]
    expected = np.minimum(1.5 * (example[fields.IMAGE] / 255) ** 2 * 255, 255)
    np.testing.assert_allclose(after, expected, rtol=1e-4)


def test_normalize(example):
    step = 'normalize_image { original_minval: 0 original_maxval: 255 target_minval: -1 }'
    after = run(step, example)[fields.IMAGE]
    np.testing.assert_allclose(after, example[fields.IMAGE] * (2 / 255) - 1, atol=1e-5)


def test_mean_is_subtracted(example):
    after = run('subtract_channel_mean { means: [1, 2, 300] }', example)[fields.IMAGE]
    np.testing.assert_allclose(after, example[fields.IMAGE] - np.array([1.0, 2, 300]))


@pytest.mark.parametrize(
    ('step', 'message'),
    [
        (
            'normalize_image { original_minval: 3 original_maxval: 3 }',
            'original_maxval: 3; expected',
        ),
        ('subtract_channel_mean { means: 3 }', r'means: \[3\]; expected 3 numbers'),
    ],
)
def test_values_out_of_range_are_refused(step, message):
    with pytest.raises(errors.ConfigError, match=message):
        run(step, plain(painted(4, 4, [])))


def _hsv(image):
    pixels = np.asarray(image, np.float64).reshape(-1, 3) / 255
    return np.array([colorsys.rgb_to_hsv(*pixel) for pixel in pixels])
