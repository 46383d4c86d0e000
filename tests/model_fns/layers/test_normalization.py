from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from model_fns import layers
from tests.model_fns.layers.values import evaluate, random

tf1 = tf.compat.v1


class TestBatchNorm:
    @pytest.mark.parametrize('shape', [(2, 3, 3, 4), (5, 4), (3, 1, 1, 4)], ids=str)
    def test_training_normalizes_by_the_batch_and_moves_by_the_unbiased_variance(self, shape):
        values = 3.0 * random(*shape) + 1.0
        settings = layers.BatchNorm(decay=0.9, epsilon=0.01)
        outputs, variables = evaluate(
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
        values = random(2, 3, 3, 4)
        settings = layers.BatchNorm(scale=True, epsilon=0.5, train=train)

        outputs, variables = evaluate(
            lambda: layers.batch_norm(tf.constant(values), settings, is_training, 'x')
        )
        np.testing.assert_allclose(outputs, values / np.sqrt(1.5), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(variables['x/moving_variance'], np.ones(4))

    def test_updates_in_place_need_no_update_op(self):
        values = random(2, 3, 3, 4)
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
        values, upstream = random(6, 4), random(6, 4, seed=1)

        def build():
            settings = layers.BatchNorm(scale=True)
            gradients = []
            for shape in ([6, 4], [6, 1, 1, 4]):
                inputs = tf.constant(values.reshape(shape))
                with tf1.variable_scope('x', reuse=tf1.AUTO_REUSE):
                    outputs = layers.batch_norm(inputs, settings, True)
                gradients += tf.gradients(outputs, [inputs], upstream.reshape(shape))
            return gradients

        (flat, image), _ = evaluate(build)
        np.testing.assert_allclose(flat, image.reshape(6, 4), rtol=1e-5)


@pytest.mark.parametrize('dtype', [pytest.param('bfloat16', marks=pytest.mark.bfloat16), 'float16'])
def test_statistics_stay_float32_in_low_precision(dtype):
    """A mean of 1/3 has no exact value in these types."""
    values = np.repeat([[0.0], [0.0], [1.0]], 64, 0).reshape(1, 8, 24, 1)
    settings = layers.BatchNorm(decay=0.0)

    def build():
        outputs = layers.batch_norm(tf.constant(values, dtype), settings, True)
        assert outputs.dtype == dtype
        return tf.cast(outputs, tf.float32)

    outputs, variables = evaluate(build)
    deviation = (2.0 / 9.0 + 0.001) ** 0.5
    np.testing.assert_allclose(outputs, (values - 1.0 / 3.0) / deviation, rtol=1e-2)
    assert variables['BatchNorm/moving_mean'] == pytest.approx([1.0 / 3.0], rel=1e-6)
    assert variables['BatchNorm/moving_variance'] == pytest.approx(
        [2.0 / 9.0 * 192 / 191], rel=1e-5
    )


class TestLayerNorm:
    EPSILON = 0.01

    @pytest.mark.parametrize('shape', [(2, 3, 2, 4), (5, 4)], ids=str)
    def test_values_and_gradients_are_those_of_the_definition(self, shape):
        values, upstream = 3.0 * random(*shape) + 1.0, random(*shape, seed=1)
        scale, offset = random(4, seed=2), random(4, seed=3)

        def define(inputs, gamma, beta):
            mean, variance = tf.nn.moments(inputs, [-1], keepdims=True)
            return (inputs - mean) / tf.sqrt(variance + self.EPSILON) * gamma + beta

        with tf.Graph().as_default(), tf1.Session() as session:
            inputs = tf.constant(values)
            outputs = layers.layer_norm(inputs, self.EPSILON, 'norm')
            variables = tf1.trainable_variables()
            assert [variable.op.name for variable in variables] == ['norm/gamma', 'norm/beta']
            constants = [inputs, tf.constant(scale), tf.constant(offset)]
            expected = define(*constants)
            fetches = {
                'outputs': (outputs, expected),
                'gradients': (
                    tf.gradients(outputs, [inputs, *variables], upstream),
                    tf.gradients(expected, constants, upstream),
                ),
            }
            for variable, value in zip(variables, (scale, offset)):
                session.run(variable.assign(value))
            fetched = session.run(fetches)
        np.testing.assert_allclose(*fetched['outputs'], rtol=1e-4, atol=1e-5)
        for actual, gradient in zip(*fetched['gradients']):
            np.testing.assert_allclose(actual, gradient, rtol=1e-4, atol=1e-4)

    def test_statistics_stay_float32_in_low_precision(self):
        # In bfloat16 there is nothing between 256 and 258.
        values = np.float32([[256.0, 258.0, 256.0, 258.0]])
        outputs, _ = evaluate(
            lambda: layers.layer_norm(tf.constant(values, tf.bfloat16), self.EPSILON)
        )
        assert outputs.dtype == tf.bfloat16.as_numpy_dtype
        expected = np.float32([[-1.0, 1.0, -1.0, 1.0]])
        np.testing.assert_allclose(outputs.astype(np.float32), expected, atol=0.01)
