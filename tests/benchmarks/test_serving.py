"""How requests to an export are counted and timed."""

import collections
import threading

from benchmarks import serving


def test_all_clients_send_their_part_of_the_requests():
    calls = collections.Counter()
    # Nobody goes on before all are there: they send at the same time.
    barrier = threading.Barrier(4, timeout=10)

    def run():
        calls[threading.get_ident()] += 1
        barrier.wait()

    assert serving.clients_per_second(run, clients=4, runs=12) > 0
    assert sorted(calls.values()) == [3, 3, 3, 3]


def test_milliseconds_are_the_least_median(monkeypatch):
    ends = iter([0, 0.5, 1, 1.2, 2, 2.3, 3, 3.1, 4, 4.9, 5, 5.2, 6, 6.8, 7, 7.7, 8, 8.9])
    monkeypatch.setattr(serving.time, 'perf_counter', lambda: next(ends))
    assert round(serving.milliseconds(lambda: None, 9)) == 200
