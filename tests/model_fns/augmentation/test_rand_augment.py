import math

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib.task import IMAGE
from model_fns.augmentation import rand_augment, randomness

SIZE = np.array([20, 30])


def record(example, matrix, shift):
    """Return the example with the map that would be applied."""
    return {**example, 'matrix': matrix, 'shift': shift}


def run(name, share, sign, image=None):
    operation = dict(rand_augment.build_operations(record, share))[name]
    image = tf.zeros([*SIZE, 3], tf.uint8) if image is None else image
    return operation({IMAGE: image}, tf.constant(sign))


@pytest.mark.parametrize('sign', [-1.0, 1.0])
def test_maps_are_those_of_the_papers(sign):
    angle = sign * math.radians(30) * 0.5
    after = run('rotate', 0.5, sign)
    cosine, sine = math.cos(angle), math.sin(angle)
    np.testing.assert_allclose(after['matrix'], [[cosine, sine], [-sine, cosine]], atol=1e-6)
    center = (SIZE - 1) / 2
    np.testing.assert_allclose(
        after['matrix'] @ center[:, None] + after['shift'][:, None], center[:, None], atol=1e-4
    )
    for name, matrix in (
        ('shear_x', [[1, 0], [sign * 0.15, 1]]),
        ('shear_y', [[1, sign * 0.15], [0, 1]]),
    ):
        after = run(name, 0.5, sign)
        np.testing.assert_allclose(after['matrix'], matrix, atol=1e-6)
        assert not after['shift'].numpy().any()
    for name, shift in (('translate_x', [0, sign * 7]), ('translate_y', [sign * 5, 0])):
        after = run(name, 0.5, sign)  # 150 / 331 / 2 of 30 and of 20 pixels: 6.8 and 4.5
        np.testing.assert_array_equal(after['matrix'], np.eye(2))
        assert np.abs(after['shift'] - shift).max() <= 1


@pytest.mark.parametrize(
    ('name', 'sign', 'value'),
    [
        ('solarize', 1.0, 255 - 200),  # from 256 (1 - 0.5) = 128 on
        ('posterize', 1.0, 200),  # 6 bits: 192 + 8, and 200 - 200 % 4
        ('brightness', 1.0, 255),  # times 1.45
        ('brightness', -1.0, 110),  # times 0.55
        ('identity', -1.0, 200),
    ],
)
def test_levels_at_half_of_the_magnitude(name, sign, value):
    after = run(name, 0.5, sign, tf.fill([3, 3, 3], tf.constant(200, tf.uint8)))
    np.testing.assert_array_equal(after[IMAGE], np.full([3, 3, 3], value))


def test_nothing_changes_at_magnitude_0():
    image = tf.constant(np.random.RandomState(0).randint(0, 256, [9, 9, 3]), tf.uint8)
    for name, operation in rand_augment.build_operations(record, 0.0):
        after = operation({IMAGE: image}, tf.constant(1.0))
        if name not in ('auto_contrast', 'equalize'):
            np.testing.assert_array_equal(after[IMAGE], image, name)
        if 'matrix' in after:
            np.testing.assert_array_equal(after['matrix'], np.eye(2))
            np.testing.assert_allclose(after['shift'], 0, atol=1e-5)


def test_operations_are_drawn_alike_often():
    image = np.random.RandomState(0).randint(0, 200, [6, 6, 3]).astype(np.float32)
    drawn = []
    for number in range(80):
        seed = tf.constant([number, 3], tf.int64)
        kinds, signs = randomness.uniforms(seed, 2, 2)
        names = [int(kind * 14) for kind in kinds]
        drawn += names
        if number < 6:
            after = rand_augment.rand_augment(
                {IMAGE: tf.constant(image)}, seed, lambda example, *_: dict(example)
            )
            expected = {IMAGE: tf.constant(image.astype(np.uint8))}
            for name, sign in zip(names, signs):
                operations = rand_augment.build_operations(lambda example, *_: dict(example), 0.9)
                expected = operations[name][1](expected, tf.where(sign < 0.5, -1.0, 1.0))
            np.testing.assert_array_equal(after[IMAGE], expected[IMAGE])
    counts = np.bincount(drawn, minlength=14)
    assert counts.min() >= 2 and counts.max() <= 30 and len(counts) == 14
