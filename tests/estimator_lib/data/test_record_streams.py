import collections

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib.data import record_streams, records
from estimator_lib.data.record_sources import Source
from estimator_lib.data.record_streams import Order
from tests.estimator_lib.data import record_cases as cases

tf1 = tf.compat.v1
SIZES = [7, 9, 5, 4]
TOTAL = sum(SIZES)


@pytest.fixture(scope='module')
def source(tmp_path_factory):
    pattern = cases.write_shards(tmp_path_factory.mktemp('stream'), SIZES)
    return Source(0, tuple(records.find_files([pattern], 'field')))


def _order(**fields):
    defaults = {
        'seed': 3,
        'shuffle_buffer_size': 6,
        'files_buffer_size': 100,
        'num_readers': 3,
        'block_length': 2,
    }
    return Order(**{**defaults, **fields})


def test_an_epoch_has_each_record_once(source):
    ids = cases.raw_ids(source, _order(num_epochs=3))
    epochs = [ids[start : start + TOTAL] for start in range(0, 3 * TOTAL, TOTAL)]
    assert all(sorted(epoch) == list(range(TOTAL)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


def test_the_order_is_a_function_of_the_seed(source):
    ids = cases.raw_ids(source, _order(num_epochs=2))
    assert ids == cases.raw_ids(source, _order(num_epochs=2))
    assert ids != cases.raw_ids(source, _order(num_epochs=2, seed=4))


def test_the_order_does_not_depend_on_the_seed_of_the_graph(source):
    orders = []
    for graph_seed in (0, 5):
        with tf.Graph().as_default() as graph:
            graph.seed = graph_seed
            stream = record_streams.create_stream(source, _order(), tf.constant([0, 0], tf.int64))
            _, (_, (record_id, _)) = tf1.data.make_one_shot_iterator(stream).get_next()
            with record_streams.open_session() as session:
                orders.append([session.run(record_id) for _ in range(TOTAL)])
    assert orders[0] == orders[1]


@pytest.mark.parametrize('cache', [False, True])
def test_an_epoch_is_the_same_wherever_reading_starts(source, cache):
    stream = cases.Stream(source, _order(num_epochs=4, cache=cache))
    ids = stream.ids()
    assert sorted(ids[:TOTAL]) == list(range(TOTAL))
    for epoch, index in [(0, 1), (0, TOTAL - 1), (0, TOTAL), (1, 0), (2, 13), (3, TOTAL)]:
        assert stream.ids((epoch, index)) == ids[epoch * TOTAL + index :]
    # An index behind the epoch, of files that have become fewer.
    assert stream.ids((2, 10**6)) == ids[3 * TOTAL :]


def test_without_shuffling_files_come_in_turns(source):
    order = _order(shuffle_buffer_size=0, files_buffer_size=0, num_readers=2, num_epochs=1)
    assert cases.raw_ids(source, order)[:8] == [0, 1, 7, 8, 2, 3, 9, 10]
    assert cases.raw_ids(source, Order(seed=1, num_epochs=1)) == list(range(TOTAL))


def test_a_buffer_bounds_how_far_a_record_moves_ahead(source):
    order = Order(seed=1, shuffle_buffer_size=4, num_epochs=1)
    places = np.argsort(cases.raw_ids(source, order))
    assert np.all(places >= np.arange(TOTAL) - 3)


def test_one_of_n(source):
    assert cases.raw_ids(source, Order(seed=1, sample_1_of_n=4, num_epochs=1)) == list(
        range(0, TOTAL, 4)
    )


@pytest.mark.parametrize('count', [3, 5])  # by files, and by records
def test_shards_are_disjoint_and_complete_in_every_epoch(source, count):
    by_epoch = collections.defaultdict(list)
    for index in range(count):
        epochs = cases.Stream(source, _order(shard=(index, count), num_epochs=2)).epochs()
        for epoch in (0, 1):
            assert epochs[epoch]
            by_epoch[epoch].extend(epochs[epoch])
    assert sorted(by_epoch[0]) == sorted(by_epoch[1]) == list(range(TOTAL))


def test_more_readers_than_files_are_not_needed(source):
    ids = cases.raw_ids(source, _order(num_readers=64, num_epochs=1))
    assert sorted(ids) == list(range(TOTAL))


def _mixed(weights, counts, draws, seed=1, start=0, sizes=(50, 50, 50)):
    sources = [
        Source(index, (), weight=weight, per_batch=count)
        for index, (weight, count) in enumerate(zip(weights, counts))
    ]
    with tf.Graph().as_default():
        datasets = [
            tf.data.Dataset.from_tensors(index).repeat(size if size else None)
            for index, size in zip(range(len(sources)), sizes)
        ]
        mixture = record_streams.mix(datasets, sources, seed, tf.constant(start, tf.int64))
        element = tf1.data.make_one_shot_iterator(mixture.take(draws)).get_next()
        drawn = []
        with record_streams.open_session() as session:
            while True:
                try:
                    drawn.append(session.run(element))
                except tf.errors.OutOfRangeError:
                    return drawn


def test_weights_are_the_proportions_of_the_mixture():
    drawn = _mixed([0.5, 0.2, 0.3], [None] * 3, 1000, sizes=(0, 0, 0))
    shares = np.bincount(drawn) / 1000
    # Five standard deviations of a share of 0.5 in 1000 draws are 0.079.
    np.testing.assert_allclose(shares, [0.5, 0.2, 0.3], atol=0.079)


def test_the_mixture_is_a_function_of_seed_and_draw():
    drawn = _mixed([0.5, 0.5], [None] * 2, 60, sizes=(0, 0))
    assert _mixed([0.5, 0.5], [None] * 2, 40, start=20, sizes=(0, 0)) == drawn[20:]
    assert _mixed([0.5, 0.5], [None] * 2, 60, seed=2, sizes=(0, 0)) != drawn


def test_counts_are_kept_in_every_batch_in_the_order_of_sources():
    drawn = _mixed([0.5, 0.25, 0.25], [2, 1, 1], 12)
    assert drawn == [0, 0, 1, 2] * 3


def test_the_mixture_ends_with_the_first_source_that_does():
    assert _mixed([0.5, 0.5], [1, 1], 99, sizes=(3, 50)) == [0, 1] * 3


def test_the_place_of_a_record(source):
    record_id = 2 * record_streams.FILE_SPAN + 4
    assert record_streams.locate(source, record_id) == (source.files[2], 4)


def _read(path, compression=''):
    with tf.Graph().as_default():
        file = tf.constant(path), tf.constant(compression), tf.constant(0, tf.int64)
        files = (records.RecordFile(path, compression, 0),)
        dataset = record_streams.read_file(Source(0, files), file, True)
        element = tf1.data.make_one_shot_iterator(dataset).get_next()
        found = []
        with record_streams.open_session() as session:
            while True:
                try:
                    found.append(session.run(element))
                except tf.errors.OutOfRangeError:
                    return found


BAD = record_streams.CORRUPT_FRAME


def _letters(tmp_path, suffix=''):
    return cases.write(tmp_path / f'f{suffix}', [b'aaaa', b'bbbb', b'cccc', b'dddd', b'eeee'])


def test_reading_goes_on_behind_a_corrupt_payload(tmp_path):
    path = _letters(tmp_path)
    cases.change_byte(path, 20 + 13)
    cases.change_byte(path, 3 * 20 + 13)
    assert _read(path) == [(0, b'aaaa'), (1, BAD), (2, b'cccc'), (3, BAD), (4, b'eeee')]


def test_reading_ends_where_the_chain_of_frames_does(tmp_path):
    path = _letters(tmp_path)
    cases.change_byte(path, 2 * 20)
    assert _read(path) == [(0, b'aaaa'), (1, b'bbbb'), (2, BAD)]


@pytest.mark.parametrize('size', [4 * 20 + 15, 4 * 20 + 5])
def test_a_truncated_file_ends_with_the_mark(tmp_path, size):
    path = _letters(tmp_path)
    with open(path, 'r+b') as file:
        file.truncate(size)
    assert _read(path) == [(0, b'aaaa'), (1, b'bbbb'), (2, b'cccc'), (3, b'dddd'), (4, BAD)]


def test_a_sound_file_is_read_as_it_is(tmp_path):
    expected = list(enumerate([b'aaaa', b'bbbb', b'cccc', b'dddd', b'eeee']))
    assert _read(_letters(tmp_path)) == expected
    assert _read(_letters(tmp_path, '.gz'), 'GZIP') == expected


def test_a_truncated_gzip_file_ends_with_the_mark(tmp_path):
    path = cases.write(tmp_path / 'f.gz', [bytes(np.random.RandomState(0).bytes(4000))] * 9)
    with open(path, 'r+b') as file:
        file.truncate(tmp_path.joinpath('f.gz').stat().st_size // 2)
    found = _read(path, 'GZIP')
    assert found[-1][1] == BAD
    assert all(record != BAD for _, record in found[:-1])


def test_a_missing_file_fails_and_is_not_tried_for_ever(tmp_path):
    with pytest.raises(tf.errors.OpError):
        _read(str(tmp_path / 'nothing'))


def test_cached_records_have_the_same_order_where_tensorflow_is_eager(source):
    order = _order(num_epochs=2, cache=True)
    stream = record_streams.create_stream(source, order, tf.constant([0, 0], tf.int64))
    records_read = [record.numpy() for _, (_, (_, record)) in stream]
    ids = [
        tf.train.Example.FromString(record).features.feature['id'].int64_list.value[0]
        for record in records_read
    ]
    assert ids == cases.raw_ids(source, order)
