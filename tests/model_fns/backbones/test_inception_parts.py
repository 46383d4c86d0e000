from __future__ import annotations

import collections

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from model_fns import layers
from model_fns.backbones import inception_parts as parts
from model_fns.backbones import inception_v1, inception_v4, registry
from model_fns.backbones.inception_parts import AvgPool, Conv, Fork, MaxPool, Mixed

tf1 = tf.compat.v1

# Standard deviation of a unit normal that is redrawn beyond two.
CUT_NORMAL_STDDEV = 0.8796

PLAIN = layers.LayerStyle(initializer=layers.ONES, activation=None)


def evaluate(layer, inputs):
    """What the layer makes of the inputs when all weights are 1 and all biases 0."""
    with tf.Graph().as_default(), tf1.Session() as session:
        outputs = layer.build(tf.constant(inputs, tf.float32), PLAIN, int)
        session.run(tf1.global_variables_initializer())
        return session.run(outputs)


def initial_values():
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        return session.run({v.op.name: v for v in tf1.trainable_variables()})


def layer_kinds(network):
    """Count the layers of each class, those inside of modules included."""
    kinds = collections.Counter(type(layer).__name__ for layer in network)
    for layer in network:
        for branch in getattr(layer, 'branches', ()):
            kinds.update(layer_kinds(branch))
    return kinds


@pytest.mark.parametrize(
    'network, max_pools, mean_pools',
    [
        (inception_v1.NETWORK, 4 + 9, 0),  # between the stages, and one a module
        (inception_v4.NETWORK, 4, 4 + 7 + 3),  # Mixed_3a, 5a, 6a and 7a; one a module
    ],
    ids=['inception_v1', 'inception_v4'],
)
def test_pools_are_the_published_kinds(network, max_pools, mean_pools):
    kinds = layer_kinds(network.layers)
    assert (kinds['MaxPool'], kinds['AvgPool']) == (max_pools, mean_pools)


@given(st.integers(1, 2000), st.floats(0.01, 2.0, allow_nan=False), st.integers(1, 64))
def test_scaled_depth_rounds_down_and_has_a_floor(channels, multiplier, at_least):
    options = registry.Options(depth_multiplier=multiplier, min_depth=at_least)
    depth = parts.scaled_depth(options)(channels)
    assert depth >= at_least
    if depth > at_least:
        assert depth <= channels * multiplier < depth + 1


def test_section_is_between_two_end_points_and_includes_both():
    network = [Conv(f'Conv2d_{i}_1x1', 1) for i in range(4)]
    assert parts.section(network, None, 'Conv2d_1_1x1') == network[:2]
    assert parts.section(network, 'Conv2d_1_1x1', 'Conv2d_2_1x1') == network[1:3]
    wrong = [(None, 'Mixed'), ('Mixed', 'Conv2d_1_1x1'), ('Conv2d_3_1x1', 'Conv2d_0_1x1')]
    for first, last in wrong:
        with pytest.raises(ValueError, match='Conv2d_2_1x1'):
            parts.section(network, first, last)


def test_branches_are_joined_in_their_order():
    # Channel sums are 3 and 30; every weight is 1.
    inputs = np.array([[1.0, 2.0], [10.0, 20.0]]).reshape(1, 1, 2, 2)
    fork = Fork((Conv('Conv2d_0b_1x1', 1), Conv('Conv2d_0c_1x3', 2)))
    module = Mixed(
        'Mixed_1a',
        (
            (MaxPool('MaxPool_0a_1x2'),),
            (AvgPool('AvgPool_0a_1x2'), Conv('Conv2d_0b_1x1', 1)),
            (fork,),
        ),
    )
    expected = [
        # largest and mean of a pixel and the next one; of the last pixel, itself
        [10.0, 20.0, 16.5, 3.0, 33.0, 33.0],
        [10.0, 20.0, 30.0, 30.0, 33.0, 33.0],
    ]
    np.testing.assert_allclose(evaluate(module, inputs)[0, 0], expected)


def test_initial_weights_of_a_layer_override_those_of_the_style():
    with tf.Graph().as_default():
        inputs = tf.zeros([1, 1, 1, 64])
        Conv('Conv2d_0a_1x1', 256, stddev=0.1).build(inputs, PLAIN, int)
        weights = initial_values()['Conv2d_0a_1x1/weights']
    assert np.abs(weights).max() <= 0.2  # cut at two standard deviations
    assert weights.std() == pytest.approx(0.1 * CUT_NORMAL_STDDEV, rel=0.03)


