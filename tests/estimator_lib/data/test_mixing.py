import numpy as np
import pytest
import tensorflow as tf

from estimator_lib.data import mixing
from estimator_lib.data.record_streams import INDEX_SPAN
from estimator_lib.task import IMAGE, Mixing
from estimator_lib.task_interfaces import training_step
from protos import input_reader_pb2
from tests.estimator_lib.data import record_cases as cases

SIZES = [7, 9, 5]
TOTAL = sum(SIZES)
SEED = 3


class MixingTask(cases.IdTask):
    """Examples as `id` rows of their id; each result is the ids of a group."""

    def __init__(self, counts=(3,)):
        self._counts = counts

    def mixings(self):
        return [Mixing(self._vary, self._combine, count) for count in self._counts]

    def _vary(self, example, seed):
        if 'ids' in example:
            return example
        number = example['id']
        return {**example, 'rows': tf.fill([number, 2], number), 'ids': number[tf.newaxis]}

    def _combine(self, group, seed):
        ids = tf.concat([one['ids'] for one in group], 0)
        rows = tf.concat([one['rows'] for one in group], 0)
        sizes = tf.reduce_sum(ids)
        with tf.control_dependencies([tf.debugging.assert_equal(tf.shape(rows)[0], int_(sizes))]):
            return {**group[0], 'ids': tf.identity(ids), 'rows': rows}

    def prepare(self, example, mode):
        features, labels = super().prepare(example, mode)
        ids = example.get('ids', example['id'][tf.newaxis])
        return {**features, IMAGE: ids}, labels


def int_(value):
    return tf.cast(value, tf.int32)


def groups(read):
    return [tuple(group) for batch in read.ids for group in batch]


def drawn(seed, count):
    """Draw offsets: the indices of the largest of `POOL` uniform numbers, from 1."""
    uniform = tf.random.stateless_uniform([mixing.POOL], seed).numpy()
    return 1 + np.argsort(-uniform, kind='stable')[:count]


@pytest.fixture(scope='module')
def pattern(tmp_path_factory):
    return cases.write_shards(tmp_path_factory.mktemp('mixing'), SIZES)


@pytest.fixture(scope='module')
def long_run(pattern):
    one = cases.Input(cases.reader_of(pattern), seed=SEED, task=MixingTask())
    return one, one.read(12)


def expected_groups(pattern, count):
    """Compute groups with plain lists, from the order of a run that does not mix."""
    order = cases.run(cases.reader_of(pattern), batches=20, seed=SEED).all_ids
    for index in range(count):
        position = INDEX_SPAN * (index // TOTAL) + index % TOTAL
        offsets = drawn([SEED + 2**42, position], 2)
        yield tuple(order[index + offset] for offset in (0, *offsets))


def test_each_example_comes_with_partners_that_follow_it(pattern, long_run):
    found = groups(long_run[1])
    assert found == list(expected_groups(pattern, len(found)))
    assert all(len({*group[1:]}) == 2 for group in found)


def test_augmentation_follows_with_the_seed_of_the_example(pattern, long_run):
    plain = cases.run(cases.reader_of(pattern), batches=12, seed=SEED)
    assert long_run[1].noise == plain.noise
    np.testing.assert_array_equal(long_run[1].positions, plain.positions)


@pytest.mark.parametrize('stop', [1, 5, 11])
def test_a_resumed_run_mixes_the_same_examples(long_run, stop):
    one, whole = long_run
    rest = one.read(12 - stop, whole.positions[stop - 1])
    assert groups(rest) == groups(whole)[4 * stop :]
    np.testing.assert_array_equal(rest.positions, whole.positions[stop:])


def test_mixtures_are_mixed_again(pattern, long_run):
    reader = cases.reader_of(pattern)
    found = groups(cases.run(reader, batches=3, seed=SEED, task=MixingTask((3, 2))))
    single = list(expected_groups(pattern, 12 + mixing.POOL))
    for index, group in enumerate(found):
        (offset,) = drawn([SEED + 2 * 2**42, index], 1)
        assert group == single[index] + single[index + offset]


def test_the_last_examples_of_a_run_have_partners_of_the_next_epoch(pattern):
    reader = cases.reader_of(pattern, num_epochs=1, drop_remainder=False)
    whole = cases.run(reader, seed=SEED, batch_size=3, task=MixingTask())
    assert whole.ended
    assert groups(whole) == list(expected_groups(pattern, TOTAL))


def test_evaluation_does_not_mix(pattern):
    read = cases.run(cases.reader_of(pattern), cases.EVAL, batch_size=3, task=MixingTask())
    assert sorted(groups(read)) == [(number,) for number in range(TOTAL)]


def test_records_that_fail_are_skipped_before_they_are_mixed(tmp_path):
    numbers = [1, 2, cases.BAD_LABEL, 4, 5]
    reader = cases.reader_of(
        cases.write_ids(tmp_path / 'ids', numbers),
        shuffle=False,
        corrupt_record_policy=input_reader_pb2.SKIP,
    )
    one = cases.Input(reader, batch_size=2, seed=SEED, task=MixingTask())
    whole = one.read(6)
    assert [group[0] for group in groups(whole)] == [1, 2, 4, 5] * 3
    assert {number for group in groups(whole) for number in group} == {1, 2, 4, 5}
    # The record was met once in each epoch before the last batch.
    assert whole.skipped == [0, 1, 1, 2, 2, 3]
    rest = one.read(3, whole.positions[2])
    assert groups(rest) == groups(whole)[6:]


class SteppingTask(MixingTask):
    """Has the training step of each example, before and after mixing, as its noise."""

    def augment(self, example, seed):
        return {**example, 'noise': tf.cast(training_step.current(), tf.float32)}


@pytest.mark.parametrize('counts', [(), (3,)])
def test_examples_know_their_training_step_also_after_a_restart(pattern, counts):
    one = cases.Input(cases.reader_of(pattern), batch_size=4, seed=SEED, task=SteppingTask(counts))
    whole = one.read(5)
    assert whole.noise == [[float(step)] * 4 for step in range(5)]
    assert one.read(2, whole.positions[2]).noise == [[3.0] * 4, [4.0] * 4]
    one.close()


@pytest.mark.parametrize('shares_batches', [False, True])
@pytest.mark.parametrize('counts', [(), (3,)])
def test_examples_of_several_processes_know_the_step_of_all(pattern, counts, shares_batches):
    # Each of two processes reads 4 examples of a batch of 8. Or each reads batches of 8 of its own,
    # and both processes together take two steps while it reads one.
    options = {'batch_size': 8, 'batch_parts': 1 + shares_batches}
    one = cases.Input(
        cases.reader_of(pattern),
        seed=SEED,
        task=SteppingTask(counts),
        shard=(1, 2),
        share_batches=shares_batches,
        **options,
    )
    whole = one.read(4)
    expected = [[step] * 4 for step in range(4)]
    if not shares_batches:
        expected = [[2 * step] * 4 + [2 * step + 1] * 4 for step in range(4)]
    assert whole.noise == expected
    assert one.read(2, whole.positions[1]).noise == expected[2:]
    one.close()


def test_there_is_no_training_step_in_an_evaluation(pattern):
    class Telling(cases.IdTask):
        def prepare(self, example, mode):
            has_step = training_step.current() is not None
            return super().prepare({**example, 'noise': tf.constant(has_step)}, mode)

    read = cases.run(cases.reader_of(pattern), cases.EVAL, batches=1, task=Telling())
    assert read.noise == [[False] * 4]
