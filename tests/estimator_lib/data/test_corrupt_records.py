import gzip

import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.data import corrupt_records, inputs, records
from estimator_lib.task import DataChecks
from protos import input_reader_pb2
from tests.estimator_lib.data import record_cases as cases

tf1 = tf.compat.v1
SKIP = input_reader_pb2.SKIP
PNG = tf.io.encode_png
FRAME_16 = 16


@pytest.fixture
def invalid(tmp_path):
    """Two files of 6 examples: 4 has a bad label, 8 a bad image, 10 is no Example."""
    numbers = [cases.example(number) for number in range(12)]
    numbers[4] = cases.example(cases.BAD_LABEL)
    numbers[8] = cases.example(8, image=b'not a picture')
    numbers[10] = b'\x07nonsense\xff'
    paths = [
        cases.write(tmp_path / 'a.tfrecord', numbers[:6]),
        cases.write(tmp_path / 'b.tfrecord', numbers[6:]),
    ]
    return str(tmp_path / '*.tfrecord'), paths


VALID = [0, 1, 2, 3, 5, 6, 7, 9, 11]


def test_invalid_records_are_left_out_counted_and_named(invalid, caplog):
    pattern, (first, second) = invalid
    reader = cases.reader_of(pattern, corrupt_record_policy=SKIP)
    found = cases.run(reader, cases.EVAL, batch_size=3)
    assert found.all_ids == VALID
    assert found.skipped == [0, 1, 3]
    assert f'skipped {first}, record 4: id is 999 expected less than 999' in caplog.text
    assert f'skipped {second}, record 2: ' in caplog.text
    assert f'skipped {second}, record 4: not a tf.train.Example' in caplog.text


def test_each_is_named_once_and_counted_in_every_epoch(invalid, caplog):
    pattern, _ = invalid
    reader = cases.reader_of(pattern, corrupt_record_policy=SKIP, num_epochs=4)
    found = cases.run(reader, batch_size=9)
    assert len(found.ids) == 4
    assert all(sorted(batch) == VALID for batch in found.ids)
    assert caplog.text.count('skipped ') == 3
    # What is left out behind the last good record of an epoch counts with the next one.
    assert 9 <= found.skipped[-1] <= 12


class RepairingChecks(DataChecks):
    """Reads 500 in the place of `cases.BAD_LABEL`."""

    def repair_example(self, serialized):
        is_bad = serialized == cases.example(cases.BAD_LABEL)
        return (cases.example(500), 'id is 999 (replaced)') if is_bad else None


class RepairingTask(cases.IdTask):
    checks = RepairingChecks()


def test_a_malformed_object_does_not_cost_its_record(invalid, caplog):
    pattern, (first, second) = invalid
    reader = cases.reader_of(pattern, corrupt_record_policy=SKIP)
    found = cases.run(reader, cases.EVAL, batch_size=5, task=RepairingTask())
    assert found.all_ids == [0, 1, 2, 3, 500, 5, 6, 7, 9, 11]
    assert found.skipped == [0, 2]
    assert f'left out of its record: {first}, record 4: id is 999 (replaced)' in caplog.text
    assert f'skipped {second}, record 2: ' in caplog.text
    caplog.clear()
    cases.run(
        cases.reader_of(pattern, corrupt_record_policy=SKIP, num_epochs=3),
        batch_size=5,
        task=RepairingTask(),
    )
    assert caplog.text.count('left out of its record') == 1


def test_a_check_examines_what_the_policy_repairs(invalid):
    pattern, _ = invalid
    for policy, kept in ((SKIP, [500]), (input_reader_pb2.FAIL, [])):
        examined = []
        problems = inputs.inspect_records(
            RepairingTask(),
            cases.reader_of(pattern, corrupt_record_policy=policy),
            examine=lambda record, examined=examined: examined.append(record),
        )
        assert len(problems) == 3
        assert (cases.example(500) in examined) == bool(kept)
        assert len(examined) == 9 + len(kept)


def test_a_resumed_run_skips_and_counts_the_same(invalid):
    pattern, _ = invalid
    reader = cases.reader_of(pattern, corrupt_record_policy=SKIP)
    one = cases.Input(reader, batch_size=2)
    whole = one.read(15)
    for stop in (1, 2, 4, 5, 9):
        rest = one.read(15 - stop, whole.positions[stop - 1])
        assert rest.ids == whole.ids[stop:]
        assert rest.noise == whole.noise[stop:]
        assert rest.skipped == whole.skipped[stop:]


