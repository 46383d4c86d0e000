"""Draining and timing of the stages of an input."""

import tensorflow as tf

from benchmarks import measuring
from benchmarks.input import stages


def test_a_drain_takes_so_many_elements_each_time_and_goes_on():
    taken = []

    def note(number):
        taken.append(int(number))
        return number

    def create():
        numbers = tf.data.Dataset.range(1000)
        return numbers.map(lambda one: tf.numpy_function(note, [one], tf.int64))

    with stages.drain(create, 7) as run:
        run()
        assert taken == list(range(7))
        run()
    assert taken == list(range(14))


def test_the_least_of_the_turns_counts_and_the_first_does_not(monkeypatch):
    # By the clock and of the processor; before and after each of two sides, in three turns.
    spent = iter([(1, 9), (1, 9), (5, 2), (4, 8), (3, 6), (2, 7)])
    now = [0.0, 0.0]

    def clocks():
        return measuring.Clocks(*now)

    def run():
        wall, cpu = next(spent)
        now[0] += wall
        now[1] += cpu

    monkeypatch.setattr(measuring, 'clocks', clocks)
    least = stages.least_seconds({'one': run, 'other': run}, turns=2)
    assert least == {'one': measuring.Clocks(3, 2), 'other': measuring.Clocks(2, 7)}
