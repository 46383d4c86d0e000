from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from model_fns.backbones import (
    cifarnet,  # noqa: F401  registers its network
    registry,
)
from tests.model_fns.backbones import recorded_backbones, slow_layers

tf1 = tf.compat.v1


@pytest.fixture(scope='module')
def started():
    """A small CifarNet with its own initial values: (built, end points, variables, images)."""
    built = recorded_backbones.build('cifarnet', (9, 8), is_training=True)
    images = np.random.RandomState(0).normal(size=[2, 9, 8, 3]).astype(np.float32)
    with built.graph.as_default(), tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        names = {variable.op.name: variable for variable in tf1.global_variables()}
        penalties = tf1.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)
        fetches = [built.end_points, names, penalties]
        return *session.run(fetches, {built.images: images}), images


def test_equals_its_definition(started):
    end_points, values, _, images = started

    def layer(image, name):
        outputs = slow_layers.conv2d(image, values[f'CifarNet/{name}/weights'])
        return slow_layers.relu(outputs + values[f'CifarNet/{name}/biases'])

    def linear(inputs, name):
        return inputs @ values[f'CifarNet/{name}/weights'] + values[f'CifarNet/{name}/biases']

    pool1 = slow_layers.max_pool(layer(images, 'conv1'), 2)
    conv2 = layer(_local_response(pool1), 'conv2')
    pool2 = slow_layers.max_pool(_local_response(conv2), 2)
    fc3 = slow_layers.relu(linear(pool2.reshape(2, -1), 'fc3'))
    fc4 = slow_layers.relu(linear(fc3, 'fc4'))
    logits = linear(fc4, 'logits')
    for name, expected in (('pool1', pool1), ('conv2', conv2), ('pool2', pool2), ('fc4', fc4)):
        recorded_backbones.assert_close(end_points[name], expected, 1e-5, name)
    recorded_backbones.assert_close(end_points[registry.LOGITS], logits, 1e-5, 'logits')


def _local_response(image):
    """Each channel over (1 + 0.001/9 * squares of it and four on either side) ** 0.75."""
    channels = image.shape[-1]
    squares = [
        (image[..., max(0, c - 4) : c + 5] ** 2).sum(-1, dtype=np.float64) for c in range(channels)
    ]
    return image / (1.0 + 0.001 / 9.0 * np.stack(squares, -1)) ** 0.75


def test_initial_values_are_as_published(started):
    _, values, _, _ = started
    # A normal cut at two deviations has 0.88 of its deviation.
    for name, deviation in (
        ('conv1', 0.05),
        ('conv2', 0.05),
        ('fc3', 0.04),
        ('fc4', 0.04),
        ('logits', 1 / 192),
    ):
        weights = values[f'CifarNet/{name}/weights']
        assert weights.std() == pytest.approx(0.88 * deviation, rel=0.05), name
        assert np.abs(weights).max() <= 2 * deviation + 1e-6
    for name, bias in (('conv1', 0), ('conv2', 0), ('fc3', 0.1), ('fc4', 0.1), ('logits', 0)):
        np.testing.assert_array_equal(values[f'CifarNet/{name}/biases'], np.float32(bias))


def test_only_hidden_linear_layers_are_penalised(started):
    _, values, penalties, _ = started
    hidden = [values[f'CifarNet/{name}/weights'] for name in ('fc3', 'fc4')]
    expected = [0.004 * (weights.astype(np.float64) ** 2).sum() / 2 for weights in hidden]
    np.testing.assert_allclose(sorted(penalties), sorted(expected), rtol=1e-4)
