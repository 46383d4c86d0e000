import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings

from estimator_lib import errors
from model_fns.detection import fields
from model_fns.detection.data.augmentation import autoaugment
from tests.model_fns.detection.data.augmentation.augmentation_cases import (
    BRIGHT,
    assert_rows_belong_together,
    painted,
    painted_examples,
    plain,
    run,
    seeds,
)

tf1 = tf.compat.v1

GRAY = 128
STEP = 'autoaugment_image {}'


def _apply(operation, example, uniform=0.0, seed=(1, 2)):
    """Apply one operation of the policy alone."""
    with tf.Graph().as_default(), tf1.Session() as session:
        tensors = {name: tf.constant(value) for name, value in example.items()}
        operation = operation(tensors, tf.constant(seed, tf.int64), tf.constant(uniform))
        return session.run(operation)


def test_translation_moves_boxes_and_pixels():
    example = plain(painted(20, 400, [[5, 150, 10, 200], [0, 10, 20, 60]]))
    for uniform, shift in ((0.0, -100), (0.9, 100)):
        after = _apply(autoaugment._translate_x, example, uniform)
        box = after[fields.BOXES][0] * [20, 400, 20, 400]
        np.testing.assert_allclose(box, [5, 150 + shift, 10, 200 + shift], atol=1e-3)
        expected = np.full([20, 400, 3], GRAY, np.uint8)
        expected[:, max(shift, 0) : 400 + min(shift, 0)] = example[fields.IMAGE][
            :, max(-shift, 0) : 400 + min(-shift, 0)
        ]
        np.testing.assert_array_equal(after[fields.IMAGE], expected)
        # The second box leaves to the left.
        np.testing.assert_array_equal(after[fields.CLASSES], [0] if shift < 0 else [0, 1])


@pytest.mark.parametrize('operation', ['_rotate', '_shear_y'])
@pytest.mark.parametrize('uniform', [0.0, 0.9])
def test_boxes_bound_what_moved(operation, uniform):
    example = plain(painted(100, 140, [[30, 40, 60, 90], [50, 100, 55, 130]]))
    after = _apply(getattr(autoaugment, operation), example, uniform)
    assert (after[fields.IMAGE] != example[fields.IMAGE]).any()
    for row, which in enumerate(after[fields.CLASSES]):
        ys, xs = np.nonzero(after[fields.IMAGE][..., which] == BRIGHT)
        shown = np.array([ys.min(), xs.min(), ys.max() + 1, xs.max() + 1])
        box = after[fields.BOXES][row] * [100, 140, 100, 140]
        assert np.abs(shown - box).max() <= 1.5


def test_rotation_is_by_30_degrees_about_the_center():
    example = plain(painted(101, 101, [[50, 90, 51, 91]]))
    after = _apply(autoaugment._rotate, example, 0.9)
    box = after[fields.BOXES][0] * 101
    center = (box[:2] + box[2:]) / 2 - 50.5
    # 40 pixels to the right of the center; half of that up or down.
    np.testing.assert_allclose(np.abs(center), [20, 40 * np.sqrt(0.75)], atol=0.05)


def test_shear_is_a_share_of_the_column():
    example = plain(painted(100, 101, [[50, 100, 51, 101]]))
    after = _apply(autoaugment._shear_y, example, 0.0)
    # Its corners at columns 100 and 101 move by 0.06 of these.
    box = after[fields.BOXES][0] * [100, 101, 100, 101]
    np.testing.assert_allclose(box[[0, 2]], [50 + 0.06 * 99.5, 51 + 0.06 * 100.5], atol=1e-3)


