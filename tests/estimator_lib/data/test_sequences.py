"""Records that are sequences: one frame of each in training, all of them in an evaluation."""

import collections

import numpy as np
import pytest

from estimator_lib.data import inputs
from protos import input_reader_pb2
from tests.estimator_lib.data import record_cases as cases

SEPARATOR = b'|'


class JoinedIds(cases.IdTask):
    """A sequence is the examples of its frames, joined; that of no frames is a separator."""

    def split_sequence(self, serialized):
        return [one for one in serialized.split(SEPARATOR) if one]


JoinedIds.__abstractmethods__ = frozenset()


@pytest.fixture
def pattern(tmp_path):
    frames = [[0, 1, 2], [10], [], [20, 21]]
    joined = [SEPARATOR.join(map(cases.example, one)) or SEPARATOR for one in frames]
    return cases.write(tmp_path / 'sequences.tfrecord', joined)


def reader_of(pattern, **fields):
    sequence = input_reader_pb2.TF_SEQUENCE_EXAMPLE
    return cases.reader_of(pattern, input_type=sequence, **fields)


def read(reader, mode, **options):
    return cases.run(reader, mode, batch_size=1, task=JoinedIds(), **options)


def test_an_evaluation_takes_all_frames_in_order(pattern):
    found = read(reader_of(pattern), cases.EVAL)
    assert found.ended and found.all_ids == [0, 1, 2, 10, 20, 21]


def test_training_takes_a_frame_of_each_sequence_at_random(pattern):
    found = read(reader_of(pattern, num_epochs=40), cases.TRAIN)
    of_epochs = np.reshape(found.all_ids, [40, 3])
    drawn = [collections.Counter(one // 10 for one in epoch) for epoch in of_epochs]
    assert drawn == [{0: 1, 1: 1, 2: 1}] * 40
    assert set(found.all_ids) == {0, 1, 2, 10, 20, 21}


def test_training_goes_on_where_it_was(pattern):
    whole = read(reader_of(pattern), cases.TRAIN, batches=20)
    rest = read(reader_of(pattern), cases.TRAIN, batches=12, start=whole.positions[7])
    assert rest.all_ids == whole.all_ids[8:]
    assert rest.noise == whole.noise[8:]


@pytest.mark.parametrize(('index', 'taken'), [(0, {0, 10, 20}), (1, {1, 10, 21}), (7, {2, 10, 21})])
def test_training_takes_the_frame_that_is_asked_for_or_the_last(pattern, index, taken):
    found = read(reader_of(pattern, frame_index=index, num_epochs=1), cases.TRAIN)
    assert sorted(found.all_ids) == sorted(taken)


def test_a_frame_that_is_not_valid_is_named_by_its_record(tmp_path):
    bad = SEPARATOR.join([cases.example(3), cases.example(cases.BAD_LABEL)])
    path = cases.write(tmp_path / 'bad.tfrecord', [cases.example(1), bad])
    problems = inputs.inspect_records(JoinedIds(), reader_of(path))
    assert [(one.path, one.index) for one in problems] == [(path, 1)]
    assert 'id is 999' in problems[0].problem
    skipping = reader_of(path, corrupt_record_policy=input_reader_pb2.SKIP)
    assert read(skipping, cases.EVAL).all_ids == [1, 3]
