import math

import numpy as np
import pytest
import tensorflow as tf

from model_fns.detection.boxes import gaussians
from tests.model_fns.detection import rotated_cases


@pytest.mark.parametrize('dtype, bound', [(tf.float64, 1e-6), (tf.float32, 1e-4)])
def test_recorded(dtype, bound):
    rows = rotated_cases.recorded()['gaussian']['rows']
    boxes, others = (tf.constant([row[name] for row in rows], dtype) for name in ('pred', 'target'))
    loss = gaussians.closeness(gaussians.normalized_wasserstein, 1.0)
    for name, found in (
        ('gwd_squared', gaussians.squared_wasserstein(boxes, others)),
        ('gwd_loss', 1.0 - loss(boxes, others)),
        ('kld', gaussians.kullback_leibler(boxes, others)),
    ):
        expected = [row[name] for row in rows]
        np.testing.assert_allclose(found, expected, rtol=bound, atol=bound, err_msg=name)


def test_by_hand_side_by_side():
    # Circles of the standard deviations 1 and 2, 3 apart.
    one, other = tf.constant([[0.0, 0, 2, 2, 0.4]]), tf.constant([[0.0, 3, 4, 4, 0]])
    # 9 + 2 + 8 - 2 * 4: of each axis 1 + 4 - 2 * 2.
    np.testing.assert_allclose(gaussians.squared_wasserstein(one, other), [9 + 2], rtol=1e-5)
    # 9 / 2 + (4 + 4) / 2 + ln(1 / 16) / 2 - 1.
    expected = 4.5 + 4 - math.log(4) - 1
    np.testing.assert_allclose(gaussians.kullback_leibler(one, other), [expected], rtol=1e-5)


def test_names_of_a_rectangle_make_no_difference():
    boxes = tf.constant(rotated_cases.boxes(10), tf.float64)
    other = tf.constant(rotated_cases.boxes(10, 2), tf.float64)
    exchanged = tf.gather(boxes, [0, 1, 3, 2, 4], axis=1) + [0, 0, 0, 0, math.pi / 2]
    for distance in (
        gaussians.squared_wasserstein,
        gaussians.normalized_wasserstein,
        gaussians.kullback_leibler,
    ):
        np.testing.assert_allclose(
            distance(exchanged, other), distance(boxes, other), rtol=1e-9, err_msg=str(distance)
        )


@pytest.mark.parametrize('root', [False, True])
def test_slopes_are_finite(root):
    same = [5.0, 5, 2, 8, 0.3]
    boxes = tf.constant([same, [5, 5, 0, 0, 0], [1e4, 5, 3, 3, 0], [5, 5, 1e-9, 8, 0]])
    for distance in (gaussians.normalized_wasserstein, gaussians.kullback_leibler):
        closeness = gaussians.closeness(distance, 1.0, root)
        with tf.GradientTape() as tape:
            tape.watch(boxes)
            found = closeness(boxes, tf.constant([same] * 4))
        slopes = tape.gradient(found, boxes)
        assert np.all(np.isfinite(found)) and np.all(np.isfinite(slopes))
        assert np.all((found.numpy() >= 0) & (found.numpy() <= 1))
