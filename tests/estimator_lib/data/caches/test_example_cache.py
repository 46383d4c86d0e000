import logging
import weakref

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.data.caches import example_cache
from protos import input_reader_pb2
from tests.estimator_lib.data import record_cases as cases

MEMORY, FILE = input_reader_pb2.InputReader.MEMORY, input_reader_pb2.InputReader.FILE
SIZES = [7, 9, 5]
TOTAL = sum(SIZES)
PASSES = 14  # batches of 4: two passes and two thirds of one


class PictureTask(cases.IdTask):
    """Examples with a picture, and with numbers that vary in length; augmented by changing it."""

    def decode(self, serialized):
        example = super().decode(serialized)
        number = example['id']
        picture = tf.cast(tf.range(number * 100, number * 100 + 300), tf.uint8)
        return {**example, 'picture': picture, 'list': tf.range(number % 4)}

    def augment(self, example, seed):
        example = super().augment(example, seed)
        picture = tf.cast(example['picture'], tf.int64) + tf.reduce_sum(example['list'])
        noise = example['noise'] + 10**10 * tf.reduce_sum(picture)
        return {**example, 'noise': noise, 'list': example['list'] * 2}


@pytest.fixture(scope='module')
def patterns(tmp_path_factory):
    folder = tmp_path_factory.mktemp('examples')
    return [
        cases.write_shards(folder, SIZES),
        cases.write_shards(folder, [4], 'bad', first=cases.BAD_LABEL - 2),
    ]


@pytest.fixture
def decoded(monkeypatch):
    """How many records were decoded."""
    counts = []
    keep = example_cache.ExampleCache._keep

    def counted(self, *arguments):
        counts.append(1)
        return keep(self, *arguments)

    monkeypatch.setattr(example_cache.ExampleCache, '_keep', counted)
    return counts


def same(found, expected):
    assert (found.ids, found.noise, found.skipped) == (
        expected.ids,
        expected.noise,
        expected.skipped,
    )
    np.testing.assert_array_equal(found.positions, expected.positions)


def case(patterns, several=False, **fields):
    if several:
        fields['sample_from_datasets_weights'] = [0.7, 0.3]
        fields['corrupt_record_policy'] = input_reader_pb2.SKIP
    reader = cases.reader_of(*patterns[: 1 + several], **fields)
    return cases.Input(reader, task=PictureTask())


@pytest.fixture(scope='module')
def expected(patterns):
    return {several: case(patterns, several).read(PASSES) for several in (False, True)}


@pytest.mark.parametrize('several', [False, True])
@pytest.mark.parametrize('cache', [MEMORY, FILE])
def test_examples_are_the_same_and_decoded_once(
    patterns, expected, cache, several, tmp_path, decoded
):
    fields = {'cache_folder': str(tmp_path)} if cache == FILE else {}
    one = case(patterns, several, cache=cache, **fields)
    same(one.read(PASSES), expected[several])
    again = one if cache == MEMORY else case(patterns, several, cache=cache, **fields)
    if not several:
        assert len(decoded) == TOTAL
    rest = again.read(PASSES - 6, expected[several].positions[5])  # a resumed run
    assert rest.ids == expected[several].ids[6:]
    assert rest.noise == expected[several].noise[6:]
    if not several:
        assert len(decoded) == TOTAL


def test_a_later_run_reads_what_an_earlier_one_kept(patterns, expected, tmp_path, decoded):
    fields = {'cache': FILE, 'cache_folder': str(tmp_path)}
    first = case(patterns, **fields)
    first.read(3)
    first.close()
    kept = len(first.input_fn._cache._store)
    first.input_fn._cache._store.close()  # as the end of its process does
    assert 12 <= kept <= TOTAL
    decoded.clear()
    same(case(patterns, **fields).read(PASSES), expected[False])
    assert len(decoded) == TOTAL - kept


def set_memory(monkeypatch, memory_bytes):
    """Give the machine so much memory, of which stores of other tests take nothing."""
    monkeypatch.setattr(example_cache.environment, 'memory_bytes', lambda: memory_bytes)
    monkeypatch.setattr(example_cache.MemoryStore, '_stores', weakref.WeakSet())


def test_what_has_no_room_is_decoded_at_each_pass(patterns, expected, monkeypatch, caplog, decoded):
    caplog.set_level(logging.INFO, 'estimator_lib')
    set_memory(monkeypatch, 4 * 10 * 1024)
    one = case(patterns, cache=MEMORY)
    same(one.read(PASSES), expected[False])
    store = one.input_fn._cache._store
    assert 0 < len(store) < TOTAL and store.size <= 10 * 1024
    (said,) = [text for text in caplog.messages if 'cache' in text]
    assert said == (
        f'the cache of decoded examples is full (0 MiB): it keeps {len(store)} of {TOTAL} '
        'examples; the others are decoded at each pass (cache_max_megabytes)'
    )
    assert len(decoded) > 2 * (TOTAL - len(store))


