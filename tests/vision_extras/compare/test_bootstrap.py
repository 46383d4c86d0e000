"""Paired bootstrap against a slow reference that repeats examples one by one."""

import numpy as np
import pytest

from vision_extras.compare import bootstrap

RIGHT = np.array([1, 0, 1, 1, 0, 1, 0, 1, 1, 1])
OTHER = np.array([1, 1, 1, 0, 0, 1, 1, 1, 1, 1])


def accuracy(right):
    """Resampler of the fraction of right examples."""
    return lambda weights: {'accuracy': float(np.sum(weights * right) / np.sum(weights))}


def slow_interval(first, second):
    """The percentiles 2.5 and 97.5 of differences, interpolated, of samples that are lists."""
    random = np.random.default_rng(0)
    differences = []
    for _ in range(1000):
        drawn = [int(index) for index in random.integers(len(first), size=len(first))]
        before = sum(first[index] for index in drawn) / len(drawn)
        after = sum(second[index] for index in drawn) / len(drawn)
        differences.append(after - before)
    differences.sort()
    ends = []
    for percent in (2.5, 97.5):
        place = percent / 100 * (len(differences) - 1)
        low = int(place)
        part = place - low
        ends.append(differences[low] * (1 - part) + differences[low + 1] * part)
    return ends


def test_intervals_are_those_of_the_reference():
    order = np.arange(10)
    found = bootstrap.paired_intervals(accuracy(RIGHT), accuracy(OTHER), order)
    assert found['accuracy'] == pytest.approx(slow_interval(RIGHT, OTHER), abs=1e-12)
    assert found['accuracy'].low < 0.1 < found['accuracy'].high
    assert found == bootstrap.paired_intervals(accuracy(RIGHT), accuracy(OTHER), order)


def test_examples_of_another_order_are_paired():
    order = np.array([3, 1, 0, 2, 9, 8, 7, 6, 5, 4])
    found = bootstrap.paired_intervals(accuracy(RIGHT), accuracy(OTHER[order]), order)
    assert found['accuracy'] == pytest.approx(slow_interval(RIGHT, OTHER), abs=1e-12)


def test_equal_models_do_not_differ():
    found = bootstrap.paired_intervals(accuracy(RIGHT), accuracy(RIGHT), np.arange(10))
    assert found == {'accuracy': (0.0, 0.0)}


def test_samples_that_do_not_define_a_metric_are_left_out():
    def first(weights):
        metrics = {'some': 1.0, 'own': 1.0}
        return metrics if weights[0] else {'own': 1.0}

    def second(weights):
        return {'some': 3.0} if weights[0] else {}

    found = bootstrap.paired_intervals(first, second, np.arange(2))
    assert found == {'some': (2.0, 2.0)}
    assert bootstrap.paired_intervals(first, second, np.arange(0)) == {}


def test_order_of_the_same_names():
    first = np.array([b'a', b'c', b'b', b'c'])
    second = np.array([b'c', b'c', b'a', b'b'])
    np.testing.assert_array_equal(bootstrap.find_order(first, second), [1, 3, 0, 2])


@pytest.mark.parametrize('names', [[b'a', b'b'], [b'a', b'b', b'd'], [b'a', b'b', b'b']])
def test_other_examples_have_no_order(names):
    assert bootstrap.find_order(np.array([b'a', b'b', b'c']), np.array(names)) is None