def test_equalize_by_hand():
    image = np.zeros([2, 512, 3], np.uint8)
    image[0, :, 0], image[1, :, 0] = 10, 20
    image[..., 1] = np.arange(1024).reshape(2, 512) // 4
    image[..., 2] = 77
    example = {**plain(painted(2, 512, [])), fields.IMAGE: image}
    equalized = _apply(autoaugment._equalize, example)[fields.IMAGE]
    # 512 pixels of each value, 512 // 255 = 2 a level: (512 + 1) // 2 is 256, cut to 255.
    np.testing.assert_array_equal(equalized[:, 0, 0], [0, 255])
    # 1020 // 255 = 4 a level: nothing to spread; and one value alone stays.
    np.testing.assert_array_equal(equalized[..., 1:], image[..., 1:])


def test_cutout_is_a_gray_square():
    example = plain(painted(400, 500, []))
    after = _apply(autoaugment._cutout, example, seed=(1, 5))[fields.IMAGE]
    ys, xs = np.nonzero((after == GRAY).all(-1))
    assert len(ys) == (np.ptp(ys) + 1) * (np.ptp(xs) + 1)
    assert (after[after != GRAY] == 0).all()
    for positions, length in ((ys, 400), (xs, 500)):
        cut = positions.min() == 0 or positions.max() == length - 1
        assert np.ptp(positions) + 1 == 160 or (cut and np.ptp(positions) + 1 < 160)


def test_more_color():
    example = plain(painted(2, 2, []))
    image = np.random.RandomState(0).randint(0, 256, [2, 2, 3]).astype(np.uint8)
    after = _apply(autoaugment._more_color, {**example, fields.IMAGE: image})[fields.IMAGE]
    gray = (image * [0.2989, 0.587, 0.114]).sum(-1, keepdims=True)
    expected = np.clip(gray + 1.18 * (image - gray), 0, 255)
    assert np.abs(after - expected).max() <= 1.001


def test_content_of_boxes_moves_and_leaves_gray():
    example = plain(painted(60, 10, [[0, 2, 50, 6]]))
    example[fields.IMAGE][..., 0] *= (np.arange(60) < 10)[:, np.newaxis]
    # Of the first third of a probability of 3: always.
    operation, probability = autoaugment._translate_y_in_boxes(2, 3.0)
    assert probability == 1.0
    after = _apply(operation, example, uniform=0.9)
    np.testing.assert_array_equal(after[fields.BOXES], example[fields.BOXES])
    image = after[fields.IMAGE]
    # The box's last row and column count to it; its content moves 24 down.
    expected = np.zeros([60, 10, 3], np.uint8)
    expected[0:24, 2:7] = GRAY
    expected[24:34, 2:6, 0] = BRIGHT
    np.testing.assert_array_equal(image, expected)


def test_content_of_boxes_moves_up_too():
    example = plain(painted(60, 10, [[0, 2, 50, 6]]))
    operation, _ = autoaugment._translate_y_in_boxes(2, 3.0)
    image = _apply(operation, example, uniform=0.1)[fields.IMAGE]
    assert (image[27:51, 2:7] == GRAY).all() and (image[:26, 2:6, 0] == BRIGHT).all()


def test_all_pairs_come_up():
    example = plain(painted(80, 150, [[10, 20, 60, 120]]))
    same, moved, shapes = 0, 0, set()
    for number in range(80):
        after = run(STEP, example, (3, number))
        same += (after[fields.IMAGE] == example[fields.IMAGE]).all()
        moved += not np.array_equal(after[fields.BOXES], example[fields.BOXES])
        shapes.add(after[fields.IMAGE].tobytes())
    # One pair of five does nothing; boxes move in about 0.2 * (0.6 + 1 + 0.6) of all.
    assert 16 <= same <= 40
    assert 22 <= moved <= 49
    assert len(shapes) > 20


def assert_masks_show_their_pixels(after):
    """Mask i is what of channel i is bright; gray is in all channels."""
    image = after[fields.IMAGE]
    own = after[fields.CLASSES]
    for mask, which in zip(after[fields.MASKS], own):
        np.testing.assert_array_equal(mask == 1, image[..., which] == BRIGHT)


