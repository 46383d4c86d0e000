"""Heights and widths, known when the graph is built or only when it runs."""

import numpy as np
import pytest
import tensorflow as tf

from model_fns.segmentation.networks import sizes

tf1 = tf.compat.v1


@pytest.mark.parametrize(
    'size, scale, expected',
    [((33, 49), 0.5, (17, 25)), ((65, 65), 1.25, (81, 81)), ((9, 12), 1.0, (9, 12)),
     ((321, 513), 0.7, (225, 359))],
)  # fmt: skip
def test_scaled(size, scale, expected):
    assert sizes.scaled(size, scale) == expected
    with tf.Graph().as_default(), tf1.Session() as session:
        dynamic = sizes.scaled(tuple(map(tf.constant, size)), scale)
        assert tuple(session.run(list(dynamic))) == expected


@pytest.mark.parametrize('size, stride, expected', [((33, 48), 16, (3, 3)), ((1, 17), 8, (1, 3))])
def test_strided(size, stride, expected):
    assert sizes.strided(size, stride) == expected


def test_what_is_known_is_a_number_and_the_rest_a_tensor():
    with tf.Graph().as_default(), tf1.Session() as session:
        features = tf1.placeholder(tf.float32, [2, 5, None, 3])
        height, width = sizes.spatial_size(features)
        assert height == 5
        assert session.run(width, {features: np.zeros([2, 5, 7, 3])}) == 7


def test_corners_stay_on_corners():
    values = np.arange(3, dtype=np.float32).reshape(1, 1, 3, 1)
    with tf.Graph().as_default(), tf1.Session() as session:
        smooth = sizes.resize(tf.constant(values), (1, 5))
        nearest = sizes.resize(tf.constant(values), (2, 5), 'nearest')
        smooth, nearest = session.run((smooth, nearest))
    np.testing.assert_allclose(smooth[0, 0, :, 0], [0, 0.5, 1, 1.5, 2])
    np.testing.assert_array_equal(nearest[0, 1, :, 0], [0, 1, 1, 2, 2])


def test_the_right_size_adds_no_op():
    with tf.Graph().as_default():
        features = tf.zeros([1, 4, 5, 2])
        assert sizes.resize(features, (4, 5)) is features
