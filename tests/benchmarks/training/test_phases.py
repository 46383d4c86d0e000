"""Phases of a start."""

import time

import pytest

from benchmarks.training import phases


def test_phases_add_up_to_the_time_since_the_start():
    started = time.monotonic() - 5.0
    watch = phases.Stopwatch(started)
    watch.ends('imports')
    watch.ends('session')
    watch.ends('network')
    watch.ends('session')
    assert list(watch.phases) == ['imports', 'session', 'network']
    whole = sum(one.wall for one in watch.phases.values())
    assert 5.0 <= whole <= time.monotonic() - started
    assert watch.phases['imports'].wall >= 5.0 > watch.phases['session'].wall


def test_a_summary_has_the_least_of_each_phase_and_the_ratio_of_both_sides():
    runs = {
        'engine': [
            {'imports': [4, 3], 'first_run': [2, 5]},
            {'imports': [3, 4], 'first_run': [6, 1]},
        ],
        'bare': [{'imports': [2, 2], 'first_run': [1, 2]}],
    }
    found = phases._summary('net', runs)
    assert (found['net/engine/imports'], found['net/engine/first_run']) == (3, 2)
    assert (found['net/engine/all'], found['net/engine/all_cpu']) == (6, 5)
    assert found['net/engine_over_bare'] == pytest.approx(6 / 3)
    assert found['net/engine_over_bare_cpu'] == pytest.approx(5 / 4)