def test_fixed_counts_hold_though_records_are_skipped(invalid, tmp_path):
    pattern, _ = invalid
    other = cases.write_shards(tmp_path, [10], 'other', first=100)
    reader = cases.reader_of(
        pattern.replace('*', '[ab]'), other, examples_per_batch=[2, 1], corrupt_record_policy=SKIP
    )
    found = cases.run(reader, batches=12, batch_size=3)
    assert all([number >= 100 for number in batch] == [False, False, True] for batch in found.ids)
    assert found.skipped[-1] > 3


def test_corrupt_frames_are_skipped_one_by_one(tmp_path, caplog):
    paths = [cases.write_ids(tmp_path / name, range(10)) for name in 'ab']
    frame = len(cases.example(1)) + FRAME_16
    cases.change_byte(paths[0], 3 * frame + 15)
    with open(paths[1], 'r+b') as file:
        file.truncate(8 * frame - 1)
    reader = cases.reader_of(str(tmp_path / '*'), corrupt_record_policy=SKIP)
    found = cases.run(reader, cases.EVAL, batch_size=4)
    assert found.all_ids == [0, 1, 2, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6]
    assert found.skipped[-1] == 1  # the one at the end is behind the last batch
    assert f"{paths[0]}, record 3: the CRC of the record's bytes is wrong" in caplog.text
    assert f'{paths[1]}, record 7: truncated: ' in caplog.text


