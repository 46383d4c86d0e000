"""Gradients of pointwise convolutions, by NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import environment
from model_fns.layers import pointwise

tf1 = tf.compat.v1


@pytest.mark.parametrize('batch', [2, None], ids=['static', 'unknown batch'])
@pytest.mark.parametrize(('depth', 'outputs'), [(3, 4), (1024, 2)])
def test_gradients_are_products_of_pixels(batch, depth, outputs):
    random = np.random.RandomState(0)
    images = random.randn(2, 3, 5, depth).astype(np.float32)
    weights = random.randn(1, 1, depth, outputs).astype(np.float32)
    upstream = random.randn(2, 3, 5, outputs).astype(np.float32)
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        inputs = tf1.placeholder(tf.float32, [batch, 3, 5, depth])
        filters = tf.constant(weights)
        layer = pointwise.pointwise_conv2d(inputs, filters)
        gradients = tf.gradients(layer, [inputs, filters], [tf.constant(upstream)])
        found = session.run([layer, *gradients], {inputs: images})
        kinds = {op.type for op in graph.get_operations()}
    assert 'MatMul' in kinds and 'Conv2DBackpropInput' not in kinds
    product = weights[0, 0]
    expected = [
        images @ product,
        upstream @ product.T,
        np.einsum('bhwc,bhwd->cd', images, upstream)[np.newaxis, np.newaxis],
    ]
    for value, reference in zip(found, expected):
        np.testing.assert_allclose(value, reference, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ('flags', 'gpus', 'expected'),
    [
        ('avx2', [], True),
        ('avx2', ['GPU:0'], False),
        ('avx2 avx512_vnni', [], False),
        ('', [], False),
    ],
)
def test_products_are_used_where_they_were_measured(monkeypatch, flags, gpus, expected):
    monkeypatch.setattr(environment, 'cpu_flags', lambda: frozenset(flags.split()))
    monkeypatch.setattr(tf.config, 'list_physical_devices', lambda kind: gpus)
    assert pointwise.has_faster_products.__wrapped__() is expected
