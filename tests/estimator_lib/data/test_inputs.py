import collections
import time

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from estimator_lib import errors
from estimator_lib.data import inputs
from estimator_lib.task import IMAGE
from tests.estimator_lib.data import record_cases as cases

tf1 = tf.compat.v1
SIZES = [7, 9, 5]
TOTAL = sum(SIZES)


@pytest.fixture(scope='module')
def pattern(tmp_path_factory):
    return cases.write_shards(tmp_path_factory.mktemp('inputs'), SIZES)


@pytest.fixture(scope='module')
def two_patterns(tmp_path_factory):
    folder = tmp_path_factory.mktemp('two')
    return [
        cases.write_shards(folder, [6, 5], 'small'),
        cases.write_shards(folder, [20, 20], 'large', first=100),
    ]


def test_epochs_have_each_example_once(pattern):
    run = cases.run(cases.reader_of(pattern), batches=11, batch_size=4)
    ids = run.all_ids
    assert sorted(ids[:TOTAL]) == sorted(ids[TOTAL : 2 * TOTAL]) == list(range(TOTAL))
    assert all(len(batch) == 4 for batch in run.ids)


def test_a_seed_gives_the_same_examples_and_augmentation(pattern):
    first, again, other = (
        cases.run(cases.reader_of(pattern), batches=6, seed=seed) for seed in (1, 1, 2)
    )
    assert (first.ids, first.noise) == (again.ids, again.noise)
    assert first.ids != other.ids
    noise = [value for batch in first.noise + other.noise for value in batch]
    assert len(set(noise)) == len(noise)


@pytest.fixture(scope='module')
def long_runs(pattern, two_patterns):
    readers = {
        'shuffled': cases.reader_of(pattern),
        'in order': cases.reader_of(pattern, shuffle=False),
        'cached': cases.reader_of(pattern, cache='RECORDS', shuffle_buffer_size=50),
        'by weight': cases.reader_of(*two_patterns, sample_from_datasets_weights=[0.4, 0.6]),
        'by count': cases.reader_of(*two_patterns, examples_per_batch=[3, 1]),
        'one of 3': cases.reader_of(pattern, sample_1_of_n_examples=3),
    }
    made = {name: cases.Input(reader) for name, reader in readers.items()}
    return {name: (one, one.read(20)) for name, one in made.items()}


@hypothesis.settings(max_examples=12, deadline=None)
@hypothesis.given(
    kind=st.sampled_from(['shuffled', 'in order', 'cached', 'by weight', 'by count', 'one of 3']),
    stop=st.integers(1, 19),
)
def test_a_resumed_run_goes_on_with_the_next_example(long_runs, kind, stop):
    one, whole = long_runs[kind]
    rest = one.read(20 - stop, whole.positions[stop - 1])
    assert rest.ids == whole.ids[stop:]
    assert rest.noise == whole.noise[stop:]
    np.testing.assert_array_equal(rest.positions, whole.positions[stop:])


def test_the_position_is_epoch_and_index(pattern):
    run = cases.run(cases.reader_of(pattern), batches=11, batch_size=4)
    for number, position in enumerate(run.positions, 1):
        epoch, index = divmod(4 * number, TOTAL)
        if index == 0:  # behind the last record of an epoch
            epoch, index = epoch - 1, TOTAL
        assert position[0, :2].tolist() == [epoch, index]
        assert position[1].tolist() == [4 * number, 0, 0]


def test_changed_files_start_the_epoch_anew(pattern, capfd):
    one = cases.Input(cases.reader_of(pattern))
    position = one.read(8).positions[-1]
    assert position[0, :2].tolist() == [1, 11]
    expected = one.read(5, np.array([[1, 0, 0], [32, 0, 0]]))
    capfd.readouterr()
    position[0, 2] += 1  # of other files
    rest = one.read(5, position)
    assert rest.ids == expected.ids
    assert 'the input files are not those of the checkpoint; epoch [1] starts again' in (
        capfd.readouterr().err
    )


