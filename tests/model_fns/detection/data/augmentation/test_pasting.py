import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator_lib import errors
from model_fns.augmentation import randomness
from model_fns.detection import fields
from model_fns.detection.data.augmentation import pasting
from tests.model_fns.detection.data.augmentation.augmentation_cases import (
    painted,
    painted_examples,
    plain,
    run_mixing,
    seeds,
)

STEP = 'copy_paste { object_probability: 0.7 min_area_visible: 0.3 }'


def slow_paste(first, second, chosen, min_area_visible):
    """Paste object by object and pixel by pixel; return the image, and (class, mask, box)."""
    image = first[fields.IMAGE].copy()
    height, width = image.shape[:2]
    covered, objects = np.zeros([height, width], bool), []
    for index, mask in enumerate(second[fields.MASKS]):
        here = np.zeros([height, width], bool)
        for row in range(min(height, mask.shape[0])):
            for column in range(min(width, mask.shape[1])):
                here[row, column] = mask[row, column]
        if chosen[index] and not second[fields.IS_CROWD][index] and here.any():
            objects.append((second[fields.CLASSES][index], here, around(here)))
            covered |= here
            rows, columns = np.nonzero(here)
            image[rows, columns] = second[fields.IMAGE][rows, columns]
    kept = []
    for index, mask in enumerate(first[fields.MASKS] > 0):
        visible = mask & ~covered
        if not (mask & covered).any() or visible.sum() >= max(1, min_area_visible * mask.sum()):
            kept.append((first[fields.CLASSES][index], visible, around(visible)))
    return image, kept + objects


def around(mask):
    rows, columns = np.nonzero(mask)
    ends = np.array([rows.min(), columns.min(), rows.max() + 1, columns.max() + 1])
    return ends / np.tile(mask.shape, 2)


@given(group=st.tuples(painted_examples(), painted_examples()), seed=seeds())
@settings(max_examples=60, deadline=None)
def test_objects_are_pasted_as_in_loops(group, seed):
    step_seed = randomness.step_seed(tf.constant(seed, tf.int64), 0)
    count = len(group[1][fields.CLASSES])
    draws = randomness.uniform_tensor(randomness.stream_seed(step_seed, 1), [count])
    image, objects = slow_paste(*group, draws.numpy() < 0.7, 0.3)
    after = run_mixing(STEP, group, seed)
    np.testing.assert_array_equal(after[fields.IMAGE], image)
    assert {len(after[name]) for name in fields.PER_BOX if name in after} == {len(objects)}
    assert (after[fields.BOXES] >= 0).all() and (after[fields.BOXES] <= 1).all()
    for index, (kind, mask, box) in enumerate(objects):
        assert after[fields.CLASSES][index] == kind
        np.testing.assert_array_equal(after[fields.MASKS][index] > 0, mask)
        np.testing.assert_allclose(after[fields.BOXES][index], box, atol=1e-5)
    # Masks of one image's objects may overlap; those of the two images do not.
    pasted = np.any([mask for _, mask, _ in objects], axis=0) if objects else np.zeros([1, 1])
    assert (after[fields.MASKS].any(0) == pasted).all() if objects else True


def test_boxes_of_objects_that_are_not_covered_stay_as_they_are():
    first, second = (
        painted(20, 20, [[0, 0, 8, 8], [10, 10, 20, 20]]),
        painted(20, 20, [[4, 4, 8, 8]]),
    )
    first[fields.BOXES] += np.float32(0.01)  # not the bounds of the masks
    after = run_mixing('copy_paste { object_probability: 1 }', [first, second])
    np.testing.assert_allclose(after[fields.BOXES][0], [0, 0, 0.4, 0.4], atol=1e-6)
    np.testing.assert_array_equal(after[fields.BOXES][1], first[fields.BOXES][1])
    assert after[fields.AREA].tolist() == [48, 100, 16]


def test_covered_keypoints_become_invisible():
    first, second = painted(20, 20, [[2, 2, 12, 12]]), painted(20, 20, [[0, 0, 5, 20]])
    after = run_mixing('copy_paste { object_probability: 1 }', [first, second])
    # Corners of the box, the upper ones of which are covered.
    np.testing.assert_array_equal(
        after[fields.KEYPOINT_VISIBILITIES][0], [False, False, True, True]
    )
    assert np.isnan(after[fields.KEYPOINTS][0, :2]).all()
    np.testing.assert_array_equal(after[fields.KEYPOINTS][0, 2:], first[fields.KEYPOINTS][0, 2:])


def test_pasting_may_not_happen():
    first, second = painted(9, 9, [[0, 0, 4, 4]]), painted(9, 9, [[5, 5, 9, 9]])
    step = 'copy_paste { object_probability: 1 probability: 0.4 }'
    counts = [len(run_mixing(step, [first, second], (4, n))[fields.CLASSES]) for n in range(40)]
    assert set(counts) == {1, 2} and 4 <= counts.count(2) <= 28


def test_examples_need_masks_and_axis_aligned_boxes():
    example = {name: tf.constant(value) for name, value in painted(9, 9, []).items()}
    rotated = {**example, fields.BOXES: tf.zeros([0, 8])}
    without = {name: tf.constant(value) for name, value in plain(painted(9, 9, [])).items()}
    seed = tf.constant([1, 1], tf.int64)
    with pytest.raises(errors.ConfigError, match='no masks; expected .*load_instance_masks: true'):
        pasting.copy_paste([without, without], seed)
    with pytest.raises(errors.ConfigError, match='rotated; expected axis-aligned'):
        pasting.copy_paste([rotated, rotated], seed)
