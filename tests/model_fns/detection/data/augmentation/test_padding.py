import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings

from estimator_lib import errors
from model_fns.detection import fields
from tests.model_fns.detection.data.augmentation.augmentation_cases import (
    BRIGHT,
    assert_boxes_cover_their_pixels,
    assert_is_share,
    assert_keypoints_are_corners,
    assert_rows_belong_together,
    over_seeds,
    painted,
    painted_examples,
    plain,
    run,
    seeds,
)

BLACK = 'pad_color: [0, 0, 0]'
RATIOS = 'min_padded_size_ratio: [1, 1.5] max_padded_size_ratio: [2, 1.5]'
OPERATION = """operations { min_object_covered: 0.1 min_aspect_ratio: 0.5 max_aspect_ratio: 2
    min_area: 0.2 max_area: 1 overlap_thresh: 0.1 random_coef: 0.2 %s }"""


@pytest.mark.parametrize(
    'step',
    [
        f'random_pad_image {{ {BLACK} }}',
        f'random_absolute_pad_image {{ max_height_padding: 9 max_width_padding: 4 {BLACK} }}',
        f'random_crop_pad_image {{ {BLACK} {RATIOS} }}',
        'ssd_random_crop_pad { ' + OPERATION % RATIOS + OPERATION % '' + ' }',
        'ssd_random_crop_pad_fixed_aspect_ratio { aspect_ratio: 1.3 }',
    ],
)
@given(example=painted_examples(), seed=seeds())
@settings(max_examples=20, deadline=None)
def test_boxes_stay_with_their_pixels(step, example, seed):
    after = run(step, example, seed)
    assert_rows_belong_together(example, after)
    assert_boxes_cover_their_pixels(after)
    assert_keypoints_are_corners(after)
    assert after[fields.IMAGE].dtype == np.uint8


@given(example=painted_examples(), seed=seeds())
@settings(max_examples=20, deadline=None)
def test_canvas_sizes(example, seed):
    height, width = example[fields.IMAGE].shape[:2]
    padded = run('random_pad_image {}', example, seed)[fields.IMAGE].shape
    assert height <= padded[0] <= 2 * height and width <= padded[1] <= 2 * width
    limits = 'min_image_height: 20 min_image_width: 10 max_image_height: 30 max_image_width: 10'
    padded = run(f'random_pad_image {{ {limits} }}', example, seed)[fields.IMAGE].shape
    assert max(height, 20) <= padded[0] <= max(height, 30) and padded[1] == max(width, 10)
    step = 'random_absolute_pad_image { max_height_padding: 3 max_width_padding: 0 }'
    padded = run(step, example, seed)[fields.IMAGE].shape
    assert height <= padded[0] <= height + 3 and padded[1] == width


def test_all_sizes_and_places_come_up():
    example = plain(painted(2, 1, [[0, 0, 2, 1]]))
    step = f'random_absolute_pad_image {{ max_height_padding: 2 max_width_padding: 1 {BLACK} }}'

    def size_and_place(after):
        image = after[fields.IMAGE]
        start = tf.where(image[..., 0] > 0)[0]
        return tf.concat([tf.cast(tf.shape(image)[:2], tf.int64), start], 0)

    drawn = over_seeds(step, example, size_and_place, 1200)
    for height in (2, 3, 4):
        of_height = drawn[drawn[:, 0] == height]
        assert_is_share(drawn[:, 0] == height, 1 / 3)
        np.testing.assert_array_equal(np.unique(of_height[:, 2]), range(height - 1))
    assert_is_share(drawn[:, 1] == 2, 1 / 2)


def test_canvas_has_the_mean_color_of_the_image():
    example = painted(4, 4, [[0, 0, 2, 4], [0, 0, 1, 1]])
    step = """random_pad_image { min_image_height: 9 min_image_width: 9 max_image_height: 9
        max_image_width: 9 }"""
    for dtype, second in ((np.uint8, round(BRIGHT / 16)), (np.float32, BRIGHT / 16)):
        image = example[fields.IMAGE].astype(dtype)
        after = run(step, {**example, fields.IMAGE: image})
        padded = after[fields.IMAGE]
        mean = np.array([BRIGHT / 2, second, 0], np.float32)
        assert padded.dtype == dtype and padded.shape == (9, 9, 3)
        assert (np.abs(padded - mean) < 1e-3).all(-1).sum() == 9 * 9 - 4 * 4
        # The image itself is there, exactly.
        start = np.argwhere(padded[..., 0] == BRIGHT)[0]
        inner = padded[start[0] : start[0] + 4, start[1] : start[1] + 4]
        np.testing.assert_array_equal(inner, image)