def test_num_epochs_ends_training(pattern):
    run = cases.run(cases.reader_of(pattern, num_epochs=2), batch_size=5)
    assert run.ended
    assert len(run.ids) == 2 * TOTAL // 5  # the remainder is left out
    again = cases.run(cases.reader_of(pattern, num_epochs=5), num_epochs=1, batch_size=7)
    assert sorted(again.all_ids) == list(range(TOTAL))
    whole = cases.run(cases.reader_of(pattern, num_epochs=2, drop_remainder=False), batch_size=5)
    assert [len(batch) for batch in whole.ids] == [5] * 8 + [2]


def test_batches_have_a_static_size_where_they_are_all_full(pattern):
    for mode, fields, size in [
        (cases.TRAIN, {}, 4),
        (cases.EVAL, {}, None),
        (cases.EVAL, {'drop_remainder': True}, 4),
    ]:
        reader = cases.reader_of(pattern, **fields)
        input_fn = inputs.create_input_fn(cases.IdTask(), reader, mode, 4, 1)
        with tf.Graph().as_default():
            features, _ = input_fn()
            assert features[IMAGE].shape.as_list() == [size]


def test_evaluation_reads_in_order_once_to_the_end(pattern):
    run = cases.run(cases.reader_of(pattern, num_epochs=3), cases.EVAL, batch_size=4)
    assert run.ended
    assert run.all_ids == list(range(TOTAL))
    assert len(run.ids[-1]) == TOTAL % 4
    assert set(run.noise[0]) == {0}  # not augmented


def test_evaluation_shuffles_when_asked(pattern):
    run = cases.run(cases.reader_of(pattern, shuffle=True), cases.EVAL)
    assert run.all_ids != list(range(TOTAL))
    assert sorted(run.all_ids) == list(range(TOTAL))


def test_evaluation_of_a_part(pattern):
    run = cases.run(cases.reader_of(pattern), cases.EVAL, sample_1_of_n=5, max_examples=3)
    assert run.all_ids == [0, 5, 10]
    with pytest.raises(ValueError, match='max_examples'):
        cases.run(cases.reader_of(pattern), cases.TRAIN, max_examples=3)


def test_evaluation_makes_no_variable(pattern):
    input_fn = inputs.create_input_fn(cases.IdTask(), cases.reader_of(pattern), cases.EVAL, 4, 1)
    with tf.Graph().as_default():
        input_fn()
        assert not tf1.global_variables()


def test_fixed_counts_hold_in_every_batch(two_patterns):
    reader = cases.reader_of(*two_patterns, examples_per_batch=[1, 3])
    run = cases.run(reader, batches=30)
    assert all(
        [number >= 100 for number in batch] == [False, True, True, True] for batch in run.ids
    )
    small = collections.Counter(batch[0] for batch in run.ids)
    assert set(small) == set(range(11))
    assert max(small.values()) - min(small.values()) == 1


def test_weights_give_proportions_of_all_examples(two_patterns):
    reader = cases.reader_of(*two_patterns, sample_from_datasets_weights=[1, 3])
    run = cases.run(reader, batches=40, batch_size=8)
    share = np.mean(np.array(run.all_ids) >= 100)
    # Four standard deviations in 320 draws are 0.097.
    assert abs(share - 0.75) < 0.097


def test_workers_read_disjoint_examples(pattern):
    reader = cases.reader_of(pattern, num_epochs=1)
    runs = [cases.run(reader, batch_size=1, shard=(index, 2)) for index in range(2)]
    assert sorted(runs[0].all_ids + runs[1].all_ids) == list(range(TOTAL))


