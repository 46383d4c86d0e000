from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from model_fns import layers

tf1 = tf.compat.v1

PLAIN = layers.LayerStyle(activation=None)


def _random(*shape, seed=0):
    return np.random.RandomState(seed).normal(size=shape).astype(np.float32)


def _evaluate(build, graph_seed=3):
    """What `build()` computes in a graph of its own; variables, by name, after one update."""
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.set_random_seed(graph_seed)
        tensors = build()
        session.run(tf1.global_variables_initializer())
        values = session.run(tensors)
        session.run(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS))
        return values, session.run({v.op.name: v for v in tf1.global_variables()})


class TestVariables:
    def test_depthwise_weights_are_penalised_only_when_asked(self):
        for asked in (False, True):
            with tf.Graph().as_default() as graph:
                style = PLAIN.but(regularizer=layers.l2(1.0), regularize_depthwise=asked)
                layers.separable_conv2d(tf.zeros([1, 4, 4, 2]), 3, 3, style, 'x')
                penalties = graph.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)
                assert len(penalties) == 1 + asked

    def test_names_shapes_and_collections(self):
        with tf.Graph().as_default():
            style = layers.LayerStyle(batch_norm=layers.BatchNorm(scale=True))
            images = tf.zeros([1, 4, 4, 2])
            with tf1.variable_scope('net'):
                layers.conv2d(images, 3, (1, 2), style, 'a')
                layers.depthwise_conv2d(images, 3, style, 'b', depth_multiplier=2)
                layers.separable_conv2d(images, 3, 3, style.linear(), 'c')
                layers.conv2d(images, 3, 1, style, 'd', use_bias=True)
            names = {v.op.name: v.shape.as_list() for v in tf1.global_variables()}
            trainable = [v.op.name for v in tf1.trainable_variables()]
            assert tf1.global_variables() == tf1.model_variables()
        assert names == {
            'net/a/weights': [1, 2, 2, 3],
            'net/b/depthwise_weights': [3, 3, 2, 2],
            'net/c/depthwise_weights': [3, 3, 2, 1],
            'net/c/pointwise_weights': [1, 1, 2, 3],
            'net/c/biases': [3],
            'net/d/weights': [1, 1, 2, 3],
            'net/d/biases': [3],
        } | {
            f'net/{layer}/BatchNorm/{part}': [channels]
            for layer, channels in (('a', 3), ('b', 4), ('d', 3))
            for part in ('gamma', 'beta', 'moving_mean', 'moving_variance')
        }
        assert set(names) - set(trainable) == {name for name in names if 'moving_' in name}


CONVOLUTIONS = [
    (kernel, stride, rate, padding)
    for kernel, stride, rate in (
        (1, 1, 2),
        (2, 2, 1),
        (3, 1, 1),
        (3, 2, 1),
        (3, 1, 2),
        (3, 1, 4),
        (5, 2, 1),
        (5, 1, 2),
    )
    for padding in ('SAME', 'FIXED', 'VALID')
    if (kernel - 1) * rate < 9 or padding != 'VALID'
]


