import numpy as np
import pytest
import tensorflow as tf

from model_fns.detection import fields
from tests.model_fns.detection.data.augmentation.augmentation_cases import (
    assert_is_share,
    assert_only_image_changed,
    over_seeds,
    painted,
    plain,
    run,
)


@pytest.fixture(scope='module')
def example():
    example = painted(20, 30, [[0, 0, 3, 3], [2, 1, 4, 5]])
    return {**example, fields.IMAGE: np.full([20, 30, 3], 100, np.uint8)}


@pytest.mark.parametrize('dtype', [np.uint8, np.float32])
def test_one_black_patch(example, dtype):
    floats = {**example, fields.IMAGE: example[fields.IMAGE].astype(dtype)}
    step = 'random_black_patches { max_black_patches: 1 probability: 1 size_to_image_ratio: 0.25 }'
    rows, columns = set(), set()
    for number in range(60):
        after = run(step, floats, (0, number))
        assert after[fields.IMAGE].dtype == dtype
        assert_only_image_changed(floats, after)
        ys, xs = np.nonzero((after[fields.IMAGE] == 0).all(-1))
        # A square of a quarter of 20 pixels, and nothing else.
        assert len(ys) == 25 and np.ptp(ys) == np.ptp(xs) == 4
        assert (after[fields.IMAGE] == 100).all(-1).sum() == 600 - 25
        rows.add(ys.min())
        columns.add(xs.min())
    assert min(rows) <= 1 and 13 <= max(rows) <= 15
    assert min(columns) <= 1 and 20 <= max(columns) <= 23


def test_number_of_black_patches(example):
    step = """random_black_patches { max_black_patches: 4 probability: 0.5
        size_to_image_ratio: 0.05 }"""
    areas = over_seeds(step, plain(example), _black, 400)
    # Squares of one pixel, that seldom meet: their number is binomial.
    for count, share in enumerate((1 / 16, 4 / 16, 6 / 16, 4 / 16)):
        frequency = (areas == count).mean()
        assert abs(frequency - share) < 4 * np.sqrt(share / 400) + 0.02
    none = run('random_black_patches { max_black_patches: 0 }', example)
    np.testing.assert_array_equal(none[fields.IMAGE], example[fields.IMAGE])


def _black(after):
    is_black = tf.reduce_all(tf.equal(after[fields.IMAGE], 0), -1)
    return tf.reduce_sum(tf.cast(is_black, tf.int32))


def test_gaussian_patch_is_a_square_in_the_image(example):
    step = """random_patch_gaussian { min_patch_size: 6 max_patch_size: 8 min_gaussian_stddev: 0.1
        max_gaussian_stddev: 0.1 }"""
    sides, noise = set(), []
    for number in range(60):
        after = run(step, example, (0, number))
        assert_only_image_changed(example, after)
        added = after[fields.IMAGE] - 100.0
        ys, xs = np.nonzero(added.any(-1))
        height, width = np.ptp(ys) + 1, np.ptp(xs) + 1
        assert len(ys) == height * width
        touches = ys.min() == 0 or xs.min() == 0 or ys.max() == 19 or xs.max() == 29
        assert height <= 8 and width <= 8
        assert touches or height == width >= 6
        if not touches:
            sides.add(height)
            noise.append(added[ys.min() : ys.max(), xs.min() : xs.max()].ravel())
    noise = np.concatenate(noise) / 255
    assert sides == {6, 7, 8}
    assert abs(noise.std() - 0.1) < 0.01 and abs(noise.mean()) < 0.01


def test_gaussian_noise_is_cut_at_the_ends(example):
    step = """random_patch_gaussian { min_patch_size: 100 max_patch_size: 100
        min_gaussian_stddev: 2 max_gaussian_stddev: 2 }"""
    image = run(step, example)[fields.IMAGE]
    assert image.min() == 0 and image.max() == 255


@pytest.mark.parametrize(
    'step',
    [
        'random_patch_gaussian { min_gaussian_stddev: 1 min_patch_size: 100 random_coef: %s }',
        'random_jpeg_quality { max_jpeg_quality: 1 random_coef: %s }',
    ],
)
@pytest.mark.parametrize('random_coef', [0.0, 0.3, 1.0])
def test_random_coef_is_the_probability_of_the_original(step, random_coef):
    example = plain(painted(8, 8, [[1, 2, 3, 5]]))
    images = over_seeds(step % random_coef, example, lambda after: after[fields.IMAGE], 300)
    stays = (images == example[fields.IMAGE]).all((1, 2, 3))
    assert_is_share(stays, random_coef)


def test_jpeg_quality(example):
    image = np.random.RandomState(0).randint(0, 256, [20, 30, 3]).astype(np.uint8)
    example = {**example, fields.IMAGE: image}

    def damage(low, high, seed):
        step = f'random_jpeg_quality {{ min_jpeg_quality: {low} max_jpeg_quality: {high} }}'
        after = run(step, example, seed)
        assert_only_image_changed(example, after)
        assert after[fields.IMAGE].dtype == np.uint8
        return np.abs(after[fields.IMAGE].astype(float) - image).mean()

    assert damage(100, 100, (0, 0)) < damage(50, 50, (0, 0)) < damage(5, 5, (0, 0))
    of_any_quality = [damage(0, 100, (0, number)) for number in range(20)]
    assert len(set(of_any_quality)) > 10
    floats = {**example, fields.IMAGE: image.astype(np.float32)}
    after = run('random_jpeg_quality {}', floats)[fields.IMAGE]
    assert after.dtype == np.float32
    np.testing.assert_array_equal(after, run('random_jpeg_quality {}', example)[fields.IMAGE])
