from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from model_fns import layers
from model_fns.backbones import inception_v3, registry
from tests.model_fns.backbones import recorded_backbones
from tests.model_fns.backbones.inception_facts import detector_variables

tf1 = tf.compat.v1


def test_variables_of_the_ssd_features_are_the_published_ones():
    published = detector_variables(
        'ssd_inception_v3_pets', 'FeatureExtractor/InceptionV3/', without='Mixed_7c_'
    )
    style = layers.LayerStyle(is_training=True, batch_norm=layers.BatchNorm(scale=True))
    with tf.Graph().as_default():
        with tf1.variable_scope('FeatureExtractor'):
            images = tf1.placeholder(tf.float32, [1, 300, 300, 3])
            end_points = inception_v3.NETWORK.features(images, style)
        variables = {v.op.name: tuple(v.shape) for v in tf1.global_variables()}
    assert variables == published
    taps = {name: tuple(end_points[name].shape) for name in ('Mixed_5d', 'Mixed_6e', 'Mixed_7c')}
    assert taps == {
        'Mixed_5d': (1, 35, 35, 288),
        'Mixed_6e': (1, 17, 17, 768),
        'Mixed_7c': (1, 8, 8, 2048),
    }


@pytest.fixture(scope='module')
def smallest():
    size = registry.NETWORKS.get('inception_v3').min_size
    options = registry.Options(depth_multiplier=0.1)
    return recorded_backbones.build(
        'inception_v3', (size, size), is_training=False, options=options
    )


def test_image_of_the_least_size_gives_both_logits(smallest):
    assert smallest.end_points['Mixed_6e'].shape[1:3] == [3, 3]  # the least that Mixed_7a takes
    assert smallest.end_points['Mixed_7c'].shape[1:3] == [1, 1]
    assert smallest.end_points[registry.LOGITS].shape == [2, 11]
    assert smallest.end_points[registry.AUXILIARY_LOGITS].shape == [2, 11]


def test_depth_multiplier_reaches_the_auxiliary_classifier(smallest):
    shapes = {v.op.name: v.shape for v in smallest.graph.get_collection('trainable_variables')}
    assert shapes['InceptionV3/AuxLogits/Conv2d_2a_1x1/weights'] == [1, 1, 16, 76]


def test_auxiliary_logits_start_near_zero(smallest):
    with smallest.graph.as_default(), tf1.Session() as session:
        weights = tf1.trainable_variables('InceptionV3/AuxLogits/Conv2d_2b_1x1/weights')[0]
        session.run(weights.initializer)
        values = session.run(weights)
    assert np.std(values) == pytest.approx(0.001 * 0.8796, rel=0.1)  # tails are cut
