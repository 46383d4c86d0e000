"""Folded batch norm is batch norm, where ranges are so fine that nothing is rounded."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from model_fns import layers

tf1 = tf.compat.v1

NORM = layers.BatchNorm(decay=0.9, epsilon=0.01, scale=True)
# Nothing is rounded before that step.
NEVER = layers.Quantization(delay=1000)


def build(kind, style):
    random = np.random.RandomState(1)
    images = tf.constant(random.normal(size=[3, 5, 5, 4]).astype(np.float32))
    if kind == 'conv':
        return layers.conv2d(images, 6, 3, style, 'x', stride=2)
    if kind == 'atrous':
        return layers.conv2d(images, 6, 3, style, 'x', rate=2)
    if kind == 'bias':
        return layers.conv2d(images, 6, 1, style.but(force_bias=True), 'x')
    if kind == 'depthwise':
        return layers.depthwise_conv2d(images, 3, style, 'x', depth_multiplier=2)
    if kind == 'separable':
        return layers.separable_conv2d(images, 6, 3, style, 'x')
    return layers.fully_connected(images[:, 0, 0, :], 6, style, 'x')


def evaluate(kind, style):
    """Outputs, gradients by variable, and the statistics after an update."""
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.set_random_seed(3)
        tf1.train.create_global_step()
        outputs = build(kind, style)
        target = tf.cast(tf.reshape(tf.range(tf.size(outputs)), tf.shape(outputs)), tf.float32)
        loss = tf.reduce_mean(tf.square(outputs - tf.sin(target)))
        trained = tf1.trainable_variables()
        gradients = dict(zip((v.op.name for v in trained), tf.gradients(loss, trained)))
        session.run(tf1.global_variables_initializer())
        random = np.random.RandomState(5)
        for one in sorted(tf1.model_variables(), key=lambda v: v.op.name):
            if 'weights' not in one.op.name:
                value = random.uniform(0.5, 1.5, one.shape.as_list())
                session.run(one.assign(value.astype(np.float32)))
        found = session.run([outputs, gradients])
        session.run(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS))
        moved = [v for v in tf1.global_variables() if 'moving' in v.op.name]
        return *found, session.run({v.op.name: v for v in moved})


@pytest.mark.parametrize('kind', ['conv', 'atrous', 'bias', 'depthwise', 'separable', 'connected'])
def test_a_training_step_is_that_of_batch_norm(kind):
    style = layers.LayerStyle(
        is_training=True, batch_norm=NORM, activation=None, regularize_depthwise=True
    )
    expected = evaluate(kind, style)
    found = evaluate(kind, style.but(quantization=NEVER))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-4, atol=1e-5)
    for wanted, got in zip(expected[1:], found[1:]):
        assert got.keys() == wanted.keys() and wanted
        for name, value in wanted.items():
            np.testing.assert_allclose(got[name], value, rtol=1e-3, atol=1e-5, err_msg=name)


@pytest.mark.parametrize('kind', ['conv', 'depthwise'])
def test_frozen_batch_norm_is_that_of_the_moving_statistics(kind):
    style = layers.LayerStyle(is_training=True, batch_norm=NORM, activation=None).frozen()
    expected = evaluate(kind, style)
    frozen = evaluate(kind, style.but(quantization=NEVER))
    # Of norm that trains, after the step that freezes it.
    quantization = layers.Quantization(delay=1000, freeze_batch_norm_delay=1)
    late = evaluate(
        kind,
        style.with_batch_norm(train=True).but(quantization=quantization),
    )
    for found in (frozen, late):
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-4, atol=1e-5)
        assert found[2].keys() == expected[2].keys()
        for name, value in expected[2].items():
            np.testing.assert_array_equal(found[2][name], value)


def test_statistics_that_are_updated_in_place():
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.train.create_global_step()
        style = layers.LayerStyle(
            is_training=True,
            batch_norm=layers.BatchNorm(decay=0.5, inplace_update=True),
            quantization=NEVER,
        )
        outputs = layers.conv2d(tf.reshape([1.0, 3.0], [2, 1, 1, 1]), 1, 1, style, 'x')
        assert not tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)
        session.run(tf1.global_variables_initializer())
        weight = next(v for v in tf1.trainable_variables() if v.op.name == 'x/weights')
        session.run(weight.assign([[[[1.0]]]]))
        session.run(outputs)
        held = session.run({v.op.name: v for v in tf1.model_variables()})
    assert held['x/BatchNorm/moving_mean'] == pytest.approx([1.0])  # half of the mean, 2
    assert held['x/BatchNorm/moving_variance'] == pytest.approx([1.5])  # of 1 and 2


def reads_below(tensors, name):
    """The ops by which tensors get to the value of a variable."""
    found, seen, queue = set(), set(), [one.op for one in tensors]
    while queue:
        op = queue.pop()
        if op in seen:
            continue
        seen.add(op)
        if op.type == 'ReadVariableOp' and op.inputs[0].op.name == name:
            found.add(op.name)
        queue += [one.op for one in op.inputs]
    return found


@pytest.mark.parametrize('settings', [NEVER, layers.Quantization(freeze_batch_norm_delay=3)])
def test_a_step_moves_the_statistics_that_it_has_computed_with(settings):
    # Of two reads one may come after the update: busy machines computed another loss now and then.
    style = layers.LayerStyle(is_training=True, batch_norm=NORM, quantization=settings)
    with tf.Graph().as_default():
        tf1.train.create_global_step()
        outputs = build('conv', style)
        for update in tf1.get_collection(tf1.GraphKeys.UPDATE_OPS):
            if 'moving' in update.inputs[0].op.name:
                name = update.inputs[0].op.name
                of_update = reads_below([update.inputs[1]], name)
                assert len(of_update) == 1
                assert reads_below([outputs], name) <= of_update
        moved = [one for one in tf1.model_variables() if 'moving' in one.op.name]
        assert len(moved) == 2
        read = [name for one in moved for name in reads_below([outputs], one.op.name)]
        assert len(read) == (2 if settings.freeze_batch_norm_delay else 1)


def test_the_penalty_is_on_the_variable_where_batch_norm_is_folded_and_else_on_rounded_weights():
    with tf.Graph().as_default(), tf1.Session() as session:
        style = layers.LayerStyle(
            regularizer=layers.l2(2.0), batch_norm=NORM, quantization=layers.Quantization()
        )
        images = tf.ones([1, 1, 1, 2])
        layers.conv2d(images, 1, 1, style, 'folded')
        layers.conv2d(images, 1, 1, style.linear(), 'plain')
        losses = tf1.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)
        session.run(tf1.global_variables_initializer())
        for one in tf1.trainable_variables():
            if one.op.name.endswith('/weights'):
                session.run(one.assign(np.float32([1.26, 0.04]).reshape([1, 1, 2, 1])))
        for one in tf1.global_variables():
            if one.op.name.startswith('plain/weights_quant'):
                # Steps of a tenth.
                session.run(one.assign(12.7 if one.op.name.endswith('max') else -12.7))
        assert session.run(losses) == pytest.approx([1.26**2 + 0.04**2, 1.3**2], rel=1e-5)
