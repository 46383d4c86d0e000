from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from model_fns import layers
from model_fns.backbones import lenet, registry
from tests.model_fns.backbones import recorded_backbones

tf1 = tf.compat.v1


def test_dropout_keeps_half_in_training():
    built = recorded_backbones.build(
        'lenet', (28, 28), is_training=True, options=registry.Options()
    )
    with tf1.Session(graph=built.graph) as session:
        recorded_backbones.set_weights(session)
        feed = {built.images: np.random.RandomState(0).normal(size=[2, 28, 28, 1])}
        fc3, dropped = session.run([built.end_points[name] for name in ('fc3', 'dropout3')], feed)
    kept = dropped[fc3 > 0] > 0
    assert kept.mean() == pytest.approx(0.5, abs=0.06)
    np.testing.assert_allclose(dropped[dropped > 0], 2 * fc3[dropped > 0], rtol=1e-5)


def test_weight_decay_is_an_option():
    style = lenet.lenet_style(True, registry.Options(weight_decay=0.1))
    assert style.regularizer == layers.Regularizer('l2', 0.1)
    assert style.initializer == layers.truncated_normal(0.1)
