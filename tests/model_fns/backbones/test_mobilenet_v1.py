from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf

from model_fns import layers
from model_fns.backbones import mobilenet_v1, registry
from tests.model_fns.backbones import recorded_backbones

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1


def _features(images, **options):
    style = mobilenet_v1.mobilenet_v1_style(False, registry.Options())
    return mobilenet_v1.mobilenet_v1_features(images, style, registry.Options(**options))


# Table 7 of the paper, in millions, for 1000 classes.
@pytest.mark.parametrize(
    'name, millions',
    [
        ('mobilenet_v1_075', 2.6),
        ('mobilenet_v1_050', 1.3),
    ],
)
def test_parameter_counts_of_the_paper(name, millions):
    assert recorded_backbones.count_parameters(name, num_classes=1000) / 1e6 == pytest.approx(
        millions, abs=0.05
    )


@pytest.mark.parametrize('output_stride, padding', [(16, 'SAME'), (8, 'FIXED')])
def test_atrous_features_hold_the_strided_ones(output_stride, padding):
    recorded_backbones.check_atrous_features(
        functools.partial(_features, depth_multiplier=0.125, padding=padding),
        output_stride,
        mobilenet_v1.LAST_END_POINT,
    )


def test_stops_where_it_is_asked_to():
    with tf.Graph().as_default():
        images = tf1.placeholder(tf.float32, [1, 64, 64, 3])
        end_points = _features(images, final_endpoint='Conv2d_3_depthwise', last_channels=(8, 8))
        assert list(end_points)[-1] == 'Conv2d_3_depthwise'
        assert len(end_points) == 6
        message = "no end point 'Conv2d_14'"
        with tf1.variable_scope('another'), pytest.raises(ValueError, match=message):
            _features(images, final_endpoint='Conv2d_14')


def test_last_channels_are_scaled_too():
    with tf.Graph().as_default():
        images = tf1.placeholder(tf.float32, [1, 64, 64, 3])
        end_points = _features(images, depth_multiplier=0.5, last_channels=(512, 256))
        channels = [end_points[f'Conv2d_{i}_pointwise'].shape[-1] for i in (11, 12, 13)]
        assert channels == [256, 256, 128]


@pytest.mark.usefixtures('initial_values')
def test_images_of_any_size_and_explicit_padding():
    with tf.Graph().as_default(), tf1.Session() as session:
        images = tf1.placeholder(tf.float32, [None, None, None, 1])
        style = layers.LayerStyle()
        options = registry.Options(depth_multiplier=0.125, padding='FIXED')
        end_points = mobilenet_v1.mobilenet_v1_features(images, style, options)
        session.run(tf1.global_variables_initializer())
        last = end_points[mobilenet_v1.LAST_END_POINT]
        for height, width in ((33, 64), (50, 31)):
            value = session.run(last, {images: np.ones([2, height, width, 1])})
            assert value.shape == (2, -(-height // 32), -(-width // 32), 128)
