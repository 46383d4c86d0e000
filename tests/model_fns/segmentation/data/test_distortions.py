"""What an image may be varied by, beside plain NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from model_fns.segmentation import fields
from model_fns.segmentation.data import distortions
from tests.model_fns.segmentation.segmentation_records import place_example

tf1 = tf.compat.v1
MEAN = (100.0, 110.0, 120.0)


def test_a_quarter_turn():
    with tf.Graph().as_default(), tf1.Session() as session:
        example = place_example(7, 7)
        turned = session.run(
            distortions.rotate(
                tf.cast(example[fields.IMAGE], tf.float32),
                {'ids': tf.constant(example[fields.SEMANTIC])},
                tf.constant(1.0),
                90.0,
                MEAN,
                {'ids': 9},
            )
        )
    np.testing.assert_array_equal(turned['ids'], np.rot90(example[fields.SEMANTIC]))
    np.testing.assert_allclose(turned[''], np.rot90(example[fields.IMAGE]), atol=1e-3)


def run_distortion(function, *arguments):
    with tf.Graph().as_default(), tf1.Session() as session:
        return session.run(function(*map(tf.constant, arguments[:-1]), arguments[-1]))


def test_colors():
    image = np.random.default_rng(0).uniform(60, 190, (5, 6, 3)).astype(np.float32)
    brighter = run_distortion(distortions.shift_brightness, image, 1.0, 0.1)
    np.testing.assert_allclose(brighter, image + 25.5, rtol=1e-5)
    mean = image.mean((0, 1))
    contrast = run_distortion(distortions.scale_contrast, image, 0.0, 2.0)
    np.testing.assert_allclose(contrast, mean + (image - mean) / 2, rtol=1e-4)
    same = run_distortion(distortions.scale_saturation, image, 0.5, 2.0)
    np.testing.assert_allclose(same, image, rtol=1e-4)
    grayer = run_distortion(distortions.scale_saturation, image, 0.0, 2.0)
    assert (np.ptp(grayer, axis=-1) < np.ptp(image, axis=-1)).all()
    light = run_distortion(distortions.shift_brightness, image, 1.0, 1.0)
    np.testing.assert_array_equal(light, np.full_like(image, 255))


def test_blur_of_motion():
    image = np.zeros((9, 9, 3), np.float32)
    image[4, 4] = 90
    along_the_rows = run_distortion(distortions.blur_motion, image, 0.0, 1.0, 3)
    np.testing.assert_allclose(along_the_rows[4, 3:6, 0], [30, 30, 30], rtol=1e-5)
    assert along_the_rows.sum() == pytest.approx(270)
    down = run_distortion(distortions.blur_motion, image, 0.5, 1.0, 3)
    np.testing.assert_allclose(down, along_the_rows.transpose(1, 0, 2), atol=1e-4)
    shortest = run_distortion(distortions.blur_motion, image, 0.3, 0.0, 7)
    np.testing.assert_allclose(shortest, image, atol=1e-4)
    even = np.full((6, 8, 3), 77, np.float32)
    np.testing.assert_allclose(
        run_distortion(distortions.blur_motion, even, 0.3, 0.9, 7), even, rtol=1e-5
    )
