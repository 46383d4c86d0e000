import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings

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

# Operations with other ranges each, so that several kernels are needed.
MIXED = """ssd_random_crop {
  operations { min_object_covered: 0 min_aspect_ratio: 0.5 max_aspect_ratio: 2 min_area: 0.1
               max_area: 1 overlap_thresh: 0.2 random_coef: 0.1 }
  operations { min_object_covered: 0.5 min_aspect_ratio: 1 max_aspect_ratio: 1 min_area: 0.3
               max_area: 0.9 overlap_thresh: 0.4 random_coef: 0 } }"""
# What each may drop a box for: the smallest share of it that the window shows.
MIN_OVERLAPS = {
    'random_crop_image {}': 0.3,
    'random_crop_image { min_object_covered: 0 overlap_thresh: 0 }': 0.0,
    'random_crop_image { min_object_covered: 0.2 overlap_thresh: 1 }': 1.0,
    'random_crop_to_aspect_ratio { aspect_ratio: 0.5 overlap_thresh: 0.6 }': 0.6,
}


@pytest.mark.parametrize(
    'step',
    [
        *MIN_OVERLAPS,
        'ssd_random_crop {}',
        'ssd_random_crop_fixed_aspect_ratio { aspect_ratio: 1.5 }',
        MIXED,
    ],
)
@given(example=painted_examples(), seed=seeds())
@settings(max_examples=20, deadline=None)
def test_what_is_left_of_boxes_covers_what_is_left_of_their_pixels(step, example, seed):
    after = run(step, example, seed)
    assert_rows_belong_together(example, after)
    assert_boxes_cover_their_pixels(after)
    assert_keypoints_are_corners(after)
    assert after[fields.IMAGE].dtype == np.uint8
    assert (after[fields.BOXES] >= 0).all() and (after[fields.BOXES] <= 1).all()
    left = (after[fields.IMAGE] > 0).sum((0, 1))[after[fields.CLASSES]]
    np.testing.assert_allclose(after[fields.AREA], left, rtol=1e-4)


@pytest.mark.parametrize(('step', 'min_overlap'), MIN_OVERLAPS.items())
@given(example=painted_examples(min_boxes=1), seed=seeds())
@settings(max_examples=20, deadline=None)
def test_a_box_goes_when_too_little_of_it_is_left(step, min_overlap, example, seed):
    after = run(step, example, seed)
    shown = (after[fields.IMAGE] > 0).sum((0, 1)) / np.maximum(
        (example[fields.IMAGE] > 0).sum((0, 1)), 1
    )
    for which in example[fields.CLASSES]:
        # The share itself is rounded where it is the threshold.
        if abs(shown[which] - min_overlap) > 1e-5 or shown[which] in (0, 1):
            stays = shown[which] > 0 and shown[which] >= min_overlap
            assert (which in after[fields.CLASSES]) == stays


@given(example=painted_examples(least=20, min_boxes=1), seed=seeds())
@settings(max_examples=20, deadline=None)
def test_windows_are_as_asked_or_whole(example, seed):
    step = """random_crop_image { min_object_covered: 0.5 min_aspect_ratio: 0.8
        max_aspect_ratio: 1.2 min_area: 0.25 max_area: 0.5 }"""
    after = run(step, example, seed)
    before, window = example[fields.IMAGE], after[fields.IMAGE]
    height, width = window.shape[:2]
    if window.shape != before.shape:
        # Sides are whole pixels: the ratio holds up to one of them.
        assert (width - 1) / (height + 1) <= 1.2 and (width + 1) / (height - 1) >= 0.8
        share = height * width / before[..., 0].size
        slack = (height + width + 1) / before[..., 0].size
        assert 0.25 - slack <= share <= 0.5 + slack
        covered = (window > 0).sum((0, 1)) / np.maximum((before > 0).sum((0, 1)), 1)
        assert covered.max() >= 0.5 - 1e-6


def test_windows_are_found():
    example = plain(painted(30, 30, [[10, 10, 14, 14]]))
    sizes = over_seeds('random_crop_image {}', example, _size, 100)
    assert (sizes < 900).mean() > 0.9 and sizes.min() >= 90 * 0.8


