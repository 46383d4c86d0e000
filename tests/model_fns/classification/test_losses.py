import numpy as np
import pytest
import tensorflow as tf

from model_fns.classification import losses

LOGITS = np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 0.0]], np.float32)


def evaluate(labels, smoothing):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        loss = losses.cross_entropy(tf.constant(LOGITS), tf.constant(labels, tf.int64), smoothing)
        return session.run(loss)


def test_by_hand():
    # log(e + e^2 + 1) = 2.407606; minus the label's logit 2; and log 3 = 1.098612.
    assert evaluate([1, 0], 0.0) == pytest.approx((0.407606 + 1.098612) / 2, rel=1e-5)


@pytest.mark.parametrize('smoothing', [0.1, 0.5])
def test_smoothing_against_its_definition(smoothing):
    labels = [2, 1]
    targets = np.eye(3)[labels] * (1 - smoothing) + smoothing / 3
    log_probabilities = LOGITS - np.log(np.exp(LOGITS).sum(1, keepdims=True))
    expected = -(targets * log_probabilities).sum(1).mean()
    assert evaluate(labels, smoothing) == pytest.approx(expected, rel=1e-5)
