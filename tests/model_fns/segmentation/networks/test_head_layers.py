"""The style of what is behind the backbone, and the split separable layer."""

import numpy as np
import pytest
import tensorflow as tf

from model_fns.segmentation.networks import head_layers
from tests.model_fns.segmentation import tiny_networks

tf1 = tf.compat.v1

FEATURES = np.random.RandomState(3).uniform(-1, 1, [1, 5, 6, 3]).astype(np.float32)


def style(**changes):
    settings = {
        'is_training': False,
        'fine_tune_batch_norm': True,
        'weight_decay': 0.5,
        'batch_norm_decay': 0.9997,
    }
    return head_layers.head_style(**{**settings, **changes})


@pytest.mark.parametrize('bounded, kind', [(False, 'Relu'), (True, 'Relu6')])
@pytest.mark.parametrize('is_training, fine_tune', [(True, True), (True, False), (False, True)])
def test_batch_norm_and_activation(bounded, kind, is_training, fine_tune):
    with tf.Graph().as_default() as graph:
        made = style(
            bounded_activation=bounded, is_training=is_training, fine_tune_batch_norm=fine_tune
        )
        head_layers.conv3x3(tf.constant(FEATURES), 4, made, 'a', separable=False)
        (norm,) = [op for op in graph.get_operations() if op.type == 'FusedBatchNormV3']
        assert norm.get_attr('is_training') == (is_training and fine_tune)
        assert norm.get_attr('epsilon') == pytest.approx(1e-5)
        assert kind in [op.type for op in graph.get_operations()]
        updates = graph.get_collection(tf1.GraphKeys.UPDATE_OPS)
        assert len(updates) == (2 if is_training and fine_tune else 0)


def test_only_pointwise_weights_have_a_regularizer():
    with tf.Graph().as_default() as graph:
        head_layers.conv3x3(tf.constant(FEATURES), 4, style(), 'a', separable=True)
        weights = {v.op.name: v for v in tf1.trainable_variables()}
        losses = graph.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)
        pointwise, total = tiny_networks.run(
            (weights['a_pointwise/weights'].value(), tf.add_n(losses))
        )
    # Half of the sum of squares, times the factor.
    np.testing.assert_allclose(total, 0.5 * 0.5 * (pointwise**2).sum(), rtol=1e-5)


def test_a_separable_layer_is_two_normalized_and_activated_ones():
    with tf.Graph().as_default():
        out = head_layers.conv3x3(tf.constant(FEATURES), 4, style(), 'a', separable=True, rate=2)
        assert tiny_networks.variable_names() == [
            f'a_{half}/{leaf}'
            for half, weights in (('depthwise', 'depthwise_weights'), ('pointwise', 'weights'))
            for leaf in (weights, 'BatchNorm/gamma', 'BatchNorm/beta')
        ]
        variables = {v.op.name: v for v in tf1.global_variables()}
        kernel = variables['a_depthwise/depthwise_weights'].value()
        matrix = variables['a_pointwise/weights'].value()
        # Statistics and scales of a new batch norm are 0, 1 and 1, 0; tests run with other ones.
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            value, kernel, matrix = session.run((out, kernel, matrix))
    expected = slow_separable(kernel[..., 0], matrix[0, 0], rate=2)
    np.testing.assert_allclose(value[0], expected, rtol=1e-4, atol=1e-6)


def slow_separable(kernel, matrix, rate):
    """Both halves in loops; batch norm divides by the root of 1 + 1e-5."""
    height, width = FEATURES.shape[1:3]
    padded = np.pad(FEATURES[0], [(rate, rate), (rate, rate), (0, 0)])
    filtered = np.zeros([height, width, 3])
    for row in range(3):
        for column in range(3):
            window = padded[rate * row :, rate * column :][:height, :width]
            filtered += window * kernel[row, column]
    norm = np.sqrt(1 + 1e-5)
    return np.maximum(np.maximum(filtered / norm, 0) @ matrix / norm, 0)
