from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from model_fns import layers
from model_fns.layers import forward_pass
from tests.model_fns.layers.values import evaluate, random

tf1 = tf.compat.v1

PLAIN = layers.LayerStyle(activation=None)


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
    images = random(2, *request.param, 3)
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
                upstream = tf.constant(random(*outputs.shape, seed=1))
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
    direction = random(*images.shape, seed=2)
    moved = np.einsum(product, _windows(direction, *case), weights)
    assert np.vdot(image_gradient, direction) == pytest.approx(np.vdot(upstream, moved), rel=1e-3)


@pytest.mark.parametrize('layer', [layers.depthwise_conv2d, layers.separable_conv2d, layers.conv2d])
def test_fixed_padding_survives_graph_rewriting(layer):
    """What follows a convolution is fused with it: at one time that lost the padding."""
    images = random(2, 9, 10, 3)
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
    images = random(1, 6, 6, 3)

    def build():
        return layers.separable_conv2d(images, 5, 3, PLAIN, 'x', depth_multiplier=2, stride=2)

    outputs, variables = evaluate(build)
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


def test_training_pads_before_a_strided_convolution():
    """Gradients of a convolution that pads by itself have no fast kernel."""
    images = random(2, 7, 8, 3)
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        outputs = []
        for is_training in (True, False):
            style = layers.LayerStyle(is_training=is_training, activation=None)
            with tf1.variable_scope('', reuse=tf1.AUTO_REUSE):
                outputs.append(
                    layers.conv2d(tf.constant(images), 4, 3, style, 'x', stride=2, padding='FIXED')
                )
        weights = tf1.trainable_variables()[0]
        gradients = [tf.gradients(tf.nn.l2_loss(one), weights)[0] for one in outputs]
        paddings = [
            op.get_attr('padding').decode()
            for op in graph.get_operations()
            if op.type == 'Conv2DBackpropFilter'
        ]
        session.run(tf1.global_variables_initializer())
        (trained, evaluated), (ours, theirs) = session.run([outputs, gradients])
    assert paddings == ['VALID', 'EXPLICIT']
    np.testing.assert_allclose(trained, evaluated, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize('static', [True, False])
@pytest.mark.parametrize(
    'rate, padding', [(2, 'SAME'), (3, 'FIXED'), (2, 'VALID'), ((1, 3), 'SAME')]
)
def test_atrous_convolution_is_that_of_a_kernel_with_holes(rate, padding, static):
    images = np.random.RandomState(0).normal(size=[2, 9, 8, 3]).astype(np.float32)
    with tf.Graph().as_default(), tf1.Session() as session:
        style = layers.LayerStyle(activation=None)
        inputs = tf1.placeholder(tf.float32, images.shape if static else [None, None, None, 3])
        actual = layers.conv2d(inputs, 4, 3, style, 'layer', rate=rate, padding=padding)
        weights = tf1.trainable_variables()[0]
        expected = tf.nn.conv2d(
            inputs, _with_holes(weights, rate), 1, 'VALID' if padding == 'VALID' else 'SAME'
        )
        upstream = tf.cos(tf.cumsum(tf.ones_like(expected), 2))
        gradients = [tf.gradients(y, [inputs, weights], upstream) for y in (actual, expected)]
        session.run(tf1.global_variables_initializer())
        values, (ours, theirs) = session.run([(actual, expected), gradients], {inputs: images})
    np.testing.assert_allclose(*values, rtol=1e-4, atol=1e-5)
    for mine, other in zip(ours, theirs):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize('rate', [(1, 3), (4, 2)])
def test_depthwise_rates_may_differ(rate):
    images = np.random.RandomState(0).normal(size=[2, 11, 9, 3]).astype(np.float32)
    with tf.Graph().as_default(), tf1.Session() as session:
        style = layers.LayerStyle(activation=None)
        actual = layers.depthwise_conv2d(tf.constant(images), 3, style, 'layer', rate=rate)
        weights = tf1.trainable_variables()[0]
        expected = tf.nn.depthwise_conv2d(images, _with_holes(weights, rate), [1, 1, 1, 1], 'SAME')
        gradients = [tf.gradients(tf.square(y), weights)[0] for y in (actual, expected)]
        session.run(tf1.global_variables_initializer())
        values = session.run([actual, expected, *gradients])
    np.testing.assert_allclose(*values[:2], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(*values[2:], rtol=1e-4, atol=1e-4)


def _with_holes(weights, rate):
    """[3, 3, in, out] with rate - 1 zeros between the taps."""
    places = []
    for step in (rate, rate) if isinstance(rate, int) else rate:
        place = np.zeros([2 * step + 1, 3], np.float32)
        place[[0, step, 2 * step], [0, 1, 2]] = 1.0
        places.append(place)
    return tf.einsum('ya,xb,abio->yxio', *places, weights)


def test_a_stride_and_a_rate_are_refused():
    with tf.Graph().as_default(), pytest.raises(ValueError, match='stride .2, 2., rate .2, 2.'):
        layers.conv2d(tf.zeros([1, 8, 8, 1]), 1, 3, layers.LayerStyle(), 'x', stride=2, rate=2)


LAYERS = {
    'conv': lambda values, style: layers.conv2d(values, 6, 3, style, 'x', stride=2),
    'atrous': lambda values, style: layers.conv2d(values, 6, 3, style, 'x', rate=2),
    'depthwise': lambda values, style: layers.depthwise_conv2d(values, 3, style, 'x'),
    'separable': lambda values, style: layers.separable_conv2d(values, 6, 3, style, 'x'),
    'dense': lambda values, style: layers.fully_connected(values[:, 0, 0], 6, style, 'x'),
}


@pytest.mark.parametrize(
    'dtype, bound',
    [pytest.param('bfloat16', 3e-2, marks=pytest.mark.bfloat16), ('float16', 4e-3)],
)
@pytest.mark.parametrize('kind', LAYERS)
@pytest.mark.parametrize('batch_norm', [None, layers.BatchNorm(scale=True)], ids=['bias', 'norm'])
def test_low_precision_follows_float32(kind, dtype, bound, batch_norm):
    """The outputs, and the gradients of the same float32 variables."""
    images = tf.constant(random(4, 7, 7, 4))
    store = forward_pass.VariableStore(1)
    found = []
    for compute_dtype in (tf.float32, tf.as_dtype(dtype)):
        style = layers.LayerStyle(
            is_training=True, activation=None, batch_norm=batch_norm, compute_dtype=compute_dtype
        )
        with tf.GradientTape() as tape, store.forward_pass(0) as one_pass:
            outputs = LAYERS[kind](images, style)
            assert outputs.dtype == compute_dtype
            exact_outputs = layers.to_float32(outputs)
            loss = tf.reduce_sum(tf.sin(exact_outputs))
        trainable = [one for one in store.variables.values() if one.trainable]
        gradients = tape.gradient(loss, trainable)
        updates = [value for _, value in one_pass.updates]
        float32 = [*store.variables.values(), *gradients, *updates]
        assert {one.dtype for one in float32} == {tf.float32}
        found.append([exact_outputs, *gradients, *updates])
    for index, (exact, rounded) in enumerate(zip(*found)):
        scale = max(np.abs(exact).max(), 1.0)
        # Gradients are sums over all places, rounded at each.
        within = bound if index == 0 else 5 * bound
        np.testing.assert_allclose(rounded, exact, atol=within * scale, rtol=0)
    assert not np.array_equal(found[0][0], found[1][0])


class TestTransposed:
    @pytest.mark.parametrize('sides', [(2, 3), (None, None)])
    def test_it_is_the_gradient_of_a_strided_convolution(self, sides):
        def build():
            values = tf1.placeholder_with_default(random(1, 2, 3, 4), [1, *sides, 4])
            outputs = layers.conv2d_transpose(values, 5, 3, PLAIN, 'up')
            (weights, _) = tf1.global_variables()
            image = tf.zeros([1, 4, 6, 5])
            convolved = tf.nn.conv2d(image, weights, 2, 'SAME')
            (expected,) = tf.gradients(convolved, [image], [values])
            return outputs, expected, tf.constant(outputs.shape.as_list()[3])

        (found, expected, channels), variables = evaluate(build)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        assert channels == 5 and found.shape == (1, 4, 6, 5)
        assert {name: one.shape for name, one in variables.items()} == {
            'up/weights': (3, 3, 5, 4),
            'up/biases': (5,),
        }

    def test_batch_norm_and_activation_follow(self):
        def build():
            style = layers.LayerStyle(batch_norm=layers.BatchNorm(scale=True), force_bias=True)
            return layers.conv2d_transpose(tf.constant(random(2, 3, 3, 2)), 4, 3, style, 'up')

        found, variables = evaluate(build)
        assert found.min() == 0.0 and found.shape == (2, 6, 6, 4)
        assert set(variables) == {'up/weights', 'up/biases'} | {
            f'up/BatchNorm/{name}' for name in ('gamma', 'beta', 'moving_mean', 'moving_variance')
        }


def test_the_gradient_of_an_atrous_convolution_holds_one_copy_of_its_inputs_at_a_time():
    with tf.Graph().as_default() as graph:
        images = tf.zeros([2, 9, 8, 3])
        outputs = layers.conv2d(images, 4, 3, layers.LayerStyle(), 'layer', rate=2)
        tf.gradients(outputs, tf1.trainable_variables())
    products = [op for op in graph.get_operations() if op.type == 'MatMul']
    slices = [op.inputs[0].op.inputs[0].op for op in products]
    assert len(products) == 9 and {op.type for op in slices} == {'StridedSlice'}
    for product, following in zip(products, slices[1:]):
        assert product in _needed_by(following)


def _needed_by(op):
    found, waiting = set(), [op]
    while waiting:
        before = {*(one.op for one in waiting[-1].inputs), *waiting.pop().control_inputs} - found
        found |= before
        waiting += before
    return found
