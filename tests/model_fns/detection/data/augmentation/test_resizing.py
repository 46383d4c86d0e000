import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings

from model_fns.detection import fields
from model_fns.structures import images
from tests.model_fns.detection.data.augmentation.augmentation_cases import (
    assert_boxes_cover_their_pixels,
    assert_is_share,
    assert_keypoints_are_corners,
    assert_only_image_changed,
    assert_rows_belong_together,
    over_seeds,
    painted,
    painted_examples,
    plain,
    run,
    seeds,
)

tf1 = tf.compat.v1


@pytest.mark.parametrize(
    ('step', 'tolerance'),
    [
        ('resize_image { new_height: 50 new_width: 80 }', 6),
        ('resize_image { new_height: 50 new_width: 80 method: NEAREST_NEIGHBOR }', 6),
        ('random_resize_method { target_height: 50 target_width: 60 }', 6),
        ('random_image_scale {}', 2),
        ('random_downscale_to_target_pixels { min_target_pixels: 90 max_target_pixels: 700 }', 1),
    ],
)
@given(example=painted_examples(least=12), seed=seeds())
@settings(max_examples=20, deadline=None)
def test_boxes_stay_with_their_pixels(step, tolerance, example, seed):
    after = run(step, example, seed)
    assert_rows_belong_together(example, after)
    assert_boxes_cover_their_pixels(after, tolerance)
    assert_keypoints_are_corners(after)
    np.testing.assert_array_equal(after[fields.BOXES], example[fields.BOXES])
    np.testing.assert_array_equal(after[fields.AREA], example[fields.AREA])


@pytest.mark.parametrize(
    ('name', 'method'),
    [('AREA', 'area'), ('BICUBIC', 'bicubic'), ('BILINEAR', 'bilinear')],
)
def test_resize_image_uses_the_method(name, method):
    example = painted(5, 7, [[1, 1, 4, 6]])
    after = run(f'resize_image {{ new_height: 4 new_width: 9 method: {name} }}', example)
    np.testing.assert_allclose(after[fields.IMAGE], _resized(example, 4, 9, method), rtol=1e-6)


def test_nearest_neighbor_keeps_whole_numbers():
    after = run(
        'resize_image { new_height: 1 new_width: 2 method: NEAREST_NEIGHBOR }',
        painted(2, 4, [[0, 0, 2, 2]]),
    )
    assert after[fields.IMAGE].dtype == np.uint8
    np.testing.assert_array_equal(after[fields.IMAGE][..., 0], [[200, 0]])
    np.testing.assert_array_equal(after[fields.MASKS], [[[1, 0]]])


def test_each_resize_method_is_drawn_as_often():
    example = plain(painted(5, 7, [[1, 1, 4, 6]]))
    step = 'random_resize_method { target_height: 4 target_width: 9 }'
    drawn = over_seeds(step, example, lambda after: after[fields.IMAGE], 400)
    for method in images.RESIZE_METHODS:
        expected = _resized(example, 4, 9, method)
        assert_is_share(np.isclose(drawn, expected).all((1, 2, 3)), 1 / 4)


@given(example=painted_examples(), seed=seeds())
@settings(max_examples=20, deadline=None)
def test_image_scale_is_one_factor_in_range(example, seed):
    step = 'random_image_scale { min_scale_ratio: 0.5 max_scale_ratio: 1.5 }'
    after = run(step, example, seed)
    before = np.array(example[fields.IMAGE].shape[:2])
    size = np.array(after[fields.IMAGE].shape[:2])
    # The factor is between these for each side, as sides are cut to whole pixels.
    low, high = np.max(size / before), np.min((size + 1) / before)
    assert low <= high and high >= 0.5 and low <= 1.5


def test_image_scale_factors_are_spread_over_the_range():
    example = plain(painted(100, 4, []))
    heights = over_seeds(
        'random_image_scale {}', example, lambda after: tf.shape(after[fields.IMAGE])[0], 500
    )
    assert 50 <= heights.min() < 55 and 195 < heights.max() <= 200
    assert abs(heights.mean() - 125) < 4 * 43 / np.sqrt(500)


def test_downscale_leaves_small_images_alone():
    example = painted(10, 12, [[1, 2, 3, 4]])
    after = run('random_downscale_to_target_pixels {}', example)
    assert after[fields.IMAGE].dtype == np.float32
    np.testing.assert_array_equal(after[fields.IMAGE], example[fields.IMAGE])
    assert_only_image_changed(example, after)


def test_downscale_comes_to_the_target():
    step = """random_downscale_to_target_pixels { random_coef: 0.25 min_target_pixels: 400
        max_target_pixels: 900 }"""
    example = plain(painted(40, 90, []))
    sizes = over_seeds(step, example, lambda after: tf.shape(after[fields.IMAGE])[:2], 400)
    pixels = sizes.prod(1)
    assert_is_share(pixels == 3600, 0.25)
    shrunk = sizes[pixels < 3600]
    # Sides are cut to whole pixels.
    assert (shrunk.prod(1) <= 900).all() and ((shrunk + 1).prod(1) >= 400).all()
    assert shrunk.prod(1).max() > 800 and shrunk.prod(1).min() < 450
    assert (np.abs(shrunk[:, 1] / shrunk[:, 0] - 90 / 40) < 0.25).all()


def _resized(example, height, width, method):
    with tf.Graph().as_default(), tf1.Session() as session:
        return session.run(images.resize(tf.constant(example[fields.IMAGE]), height, width, method))
