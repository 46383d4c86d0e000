"""Losses of heat maps, against slow loops and by hand."""

import math

import numpy as np
import pytest
import tensorflow as tf

from model_fns.detection.losses.heatmap_losses import PenaltyReducedFocalLoss
from tests.model_fns.detection.architectures.center_net import oracles


def value(loss, logits, targets, weights):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tensors = (tf.constant(one, tf.float32) for one in (logits, targets, weights))
        return session.run(loss(*tensors))


@pytest.mark.parametrize('alpha, beta', [(2.0, 4.0), (0.0, 0.0), (1.5, 3.0)])
def test_it_equals_the_slow_one(alpha, beta):
    random = np.random.RandomState(0)
    logits = random.normal(size=[2, 3, 4, 2]) * 4
    targets = random.choice([0.0, 0.3, 0.9, 1.0], size=logits.shape)
    weights = np.broadcast_to(random.uniform(size=[2, 3, 4, 1]), logits.shape)
    expected = oracles.focal(logits, targets, weights, alpha, beta)
    found = value(PenaltyReducedFocalLoss(alpha, beta), logits, targets, weights[..., :1])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_probabilities_are_kept_from_0_and_1():
    # A center that is missed for certain, and a certain one that is none.
    found = value(PenaltyReducedFocalLoss(), [[-50.0, 50.0]], [[1.0, 0.0]], [[1.0, 1.0]])
    np.testing.assert_allclose(found, -2 * (1 - 1e-4) ** 2 * math.log(1e-4), rtol=1e-3)
