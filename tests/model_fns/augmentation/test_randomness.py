import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from model_fns.augmentation import randomness

tf1 = tf.compat.v1


def _run(function):
    with tf.Graph().as_default(), tf1.Session() as session:
        return session.run(function())


def test_seeds_of_steps_and_streams_are_all_different():
    def seeds():
        found = []
        for words in ([0, 0], [0, 1], [2**63 - 1, -(2**63)]):
            seed = tf.constant(words, tf.int64)
            for step in range(12):
                of_step = randomness.step_seed(seed, step)
                found += [of_step] + [randomness.stream_seed(of_step, i) for i in (1, 2, 3)]
        return found

    found = _run(seeds)
    assert len({tuple(each) for each in found}) == 3 * 12 * 4


def test_draws_are_a_function_of_the_seed():
    def draws(seed):
        return randomness.uniforms(tf.constant(seed, tf.int64), 2, 500)

    first, again, other = (_run(lambda seed=seed: draws(seed)) for seed in ([1, 2], [1, 2], [1, 3]))
    np.testing.assert_array_equal(first, again)
    assert np.abs(np.corrcoef([*first, *other]) - np.eye(4)).max() < 0.2
    assert np.min(first) >= 0 and np.max(first) < 1
    assert abs(np.mean(first) - 0.5) < 0.05


@given(low=st.integers(-5, 5), count=st.integers(1, 7))
@settings(max_examples=10, deadline=None)
def test_integers_come_up_as_often(low, count):
    uniform = (np.arange(7000, dtype=np.float32) + 0.5) / 7000
    drawn = _run(lambda: randomness.integer(tf.constant(uniform), low, low + count - 1))
    values, counts = np.unique(drawn, return_counts=True)
    np.testing.assert_array_equal(values, np.arange(low, low + count))
    assert np.ptp(counts) <= 1


def test_the_largest_draw_is_not_above_the_largest_integer():
    largest = np.float32(1) - np.float32(2**-24)
    for high in (1, 1000, 499999, 2**24 - 2):
        assert _run(lambda high=high: randomness.integer(tf.constant(largest), 0, high)) <= high
