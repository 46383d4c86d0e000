"""Heads of a config, and what logits they make."""

import numpy as np
import pytest
import tensorflow as tf

from model_fns import layers
from model_fns.segmentation.networks import heads
from tests.model_fns.segmentation import tiny_networks

tf1 = tf.compat.v1

STYLE = layers.LayerStyle(batch_norm=layers.BatchNorm(scale=True))
FEATURES = np.random.RandomState(3).uniform(-1, 1, [2, 4, 5, 3]).astype(np.float32)


def test_heads_of_a_config():
    config = tiny_networks.config(
        'instance_center {} offset { num_filters: 16 } edge { num_classes: 21 }'
    )
    assert heads.heads_from_config(config, 21) == (
        heads.Head('semantic', 21),
        heads.Head('instance_center', 1, 32),
        heads.Head('offset', 2, 16),
        heads.Head('edge', 21, 32),
    )


@pytest.mark.parametrize(
    'name, is_classes', [('semantic', True), ('edge', True), ('offset', False)]
)
def test_which_logits_are_classes(name, is_classes):
    head = heads.Head(name, 2)
    assert head.is_classes == is_classes
    assert head.own_scope == f'{name}_head'


def test_logits_of_rates_are_summed_and_a_head_of_its_own_comes_first():
    with tf.Graph().as_default():
        logits = heads.logits(
            tf.constant(FEATURES), heads.Head('offset', 2, 4), STYLE, kernel_size=3, rates=(1, 2)
        )
        assert tiny_networks.variable_names() == [
            'offset_head/weights',
            'offset_head/BatchNorm/gamma',
            'offset_head/BatchNorm/beta',
            'logits/offset/weights',
            'logits/offset/biases',
            'logits/offset_1/weights',
            'logits/offset_1/biases',
        ]
        assert logits.shape == (2, 4, 5, 2)


def test_one_layer_is_a_matrix_for_each_pixel():
    with tf.Graph().as_default():
        logits = heads.logits(tf.constant(FEATURES), heads.Head('semantic', 2), STYLE)
        weights, biases = tf1.global_variables()
        value, weights, biases = tiny_networks.run((logits, weights, biases))
    np.testing.assert_allclose(value, FEATURES @ weights[0, 0] + biases, rtol=1e-5, atol=1e-6)
