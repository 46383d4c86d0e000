from __future__ import annotations

import pytest
import tensorflow as tf

from model_fns.backbones import inception_parts, inception_v1, registry
from tests.model_fns.backbones import recorded_backbones

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1


def test_any_image_size_gives_one_row_of_logits():
    built = recorded_backbones.build('inception_v1', (33, 250), is_training=False)
    assert built.end_points['Mixed_5c'].shape == [2, 2, 8, 1024]
    assert built.end_points[registry.LOGITS].shape == [2, 11]


@pytest.mark.usefixtures('initial_values')
def test_weights_start_small_whatever_the_style_says():
    with tf.Graph().as_default(), tf1.Session() as session:
        style = inception_parts.inception_style(True, registry.PUBLISHED)
        options = registry.Options(final_endpoint='Conv2d_2c_3x3')
        inception_v1.NETWORK.features(tf.zeros([1, 8, 8, 3]), style, options)
        session.run(tf1.global_variables_initializer())
        weights = session.run(tf1.trainable_variables('InceptionV1/Conv2d_2c_3x3/weights'))[0]
    assert weights.std() == pytest.approx(0.01 * 0.8796, rel=0.03)  # tails are cut


def test_stops_at_the_final_end_point():
    options = registry.Options(final_endpoint='MaxPool_3a_3x3')
    with tf.Graph().as_default():
        images = tf.zeros([1, 64, 64, 3])
        style = inception_parts.inception_style(False, options)
        end_points = inception_v1.NETWORK.features(images, style, options)
        assert list(end_points)[-1] == 'MaxPool_3a_3x3'
        assert end_points['MaxPool_3a_3x3'].shape == [1, 8, 8, 192]
        assert all(v.op.name.startswith('InceptionV1/') for v in tf1.global_variables())
        with pytest.raises(ValueError, match='Mixed_9z'):
            inception_v1.NETWORK.features(images, style, options.but(final_endpoint='Mixed_9z'))
