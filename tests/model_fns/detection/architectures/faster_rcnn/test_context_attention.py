"""Attention to a memory, held against a recorded case and against its definition."""

import numpy as np
import pytest
import tensorflow as tf

from model_fns.detection.architectures.faster_rcnn import context_attention
from tests.model_fns.detection.architectures.faster_rcnn import oracles

tf1 = tf.compat.v1

SCOPE = 'AttentionBlock0_AttentionLayer0/fully_connected'


def attend(case, context=None, valid=None, whole=False):
    """Compute the summand of the recorded features for a memory, or the sum."""
    context = case['context'] if context is None else context
    valid = case['valid'] if valid is None else valid
    attention = context_attention.ContextAttention(bottleneck=4, temperature=0.5)

    def build():
        memory = context_attention.Memory(tf.constant(context), tf.constant(valid.astype(np.int32)))
        counts = tf.constant(case['num_proposals'].astype(np.int32))
        compute = attention if whole else attention.added
        return compute(tf.constant(case['box_features']), counts, memory, is_training=False)

    return oracles.run(build, case)


def test_recorded():
    case = oracles.case('context_attention')
    expected = case['output'][:, :, 0, 0]
    np.testing.assert_allclose(attend(case), expected, rtol=1e-5, atol=1e-6)


def test_it_is_added_at_each_place():
    case = oracles.case('context_attention')
    added = case['output'].reshape([4, 1, 1, 6])
    expected = case['box_features'] + added
    np.testing.assert_allclose(attend(case, whole=True), expected, rtol=1e-5, atol=1e-6)


def test_padding_of_the_memory_counts_for_nothing():
    case = oracles.case('context_attention')
    filled = case['context'].copy()
    filled[1, 1:] = 100.0  # one row of the second image is valid
    longer = np.concatenate([filled, np.full([2, 4, 5], 50.0, np.float32)], axis=1)
    np.testing.assert_allclose(attend(case, longer), attend(case), rtol=1e-5, atol=1e-6)


def test_images_without_a_memory():
    """Nothing is found: what is left is the projection of zeros."""
    case = oracles.case('context_attention')
    none = attend(case, valid=np.array([0, 0]))
    norm = {
        name: case[f'var/fully_connected/BatchNorm/{name}']
        for name in ('beta', 'gamma', 'moving_mean', 'moving_variance')
    }
    zeros = norm['beta'] - norm['gamma'] * norm['moving_mean'] / np.sqrt(
        norm['moving_variance'] + 0.001
    )
    pooled = case['box_features'].mean(axis=(1, 2)).reshape([2, 2, 6])
    expected = 2 * pooled + np.clip(zeros, 0, 6)
    np.testing.assert_allclose(none, expected, rtol=1e-5, atol=1e-6)


def test_training_takes_statistics_of_the_batch():
    with tf.Graph().as_default() as graph:
        memory = context_attention.Memory(tf.ones([2, 3, 5]), tf.constant([3, 1]))
        attention = context_attention.ContextAttention(bottleneck=4)
        found = attention(tf.ones([4, 2, 2, 6]), tf.constant([2, 1]), memory, is_training=True)
        assert found.shape == [4, 2, 2, 6]
        assert len(graph.get_collection(tf1.GraphKeys.UPDATE_OPS)) == 4 * 2
        names = {variable.op.name for variable in tf1.trainable_variables()}
    scopes = [SCOPE, f'{SCOPE}_1', f'{SCOPE}_2', 'fully_connected']
    suffixes = ['weights', 'BatchNorm/beta', 'BatchNorm/gamma']
    assert names == {f'{scope}/{suffix}' for scope in scopes for suffix in suffixes}


@pytest.mark.parametrize('counts', [[2, 1], [0, 0]])
def test_trimming_leaves_a_row(counts):
    memory = context_attention.Memory(tf.ones([2, 5, 1]), tf.constant(counts))
    assert memory.trimmed().features.shape == [2, max(*counts, 1), 1]
