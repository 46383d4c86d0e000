"""Draws of anchors and proposals: their numbers, their independence of everything but the key."""

import numpy as np
import pytest
import tensorflow as tf

from model_fns.detection.architectures.faster_rcnn import sampling
from tests.model_fns.detection.architectures.faster_rcnn import oracles

SEED = np.array([12345, 7], np.int64)
MASK = (1 << 64) - 1


def slow_draw(seed, step, example, row):
    """Compute the same number with Python's unbounded integers."""

    def mixed(z):
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    start = mixed((seed * 0x9E3779B97F4A7C15 + step * 0xD1B54A32D192ED03) & MASK)
    of_example = mixed((start + example * 0x8CB92BA72F3D8DD7) & MASK)
    number = mixed((of_example + row * 0xAEF17502108EF2D9) & MASK)
    return (number >> 40) / 2**24


def drawn(seed=SEED, examples=(0, 1), rows=1000):
    return sampling.draws(tf.constant(seed), tf.constant(examples), tf.constant(rows)).numpy()


class TestDraws:
    def test_equal_the_same_arithmetic_on_whole_numbers(self):
        ours = drawn(examples=(3, 2**31 - 2), rows=50)
        for index, example in enumerate((3, 2**31 - 2)):
            expected = [slow_draw(12345, 7, example, row) for row in range(50)]
            np.testing.assert_array_equal(ours[index], np.float32(expected))

    def test_depend_on_the_example_not_on_its_place(self):
        first, second = drawn(examples=(5, 9)), drawn(examples=(9, 4))
        np.testing.assert_array_equal(first[1], second[0])

    def test_differ_by_step_seed_example_and_row(self):
        base = drawn()
        for other in (drawn(np.array([12345, 8])), drawn(np.array([12346, 7]))):
            # Independent uniforms: the correlation's deviation is 1 / sqrt(2000).
            assert abs(np.corrcoef(base.ravel(), other.ravel())[0, 1]) < 0.1
        assert abs(np.corrcoef(base[0], base[1])[0, 1]) < 0.13
        assert abs(np.corrcoef(base[0, 1:], base[0, :-1])[0, 1]) < 0.13

    def test_are_uniform(self):
        counts = np.histogram(drawn(rows=20000), bins=20, range=(0, 1))[0]
        # 40000 draws: 2000 a bin, with a deviation of 44.
        assert np.abs(counts - 2000).max() < 5 * 44


def marks(positive, negative, others, seed):
    """Return (positive, candidates), shuffled."""
    labels = np.array([1] * positive + [0] * negative + [0] * others, bool)
    candidates = np.array([1] * (positive + negative) + [0] * others, bool)
    order = np.random.RandomState(seed).permutation(len(labels))
    return labels[order][np.newaxis], candidates[order][np.newaxis]


def sample(positive, candidates, *arguments):
    draws = sampling.draws(
        tf.constant(SEED), tf.range(len(positive)), tf.constant(positive.shape[1])
    )
    sampler = sampling.BalancedSampler(*arguments)
    return sampler.sample(tf.constant(positive), tf.constant(candidates), draws).numpy()


class TestBalancedSampler:
    def test_recorded_counts(self):
        for row in oracles.case('sampler_counts')['table']:
            if row[3] < 0:
                continue  # all positives: see `mining.SampledExamples`
            size = int(row[3])
            positive, candidates = marks(*row[:3].astype(int), seed=size)
            for fill, expected in ((False, row[5:7]), (True, row[7:9])):
                if expected[0] < 0:
                    continue
                taken = sample(positive, candidates, size, float(row[4]), fill)
                counts = [(taken & positive).sum(), (taken & ~positive).sum()]
                np.testing.assert_array_equal(counts, expected, str(row))
                if not fill:
                    assert not (taken & ~candidates).any()

    def test_the_lowest_draws_are_taken(self):
        positive = np.array([[True, True, True, False, False, False]])
        draws = tf.constant([[0.3, 0.1, 0.2, 0.9, 0.4, 0.5]])
        taken = sampling.BalancedSampler(4, 0.5).sample(
            tf.constant(positive), tf.constant([[True] * 6]), draws
        )
        np.testing.assert_array_equal(taken, [[False, True, True, False, True, True]])

    def test_fill_ups_are_the_first_that_are_no_candidates(self):
        candidates = np.array([[False, True, False, False, True]])
        taken = sample(np.zeros([1, 5], bool), candidates, 4, 0.5, True)
        np.testing.assert_array_equal(taken, [[True, True, True, False, True]])

    def test_each_image_by_itself(self):
        one, two = marks(5, 20, 3, 0), marks(1, 25, 2, 1)
        both = [np.concatenate(pair) for pair in zip(one, two)]
        taken = sample(*both, 8, 0.5)
        np.testing.assert_array_equal((taken & both[0]).sum(1), [4, 1])
        np.testing.assert_array_equal(taken.sum(1), [8, 8])

    def test_nothing_to_draw_from(self):
        taken = sample(np.zeros([1, 4], bool), np.zeros([1, 4], bool), 8, 0.5)
        assert not taken.any()


def test_chosen_rows_keep_their_order():
    chosen = tf.constant([[False, True, False, True], [True, True, True, False]])
    values = tf.constant([[[1.0], [2], [3], [4]], [[5], [6], [7], [8]]])
    rows, counts = sampling.gather_first(chosen, values, 3)
    np.testing.assert_array_equal(rows[..., 0], [[2, 4, 0], [5, 6, 7]])
    np.testing.assert_array_equal(counts, [2, 3])


@pytest.mark.parametrize('step', [0, 5])
def test_two_runs_of_a_step_draw_the_same(step):
    seed = np.array([3, step], np.int64)
    np.testing.assert_array_equal(drawn(seed), drawn(seed))
