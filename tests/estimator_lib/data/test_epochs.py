"""The number of examples of an epoch is counted, stated, or refused."""

import pytest

from estimator_lib import errors
from estimator_lib.data import epochs
from protos import input_reader_pb2
from tests.estimator_lib.data import record_cases as cases


@pytest.fixture(scope='module')
def pattern(tmp_path_factory):
    return cases.write_shards(tmp_path_factory.mktemp('epochs'), [3, 4])


def test_records_are_counted(pattern):
    assert epochs.count_examples(cases.reader_of(pattern)) == 7
    assert epochs.count_examples(cases.reader_of(pattern, sample_1_of_n_examples=2)) == 4


def test_what_the_config_states_is_believed():
    assert epochs.count_examples(input_reader_pb2.InputReader(num_examples=5)) == 5


def test_what_cannot_be_counted_is_said(pattern):
    mixed = cases.reader_of(pattern, pattern, sample_from_datasets_weights=[0.5, 0.5])
    with pytest.raises(errors.ConfigError, match=r'num_examples is not set.*mixed by weights'):
        epochs.count_examples(mixed)
    sequences = cases.reader_of(pattern, input_type=input_reader_pb2.TF_SEQUENCE_EXAMPLE)
    with pytest.raises(errors.ConfigError, match='records are sequences'):
        epochs.count_examples(sequences)
    with pytest.raises(errors.DataError, match='no file matches'):
        epochs.count_examples(cases.reader_of(f'{pattern}-missing'))


def test_the_number_is_known_after_a_count(tmp_path):
    reader = cases.reader_of(cases.write_shards(tmp_path, [3, 4]))
    assert epochs.known_examples(reader) == 0
    epochs.count_examples(reader)
    assert epochs.known_examples(reader) == 7
    assert epochs.known_examples(input_reader_pb2.InputReader()) == 0
