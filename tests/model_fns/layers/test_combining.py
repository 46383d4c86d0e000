from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from model_fns import layers
from tests.model_fns.layers.values import evaluate

tf1 = tf.compat.v1


class TestDropout:
    def test_keeps_the_asked_share_and_scales_it(self):
        values = np.ones([100, 100], np.float32)
        outputs, _ = evaluate(lambda: layers.dropout(values, 0.8, True, 'drop'))
        assert set(np.unique(outputs)) == {0.0, np.float32(1.25)}
        assert (outputs > 0).mean() == pytest.approx(0.8, abs=0.02)

    def test_of_whole_examples_keeps_all_values_or_none(self):
        values = np.ones([500, 2, 3, 4], np.float32)
        outputs, _ = evaluate(lambda: layers.dropout(tf.constant(values), 0.8, True, 'a', True))
        firsts = outputs[:, 0, 0, 0]
        np.testing.assert_array_equal(outputs, firsts[:, None, None, None] * values)
        assert set(np.unique(firsts)) == {0.0, np.float32(1.25)}
        assert (firsts > 0).mean() == pytest.approx(0.8, abs=0.05)

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


def test_divisible_channels_that_may_lose_more():
    assert layers.divisible_channels(19.2) == 24
    assert layers.divisible_channels(19.2, least_share=0.0) == 16


@settings(deadline=None)
@given(channels=st.floats(1.0, 5000.0), divisor=st.integers(1, 32))
def test_divisible_channels_loses_at_most_a_tenth(channels, divisor):
    rounded = layers.divisible_channels(channels, divisor)
    assert rounded % divisor == 0
    assert 0.9 * channels <= rounded <= channels + divisor


STYLE = layers.LayerStyle()
HALF = STYLE.but(compute_dtype=tf.bfloat16)
FIRST = np.array([[[[-4.0, 1.0], [2.0, 0.5]]]], np.float32)
SECOND = np.array([[[[1.0, 8.0], [-2.0, 0.25]]]], np.float32)


@pytest.mark.parametrize('style', [STYLE, HALF], ids=['float32', 'bfloat16'])
def test_sums_products_and_branches_by_hand(style):
    def build():
        gate = tf.constant([[[[2.0, 0.5]]]])
        tensors = {
            'sum': layers.add(tf.constant(FIRST), tf.constant(SECOND), style),
            'capped': layers.add(tf.constant(FIRST), tf.constant(SECOND), style, tf.nn.relu6),
            'gated': layers.multiply(tf.constant(FIRST), gate, style),
            'scaled': layers.multiply(tf.constant(FIRST), 0.5, style),
            'joined': layers.concat([tf.constant(FIRST), tf.constant(SECOND)], style),
        }
        assert {tensor.dtype for tensor in tensors.values()} == {style.compute_dtype}
        return {name: layers.to_float32(tensor) for name, tensor in tensors.items()}

    values, _ = evaluate(build)
    # All of these numbers are exact in both types.
    np.testing.assert_array_equal(values['sum'], [[[[-3.0, 9.0], [0.0, 0.75]]]])
    np.testing.assert_array_equal(values['capped'], [[[[0.0, 6.0], [0.0, 0.75]]]])
    np.testing.assert_array_equal(values['gated'], [[[[-8.0, 0.5], [4.0, 0.25]]]])
    np.testing.assert_array_equal(values['scaled'], [[[[-2.0, 0.5], [1.0, 0.25]]]])
    np.testing.assert_array_equal(values['joined'], [[[[-4, 1, 1, 8], [2, 0.5, -2, 0.25]]]])


def test_one_branch_and_the_same_type_add_no_ops():
    with tf.Graph().as_default() as graph:
        values = tf.zeros([1, 2, 2, 1])
        before = len(graph.get_operations())
        assert layers.concat([values], STYLE) is values
        assert layers.to_float32(values) is values
        layers.add(values, values, STYLE)
        assert len(graph.get_operations()) == before + 1


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16'])
def test_resizing_by_hand_keeps_the_type(dtype):
    image = np.array([[0.0, 2.0], [4.0, 6.0]], np.float32).reshape(1, 2, 2, 1)

    def build():
        features = tf.constant(image, dtype)
        tensors = (
            layers.resize(features, 3, 3),
            layers.resize(features, 3, 3, 'nearest'),
            layers.enlarge(features),
            layers.global_mean(features),
        )
        assert {tensor.dtype.name for tensor in tensors} == {dtype}
        return [tf.squeeze(layers.to_float32(tensor)) for tensor in tensors]

    (smooth, nearest, enlarged, mean), _ = evaluate(build)
    np.testing.assert_array_equal(smooth, [[0, 1, 2], [2, 3, 4], [4, 5, 6]])
    assert nearest[0, 0] == 0 and nearest[2, 2] == 6
    np.testing.assert_array_equal(
        enlarged, [[0, 0, 2, 2], [0, 0, 2, 2], [4, 4, 6, 6], [4, 4, 6, 6]]
    )
    assert mean == 3.0


def test_sums_and_gated_features_are_rounded_to_ranges_with_the_names_that_they_are_given():
    style = layers.LayerStyle(quantization=layers.Quantization())
    with tf.Graph().as_default():
        values = tf.ones([1, 2, 2, 1])
        with tf1.variable_scope('unit'):
            layers.add(values, values, style)
            layers.add(values, values, style, tf.nn.relu)
            layers.add(values, values, style, range_name='add_1/activation_AddV2_quant')
            layers.multiply(values, values, style, range_name='mul/activation_Mul_quant')
            layers.multiply(values, 0.5, style)
        assert {v.op.name.rpartition('/')[0] for v in tf1.global_variables()} == {
            'unit/post_activation_bypass_quant',
            'unit/act_quant',
            'unit/add_1/activation_AddV2_quant',
            'unit/mul/activation_Mul_quant',
        }


def test_bilinear_enlarging_is_between_the_centers_of_cells():
    found, _ = evaluate(lambda: layers.enlarge(tf.constant([[[[0.0], [4.0]]]]), method='bilinear'))
    np.testing.assert_allclose(found[0, :, :, 0], [[0, 1, 3, 4]] * 2)