def test_at_most_so_many_are_named(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(corrupt_records, 'MAX_NAMED', 2)
    numbers = [cases.BAD_LABEL if number % 2 else number for number in range(12)]
    path = cases.write_ids(tmp_path / 'a', numbers)
    found = cases.run(cases.reader_of(path, corrupt_record_policy=SKIP), cases.EVAL)
    assert found.all_ids == list(range(0, 12, 2))
    assert caplog.text.count('expected less than') == 2
    assert 'further corrupt records are skipped without a message' in caplog.text


def test_data_without_a_usable_record_does_not_read_for_ever(tmp_path):
    path = cases.write_ids(tmp_path / 'a', [cases.BAD_LABEL] * 3)
    one = cases.Input(cases.reader_of(path, corrupt_record_policy=SKIP))
    with pytest.raises(
        tf.errors.InvalidArgumentError, match='no record of a whole epoch'
    ) as caught:
        one.read(1)
    explained = one.input_fn.failure(caught.value)
    assert 'record 0: id is 999' in str(explained) or 'id is 999' in str(explained)


def _fail(one, batches=None, start=None):
    """The error that a run fails with, and what the input says of it."""
    kinds = (tf.errors.InvalidArgumentError, tf.errors.DataLossError, UnicodeDecodeError)
    with pytest.raises(kinds) as caught:
        one.read(batches, start)
    return one.input_fn.failure(caught.value)


def test_an_invalid_record_is_named_when_training_stops(tmp_path):
    numbers = list(range(60))
    numbers[37] = cases.BAD_LABEL
    paths = [cases.write_ids(tmp_path / f'{k}', numbers[20 * k : 20 * k + 20]) for k in range(3)]
    one = cases.Input(cases.reader_of(str(tmp_path / '*'), shuffle_buffer_size=30))
    explained = _fail(one)
    assert isinstance(explained, errors.DataError)
    assert str(explained) == (
        f'{paths[1]}, record 17: id is 999 expected less than 999. Fix or remove the record, or '
        'set corrupt_record_policy: SKIP to leave such records out.'
    )


@pytest.mark.parametrize(
    'record, said',
    [
        (b'\x07nonsense', 'not a tf.train.Example'),
        (b'\x07not UTF-8\xff', 'not a tf.train.Example'),
        (cases.example(1, image=b'not a picture'), 'a.tfrecord, record 2: '),
        (tf.train.Example().SerializeToString(), 'id'),
    ],
    ids=['no example', 'not UTF-8', 'no picture', 'no id'],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, record, said):
    numbers = [cases.example(number) for number in range(5)]
    numbers[2] = record
    path = cases.write(tmp_path / 'a.tfrecord', numbers)
    message = str(_fail(cases.Input(cases.reader_of(path), cases.EVAL)))
    assert f'{path}, record 2: ' in message
    assert said in message
    assert '{{' not in message and '\n' not in message


@pytest.mark.parametrize(
    'part, said',
    [
        ('payload', "record 3: the CRC of the record's bytes is wrong"),
        ('length', "record 3: the CRC of the record's length is wrong"),
        ('truncated', 'record 9: truncated'),
        ('text', 'record 0: not a TFRecord file'),
    ],
)
def test_a_corrupt_file_is_named(tmp_path, part, said):
    cases.write_ids(tmp_path / 'a', range(10))
    path = cases.write_ids(tmp_path / 'b', range(10))
    frame = len(cases.example(1)) + FRAME_16
    if part == 'payload':
        cases.change_byte(path, 3 * frame + 14)
    elif part == 'length':
        cases.change_byte(path, 3 * frame + 1)
    elif part == 'text':
        with open(path, 'w') as file:
            file.write('something else altogether')
    else:
        with open(path, 'r+b') as file:
            file.truncate(10 * frame - 3)
    explained = _fail(cases.Input(cases.reader_of(str(tmp_path / '*'))))
    assert f'{path}, {said}' in str(explained)


def test_a_corrupt_gzip_file_is_named(tmp_path):
    path = cases.write_ids(tmp_path / 'a.gz', range(100))
    with open(path, 'r+b') as file:
        file.truncate(300)
    explained = _fail(cases.Input(cases.reader_of(path), cases.EVAL))
    assert f'{path}, record ' in str(explained)
    assert 'GZIP stream is corrupt' in str(explained)


def test_an_error_from_elsewhere_is_not_explained(invalid, tmp_path):
    one = cases.Input(cases.reader_of(invalid[0]))
    other = cases.Input(
        cases.reader_of(cases.write_ids(tmp_path / 'other', [1, cases.BAD_LABEL, 2])), cases.EVAL
    )
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        other.read()
    assert one.input_fn.failure(caught.value) is None
    assert other.input_fn.failure(caught.value) is not None
    with tf.Graph().as_default(), tf1.Session() as session:
        check = tf.debugging.assert_equal(tf1.placeholder_with_default(1, []), 2)
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run(check)
    assert one.input_fn.failure(caught.value) is None


def test_all_records_are_looked_through_when_no_batch_was_made(invalid):
    pattern, (first, _) = invalid
    failed, fresh = (cases.Input(cases.reader_of(pattern), cases.EVAL) for _ in range(2))
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        failed.read()
    assert f'{first}, record 4: id is 999' in str(fresh.input_fn.failure(caught.value))


def test_a_sound_input_explains_nothing(tmp_path):
    path = cases.write_ids(tmp_path / 'a', range(5))
    input_fn = inputs.create_input_fn(cases.IdTask(), cases.reader_of(path), cases.EVAL, 4, 1)
    error = tf.errors.InvalidArgumentError(None, None, 'at [[{{node IteratorGetNext}}]]')
    assert input_fn.failure(error) is None
    error = tf.errors.DataLossError(None, None, 'corrupted record at 0 [[{{node Iterator}}]]')
    assert input_fn.failure(error) is None


def test_a_file_that_is_gone_is_not_a_corrupt_record(tmp_path):
    path = cases.write_ids(tmp_path / 'a', range(5))
    one = cases.Input(cases.reader_of(path), cases.EVAL)
    tmp_path.joinpath('a').unlink()
    with pytest.raises(tf.errors.NotFoundError) as caught:
        one.read()
    assert one.input_fn.failure(caught.value) is None


def test_a_corrupt_frame_is_described_by_what_is_lost(tmp_path):
    path = cases.write_ids(tmp_path / 'a.gz', range(5))
    (file,) = records.find_files([path], 'field')
    problem = corrupt_records.describe_corrupt_frame(file, 1)
    assert problem.problem.endswith('; the 3 that follow cannot be read')


def test_a_corrupt_frame_before_the_end_of_a_truncated_gzip_file(tmp_path):
    with open(cases.write(tmp_path / 'plain', [b'abcd'] * 3), 'rb') as stream:
        content = stream.read()[:-1]
    with gzip.open(tmp_path / 'a.gz', 'wb') as stream:
        stream.write(content)
    (file,) = records.find_files([str(tmp_path / 'a.gz')], 'field')
    problem = corrupt_records.describe_corrupt_frame(file, 0)
    assert problem.problem.endswith('; the 1 that follow cannot be read')
