from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from model_fns import layers
from model_fns.backbones import registry, vgg
from tests.model_fns.backbones import recorded_backbones

tf1 = tf.compat.v1


@pytest.mark.parametrize(
    'name, last, weights',
    [('vgg_a', 'conv5_2', 8 + 3), ('vgg_16', 'conv5_3', 13 + 3), ('vgg_19', 'conv5_4', 16 + 3)],
)
def test_configurations_of_the_paper(name, last, weights):
    # Table 1 of the paper counts the layers with weights: 11, 16 and 19.
    built = recorded_backbones.build(name, (224, 224), is_training=True)
    variables = {
        variable.op.name: variable.shape.as_list()
        for variable in built.graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES)
    }
    assert variables[f'{name}/conv5/{last}/weights'] == [3, 3, 512, 512]
    assert variables[f'{name}/fc6/weights'] == [7, 7, 512, 4096]
    assert variables[f'{name}/fc6/biases'] == [4096]
    assert len(variables) == 2 * weights
    penalties = built.graph.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)
    assert len(penalties) == weights


def test_features_pool_by_whole_windows():
    with tf.Graph().as_default():
        images = tf1.placeholder(tf.float32, [2, 47, 64, 3])
        end_points = vgg.vgg_features(images, layers.LayerStyle(), registry.PUBLISHED, 'vgg_a')
    assert end_points['vgg_a/pool1'].shape == [2, 23, 32, 64]
    assert end_points['vgg_a/pool5'].shape == [2, 1, 2, 512]


def test_logits_of_a_larger_image_are_averaged():
    built = recorded_backbones.build('vgg_a', (256, 288), is_training=False, batch=1)
    assert built.end_points['vgg_a/fc7'].shape == [1, 2, 3, 4096]
    assert built.end_points[registry.LOGITS].shape == [1, 11]


def test_first_layers_equal_their_definition():
    images = np.random.RandomState(0).normal(size=[1, 32, 32, 3]).astype(np.float32)
    with tf.Graph().as_default(), tf1.Session() as session:
        placeholder = tf1.placeholder(tf.float32, [1, 32, 32, 3])
        style = vgg.vgg_style(False, registry.Options())
        end_points = vgg.vgg_features(placeholder, style, registry.PUBLISHED, 'vgg_a')
        first = {v.op.name: v for v in tf1.global_variables() if '/conv1/' in v.op.name}
        session.run([variable.initializer for variable in first.values()])
        first['vgg_a/conv1/conv1_1/biases'].load(np.linspace(-1, 1, 64), session)
        values = session.run(first)
        actual = session.run(end_points['vgg_a/conv1/conv1_1'], {placeholder: images})
    weights = values['vgg_a/conv1/conv1_1/weights']
    # Xavier: uniform in +- sqrt(6 / (fan in + fan out)).
    bound = np.sqrt(6 / (9 * 3 + 9 * 64))
    assert np.abs(weights).max() <= bound
    assert np.abs(weights).max() == pytest.approx(bound, rel=0.01)
    expected = np.einsum('byxc,yxcd->bd', images[:, 1:4, 2:5], weights) + np.linspace(-1, 1, 64)
    np.testing.assert_allclose(actual[:, 2, 3], np.maximum(expected, 0), rtol=1e-4, atol=1e-5)
