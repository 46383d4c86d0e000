"""Gaussians and peaks, against slow loops and by hand."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from model_fns.structures import heatmaps

tf1 = tf.compat.v1

SIGMA = 0.8  # whose Gaussians reach 3 pixels
# Steps of a quarter make ties.
heats = st.tuples(st.integers(1, 2), st.integers(1, 6), st.integers(1, 6)).flatmap(
    lambda shape: hnp.arrays(
        np.float32, shape, elements=st.integers(0, 6).map(lambda number: number / 4)
    )
)
points = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 16)), max_size=4).map(
    lambda halves: np.array(halves, np.float32).reshape(-1, 2) / 2
)


@pytest.fixture(scope='module')
def run():
    with tf.Graph().as_default(), tf1.Session() as session:
        centers = tf1.placeholder(tf.float32, [None, 2])
        heat = tf1.placeholder(tf.float32, [None, None, None])
        gaussians = heatmaps.gaussian_heatmap(centers, 7, 9, SIGMA)
        peaks = heatmaps.find_peaks(heat, 0.3, 3), heatmaps.highest_peaks(heat, 0.3, 3, 5)
        yield (
            lambda value: session.run(gaussians, {centers: value}),
            lambda value: session.run(peaks, {heat: value}),
        )


@settings(max_examples=40, deadline=None)
@given(points)
def test_gaussians_equal_the_slow_ones(run, centers):
    expected = np.zeros([7, 9])
    for y, x in np.ndindex(7, 9):
        for row, column in np.rint(centers):
            if abs(y - row) <= 3 and abs(x - column) <= 3:
                squared = (y - row) ** 2 + (x - column) ** 2
                expected[y, x] = max(expected[y, x], np.exp(-squared / (2 * SIGMA**2)))
    np.testing.assert_allclose(run[0](centers), expected, atol=1e-6)


def test_a_gaussian_by_hand(run):
    heat = run[0](np.array([[3.4, 4.0]], np.float32))
    assert heat[3, 4] == 1.0
    assert heat[3, 5] == pytest.approx(np.exp(-0.5 / 0.64), rel=1e-6)
    assert heat[5, 6] == pytest.approx(np.exp(-4 / 0.64), rel=1e-6)
    assert heat[3, 8] == 0.0  # 4 pixels away, more than 3 sigma


def slow_peaks(heat):
    """Of one map, the highest first, by a loop over squares."""

    def square(y, x):
        return heat[max(0, y - 1) : y + 2, max(0, x - 1) : x + 2]

    places = list(np.ndindex(heat.shape))
    high = [p for p in places if heat[p] >= 0.3 and heat[p] == square(*p).max()]
    last = [
        (y, x)
        for y, x in high
        if not any(abs(y - r) <= 1 and abs(x - c) <= 1 and (r, c) > (y, x) for r, c in high)
    ]
    return sorted(last, key=lambda peak: (-heat[peak], peak))


@settings(max_examples=60, deadline=None)
@given(heats)
def test_peaks_equal_the_slow_ones(run, heat):
    mask, peaks = run[1](heat)
    for image, one in enumerate(heat):
        expected = slow_peaks(one)
        assert sorted(map(tuple, np.argwhere(mask[image]))) == sorted(expected)
        count = min(5, len(expected))
        assert peaks.num_valid[image] == count
        found = [tuple(place) for place in peaks.positions[image, :count]]
        assert found == expected[:count]
        np.testing.assert_array_equal(
            peaks.scores[image, :count], [one[place] for place in expected[:count]]
        )
        assert (peaks.scores[image, count:] == -np.inf).all()


def test_local_maxima_of_each_channel():
    maps = np.zeros([1, 1, 5, 2], np.float32)
    maps[0, 0, :, 0] = [1.0, 0.9999, 0.5, 0.6, 0.6]
    maps[0, 0, :, 1] = [0.0, 0.1, 0.2, 0.1, 0.0]
    with tf.Graph().as_default(), tf1.Session() as session:
        exact, close = session.run(
            [heatmaps.local_maxima(tf.constant(maps), 3, tolerance) for tolerance in (0.0, 0.001)]
        )
    assert exact[0, 0, :, 0].tolist() == [True, False, False, True, True]
    assert close[0, 0, :, 0].tolist() == [True, True, False, True, True]
    assert exact[0, 0, :, 1].tolist() == [False, False, True, False, False]


def test_largest_gaussians_equal_the_slow_ones():
    random = np.random.RandomState(0)
    centers = random.uniform(-2, 9, [9, 2]).astype(np.float32)
    sigmas = random.uniform(0.2, 4, [9]).astype(np.float32)
    weights = np.array([1, 1, 0.5, 0, 1, 1, 0.25, 1, 1], np.float32)
    maps = np.array([0, 2, 2, 1, 0, 2, 0, 4, 4])
    with tf.Graph().as_default(), tf1.Session() as session:
        heat = heatmaps.largest_gaussians(
            *map(tf.constant, (centers, sigmas, weights)), tf.constant(maps, tf.int32), 5, 7, 9
        )
        found = session.run(heat)
    expected = np.zeros([5, 7, 9])
    for at, y, x in np.ndindex(*expected.shape):
        for center, sigma, weight, place in zip(centers, sigmas, weights, maps):
            squared = (y - center[0]) ** 2 + (x - center[1]) ** 2
            if place == at:
                one = weight * np.exp(-squared / (2 * sigma**2))
                expected[at, y, x] = max(expected[at, y, x], one)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert not expected[1].any() and not expected[3].any()
