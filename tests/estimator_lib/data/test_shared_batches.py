"""Processes that share out each batch: together they read what one process would."""

import numpy as np
import pytest

from estimator_lib import errors
from estimator_lib.checkpoints import reader_positions
from estimator_lib.data import inputs, reading
from tests.estimator_lib.data import record_cases as cases
from tests.estimator_lib.tiny_task import save

BATCH = 6
STEPS = 9  # more than two epochs of 24 records, which are no whole number of batches of 7 either


@pytest.fixture(scope='module')
def pattern(tmp_path_factory):
    return cases.write_shards(tmp_path_factory.mktemp('shared'), [7, 9, 5, 2])


def examples(read, step):
    """The ids of a batch, each with what augmentation drew for it."""
    return list(zip(read.ids[step], read.noise[step]))


def shares(reader, count, batches, starts=None, **options):
    options = {'batch_size': BATCH, 'batch_parts': count, **options}
    return [
        cases.run(
            reader,
            batches=batches,
            start=starts[index] if starts else None,
            shard=(index, count),
            share_batches=True,
            **options,
        )
        for index in range(count)
    ]


def test_each_batch_is_shared_out_and_reading_goes_on(pattern):
    count = 3
    reader = cases.reader_of(pattern)
    whole = cases.run(reader, batches=STEPS, batch_size=BATCH)
    parts = shares(reader, count, STEPS)
    for step in range(STEPS):
        assert {len(part.ids[step]) for part in parts} == {BATCH // count}
        together = [example for part in parts for example in examples(part, step)]
        assert sorted(together) == sorted(examples(whole, step))
    for step in (3, 7):  # in the first epoch, and behind it
        starts = [part.positions[step] for part in parts]
        again = shares(reader, count, STEPS - step - 1, starts)
        assert [part.ids for part in again] == [part.ids[step + 1 :] for part in parts]


def test_another_number_of_processes_goes_on(pattern, tmp_path):
    """One process, two, three, and one: each step has the examples that one would have."""
    steps = 7  # nearly two epochs
    reader = cases.reader_of(pattern)
    whole = cases.run(reader, batches=4 * steps, batch_size=BATCH)
    starts = None
    counts = (1, 2, 3, 1)
    for part, (count, next_count) in enumerate(zip(counts, counts[1:] + counts[:1])):
        parts = shares(reader, count, steps, starts)
        for step in range(steps):
            together = [example for each in parts for example in examples(each, step)]
            assert sorted(together) == sorted(examples(whole, part * steps + step))
        names = [f'input_reader/{count}_{index}/position' for index in range(count)]
        values = dict(zip(names, (each.positions[-1] for each in parts)))
        prefix = save(tmp_path / f'model.ckpt-{part}', values)
        following = [f'input_reader/next_{index}/position' for index in range(next_count)]
        starts = reader_positions.moved_positions(prefix, following, values[names[0]].shape)
        starts = [starts[name] for name in following]


def test_processes_that_divide_the_files_go_on_about_where_all_were(pattern):
    start = np.array([[1, -1 - 11, 0], [8, 0, 0]])
    read = cases.run(cases.reader_of(pattern), start=start, shard=(1, 2), batches=1, batch_size=2)
    # Two examples behind half of the 11 that all had read of epoch 1.
    assert read.positions[0][:, :2].tolist() == [[1, 7], [10, 0]]


def test_a_source_without_examples_yet_keeps_its_start(tmp_path):
    first = cases.write_shards(tmp_path, [9], 'first')
    second = cases.write_shards(tmp_path, [9], 'second', first=100)
    reader = cases.reader_of(first, second, sample_from_datasets_weights=[1, 1e-9])
    start = np.array([[0, -5, 0], [0, -3, 0], [2, 0, 0]])
    (read, _) = shares(reader, 2, 1, [start, start], batch_size=2)
    assert read.positions[0][:2, :2].tolist() == [[0, 5], [0, -3]]


def test_batches_of_their_own_size(pattern):
    """Of synchronous parameter servers: the batch of a process is not parted."""
    reader = cases.reader_of(pattern, sample_1_of_n_examples=2, cache='RECORDS')
    whole = cases.run(reader, batches=4, batch_size=BATCH)
    parts = shares(reader, 2, 4, batch_size=BATCH // 2, batch_parts=1)
    for step in range(4):
        assert sorted(parts[0].ids[step] + parts[1].ids[step]) == sorted(whole.ids[step])


def test_a_process_that_gives_its_batch_in_parts(pattern):
    """Of a strategy on one machine: one reader, whose parts come one after the other."""
    reader = cases.reader_of(pattern)
    whole = cases.run(reader, batches=3, batch_size=BATCH)
    parts = cases.run(reader, batches=6, batch_size=BATCH, batch_parts=2)
    assert [parts.ids[i] + parts.ids[i + 1] for i in (0, 2, 4)] == whole.ids


def test_one_process_reads_what_workers_have_shared_out(pattern):
    """Two workers with two replicas each; the turns of both are known by the readers of each."""
    reader = cases.reader_of(pattern)
    options = {'batch_size': 8, 'batch_parts': 4}
    found = cases.run(reader, batches=4 * STEPS, workers=['chief_0', 'worker_0'], **options)
    first, second = shares(reader, 2, 2 * STEPS, **options)
    for step in range(STEPS):
        turns = [(each, 2 * step + number) for each in (first, second) for number in range(2)]
        for replica, (each, number) in enumerate(turns):
            assert examples(found, 4 * step + replica) == examples(each, number)
            position = found.positions[4 * step + replica]
            np.testing.assert_array_equal(position, each.positions[number])


def test_counts_of_sources_are_kept_in_the_batch_of_all(tmp_path):
    first = cases.write_shards(tmp_path, [9], 'first')
    second = cases.write_shards(tmp_path, [9], 'second', first=100)
    reader = cases.reader_of(first, second, examples_per_batch=[4, 2])
    for part in shares(reader, 2, 3):
        assert [sum(number >= 100 for number in batch) for batch in part.ids] == [1, 1, 1]
    with pytest.raises(errors.ConfigError, match='4, which 3 workers that share each batch'):
        shares(reader, 3, 1)


def test_corrupt_records_leave_the_order_of_the_others(tmp_path):
    numbers = [0, 1, cases.BAD_LABEL, 3, 4, 5, 6, 7]
    cases.write_ids(tmp_path / 'a', numbers)
    reader = cases.reader_of(
        str(tmp_path / 'a'), shuffle=False, num_epochs=1, corrupt_record_policy='SKIP'
    )
    even, odd = shares(reader, 2, None, batch_size=2)
    assert even.all_ids == [0, 4, 6] and odd.all_ids == [1, 3, 5, 7]
    assert (even.skipped[-1], odd.skipped[-1]) == (1, 0)


def test_a_batch_without_equal_parts(pattern):
    with pytest.raises(ValueError, match='A batch of 7 has no 2 equal parts'):
        reading.plan_reading(
            cases.IdTask(), cases.reader_of(pattern), cases.TRAIN, 7, 1, batch_parts=2
        )


def test_fewer_records_than_workers(tmp_path):
    reader = cases.reader_of(cases.write_shards(tmp_path, [2]))
    input_fn = inputs.create_input_fn(
        cases.IdTask(), reader, cases.TRAIN, 3, 1, shard=(0, 3), batch_parts=3, share_batches=True
    )
    with pytest.raises(errors.DataError, match='2 records for 3 workers'):
        input_fn()