def test_initial_weights_of_the_published_style():
    style = parts.inception_style(True, registry.Options())
    with tf.Graph().as_default():
        features = tf.zeros([1, 2, 2, 512])
        for scope, convolution in (('a', 'Conv2d_1c_1x1'), ('b', '')):
            network = parts.Inception(scope, (), pooled='mean', convolution=convolution)
            network.classify(features, 20, style, registry.PUBLISHED)
        values = initial_values()
    convolution, dense = (
        values[f'{scope}/weights'] for scope in ('a/Logits/Conv2d_1c_1x1', 'b/Logits/Logits')
    )
    # Variance 2 / 512, but for a factor of 1.3 that makes up for the cut tails, about.
    assert convolution.std() == pytest.approx(np.sqrt(2.6 / 512) * CUT_NORMAL_STDDEV, rel=0.03)
    # Xavier: uniform within sqrt(6 / (inputs + outputs)).
    assert np.abs(dense).max() == pytest.approx(np.sqrt(6 / (512 + 20)), rel=0.01)


def test_options_change_the_published_style():
    options = registry.Options(weight_decay=0.1, batch_norm_decay=0.5, batch_norm_epsilon=0.25)
    style = parts.inception_style(True, options)
    assert style.regularizer == layers.l2(0.1)
    assert style.batch_norm == layers.BatchNorm(decay=0.5, epsilon=0.25, center=True, scale=False)
    published = parts.inception_style(False, registry.Options())
    assert published.regularizer == layers.l2(4e-5)
    assert published.batch_norm == layers.BatchNorm(decay=0.9997, epsilon=0.001)


@pytest.mark.parametrize('is_training', [True, False])
def test_dropout_only_in_training(is_training):
    style = parts.inception_style(is_training, registry.Options())
    with tf.Graph().as_default(), tf1.Session() as session:
        network = parts.Inception('net', (), 'mean', 'kept', 'Conv2d_1c_1x1')
        options = registry.Options(dropout_keep_prob=0.8)
        end = network.classify(tf.ones([4, 2, 2, 100]), 3, style, options)
        session.run(tf1.global_variables_initializer())
        pooled, dropped = session.run([end['mean'], end['kept']])
    assert list(end) == ['mean', 'kept', registry.LOGITS, 'Predictions']
    np.testing.assert_array_equal(pooled, np.ones([4, 1, 1, 100]))
    if is_training:
        assert set(np.unique(dropped)) == {0.0, 1.25}
        assert 280 < np.count_nonzero(dropped) < 360  # 320 of 400, give or take 5 deviations
    else:
        np.testing.assert_array_equal(dropped, pooled)


@pytest.mark.parametrize(
    'size, kernel, scope',
    [(17, 5, 'Conv2d_2a_5x5'), (9, 2, 'Conv2d_2a_2x2'), (3, 1, 'Conv2d_2a_1x1'), (20, 5, None)],
)
def test_auxiliary_features_fit_the_map(size, kernel, scope):
    with tf.Graph().as_default():
        inputs = tf1.placeholder(tf.float32, [2, size, size, 8])
        auxiliary = parts.Auxiliary('', 'Conv2d_2a_{}x{}', 'Logits')
        outputs = auxiliary.features(inputs, PLAIN, int)
        names = {v.op.name: v.shape for v in tf1.trainable_variables()}
        assert outputs.shape == [2, 1, 1, 768]
        assert names[f'{scope or "Conv2d_2a_5x5"}/weights'] == [kernel, kernel, 128, 768]


def test_auxiliary_features_of_a_map_of_unknown_size():
    with tf.Graph().as_default(), tf1.Session() as session:
        inputs = tf1.placeholder(tf.float32, [None, None, None, 1])
        auxiliary = parts.Auxiliary('', 'Conv2d_2a_5x5', 'Logits')
        outputs = auxiliary.features(inputs, PLAIN, lambda _: 2)
        session.run(tf1.global_variables_initializer())
        for size in (17, 23):
            # Means of 1, to 2 channels of 1, summed over 5x5 taps and 2 channels.
            values = session.run(outputs, {inputs: np.ones([3, size, size, 1])})
            np.testing.assert_allclose(values, np.full([3, 1, 1, 2], 50.0))
