import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator_lib.task import IMAGE
from model_fns.augmentation import erasing, randomness


def run(image, seed, **options):
    seed = tf.constant(seed, tf.int64)
    return erasing.random_erasing({IMAGE: tf.constant(image)}, seed, **options)[IMAGE].numpy()


def slow_rectangle(shape, seed, areas=(0.02, 0.4), ratios=(0.3, 1 / 0.3)):
    """Follow the paper's loop over attempts: (top, left, height, width), or None."""
    seed = tf.constant(seed, tf.int64)
    _, y, x = (float(one) for one in randomness.uniforms(seed, 3))
    area_draws, ratio_draws = randomness.uniforms(randomness.stream_seed(seed, 1), 2, 10)
    for area_draw, ratio_draw in zip(area_draws.numpy(), ratio_draws.numpy()):
        area = shape[0] * shape[1] * (areas[0] + area_draw * (areas[1] - areas[0]))
        ratio = ratios[0] + ratio_draw * (ratios[1] - ratios[0])
        height, width = int(np.sqrt(area * ratio)), int(np.sqrt(area / ratio))
        if height < shape[0] and width < shape[1]:
            top, left = int(y * (shape[0] - height + 1)), int(x * (shape[1] - width + 1))
            return top, left, height, width
    return None


@given(
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    seed=st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)),
    dtype=st.sampled_from([np.uint8, np.float32]),
)
@settings(max_examples=40, deadline=None)
def test_rectangle_is_that_of_the_loop(height, width, seed, dtype):
    image = np.full([height, width, 3], 300 if dtype == np.float32 else 0, dtype)
    after = run(image, seed, probability=1.0)
    assert after.dtype == dtype and after.shape == image.shape
    changed = (after != image).any(-1)
    rectangle = slow_rectangle(image.shape, seed)
    outside = np.ones([height, width], bool)
    if rectangle is not None:
        top, left, rows, columns = rectangle
        outside[top : top + rows, left : left + columns] = False
    assert not changed[outside].any()
    # A random value may be that of the image, but for uint8 in one of 256^3 cases only.
    assert changed[~outside].all()


def test_values_are_uniform():
    after = run(np.full([100, 100, 3], -1, np.float32), (1, 5), probability=1.0, areas=(0.3, 0.3))
    values = after[after >= 0]
    assert len(values) > 8000
    assert np.array_equal(values, values.round())
    assert values.min() == 0 and values.max() == 255
    assert abs(values.mean() - 127.5) < 3


@pytest.mark.parametrize('probability', [0.0, 0.3])
def test_probability(probability):
    image = np.zeros([20, 20, 3], np.uint8)
    happened = [run(image, (7, number), probability=probability).any() for number in range(60)]
    assert abs(np.mean(happened) - probability) <= 4 * np.sqrt(probability * 0.7 / 60)
