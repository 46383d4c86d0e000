import numpy as np
import pytest
from hypothesis import given, settings

from estimator_lib import errors
from model_fns.detection import fields
from tests.model_fns.detection.data.augmentation.augmentation_cases import (
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

# With these the keypoints, corners of boxes, are in the same order in a moved image.
HORIZONTAL = 'random_horizontal_flip { keypoint_flip_permutation: [1, 0, 3, 2]'
VERTICAL = 'random_vertical_flip { keypoint_flip_permutation: [2, 3, 0, 1]'
ROTATION = 'random_rotation90 { keypoint_rot_permutation: [1, 3, 0, 2]'
ALL = (HORIZONTAL, VERTICAL, ROTATION)


@pytest.mark.parametrize(
    ('step', 'image', 'box'),
    [
        (HORIZONTAL, [[3, 2, 1], [6, 5, 4]], [0, 0, 0.5, 1 / 3]),
        (VERTICAL, [[4, 5, 6], [1, 2, 3]], [0.5, 2 / 3, 1, 1]),
        (ROTATION, [[3, 6], [2, 5], [1, 4]], [0, 0, 1 / 3, 0.5]),
    ],
)
def test_by_hand(step, image, box):
    example = painted(2, 3, [[0, 2, 1, 3]])
    example[fields.IMAGE] = np.repeat(np.uint8([[1, 2, 3], [4, 5, 6]])[..., np.newaxis], 3, 2)
    after = run(step + ' probability: 1 }', example)
    np.testing.assert_array_equal(after[fields.IMAGE][..., 0], image)
    np.testing.assert_allclose(after[fields.BOXES], [box], atol=1e-6)
    # The new first keypoint is the corner that is now at the top left.
    np.testing.assert_allclose(after[fields.KEYPOINTS][0, 0], box[:2], atol=1e-6)


@pytest.mark.parametrize('step', ALL)
@given(example=painted_examples(), seed=seeds())
@settings(max_examples=20, deadline=None)
def test_all_that_is_of_a_box_stays_with_its_pixels(step, example, seed):
    after = run(step + ' }', example, seed)
    assert_rows_belong_together(example, after)
    assert len(after[fields.CLASSES]) == len(example[fields.CLASSES])
    assert_boxes_cover_their_pixels(after)
    assert_keypoints_are_corners(after)


@pytest.mark.parametrize('step', ALL)
@given(example=painted_examples(), seed=seeds())
@settings(max_examples=10, deadline=None)
def test_four_turns_or_two_flips_are_none(step, example, seed):
    always = step + ' probability: 1 }'
    times = 4 if step == ROTATION else 2
    after = run(' + '.join([always] * times), example, seed)
    for name in example:
        np.testing.assert_allclose(after[name], example[name], atol=1e-6)


@pytest.mark.parametrize('step', ['random_horizontal_flip', 'random_rotation90'])
@pytest.mark.parametrize('probability', [0.0, 0.2, 0.5, 1.0])
def test_probability(step, probability):
    example = plain(painted(4, 4, [[0, 0, 1, 1]]))

    def stays(after):
        return after[fields.IMAGE][0, 0, 0] > 0

    happened = ~over_seeds(f'{step} {{ probability: {probability} }}', example, stays, 600)
    assert_is_share(happened, probability)


def test_keypoints_that_are_not_labeled_stay_so():
    example = painted(4, 6, [[0, 0, 2, 3]])
    example[fields.KEYPOINTS][0, 1] = np.nan
    example[fields.KEYPOINT_VISIBILITIES][0, 1] = False
    after = run(HORIZONTAL + ' probability: 1 }', example)
    np.testing.assert_array_equal(after[fields.KEYPOINT_VISIBILITIES], [[False, True, True, True]])
    assert np.isnan(after[fields.KEYPOINTS][0, 0]).all()


def test_keypoints_without_a_permutation_are_refused():
    with pytest.raises(errors.ConfigError, match='vertical_flip: keypoint_f.* have 4 keypoints'):
        run('random_vertical_flip {}', painted(4, 4, [[0, 0, 2, 2]]))


def test_a_permutation_of_another_length_is_refused():
    with pytest.raises(errors.ConfigError, match='2 numbers; expected .* 4'):
        run('random_rotation90 { keypoint_rot_permutation: [1, 0] }', painted(4, 4, []))


def test_what_is_no_permutation_is_refused():
    with pytest.raises(
        errors.ConfigError, match=r'keypoint_flip_permutation: \[0, 0\]; expected each number'
    ):
        run('random_horizontal_flip { keypoint_flip_permutation: [0, 0] }', painted(4, 4, []))
