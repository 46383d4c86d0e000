import numpy as np
import pytest
import tensorflow as tf

from estimator_lib.data import reader_state, reading, record_streams
from estimator_lib.task import IMAGE
from protos import input_reader_pb2
from tests.estimator_lib.data import record_cases as cases


def _plan(reader, mode=cases.TRAIN, batch_size=4, seed=1, **options):
    return reading.plan_reading(cases.IdTask(), reader, mode, batch_size, seed, **options)


@pytest.fixture
def pattern(tmp_path):
    return cases.write_shards(tmp_path, [2, 2])


def test_training_takes_the_order_from_the_reader(pattern):
    reader = cases.reader_of(
        pattern,
        shuffle_buffer_size=11,
        filenames_shuffle_buffer_size=12,
        num_readers=13,
        read_block_length=14,
        sample_1_of_n_examples=15,
        num_epochs=16,
        num_prefetch_batches=17,
        cache='RECORDS',
        corrupt_record_policy=input_reader_pb2.SKIP,
    )
    plan = _plan(reader, seed=2**32 + 5)
    assert plan.order == record_streams.Order(
        seed=5,
        shuffle_buffer_size=11,
        files_buffer_size=12,
        num_readers=13,
        block_length=14,
        sample_1_of_n=15,
        num_epochs=16,
        cache=True,
        skip_corrupt=True,
    )
    assert plan.num_prefetch_batches == 17
    assert plan.drop_remainder
    reader.shuffle = False
    assert _plan(reader).order.shuffle_buffer_size == _plan(reader).order.files_buffer_size == 0


def test_evaluation_reads_all_once_in_order(pattern, caplog):
    plan = _plan(cases.reader_of(pattern, num_epochs=3, cache='RECORDS'), cases.EVAL)
    assert plan.order == record_streams.Order(seed=1, block_length=2, num_epochs=1)
    assert not plan.drop_remainder
    assert 'num_epochs: 3: an evaluation reads its examples once' in caplog.text


@pytest.mark.parametrize('batches, calls', [(None, 6), (1, 4), (8, 6), (0, 1)])
def test_decoding_is_as_parallel_as_the_cores_and_the_reader_allow(
    pattern, batches, calls, monkeypatch
):
    monkeypatch.setattr(record_streams, 'parallel_calls', lambda: 6)
    fields = {} if batches is None else {'num_parallel_batches': batches}
    assert _plan(cases.reader_of(pattern, **fields)).num_parallel_calls == calls


def test_sources_share_the_readers_by_weight(pattern):
    reader = cases.reader_of(pattern, pattern, sample_from_datasets_weights=[1, 3], num_readers=10)
    plan = _plan(reader)
    assert [plan.source_order(source).num_readers for source in plan.sources] == [3, 8]
    assert len({plan.source_seed(source) for source in plan.sources}) == 2


def test_an_error_belongs_to_the_input_whose_iterator_failed(pattern, tmp_path):
    plan = _plan(cases.reader_of(pattern))
    other = _plan(cases.reader_of(cases.write_ids(tmp_path / 'other', [1])))

    def error(place):
        return tf.errors.InvalidArgumentError(None, None, f'bad [[{{{{node {place}}}}}]]')

    assert plan.caused(error(f'{plan.scope}/IteratorGetNext'))
    assert not other.caused(error(f'{plan.scope}/IteratorGetNext'))
    assert plan.caused(error('MultiDeviceIteratorGetNextFromShard'))
    assert not plan.caused(error('MobilenetV1/Conv2d'))


class Rows(cases.IdTask):
    """Examples of as many elements as their number says, each the number."""

    def prepare(self, example, mode):
        features, labels = super().prepare(example, mode)
        number = features[IMAGE]
        return {**features, IMAGE: tf.fill([number], number)}, labels

    def pads_batches(self):
        return True


@pytest.mark.parametrize('policy', [input_reader_pb2.FAIL, input_reader_pb2.SKIP])
def test_examples_of_several_sizes_are_padded_to_the_largest_of_their_batch(tmp_path, policy):
    path = cases.write_ids(tmp_path / 'ids', [1, 3, 2, 1])
    reader = cases.reader_of(path, corrupt_record_policy=policy)
    plan = reading.plan_reading(Rows(), reader, cases.EVAL, 2, 1)
    batches = reading.create_batches(plan, np.zeros([len(plan.fingerprints) + 1, 3], np.int64))
    assert [features[IMAGE].numpy().tolist() for features, _ in batches] == [
        [[1, 0, 0], [3, 3, 3]],
        [[2, 2], [1, 0]],
    ]


class Squares(Rows):
    """The same as squares, of which only those of one size share a batch of an evaluation."""

    def prepare(self, example, mode):
        features, labels = cases.IdTask.prepare(self, example, mode)
        number = features[IMAGE]
        return {**features, IMAGE: tf.fill([number, number], number)}, labels

    def pads_batches(self):
        return False

    def batches_by_size(self):
        return True


def _squares(tmp_path, numbers, policy=input_reader_pb2.FAIL, **fields):
    """The sizes in each batch of an evaluation, and how many records were skipped at its end."""
    path = cases.write_ids(tmp_path / 'ids', numbers)
    reader = cases.reader_of(path, corrupt_record_policy=policy, **fields)
    plan = reading.plan_reading(Squares(), reader, cases.EVAL, 2, 1)
    batches = list(reading.create_batches(plan, np.zeros([2, 3], np.int64)))
    images = [features[IMAGE].numpy() for features, _ in batches]
    assert all((image == image.shape[1]).all() for image in images)
    state = batches[-1][0][reader_state.READER]
    assert state['position'].numpy()[0, :2].tolist() == [0, len(numbers)]
    return [[len(image)] * len(images) for images in images for image in images[:1]], state


@pytest.mark.parametrize(
    'numbers, expected',
    [
        ([1, 3, 1, 3, 1, 2], [[1, 1], [3, 3], [1], [2]]),
        ([2, 2, 2, 2, 2], [[2, 2], [2, 2], [2]]),
    ],
)
def test_batches_of_an_evaluation_are_of_one_size(tmp_path, numbers, expected):
    assert _squares(tmp_path, numbers)[0] == expected


def test_images_of_one_size_are_looked_for_among_a_few_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, '_BATCHES_BY_SIZE', 1)
    assert _squares(tmp_path, [1, 3, 1, 1, 3])[0] == [[1], [3], [1, 1], [3]]


def test_corrupt_records_are_left_out_of_batches_by_size(tmp_path):
    numbers = [1, cases.BAD_LABEL, 2, 1]
    sizes, state = _squares(tmp_path, numbers, input_reader_pb2.SKIP)
    assert sizes == [[1, 1], [2]] and int(state['skipped']) == 1


def test_no_image_of_a_rare_size_is_left_out(tmp_path, caplog):
    assert _squares(tmp_path, [1, 2, 1], drop_remainder=True)[0] == [[1, 1], [2]]
    assert 'drop_remainder: true has no effect' in caplog.text
