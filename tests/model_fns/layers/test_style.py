from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from model_fns import layers
from tests.model_fns.layers.values import evaluate, random

tf1 = tf.compat.v1


def test_linear_style_is_that_of_logits():
    style = layers.LayerStyle(
        is_training=True, batch_norm=layers.BatchNorm(), regularizer=layers.l2(0.1)
    )
    values = random(2, 3)
    outputs, variables = evaluate(
        lambda: layers.fully_connected(values, 4, style.linear(), 'logits')
    )
    assert set(variables) == {'logits/weights', 'logits/biases'}
    np.testing.assert_allclose(outputs, values @ variables['logits/weights'], rtol=1e-5)


def test_a_frozen_style_has_no_updates_and_trains_gamma_and_beta():
    style = layers.LayerStyle(is_training=True, batch_norm=layers.BatchNorm(scale=True))
    with tf.Graph().as_default():
        layers.conv2d(tf.zeros([1, 2, 2, 1]), 1, 1, style.frozen(), 'frozen')
        assert not tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)
        trainable = [variable.op.name for variable in tf1.trainable_variables()]
        assert trainable == ['frozen/weights', 'frozen/BatchNorm/gamma', 'frozen/BatchNorm/beta']
        layers.conv2d(tf.zeros([1, 2, 2, 1]), 1, 1, style, 'trained')
        assert len(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)) == 2


def test_without_batch_norm_there_is_nothing_to_freeze_or_change():
    style = layers.LayerStyle()
    assert style.frozen() is style
    assert style.with_batch_norm(decay=0.5) is style


def test_what_a_style_changes_of_its_batch_norm():
    style = layers.LayerStyle(batch_norm=layers.BatchNorm(decay=0.9, scale=True))
    changed = style.with_batch_norm(decay=0.5)
    assert changed.batch_norm == layers.BatchNorm(decay=0.5, scale=True)
    assert changed.activation is style.activation


@pytest.mark.parametrize('name', ['bfloat16', 'float16'])
def test_casting_adds_no_op_where_the_type_is_right(name):
    with tf.Graph().as_default() as graph:
        style = layers.LayerStyle(compute_dtype=tf.as_dtype(name))
        values = tf.zeros([2])
        right = style.cast(values)
        assert right.dtype == name
        before = len(graph.get_operations())
        assert style.cast(right) is right
        assert layers.LayerStyle().cast(values) is values
        assert len(graph.get_operations()) == before
