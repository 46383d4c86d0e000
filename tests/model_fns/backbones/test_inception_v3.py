from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from model_fns.backbones import registry
from tests.model_fns.backbones import recorded_backbones

tf1 = tf.compat.v1


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
