import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from model_fns.augmentation import randomness
from model_fns.detection import fields
from model_fns.detection.data.augmentation import mixtures
from tests.model_fns.detection.data.augmentation.augmentation_cases import (
    painted,
    painted_examples,
    plain,
    run_mixing,
    seeds,
)


def slow_mixup(group, share):
    """Blend pixel by pixel on a canvas that both fit in."""
    height, width = (max(one[fields.IMAGE].shape[axis] for one in group) for axis in (0, 1))
    image, boxes, weights = np.zeros([height, width, 3]), [], []
    for example, part in zip(group, (share, 1 - share)):
        rows, columns, _ = example[fields.IMAGE].shape
        for row in range(rows):
            for column in range(columns):
                image[row, column] += part * example[fields.IMAGE][row, column]
        boxes += list(example[fields.BOXES] * [rows, columns, rows, columns])
        weights += list(example[fields.WEIGHTS] * part)
    return image, np.reshape(boxes, [-1, 4]) / [height, width, height, width], weights


@given(group=st.tuples(painted_examples(), painted_examples()), seed=seeds())
@settings(max_examples=30, deadline=None)
def test_blend_is_that_of_loops(group, seed):
    step_seed = randomness.step_seed(tf.constant(seed, tf.int64), 0)
    share = float(randomness.beta(randomness.stream_seed(step_seed, 1), 1.5))
    after = run_mixing('mixup {}', group, seed)
    image, boxes, weights = slow_mixup(group, share)
    np.testing.assert_allclose(after[fields.IMAGE], image, atol=1e-3)
    np.testing.assert_allclose(after[fields.BOXES], boxes, atol=1e-6)
    np.testing.assert_allclose(after[fields.WEIGHTS], weights, atol=1e-6)
    assert (after[fields.BOXES] <= 1).all()
    # Masks keep their pixels, on the canvas.
    masks = [mask for one in group for mask in one[fields.MASKS]]
    for mask, before in zip(after[fields.MASKS], masks):
        assert mask.sum() == before.sum()
        np.testing.assert_array_equal(mask[: before.shape[0], : before.shape[1]], before)


@pytest.mark.parametrize('alpha', [0.2, 1.5])
def test_shares_have_the_variance_of_their_distribution(alpha):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        dataset = tf.data.Dataset.range(2000).map(
            lambda number: randomness.beta(tf.stack([tf.constant(5, tf.int64), number]), alpha)
        )
        batch = tf.compat.v1.data.make_one_shot_iterator(dataset.batch(2000)).get_next()
        shares = session.run(batch)
    assert shares.min() >= 0 and shares.max() <= 1
    assert abs(shares.mean() - 0.5) < 0.04
    variance = 1 / (4 * (2 * alpha + 1))  # of Beta(alpha, alpha)
    assert abs(shares.var() - variance) < 0.12 * variance


def test_the_example_of_the_docstring(monkeypatch):
    monkeypatch.setattr(randomness, 'beta', lambda seed, alpha: tf.constant(0.75))
    group = [plain(painted(2, 3, [[0, 0, 1, 1]])) for _ in range(2)]
    for example, value in zip(group, (100, 200)):
        example[fields.IMAGE][:] = value
    group = [{name: tf.constant(value) for name, value in one.items()} for one in group]
    after = mixtures.mixup(group, tf.constant([1, 2], tf.int64))
    np.testing.assert_array_equal(after[fields.IMAGE], np.full([2, 3, 3], 125))
    np.testing.assert_allclose(after[fields.WEIGHTS], [0.75, 0.25])


def test_a_blend_may_not_happen():
    group = [plain(painted(6, 9, [[1, 1, 4, 4]])), plain(painted(7, 5, []))]
    images = [
        run_mixing('mixup { probability: 0.4 }', group, (5, number))[fields.IMAGE]
        for number in range(40)
    ]
    same = [image for image in images if image.shape == (6, 9, 3)]
    assert 12 <= len(same) <= 35 and len({image.shape for image in images}) == 2
    np.testing.assert_array_equal(same[0], group[0][fields.IMAGE])
