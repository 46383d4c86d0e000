import math

import numpy as np
import pytest
import tensorflow as tf

from model_fns.detection.boxes import box_coders, rotated
from model_fns.detection.boxes.rotated_coder import AngleWrap, RotatedBoxCoder
from tests.model_fns.detection import rotated_cases

SCALES = (10.0, 10.0, 5.0, 5.0, 5.0)
QUARTER = math.pi / 2


def test_recorded():
    case = rotated_cases.recorded()['coder']
    coder = RotatedBoxCoder(SCALES, AngleWrap.NONE)
    anchors, boxes = (tf.constant(case[name], tf.float32) for name in ('anchors', 'boxes'))
    codes = coder.encode(boxes, anchors)
    np.testing.assert_allclose(codes, case['codes'], atol=1e-4)
    np.testing.assert_allclose(coder.decode(codes, anchors), boxes, atol=1e-3)


def test_by_hand():
    # The anchor lies along the rows; the box is 3 to its right and 4 below, half as wide.
    anchor, box = [[10.0, 10, 2, 8, QUARTER]], [[14.0, 13, 2, 4, QUARTER + 0.1]]
    codes = RotatedBoxCoder((1.0,) * 5).encode(tf.constant(box), tf.constant(anchor))
    expected = [[-3 / 2, 4 / 8, 0, -math.log(2), 0.1 / QUARTER]]
    np.testing.assert_allclose(codes, expected, atol=1e-5)


def test_boxes_at_angle_zero_have_the_code_of_axis_aligned_boxes():
    anchors, boxes = rotated_cases.boxes(10, 1), rotated_cases.boxes(10, 2)
    anchors[:, 4], boxes[:, 4] = 0, 0
    codes = RotatedBoxCoder().encode(tf.constant(boxes), tf.constant(anchors))

    def unrotated(values):
        values = values.astype(np.float32)
        half = values[:, 2:4] / 2
        return tf.constant(np.concatenate([values[:, :2] - half, values[:, :2] + half], 1))

    expected = box_coders.FasterRcnnBoxCoder().encode(unrotated(boxes), unrotated(anchors))
    np.testing.assert_allclose(codes[:, :4], expected, atol=1e-3)
    np.testing.assert_array_equal(codes[:, 4], np.zeros(10))


@pytest.mark.parametrize(
    'wrap, box, expected',
    [
        # The anchor has an angle of -80 degrees, the box one of 80: 20 degrees are between them.
        (AngleWrap.NONE, [5.0, 5, 2, 8, 80], [0, 0, 160]),
        (AngleWrap.PI, [5.0, 5, 2, 8, 80], [0, 0, -20]),
        (AngleWrap.HALF_PI, [5.0, 5, 2, 8, 80], [0, 0, -20]),
        # Turned by 70 degrees, or by -20 with its sides exchanged.
        (AngleWrap.PI, [5.0, 5, 2, 8, -10], [0, 0, 70]),
        (AngleWrap.HALF_PI, [5.0, 5, 2, 8, -10], [math.log(4), -math.log(4), -20]),
    ],
)
def test_wrapped_turns(wrap, box, expected):
    anchor = tf.constant([5.0, 5, 2, 8, math.radians(-80)], tf.float64)
    box = tf.constant([*box[:4], math.radians(box[4])], tf.float64)
    coder = RotatedBoxCoder((1.0,) * 5, wrap)
    codes = coder.encode(box, anchor)
    np.testing.assert_allclose(codes[2:] * [1, 1, 90], expected, atol=1e-6)
    overlap = rotated.elementwise_iou(coder.decode(codes, anchor)[None], box[None])
    np.testing.assert_allclose(overlap, [1], atol=1e-6)


def test_decoded_sides_have_bounds():
    codes = tf.constant([[0.0, 0, 500, -500, 0]])
    box = RotatedBoxCoder().decode(codes, tf.constant([[5.0, 5, 16, 16, 0]]))
    np.testing.assert_allclose(box[0, 2:4], [1000, 0.256], rtol=1e-4)
