"""Counting and timing of requests to an export."""

import collections
import functools
import threading

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import measuring
from benchmarks.serving import exports


def test_all_clients_send_their_part_of_the_requests():
    calls = collections.Counter()
    # Nobody continues before all are there: they send at the same time.
    barrier = threading.Barrier(4, timeout=10)

    def run():
        calls[threading.get_ident()] += 1
        barrier.wait()

    found = exports.serve(run, clients=4, runs=12)
    assert found.images_per_second > 0 and found.median_ms > 0
    assert sorted(calls.values()) == [3, 3, 3, 3]


def test_latencies_are_the_least_of_three_rounds_in_turns(monkeypatch):
    spent = {
        # By the clock, and of the processor: the last call of a round is held up by others.
        'one': [(0.2, 0.1), (0.3, 0.2), (9, 0.6)] + [(0.1, 0.4)] * 3 + [(1, 1)] * 3,
        'other': [(2, 3)] * 9,
    }
    now, called = measuring.Clocks(0.0, 0.0), []

    def call(name):
        nonlocal now
        called.append(name)
        wall, cpu = spent[name].pop(0)
        now = measuring.Clocks(now.wall + wall, now.cpu + cpu)

    monkeypatch.setattr(measuring, 'clocks', lambda: now)
    found = exports.latencies({name: functools.partial(call, name) for name in spent}, 9)
    assert found['one'] == pytest.approx((100, 300))  # medians 0.3, 0.1, 1; means 0.3, 0.4, 1
    assert found['other'] == pytest.approx((2000, 3000))
    assert called == ['one', 'other'] * 9


def test_all_that_is_asked_of_an_export_is_measured(monkeypatch, tmp_path):
    seen = collections.Counter()

    def load(path):
        def answer(kind):
            return lambda batch: seen.update({(kind, len(batch)): 1})

        return {'all': answer('all'), 'raw': answer('raw')}

    monkeypatch.setitem(exports.LOADERS, 'session', load)
    batch = np.zeros([exports.BATCH_SIZE, 2, 2, 3], np.uint8)
    found = exports.measure_here(str(tmp_path), 'session', batch, runs=12)
    assert set(seen) == {('all', 1), ('raw', 1), ('all', 8)}
    assert set(found) >= {
        'one_image_ms', 'one_image_cpu_ms', 'suppression_share', 'suppression_share_cpu',
        'batch_images_per_second', 'batch_image_cpu_ms', 'clients_1_images_per_second',
        'clients_2_median_ms', 'clients_4_images_per_second', 'clients_4_median_ms', 'memory_mib',
    }  # fmt: skip


def test_the_ops_of_a_request_are_counted_and_timed(tmp_path):
    tf1 = tf.compat.v1
    with tf.Graph().as_default(), tf1.Session() as session:
        images = tf1.placeholder(tf.float32, [None, 64, 64])
        outputs = {'y': tf.matmul(tf.matmul(images, images), images)}
        builder = tf1.saved_model.Builder(str(tmp_path / 'export'))
        signature = tf1.saved_model.predict_signature_def({'inputs': images}, outputs)
        builder.add_meta_graph_and_variables(session, [exports.TAG], {exports.SIGNATURE: signature})
        builder.save()
    found = exports.ops_here(str(tmp_path / 'export'), np.ones([1, 64, 64], np.float32))
    ((_, (took, count)),) = [(kind, one) for kind, one in found.items() if 'MatMul' in kind]
    assert count == 2 and took > 0
    assert [one for one, _ in found.values()] == sorted((one for one, _ in found.values()))[::-1]


def test_requests_to_two_exports_alternate(monkeypatch):
    now, called = measuring.Clocks(0.0, 0.0), []

    def load(path):
        def answer(batch):
            nonlocal now
            called.append((path, len(batch)))
            cpu = now.cpu + (3 if path == 'one' else 2) * len(batch)
            now = measuring.Clocks(now.wall + len(batch), cpu)

        return {'all': answer}

    monkeypatch.setattr(exports, 'load_in_session', load)
    monkeypatch.setattr(measuring, 'clocks', lambda: now)
    found = exports.compare_here('one', 'other', np.zeros([8, 2, 2, 3], np.uint8), runs=12)
    ratios = {'images_1': 1.0, 'images_1_cpu': 1.5, 'images_8': 1.0, 'images_8_cpu': 1.5}
    assert found == ratios
    assert called[:4] == [('one', 1), ('other', 1)] * 2
    assert called[-2:] == [('one', 8), ('other', 8)]
