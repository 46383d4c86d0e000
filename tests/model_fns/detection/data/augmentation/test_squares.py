import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings

from model_fns.detection import fields
from tests.model_fns.detection.data.augmentation.augmentation_cases import (
    assert_boxes_cover_their_pixels,
    assert_keypoints_are_corners,
    assert_rows_belong_together,
    over_seeds,
    painted,
    painted_examples,
    plain,
    run,
    seeds,
)


@given(example=painted_examples(), seed=seeds())
@settings(max_examples=30, deadline=None)
def test_square_crop_shows_boxes_with_their_pixels(example, seed):
    after = run('random_square_crop_by_scale {}', example, seed)
    assert_rows_belong_together(example, after)
    assert_boxes_cover_their_pixels(after)
    assert_keypoints_are_corners(after)
    height, width = after[fields.IMAGE].shape[:2]
    longer = max(example[fields.IMAGE].shape)
    scales = np.linspace(np.float32(0.6), np.float32(1.3), 8, dtype=np.float32)
    sides = np.maximum((scales * np.float32(longer)).astype(int), 2)
    assert height == width and height in sides
    # What is left of a box at all stays.
    shown = np.flatnonzero((after[fields.IMAGE] > 0).any((0, 1)))
    np.testing.assert_array_equal(after[fields.CLASSES], shown)


@pytest.mark.parametrize(('max_border', 'border'), [(128, 8), (16, 8), (5, 5), (0, 0), (1, 1)])
def test_center_of_the_square_keeps_its_distance(max_border, border):
    example = plain(painted(20, 20, []))
    example[fields.IMAGE] = np.full([20, 20, 3], 1, np.uint8)
    step = f"""random_square_crop_by_scale {{ max_border: {max_border} scale_min: 2 scale_max: 2
        num_scales: 1 }}"""

    starts = over_seeds(step, example, _start_of_image, 300)
    # A square of 40 about row c begins at c - 20, so the image does at 20 - c.
    assert starts.min() == border and starts.max() == 20 - border


def test_equally_spaced_scales_come_up():
    step = 'random_square_crop_by_scale { scale_min: 1 scale_max: 2 num_scales: 3 }'
    example = plain(painted(20, 10, []))
    sides = over_seeds(step, example, lambda after: tf.shape(after[fields.IMAGE])[0], 100)
    np.testing.assert_array_equal(np.unique(sides), [20, 30, 40])


@given(example=painted_examples(least=10), seed=seeds())
@settings(max_examples=30, deadline=None)
def test_scale_crop_and_pad_shows_boxes_with_their_pixels(example, seed):
    step = """random_scale_crop_and_pad_to_square { output_size: 48 scale_min: 0.5
        scale_max: 2 }"""
    after = run(step, example, seed)
    assert_rows_belong_together(example, after)
    # Interpolation reaches one pixel of the image as it was, up to ten of the result.
    assert_boxes_cover_their_pixels(after, tolerance=10)
    assert_keypoints_are_corners(after)
    assert after[fields.IMAGE].shape == (48, 48, 3)


def test_small_images_are_at_the_top_left():
    example = painted(8, 4, [[0, 0, 8, 4]])
    step = """random_scale_crop_and_pad_to_square { output_size: 32 scale_min: 0.5
        scale_max: 0.5 }"""
    after = run(step, example)
    np.testing.assert_allclose(after[fields.BOXES], [[0, 0, 0.5, 0.25]], atol=1e-6)
    np.testing.assert_array_equal(after[fields.IMAGE][:16, :8, 0], 200)
    assert not after[fields.IMAGE][16:].any() and not after[fields.IMAGE][:, 8:].any()


def test_large_images_are_cropped_at_any_place():
    example = plain(painted(10, 10, [[0, 0, 5, 10]]))
    step = 'random_scale_crop_and_pad_to_square { output_size: 20 scale_min: 2 scale_max: 2 }'
    ends = over_seeds(
        step,
        example,
        lambda after: tf.concat([after[fields.BOXES][:, 2], [0.0]], 0)[0],
        300,
    )
    # The box ends at row 20 of 40; the window of 20 starts at any row from 0 to 20, at which last
    # one nothing is left of the box.
    rows = np.round(ends * 20)
    np.testing.assert_array_equal(np.unique(rows), np.arange(21))


def _start_of_image(after):
    """Return the first row of a canvas that is not black."""
    is_image = tf.reduce_any(after[fields.IMAGE][..., 0] > 0, 1)
    return tf.argmax(tf.cast(is_image, tf.int32), output_type=tf.int32)