def _pads(size, kernel, stride, rate, padding):
    """Zeros before and after one axis, and how many outputs there are."""
    span = (kernel - 1) * rate
    if padding == 'VALID':
        total = 0
    elif padding == 'FIXED':
        total = span
    else:
        total = max((-(-size // stride) - 1) * stride + span + 1 - size, 0)
    return total // 2, total - total // 2, (size + total - span - 1) // stride + 1


def _windows(images, kernel, stride, rate, padding):
    """What each output sees: [batch, height', width', kernel, kernel, channels]."""
    rows, columns = (_pads(n, kernel, stride, rate, padding) for n in images.shape[1:3])
    padded = np.pad(images, [(0, 0), rows[:2], columns[:2], (0, 0)])
    taps = np.arange(kernel) * rate
    seen = [
        [padded[:, y * stride + taps][:, :, x * stride + taps] for x in range(columns[2])]
        for y in range(rows[2])
    ]
    return np.moveaxis(np.asarray(seen), 2, 0)


@pytest.fixture(scope='module', params=[(9, 10), (12, 9)], ids=str)
def convolved(request):
    """Images, and of each convolution: its value, weights, and gradients for an upstream."""
    images = _random(2, *request.param, 3)
    kinds = {
        'full': (lambda *a, **k: layers.conv2d(a[0], 4, *a[1:], **k), 'bhwklc,klco->bhwo'),
        'depthwise': (layers.depthwise_conv2d, 'bhwklc,klcm->bhwcm'),
    }
    tensors = {}
    with tf.Graph().as_default(), tf1.Session() as session:
        inputs = tf1.placeholder(tf.float32, images.shape)
        for case in CONVOLUTIONS:
            kernel, stride, rate, padding = case
            for kind, (layer, _) in kinds.items():
                scope = '_'.join(str(part) for part in (kind, *case))
                how = {'stride': stride, 'rate': rate, 'padding': padding, 'use_bias': False}
                outputs = layer(inputs, kernel, PLAIN, scope, **how)
                weights = tf1.trainable_variables(scope + '/')[0]
                upstream = tf.constant(_random(*outputs.shape, seed=1))
                gradients = tf.gradients(outputs, [inputs, weights], upstream)
                tensors[(kind, *case)] = (outputs, weights, upstream, *gradients)
        session.run(tf1.global_variables_initializer())
        return images, {k: e for k, (_, e) in kinds.items()}, session.run(tensors, {inputs: images})


@pytest.mark.parametrize('case', CONVOLUTIONS, ids=str)
@pytest.mark.parametrize('kind', ['full', 'depthwise'])
def test_convolutions_and_their_gradients_against_loops(kind, case, convolved):
    images, products, results = convolved
    outputs, weights, upstream, image_gradient, weight_gradient = results[(kind, *case)]
    product = products[kind]
    arguments, target = product.split('->')
    seen = _windows(images, *case)
    expected = np.einsum(product, seen, weights)
    upstream = upstream.reshape(expected.shape)
    np.testing.assert_allclose(outputs, expected.reshape(outputs.shape), rtol=1e-4, atol=1e-5)
    swapped = f'{arguments.split(",")[0]},{target}->{arguments.split(",")[1]}'
    np.testing.assert_allclose(
        weight_gradient, np.einsum(swapped, seen, upstream), rtol=1e-4, atol=1e-4
    )
    # The gradient for the image is the adjoint: <gradient, v> = <upstream, convolution of v>.
    direction = _random(*images.shape, seed=2)
    moved = np.einsum(product, _windows(direction, *case), weights)
    assert np.vdot(image_gradient, direction) == pytest.approx(np.vdot(upstream, moved), rel=1e-3)


@pytest.mark.parametrize('layer', [layers.depthwise_conv2d, layers.separable_conv2d, layers.conv2d])
def test_fixed_padding_survives_graph_rewriting(layer):
    """What follows a convolution is fused with it: at one time that lost the padding."""
    images = _random(2, 9, 10, 3)
    results = []
    with tf.Graph().as_default(), tf1.Session() as session:
        inputs = tf1.placeholder(tf.float32, [None, None, None, 3])
        padded = tf.pad(inputs, [[0, 0], [1, 1], [1, 1], [0, 0]])
        sizes = (3,) if layer is layers.depthwise_conv2d else (4, 3)
        for values, padding in ((inputs, 'FIXED'), (padded, 'VALID')):
            with tf1.variable_scope('net', reuse=tf1.AUTO_REUSE):
                style = layers.LayerStyle(activation=tf.nn.relu)
                results.append(layer(values, *sizes, style, 'x', stride=2, padding=padding))
        session.run(tf1.global_variables_initializer())
        np.testing.assert_allclose(
            *[session.run(result, {inputs: images}) for result in results], atol=1e-5
        )


def test_separable_convolution_is_depthwise_then_pointwise():
    images = _random(1, 6, 6, 3)

    def build():
        return layers.separable_conv2d(images, 5, 3, PLAIN, 'x', depth_multiplier=2, stride=2)

    outputs, variables = _evaluate(build)
    seen = _windows(images, 3, 2, 1, 'SAME')
    filtered = np.einsum('bhwklc,klcm->bhwcm', seen, variables['x/depthwise_weights'])
    filtered = filtered.reshape(*filtered.shape[:3], 6)
    expected = filtered @ variables['x/pointwise_weights'][0, 0] + variables['x/biases']
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-5)


@settings(deadline=None, max_examples=30)
@given(size=st.integers(1, 40), kernel=st.integers(1, 7), stride=st.integers(1, 4), data=st.data())
def test_same_and_fixed_padding_keep_size_over_stride(size, kernel, stride, data):
    padding = data.draw(st.sampled_from(['SAME', 'FIXED']))
    with tf.Graph().as_default():
        images = tf1.placeholder(tf.float32, [1, size, size, 1])
        outputs = layers.conv2d(images, 1, kernel, PLAIN, 'x', stride=stride, padding=padding)
        assert outputs.shape.as_list() == [1, -(-size // stride), -(-size // stride), 1]


class TestBatchNorm:
    @pytest.mark.parametrize('shape', [(2, 3, 3, 4), (5, 4), (3, 1, 1, 4)], ids=str)
    def test_training_normalises_by_the_batch_and_moves_by_the_unbiased_variance(self, shape):
        values = 3.0 * _random(*shape) + 1.0
        settings = layers.BatchNorm(decay=0.9, epsilon=0.01)
        outputs, variables = _evaluate(
            lambda: layers.batch_norm(tf.constant(values), settings, True)
        )
        axes = tuple(range(len(shape) - 1))
        mean, variance = values.mean(axes), values.var(axes)
        expected = (values - mean) / np.sqrt(variance + 0.01)
        np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-5)
        assert set(variables) == {
            'BatchNorm/beta',
            'BatchNorm/moving_mean',
            'BatchNorm/moving_variance',
        }
        np.testing.assert_allclose(variables['BatchNorm/moving_mean'], 0.1 * mean, rtol=1e-4)
        np.testing.assert_allclose(
            variables['BatchNorm/moving_variance'],
            0.9 + 0.1 * values.var(axes, ddof=1),
            rtol=1e-4,
        )

    @pytest.mark.parametrize('is_training, train', [(False, True), (True, False)])
    def test_otherwise_the_moving_statistics_are_used_and_stay(self, is_training, train):
        values = _random(2, 3, 3, 4)
        settings = layers.BatchNorm(scale=True, epsilon=0.5, train=train)

        outputs, variables = _evaluate(
            lambda: layers.batch_norm(tf.constant(values), settings, is_training, 'x')
        )
        np.testing.assert_allclose(outputs, values / np.sqrt(1.5), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(variables['x/moving_variance'], np.ones(4))

    def test_updates_in_place_need_no_update_op(self):
        values = _random(2, 3, 3, 4)
        settings = layers.BatchNorm(decay=0.0, inplace_update=True)
        with tf.Graph().as_default(), tf1.Session() as session:
            outputs = layers.batch_norm(tf.constant(values), settings, True)
            assert not tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)
            session.run(tf1.global_variables_initializer())
            session.run(outputs)
            moving = {v.op.name: session.run(v) for v in tf1.global_variables()}
        np.testing.assert_allclose(
            moving['BatchNorm/moving_mean'], values.mean((0, 1, 2)), rtol=1e-4, atol=1e-6
        )
        np.testing.assert_allclose(
            moving['BatchNorm/moving_variance'], values.var((0, 1, 2), ddof=1), rtol=1e-4
        )

    def test_gradient_of_rank_two_equals_that_of_rank_four(self):
        values, upstream = _random(6, 4), _random(6, 4, seed=1)

        def build():
            settings = layers.BatchNorm(scale=True)
            gradients = []
            for shape in ([6, 4], [6, 1, 1, 4]):
                inputs = tf.constant(values.reshape(shape))
                with tf1.variable_scope('x', reuse=tf1.AUTO_REUSE):
                    outputs = layers.batch_norm(inputs, settings, True)
                gradients += tf.gradients(outputs, [inputs], upstream.reshape(shape))
            return gradients

        (flat, image), _ = _evaluate(build)
        np.testing.assert_allclose(flat, image.reshape(6, 4), rtol=1e-5)


class TestDropout:
    def test_keeps_the_asked_share_and_scales_it(self):
        values = np.ones([100, 100], np.float32)
        outputs, _ = _evaluate(lambda: layers.dropout(values, 0.8, True, 'drop'))
        assert set(np.unique(outputs)) == {0.0, np.float32(1.25)}
        assert (outputs > 0).mean() == pytest.approx(0.8, abs=0.02)

    def test_evaluation_and_certainty_leave_the_input(self):
        with tf.Graph().as_default():
            values = tf.ones([2, 2])
            assert layers.dropout(values, 0.5, False, 'a') is values
            assert layers.dropout(values, 1.0, True, 'a') is values

    def test_depends_on_seed_name_and_step(self):
        def masks(graph_seed, name):
            with tf.Graph().as_default(), tf1.Session() as session:
                tf1.set_random_seed(graph_seed)
                step = tf1.train.create_global_step()
                dropped = layers.dropout(tf.ones([200]), 0.5, True, name)
                session.run(tf1.global_variables_initializer())
                first, again = session.run(dropped), session.run(dropped)
                session.run(step.assign_add(1))
                return first, again, session.run(dropped)

        first, again, next_step = masks(1, 'a')
        np.testing.assert_array_equal(first, again)
        np.testing.assert_array_equal(first, masks(1, 'a')[0])
        for other in (next_step, masks(2, 'a')[0], masks(1, 'b')[0]):
            assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    'channels, divisor, at_least, expected',
    [
        (33, 8, None, 32),
        (36, 8, None, 40),
        (11.2, 8, None, 16),  # 8 would lose more than a tenth.
        (3, 8, None, 8),
        (3, 8, 16, 16),
        (18, 8, None, 24),
        (44.8, 8, None, 48),
        (11.2, 1, 1, 11),
    ],
)
def test_divisible_channels_by_hand(channels, divisor, at_least, expected):
    assert layers.divisible_channels(channels, divisor, at_least) == expected


@settings(deadline=None)
@given(channels=st.floats(1.0, 5000.0), divisor=st.integers(1, 32))
def test_divisible_channels_loses_at_most_a_tenth(channels, divisor):
    rounded = layers.divisible_channels(channels, divisor)
    assert rounded % divisor == 0
    assert 0.9 * channels <= rounded <= channels + divisor


def test_linear_style_is_that_of_logits():
    style = layers.LayerStyle(
        is_training=True, batch_norm=layers.BatchNorm(), regularizer=layers.l2(0.1)
    )
    values = _random(2, 3)
    outputs, variables = _evaluate(
        lambda: layers.fully_connected(values, 4, style.linear(), 'logits')
    )
    assert set(variables) == {'logits/weights', 'logits/biases'}
    np.testing.assert_allclose(outputs, values @ variables['logits/weights'], rtol=1e-5)
