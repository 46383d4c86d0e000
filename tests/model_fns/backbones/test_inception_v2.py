from __future__ import annotations

import pytest
import tensorflow as tf

from model_fns import layers
from model_fns.backbones import inception_v2, registry
from tests.model_fns.backbones import recorded_backbones

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1

DETECTOR_STYLE = layers.LayerStyle(
    is_training=True,
    regularizer=layers.l2(4e-5),
    regularize_depthwise=True,
    batch_norm=layers.BatchNorm(scale=True),
)


def built_variables():
    return {v.op.name: tuple(v.shape) for v in tf1.global_variables()}


def test_first_layer_of_the_classifier_has_biases_for_batch_norm():
    built = recorded_backbones.build('inception_v2', (1, 32), is_training=False)
    assert built.end_points[registry.LOGITS].shape == [2, 11]
    with built.graph.as_default():
        stem = [name for name in built_variables() if '/Conv2d_1a_7x7/' in name]
    assert [name.split('/')[-1] for name in stem] == [
        'depthwise_weights',
        'pointwise_weights',
        'biases',
    ]


def test_depth_multiplier_scales_all_channels():
    with tf.Graph().as_default():
        options = registry.Options(depth_multiplier=0.5, min_depth=40, final_endpoint='Mixed_3b')
        end_points = inception_v2.NETWORK.features(
            tf.zeros([1, 32, 32, 3]), DETECTOR_STYLE, options
        )
        depthwise = built_variables()['InceptionV2/Conv2d_1a_7x7/depthwise_weights']
    channels = {point: value.shape[-1] for point, value in end_points.items()}
    assert channels['Conv2d_1a_7x7'] == 40  # max(64 / 2, 40)
    assert channels['Conv2d_2c_3x3'] == 96
    assert channels['Mixed_3b'] == 40 + 40 + 48 + 40
    assert depthwise == (7, 7, 3, 8)


def test_first_layer_has_no_more_channels_inside_than_it_gives_out():
    with tf.Graph().as_default():
        options = registry.Options(depth_multiplier=0.25, final_endpoint='Conv2d_1a_7x7')
        inception_v2.NETWORK.features(tf.zeros([1, 8, 8, 3]), DETECTOR_STYLE, options)
        depthwise = built_variables()['InceptionV2/Conv2d_1a_7x7/depthwise_weights']
    assert depthwise == (7, 7, 3, 5)  # 16 outputs, so 5 for each color