@pytest.mark.parametrize('random_coef', [0.0, 0.3, 1.0])
def test_random_coef_is_the_probability_of_the_original(random_coef):
    example = plain(painted(30, 30, [[10, 10, 14, 14]]))
    step = f'random_crop_image {{ random_coef: {random_coef} max_area: 0.5 }}'
    sizes = over_seeds(step, example, _size, 600)
    assert_is_share(sizes == 900, random_coef)


def test_the_original_is_not_changed_at_all():
    example = painted(10, 10, [[0, 0, 5, 5], [5, 5, 10, 10]])
    example[fields.BOXES][0] = [-0.5, 0.2, 0.2, 0.2]  # neither inside nor of any area
    after = run('random_crop_image { random_coef: 1 }', example)
    for name in example:
        np.testing.assert_array_equal(after[name], example[name], name)


def test_each_operation_is_drawn_as_often():
    operations = ''.join(
        f"""operations {{ min_object_covered: 0 min_aspect_ratio: 1 max_aspect_ratio: 1
        min_area: {area - 0.1} max_area: {area} overlap_thresh: 0 random_coef: 0 }}"""
        for area in (0.3, 0.6, 1.0)
    )
    example = plain(painted(20, 20, [[5, 5, 10, 10]]))
    sizes = over_seeds(f'ssd_random_crop {{ {operations} }}', example, _size, 600)
    for area in (0.3, 0.6, 1.0):
        assert_is_share((400 * (area - 0.12) < sizes) & (sizes <= 400 * area), 1 / 3)


def test_the_seven_kinds_of_ssd_keep_the_original_with_0_15():
    # A box that fills the image: windows that cover all of it are the whole image.
    example = plain(painted(40, 40, [[0, 0, 40, 40]]))
    sizes = over_seeds('ssd_random_crop {}', example, _size, 1000)
    assert 0.15 + 1 / 7 * 0.85 - 0.05 < (sizes == 1600).mean() < 0.15 + 3 / 7 * 0.85 + 0.05


def test_boxes_that_are_not_cut_reach_out_of_the_window():
    example = painted(20, 20, [[0, 0, 20, 20]])
    step = """random_crop_image { clip_boxes: false min_object_covered: 0.1 max_area: 0.5
        overlap_thresh: 0.05 }"""
    after = run(step, example)
    height, width = after[fields.IMAGE].shape[:2]
    assert height * width <= 210
    box = after[fields.BOXES][0] * [height, width, height, width]
    np.testing.assert_allclose(box[2:] - box[:2], [20, 20], rtol=1e-5)
    assert (box[:2] <= 1e-4).all() and (box[2:] >= np.array([height, width]) - 1e-4).all()
    # Keypoints outside stay as well.
    assert np.isfinite(after[fields.KEYPOINTS]).all()
    assert after[fields.AREA] == 400


@pytest.mark.parametrize('ratio', [0.5, 1.0, 1.6])
@given(example=painted_examples(), seed=seeds())
@settings(max_examples=20, deadline=None)
def test_crop_to_aspect_ratio_is_as_large_as_can_be(ratio, example, seed):
    after = run(f'random_crop_to_aspect_ratio {{ aspect_ratio: {ratio} }}', example, seed)
    (height, width), before = after[fields.IMAGE].shape[:2], example[fields.IMAGE].shape[:2]
    assert height == before[0] or width == before[1]
    assert height == before[0] or height == max(round(width / ratio), 1)
    assert width == before[1] or width == max(round(height * ratio), 1)


def test_crop_to_aspect_ratio_by_hand():
    example = painted(2, 4, [[0, 0, 2, 1], [0, 0, 2, 4]])
    starts = set()
    for number in range(12):
        after = run('random_crop_to_aspect_ratio {}', example, (0, number))
        assert after[fields.IMAGE].shape == (2, 2, 3)
        first_is_there = after[fields.IMAGE][0, 0, 0] == BRIGHT
        np.testing.assert_array_equal(after[fields.CLASSES], [0, 1] if first_is_there else [1])
        np.testing.assert_array_equal(after[fields.BOXES][-1], [0, 0, 1, 1])
        if first_is_there:
            np.testing.assert_array_equal(after[fields.BOXES][0], [0, 0, 1, 0.5])
        starts.add(bool(first_is_there))
    assert starts == {False, True}


def _size(after):
    return tf.reduce_prod(tf.shape(after[fields.IMAGE])[:2])
