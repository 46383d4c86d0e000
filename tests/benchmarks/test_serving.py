"""How requests to an export are counted and timed."""

import collections
import threading

import numpy as np
import pytest

from benchmarks import serving


def test_all_clients_send_their_part_of_the_requests():
    calls = collections.Counter()
    # Nobody goes on before all are there: they send at the same time.
    barrier = threading.Barrier(4, timeout=10)

    def run():
        calls[threading.get_ident()] += 1
        barrier.wait()

    found = serving.serve(run, clients=4, runs=12)
    assert found.images_per_second > 0 and found.median_ms > 0
    assert sorted(calls.values()) == [3, 3, 3, 3]


def test_milliseconds_are_the_least_median(monkeypatch):
    ends = iter([0, 0.5, 1, 1.2, 2, 2.3, 3, 3.1, 4, 4.9, 5, 5.2, 6, 6.8, 7, 7.7, 8, 8.9])
    monkeypatch.setattr(serving.time, 'perf_counter', lambda: next(ends))
    assert round(serving.milliseconds(lambda: None, 9)) == 200


def test_the_processor_has_a_clock_of_its_own(monkeypatch):
    ends = iter([0, 0.6, 1, 1.3, 2, 2.9])
    monkeypatch.setattr(serving.time, 'process_time', lambda: next(ends))
    assert serving.processor_milliseconds(lambda: None, 9) == pytest.approx(100)


def test_all_that_is_asked_of_an_export_is_measured(monkeypatch, tmp_path):
    seen = collections.Counter()

    def load(path):
        def answer(kind):
            return lambda batch: seen.update({(kind, len(batch)): 1})

        return {'all': answer('all'), 'raw': answer('raw')}

    monkeypatch.setitem(serving.LOADERS, 'session', load)
    batch = np.zeros([serving.BATCH_SIZE, 2, 2, 3], np.uint8)
    found = serving.measure_here(str(tmp_path), 'session', batch, runs=12)
    assert set(seen) == {('all', 1), ('raw', 1), ('all', 8)}
    assert set(found) >= {
        'one_image_ms', 'one_image_cpu_ms', 'suppression_share', 'suppression_share_cpu',
        'batch_images_per_second', 'clients_1_images_per_second', 'clients_2_median_ms',
        'clients_4_images_per_second', 'clients_4_median_ms', 'memory_mib',
    }  # fmt: skip


def test_exports_are_compared_with_the_folded_one():
    found = {
        f'{name}/session/one_image_{clock}': value
        for name, value in {
            'folded': 2,
            'frozen': 3,
            'variables': 4,
            'encoded': 5,
            'example': 6,
        }.items()
        for clock in ('ms', 'cpu_ms')
    }
    ratios = serving.ratios(found)
    assert ratios['frozen_over_folded/one_image_ms'] == 1.5
    assert ratios['encoded_over_folded/one_image_cpu_ms'] == 2.5
