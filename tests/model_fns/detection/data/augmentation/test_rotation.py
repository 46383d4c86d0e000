import math

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors
from model_fns.detection import fields
from model_fns.detection.boxes import quadrilaterals, rotated
from model_fns.detection.data import augmentation
from model_fns.structures import rotated_rectangles
from protos import augmentation_pb2
from tests import tiny_rotated

HEIGHT, WIDTH = 120, 160
BOX = [58.0, 85.0, 18.0, 60.0, 0.35]


def step_of(text):
    return augmentation.build_augmentation(
        [text_format.Parse(text, augmentation_pb2.PreprocessingStep())]
    )


@pytest.fixture(scope='module')
def example():
    """Build an example with one bright bar and its box."""
    rows, columns = np.mgrid[:HEIGHT, :WIDTH] + 0.5
    image = np.zeros([HEIGHT, WIDTH, 3], np.uint8)
    image[tiny_rotated.inside(BOX, rows, columns)] = 250
    numbers = rotated_rectangles.to_record(np.array([BOX], np.float32), HEIGHT, WIDTH)
    boxes = quadrilaterals.from_record(tf.constant(numbers, tf.float32), HEIGHT, WIDTH)
    return {
        fields.IMAGE: tf.constant(image),
        fields.BOXES: boxes,
        fields.CLASSES: tf.constant([0], tf.int64),
        fields.AREA: tf.constant([1080.0]),
    }


def outline_in(image):
    """Compute the smallest box around the bright pixels, independently of the box code."""
    rows, columns = np.nonzero(image[..., 0] > 160)
    corners = [np.stack([rows + dy, columns + dx], 1) for dy in (0.0, 1.0) for dx in (0.0, 1.0)]
    return rotated_rectangles.smallest_around(np.concatenate(corners))


def check(result, least=0.85):
    """Check that the box of the result is the one that its image shows."""
    image = result[fields.IMAGE].numpy()
    assert result[fields.BOXES].shape == [1, 8]
    box = quadrilaterals.to_boxes(result[fields.BOXES], *map(float, image.shape[:2]))
    seen = tf.constant([outline_in(image)], tf.float32)
    assert float(rotated.elementwise_iou(box, seen)[0]) > least


STEPS = {
    'flip': 'random_horizontal_flip { probability: 1 }',
    'upside down': 'random_vertical_flip { probability: 1 }',
    'quarter': 'random_rotation90 { probability: 1 }',
    'quarters': 'random_rotation { by_quarter_turns: true }',
    'any angle': 'random_rotation { min_angle: -0.5 max_angle: 0.5 }',
    'crop': """random_crop_image {
      min_object_covered: 1 min_aspect_ratio: 0.9 max_aspect_ratio: 1.6 min_area: 0.5 max_area: 0.9
      overlap_thresh: 1
    }""",
    'pad': 'random_pad_image { max_image_height: 200 max_image_width: 220 }',
    'scale': 'random_image_scale { min_scale_ratio: 0.7 max_scale_ratio: 1.4 }',
    'other proportions': 'resize_image { new_height: 150 new_width: 120 }',
}


@pytest.mark.parametrize('name', STEPS)
def test_boxes_go_where_the_picture_goes(example, name):
    step = step_of(STEPS[name])
    seeds = range(1) if 'probability: 1' in STEPS[name] or 'resize' in STEPS[name] else range(3)
    for seed in seeds:
        result = step(example, tf.constant([seed, 5], tf.int64))
        # A rectangle that is stretched is a parallelogram: the box is around it.
        check(result, 0.75 if name == 'other proportions' else 0.85)


def test_clockwise_by_hand(example):
    step = step_of('random_rotation { min_angle: 0.4 max_angle: 0.4 }')
    result = step(example, tf.constant([1, 2], tf.int64))
    assert result[fields.IMAGE].dtype == tf.uint8
    box = quadrilaterals.to_boxes(result[fields.BOXES], float(HEIGHT), float(WIDTH))[0]
    assert float(box[4]) == pytest.approx(0.75, abs=1e-4)
    # The center is 2 above and 5 right of the image's: it goes round by 0.4.
    cosine, sine = math.cos(0.4), math.sin(0.4)
    expected = [60 - 2 * cosine + 5 * sine, 80 + 2 * sine + 5 * cosine, 18, 60]
    np.testing.assert_allclose(box[:4], expected, atol=1e-3)


def test_objects_that_leave_are_dropped(example):
    at_edge = {**example, fields.BOXES: example[fields.BOXES] + [0.0, 0.38] * 4}
    step = step_of('random_rotation { min_angle: 1.0 max_angle: 1.0 min_area_inside: 0.9 }')
    result = step(at_edge, tf.constant([1, 2], tf.int64))
    assert result[fields.BOXES].shape[0] == 0 and result[fields.CLASSES].shape[0] == 0
    kept = step_of('random_rotation { max_angle: 0.0 min_angle: 0.0 min_area_inside: 0.1 }')
    assert kept(at_edge, tf.constant([1, 2], tf.int64))[fields.BOXES].shape[0] == 1


def test_axis_aligned_boxes_masks_and_keypoints(example):
    unrotated = {**example, fields.BOXES: tf.constant([[0.25, 0.25, 0.75, 0.75]])}
    unrotated[fields.MASKS] = tf.cast(example[fields.IMAGE][tf.newaxis, ..., 0] > 0, tf.uint8)
    unrotated[fields.KEYPOINTS] = tf.constant([[[0.5, 0.5], [0.5, 0.75]]])
    step = step_of('random_rotation { min_angle: 1.5707963 max_angle: 1.5707963 }')
    result = step(unrotated, tf.constant([1, 2], tf.int64))
    # 80 wide and 60 high about the middle: 60 wide and 80 high.
    expected = [[20 / HEIGHT, 50 / WIDTH, 100 / HEIGHT, 110 / WIDTH]]
    np.testing.assert_allclose(result[fields.BOXES], expected, atol=1e-4)
    np.testing.assert_allclose(
        result[fields.KEYPOINTS], [[[0.5, 0.5], [100 / HEIGHT, 0.5]]], atol=1e-4
    )
    bright = result[fields.IMAGE].numpy()[..., 0] > 160
    agree = np.mean(result[fields.MASKS].numpy()[0][bright])
    assert agree > 0.95


def test_without_a_turn_nothing_changes(example):
    result = step_of('random_rotation { probability: 0 }')(example, tf.constant([1, 2], tf.int64))
    for name, value in example.items():
        np.testing.assert_array_equal(result[name], value)


def test_wrong_angles():
    with pytest.raises(errors.ConfigError, match='min_angle: 1; expected at most -1, max_angle'):
        step_of('random_rotation { min_angle: 1 max_angle: -1 }')


def test_steps_that_need_axis_aligned_boxes_reject_rotated_ones(example):
    with pytest.raises(errors.ConfigError, match='axis-aligned boxes'):
        step_of('random_jitter_boxes {}')(example, tf.constant([1, 2], tf.int64))