def test_each_graph_has_the_variables_of_all_workers(pattern):
    cluster = {'chief': ['a:1'], 'worker': ['b:1', 'c:1'], 'ps': ['d:1']}
    config = _cluster_config(cluster, 'worker', 1)
    input_fn = inputs.create_input_fn(cases.IdTask(), cases.reader_of(pattern), cases.TRAIN, 4, 1)
    with tf.Graph().as_default():
        features, _ = input_fn(config=config)
        _, state = inputs.pop_reader_state(features)
        names = [variable.op.name for variable in tf1.global_variables()]
        scope = inputs.READER_SCOPE
        assert names == [f'{scope}/{name}/position' for name in ('chief_0', 'worker_0', 'worker_1')]
        assert not tf1.trainable_variables()
        assert not tf1.get_collection(tf1.GraphKeys.MODEL_VARIABLES)
        advance = inputs.advance_position(state)
        with tf1.Session() as session:
            session.run([tf1.global_variables_initializer()])
            session.run(tf1.tables_initializer())
            session.run(advance)
            drawn = [int(value[-1, 0]) for value in session.run(tf1.global_variables())]
        assert drawn == [0, 0, 4]


def _cluster_config(cluster, role, index):
    class Config:
        cluster_spec = tf.train.ClusterSpec(cluster)
        task_type = role
        task_id = index
        model_dir = None

    return Config()


def test_more_workers_than_records_are_refused(tmp_path):
    pattern = cases.write_shards(tmp_path, [2])
    input_fn = inputs.create_input_fn(
        cases.IdTask(), cases.reader_of(pattern), cases.TRAIN, 4, 1, shard=(0, 3)
    )
    with pytest.raises(errors.DataError, match='2 records for 3 workers'):
        input_fn()


def test_compressed_files_are_read(tmp_path):
    cases.write_ids(tmp_path / 'a.gz', range(4))
    cases.gzipped(cases.write_ids(tmp_path / 'b', range(4, 6)))
    cases.write_ids(tmp_path / 'c', range(6, 9))
    run = cases.run(cases.reader_of(str(tmp_path / '*')), cases.EVAL)
    assert run.all_ids == list(range(9))


def test_no_files_are_refused_before_a_graph_is_built(tmp_path):
    with pytest.raises(errors.DataError, match='no file matches'):
        inputs.create_input_fn(
            cases.IdTask(), cases.reader_of(str(tmp_path / 'x*')), cases.TRAIN, 4, 1
        )


def test_a_step_knows_how_long_it_waited(tmp_path):
    class SlowTask(cases.IdTask):
        def decode(self, serialized):
            slow = tf.numpy_function(lambda: _sleep(0.6), [], tf.int64)
            with tf.control_dependencies([slow]):
                return super().decode(serialized)

    pattern = cases.write_shards(tmp_path, [40])
    reader = cases.reader_of(pattern, num_prefetch_batches=1, num_parallel_batches=1)
    input_fn = inputs.create_input_fn(SlowTask(), reader, cases.TRAIN, 1, 1)
    with tf.Graph().as_default():
        features, _ = input_fn()
        _, state = inputs.pop_reader_state(features)
        slept = tf.numpy_function(lambda: _sleep(1.8), [], tf.int64)
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            session.run(tf1.tables_initializer())
            first = session.run(state.wait_seconds)
            session.run(slept)
            ready = session.run(state.wait_seconds)
    # A busy machine has thrice the time of a decoding for what takes no work.
    assert first > 0.5
    assert ready < 0.4


def test_the_work_of_a_step_is_not_waiting_on_one_thread(tmp_path):
    def work(ids):
        begun.append(time.time())
        time.sleep(0.05)
        return ids

    begun = []
    reader = cases.reader_of(cases.write_shards(tmp_path, [40]))
    input_fn = inputs.create_input_fn(cases.IdTask(), reader, cases.TRAIN, 1, 1)
    threads = tf1.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1)
    with tf.Graph().as_default():
        features, _ = input_fn()
        features, state = inputs.pop_reader_state(features)
        worked = [tf.numpy_function(work, [features[IMAGE]], tf.int64) for _ in range(4)]
        with tf1.Session(config=threads) as session:
            session.run(tf1.global_variables_initializer())
            session.run(tf1.tables_initializer())
            for _ in range(3):
                begun.clear()
                before = time.time()
                waited = session.run([state.wait_seconds, worked])[0]
                # Waiting ends before the work on the batch begins; clocks differ by microseconds.
                assert waited <= min(begun) - before + 0.01


def _sleep(seconds):
    time.sleep(seconds)
    return np.int64(0)
