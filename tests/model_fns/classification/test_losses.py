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


@pytest.mark.parametrize('gamma', [0.0, 0.5, 2.0])
@pytest.mark.parametrize('weights', [(), (3.0, 0.5, 0.0)])
def test_weights_and_focal_factor_against_a_loop(gamma, weights):
    labels, smoothing = [1, 0], 0.1
    expected = []
    for row, label in zip(LOGITS.astype(np.float64), labels):
        probabilities = np.exp(row) / np.exp(row).sum()
        target = np.full(3, smoothing / 3)
        target[label] += 1 - smoothing
        factor = (1 - probabilities[label]) ** gamma * (weights[label] if weights else 1.0)
        expected.append(-factor * (target * np.log(probabilities)).sum())
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        loss = losses.cross_entropy(
            tf.constant(LOGITS), tf.constant(labels, tf.int64), smoothing, weights, gamma
        )
        assert session.run(loss) == pytest.approx(np.mean(expected), rel=1e-5)


def test_the_gradient_of_an_example_that_is_right_is_finite():
    logits = tf.constant([[200.0, 0.0, 0.0]])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = losses.cross_entropy(logits, tf.constant([0], tf.int64), focal_gamma=0.5)
    assert tape.gradient(loss, logits).numpy().tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize('gamma', [0.0, 2.0])
@pytest.mark.parametrize('weights', [(), (3.0, 0.5, 1.0)])
def test_loss_of_a_mixture_is_the_mean_of_the_losses_of_its_labels(gamma, weights):
    shares = np.float32([[0.3, 0.0, 0.7], [0.0, 0.6, 0.4]])
    options = (0.1, weights, gamma)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        labels = tf.zeros([2], tf.int64)
        mixed = losses.cross_entropy(tf.constant(LOGITS), labels, *options, tf.constant(shares))
        pure = [
            [
                losses.cross_entropy(tf.constant(LOGITS[row : row + 1]), [label], *options)
                for label in range(3)
            ]
            for row in range(2)
        ]
        mixed, pure = session.run((mixed, pure))
    assert mixed == pytest.approx((shares * pure).sum(1).mean(), rel=1e-5)


@pytest.mark.parametrize('gamma', [0.0, 2.0])
@pytest.mark.parametrize('smoothing', [0.0, 0.2])
def test_the_sigmoid_loss_is_that_of_each_class(gamma, smoothing):
    random = np.random.RandomState(0)
    logits = random.normal(size=[5, 3]).astype(np.float32)
    labels = (random.rand(5, 3) < 0.5).astype(np.float32)
    weights = [1.0, 0.5, 2.0]
    probability = 1 / (1 + np.exp(-logits.astype(np.float64)))
    target = labels * (1 - smoothing) + smoothing / 2
    expected = -(target * np.log(probability) + (1 - target) * np.log(1 - probability))
    expected *= np.where(labels > 0, 1 - probability, probability) ** gamma
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        loss = losses.sigmoid_cross_entropy(logits, labels, smoothing, weights, gamma)
        assert session.run(loss) == pytest.approx(np.mean(expected * weights), rel=1e-5)
