"""Copies of the network: scopes, devices, parts of the batch, updates and regularization losses."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib.distribution import replicas
from model_fns import layers

tf1 = tf.compat.v1

STYLE = layers.LayerStyle(
    is_training=True, regularizer=layers.l2(0.5), batch_norm=layers.BatchNorm(decay=0.5)
)
FEATURES = np.arange(8, dtype=np.float32).reshape([4, 2])
LABELS = np.array([1.0, 0.0, 2.0, 5.0], np.float32)


def losses_of(features, labels):
    outputs = layers.fully_connected(features['x'], 1, STYLE, 'layer')
    error = tf.squeeze(outputs, 1) - labels['y']
    return {'squared': tf.reduce_mean(error**2), 'absolute': tf.reduce_mean(tf.abs(error))}


def build(devices):
    features = {'x': tf.constant(FEATURES)}
    return replicas.mean_losses(devices, losses_of, features, {'y': tf.constant(LABELS)})


def run(fetches, cpus=1):
    config = tf1.ConfigProto(device_count={'CPU': cpus})
    with tf1.Session(config=config) as session:
        session.run(tf1.global_variables_initializer())
        return session.run(fetches)


def test_one_device_is_left_as_it_is():
    with tf.Graph().as_default() as graph:
        losses = build(('',))
        names = {op.name.split('/')[0] for op in graph.get_operations()}
        assert 'clone_0' not in names and 'split' not in names
        assert losses['squared'].device == ''


@pytest.mark.parametrize('devices', [('/device:CPU:0',) * 2, ('/device:CPU:0', '/device:CPU:1')])
def test_two_devices(devices):
    with tf.Graph().as_default() as graph:
        losses = build(devices)
        variables = tf1.global_variables()
        names = [variable.op.name for variable in variables]
        updates = tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)
        regularization = tf1.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)
        placed = {
            op.device
            for op in graph.get_operations()
            if op.name.startswith('clone_1/') and op.type == 'MatMul'
        }
        gradient = tf.gradients(losses['squared'], tf1.trainable_variables()[0])[0]
        found, _, parts = run([losses, gradient, tf.split(FEATURES, 2)], cpus=2)
    assert names == [
        'layer/weights',
        'layer/BatchNorm/beta',
        'layer/BatchNorm/moving_mean',
        'layer/BatchNorm/moving_variance',
    ]
    assert {variable.device for variable in variables} == {'/device:CPU:0'}
    assert len(updates) == 2 and all(op.name.startswith('clone_0/') for op in updates)
    assert len(regularization) == 1
    assert placed == {devices[1]}
    assert len(parts[0]) == 2
    # Batch norm on parts of two rows of the same difference gives -1 and 1 up to its epsilon, and
    # relu leaves 0 and 1 (or 1 and 0): compare with each part on its own.
    outputs = np.array([0.0, 1.0]) if found['squared'] < 6.0 else np.array([1.0, 0.0])
    expected = np.concatenate([outputs, outputs]) - LABELS
    np.testing.assert_allclose(found['squared'], (expected**2).mean(), rtol=1e-3)
    np.testing.assert_allclose(found['absolute'], np.abs(expected).mean(), rtol=1e-3)


def test_parts_are_those_of_the_batch_in_order():
    with tf.Graph().as_default():
        batch = ({'x': tf.constant(FEATURES), 'names': tf.constant(list('abcd'))}, {})
        parts = replicas.split(batch, 2)
        first, second = run([part[0] for part in parts])
    np.testing.assert_array_equal(np.concatenate([first['x'], second['x']]), FEATURES)
    assert [*first['names'], *second['names']] == [b'a', b'b', b'c', b'd']


def test_a_batch_that_cannot_be_shared():
    with tf.Graph().as_default(), pytest.raises(ValueError, match='split'):
        replicas.split({'x': tf.zeros([5, 2])}, 2)
