from __future__ import annotations

import pytest
import tensorflow as tf

from model_fns.backbones import inception_parts, inception_v4, registry
from tests.model_fns.backbones.inception_facts import layer_kinds

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1


def test_pools_are_the_published_kinds():
    kinds = layer_kinds(inception_v4.NETWORK.layers)
    assert kinds['MaxPool'] == 4  # Mixed_3a, 5a, 6a and 7a
    assert kinds['AvgPool'] == 4 + 7 + 3  # one a module


def test_stops_at_the_final_end_point():
    options = registry.Options(final_endpoint='Mixed_4a')
    style = inception_parts.inception_style(False, options)
    with tf.Graph().as_default():
        images = tf1.placeholder(tf.float32, [1, None, None, 3])
        end_points = inception_v4.NETWORK.features(images, style, options)
    assert list(end_points)[-1] == 'Mixed_4a'
    assert end_points['Mixed_4a'].shape[-1] == 192