@given(example=painted_examples(least=30, most=60), seed=seeds())
@settings(max_examples=25, deadline=None)
def test_masks_and_keypoints_follow(example, seed):
    after = run(STEP, example, seed)
    assert_rows_belong_together(example, after)
    assert after[fields.IMAGE].dtype == np.uint8
    assert after[fields.IMAGE].shape == example[fields.IMAGE].shape
    assert (after[fields.BOXES] >= 0).all() and (after[fields.BOXES] <= 1).all()
    assert after[fields.MASKS].shape[1:] == example[fields.MASKS].shape[1:]
    visible = after[fields.KEYPOINT_VISIBILITIES]
    points = after[fields.KEYPOINTS]
    np.testing.assert_array_equal(visible, np.isfinite(points).all(-1))
    assert (points[visible] >= 0).all() and (points[visible] <= 1).all()
    size = np.array(after[fields.IMAGE].shape[:2])
    for mask, box in zip(after[fields.MASKS], after[fields.BOXES]):
        ys, xs = np.nonzero(mask)
        if len(ys):
            low, high = box[:2] * size, box[2:] * size
            assert (low - [ys.min(), xs.min()] <= 1.5).all()
            assert ([ys.max() + 1, xs.max() + 1] - high <= 1.5).all()


@pytest.mark.parametrize('operation', ['_rotate', '_shear_y', '_translate_x'])
@pytest.mark.parametrize('uniform', [0.0, 0.9])
def test_masks_are_where_their_pixels_are(operation, uniform):
    example = painted(100, 340, [[30, 120, 60, 190], [50, 200, 55, 230]])
    after = _apply(getattr(autoaugment, operation), example, uniform)
    assert after[fields.MASKS].any(axis=(1, 2)).all()
    assert_masks_show_their_pixels(after)
    # The keypoints are the corners of what was a box: its farthest points on both axes.
    points = after[fields.KEYPOINTS]
    assert np.isfinite(points).all()
    np.testing.assert_allclose(points.min(1), after[fields.BOXES][:, :2], atol=1e-5)
    np.testing.assert_allclose(points.max(1), after[fields.BOXES][:, 2:], atol=1e-5)


def test_keypoints_leave_the_image():
    example = painted(20, 400, [[5, 80, 10, 150]])
    after = _apply(autoaugment._translate_x, example, 0.0)
    np.testing.assert_allclose(
        after[fields.KEYPOINTS][0] * [20, 400],
        [[np.nan] * 2, [5, 50], [np.nan] * 2, [10, 50]],
        atol=1e-3,
    )
    assert after[fields.KEYPOINT_VISIBILITIES].tolist() == [[False, True, False, True]]
    assert after[fields.MASKS][0, 5:10, :50].all() and after[fields.MASKS].sum() == 5 * 50


def test_masks_and_keypoints_move_in_a_box():
    example = painted(60, 10, [[0, 2, 50, 6], [10, 8, 20, 10]])
    example[fields.MASKS][0, 10:] = 0
    example[fields.IMAGE][10:, :, 0] = 0
    example[fields.KEYPOINTS][0] = [[5 / 60, 0.3], [40 / 60, 0.3], [5 / 60, 0.9], [55 / 60, 0.3]]
    operation, _ = autoaugment._translate_y_in_boxes(2, 3.0)
    # By 24 rows, in a box; the other's content, of 11 rows, moves out of it.
    after = _apply(operation, example, uniform=0.9)
    assert after[fields.MASKS][0, 24:34, 2:6].all() and after[fields.MASKS][0].sum() == 40
    assert not after[fields.MASKS][1].any()
    found = after[fields.KEYPOINTS][0] * [60, 10]
    np.testing.assert_allclose(found, [[29, 3], [np.nan] * 2, [5, 9], [55, 3]], atol=1e-3)
    assert after[fields.KEYPOINT_VISIBILITIES][0].tolist() == [True, False, True, True]


def test_other_policies_are_refused():
    with pytest.raises(errors.ConfigError, match="policy_name: 'v1'; expected 'v0'"):
        run("autoaugment_image { policy_name: 'v1' }", plain(painted(4, 4, [])))
