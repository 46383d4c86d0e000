"""Memory of reading: what has been read is freed, whatever kind of reader it came from."""

import os

import pytest
import tensorflow as tf

from estimator_lib.data import file_examples
from protos import input_reader_pb2
from tests.estimator_lib.data import record_cases as cases
from tests.estimator_lib.data.test_sequences import SEPARATOR, JoinedIds
from tests.memory import resident_bytes

BYTES = 100_000  # of a record
COUNT = 8  # different records
BATCHES = 60
BATCH_SIZE = 20
# The second half of the batches is 60 MB of records.
ALLOWED = 20_000_000

TF_SEQUENCE_EXAMPLE = input_reader_pb2.TF_SEQUENCE_EXAMPLE
SKIP = input_reader_pb2.SKIP


class LargeIds(JoinedIds):
    """Numbers with a long text, which `decode` keeps."""

    def decode(self, serialized):
        return {**super().decode(serialized), 'record': serialized}


LargeIds.__abstractmethods__ = frozenset()


def record(number):
    """Return a record of at least `BYTES` bytes, in which no separator can be."""
    example = tf.train.Example.FromString(cases.example(number))
    text = os.urandom(BYTES // 2).hex().encode()
    example.features.feature['text'].bytes_list.value.append(text)
    return example.SerializeToString()


class Files(file_examples.FileExamples):
    """Data set whose examples are made when they are read."""

    path = 'files'

    def __len__(self):
        return COUNT

    def read(self, index):
        return record(index)

    def place(self, index):
        return str(index)

    def contents(self):
        return [(str(index), BYTES) for index in range(COUNT)]


@pytest.fixture(scope='module')
def patterns(tmp_path_factory):
    folder = tmp_path_factory.mktemp('large')
    records = [record(number) for number in range(COUNT)]
    sequences = [SEPARATOR.join([one, one]) for one in records]
    corrupt = cases.write(folder / 'corrupt.tfrecord', records)
    cases.change_byte(corrupt, len(records[0]) + 16 + 12 + 5)
    return {
        'records': cases.write(folder / 'records.tfrecord', records),
        'sequences': cases.write(folder / 'sequences.tfrecord', sequences),
        'corrupt': corrupt,
    }


@pytest.fixture
def readers(patterns, monkeypatch):
    registered = {'folder_input_reader': lambda reader, index: Files()}
    monkeypatch.setattr(file_examples.OPENERS, '_parts', registered)
    files = input_reader_pb2.InputReader(shuffle_buffer_size=7)
    files.folder_input_reader.image_path.append('files')

    def of(name, **fields):
        return cases.reader_of(patterns[name], **fields)

    return {
        'files': files,
        'records': of('records'),
        'corrupt': of('corrupt', corrupt_record_policy=SKIP),
        'frames': of('sequences', input_type=TF_SEQUENCE_EXAMPLE),
        'cached records': of('records', cache=input_reader_pb2.InputReader.RECORDS),
        'cached examples': of('records', cache=input_reader_pb2.InputReader.MEMORY),
    }


@pytest.mark.parametrize(
    'kind', ['files', 'records', 'corrupt', 'frames', 'cached records', 'cached examples']
)
def test_what_was_read_is_freed(readers, kind):
    reader = cases.Input(readers[kind], batch_size=BATCH_SIZE, task=LargeIds())
    reader.read(BATCHES // 2)
    before = resident_bytes()
    reader.read(BATCHES // 2)
    grown = resident_bytes() - before
    reader.close()
    assert grown < ALLOWED