def test_a_second_evaluation_decodes_nothing(patterns, decoded):
    reader = cases.reader_of(patterns[0], cache=MEMORY)
    one = cases.Input(reader, cases.EVAL, task=PictureTask())
    first = one.read()
    assert first.all_ids == list(range(TOTAL)) and len(decoded) == TOTAL
    second = one.read()
    same(second, first)
    assert len(decoded) == TOTAL


def test_changed_records_and_other_decoding_are_not_taken_for_kept_ones(tmp_path, decoded):
    class OtherTask(PictureTask):
        def decode(self, serialized):
            return {**super().decode(serialized), 'list': tf.range(np.int64(3))}

    path = tmp_path / 'records'
    fields = {'cache': FILE, 'cache_folder': str(tmp_path / 'kept'), 'shuffle': False}

    def read(numbers, task):
        cases.write_ids(path, numbers)
        one = cases.Input(cases.reader_of(str(path), **fields), cases.EVAL, task=task)
        found = one.read()
        one.close()
        one.input_fn._cache._store.close()
        decoded_now = len(decoded)
        decoded.clear()
        return found.all_ids, decoded_now

    assert read([1, 2, 3], PictureTask()) == ([1, 2, 3], 3)
    assert read([1, 2, 3], PictureTask()) == ([1, 2, 3], 0)
    assert read([1, 5, 3], PictureTask()) == ([1, 5, 3], 1)  # of the same size
    assert read([1, 5, 3], OtherTask()) == ([1, 5, 3], 3)
    assert read([1, 5, 3, 4], PictureTask()) == ([1, 5, 3, 4], 4)  # another size: replaced


@pytest.mark.parametrize(
    'plan, model_dir, expected',
    [
        (example_cache.CachePlan(True), '/runs/one', '/runs/one/decoded_examples'),
        (example_cache.CachePlan(True, folder='/disk'), '/runs/one', '/disk'),
        (example_cache.CachePlan(True), None, 'there is no model_dir; set cache_folder, or cache:'),
        (example_cache.CachePlan(True), 'gs://runs', 'gs://runs/decoded_examples is not on one'),
    ],
)
def test_the_folder_is_of_the_run_unless_it_is_set(plan, model_dir, expected):
    if expected.startswith('/'):
        assert plan.file_folder(model_dir) == expected
        return
    with pytest.raises(errors.ConfigError, match=expected):
        plan.file_folder(model_dir)


def test_a_plan_is_what_the_reader_says(patterns):
    reader = cases.reader_of(patterns[0], cache=FILE, cache_max_megabytes=3, cache_folder='here')
    assert example_cache.plan_cache(reader) == example_cache.CachePlan(True, 3 * 2**20, 'here')
    reader = cases.reader_of(patterns[0], cache=MEMORY)
    assert example_cache.plan_cache(reader) == example_cache.CachePlan(False)
    assert example_cache.plan_cache(cases.reader_of(patterns[0], cache='RECORDS')) is None


def test_memory_is_bounded_and_keeps_the_first_value():
    store = example_cache.MemoryStore(1000)
    assert store.put((1, 2), np.zeros([300], np.uint8)) and store.put(
        (1, 2), np.ones([3], np.uint8)
    )
    assert not store.put((2, 2), np.zeros([300], np.uint8))
    assert store.get((1, 2)).size == 300 and store.get((2, 2)) is None and len(store) == 1


def test_stores_without_a_limit_of_their_own_share_one_of_the_process(monkeypatch):
    set_memory(monkeypatch, 4 * 5 * (1000 + 256))
    value = np.zeros([1000], np.uint8)
    stores = [example_cache.MemoryStore() for _ in range(3)]
    for number in range(4):
        for store in stores:
            store.put((number, 0), value)
    assert [len(store) for store in stores] == [2, 2, 1]
    # What is set is kept to, and counts for the others.
    own = example_cache.MemoryStore(3 * (1000 + 256))
    assert [own.put((number, 0), value) for number in range(4)] == [True, True, True, False]
    stores.pop()
    assert not stores[0].put((9, 0), value)
    del own, store
    assert [stores[0].put((number, 0), value) for number in (9, 10)] == [True, False]


class PythonTask(PictureTask):
    """Decodes by Python."""

    def decode(self, serialized):
        example = super().decode(serialized)
        doubled = tf.numpy_function(lambda number: number * 2, [example['id']], tf.int64)
        return {**example, 'doubled': tf.ensure_shape(doubled, [])}


def test_a_file_is_refused_where_python_decodes(patterns, tmp_path):
    one = cases.Input(cases.reader_of(patterns[0], cache=MEMORY), cases.EVAL, task=PythonTask())
    assert one.read().all_ids == list(range(TOTAL))
    reader = cases.reader_of(patterns[0], cache=FILE, cache_folder=str(tmp_path))
    expected = 'cache: FILE keeps .* in their decoding PyFunc calls a Python .*; set cache: MEMORY'
    with pytest.raises(errors.ConfigError, match=expected):
        cases.Input(reader, cases.EVAL, task=PythonTask()).read()