def test_canvas_has_the_color_that_is_set():
    example = painted(1, 1, [])
    size = 'min_image_height: 3 min_image_width: 2 max_image_height: 3 max_image_width: 2'
    whole = run(f'random_pad_image {{ {size} pad_color: [1, 2, 255] }}', example)[fields.IMAGE]
    assert whole.dtype == np.uint8
    assert (whole == [1, 2, 255]).all(-1).sum() == 5
    part = run(f'random_pad_image {{ {size} pad_color: [0.5, 2, 3] }}', example)[fields.IMAGE]
    assert part.dtype == np.float32
    assert (part == [0.5, 2, 3]).all(-1).sum() == 5


def test_each_operation_has_its_color():
    colors = [(10.0, 20.0, 30.0), (0.0, 0.0, 7.0)]
    ratios = 'min_padded_size_ratio: [3, 3] max_padded_size_ratio: [3, 3]'
    operations = ''.join(
        OPERATION % f'{ratios} pad_color_r: {red} pad_color_g: {green} pad_color_b: {blue}'
        for red, green, blue in colors
    )
    found = set()
    for number in range(12):
        step = f'ssd_random_crop_pad {{ {operations} }}'
        image = run(step, painted(5, 5, []), (0, number))[fields.IMAGE]
        values, counts = np.unique(image.reshape(-1, 3), axis=0, return_counts=True)
        found.add(tuple(values[counts.argmax()]))
    assert found == set(colors)


def test_canvas_after_a_crop_is_relative_to_the_uncropped_image():
    step = """random_crop_pad_image { max_area: 0.3 min_object_covered: 0
        min_padded_size_ratio: [1, 2] max_padded_size_ratio: [1, 2] }"""
    assert run(step, painted(20, 30, []))[fields.IMAGE].shape == (20, 60, 3)


def test_defaults_of_ssd_crop_pad_are_up_to_twice_the_image():
    example = plain(painted(20, 20, [[5, 5, 10, 10]]))
    sizes = over_seeds(
        'ssd_random_crop_pad {}', example, lambda after: tf.shape(after[fields.IMAGE])[:2], 300
    )
    assert sizes.min() == 20 and 38 <= sizes.max() <= 40


@pytest.mark.parametrize('ratio', [0.5, 1.0, 2.0])
@given(example=painted_examples(least=10), seed=seeds())
@settings(max_examples=20, deadline=None)
def test_fixed_aspect_ratio_canvas(ratio, example, seed):
    step = f'ssd_random_crop_pad_fixed_aspect_ratio {{ aspect_ratio: {ratio} %s }}'
    original = 'operations { max_area: 1 min_area: 1 min_aspect_ratio: 1 max_aspect_ratio: 1 }'
    keep = original.replace('}', 'random_coef: 1 }')
    after = run(step % keep, example, seed)[fields.IMAGE]
    height, width = example[fields.IMAGE].shape[:2]
    # Rounded sides.
    assert (after.shape[1] - 0.5) / (after.shape[0] + 0.5) <= ratio
    assert (after.shape[1] + 0.5) / (after.shape[0] - 0.5) >= ratio
    fitting = max(height, width / ratio)
    assert fitting - 0.51 <= after.shape[0] <= max(2 * height, fitting) + 0.51
    # At the top left of black.
    np.testing.assert_array_equal(after[:height, :width], example[fields.IMAGE])
    assert not after[height:].any() and not after[:, width:].any()


@pytest.mark.parametrize(
    ('step', 'message'),
    [
        ('random_pad_image { min_image_height: 3 }', 'min_image_width: not set; expected a number'),
        ('random_pad_image { max_image_width: 3 }', 'max_image_height: not set; .* is set'),
        (
            """random_pad_image { min_image_height: 9 min_image_width: 9 max_image_height: 8
            max_image_width: 9 }""",
            'max_image_height: 8; expected at least min_image_height, 9',
        ),
        ('random_pad_image { pad_color: [1, 2] }', r'pad_color: \[1, 2\]; expected 3 values'),
        (
            'random_crop_pad_image { min_padded_size_ratio: [3, 1] }',
            r'max_padded_size_ratio: not set; expected numbers not below .*\[3, 1\]',
        ),
        ('random_crop_pad_image { max_padded_size_ratio: 3 }', r'\[3\]; expected 2 values'),
    ],
)
def test_values_out_of_range_are_refused(step, message):
    with pytest.raises(errors.ConfigError, match=message):
        run(step, plain(painted(4, 4, [])))
