"""Going through the records of a reader once."""

import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns.segmentation.data import record_walk
from protos import input_reader_pb2
from tests.model_fns.segmentation.segmentation_records import record, write_records

tf1 = tf.compat.v1


@pytest.fixture(scope='module')
def reader(tmp_path_factory):
    folder = tmp_path_factory.mktemp('walk')
    made = input_reader_pb2.InputReader()
    made.tf_record_input_reader.input_path.extend(
        [
            write_records(folder / '0.tfrecord', [record(filename='a'), b'no example']),
            write_records(folder / '1.tfrecord', [record(filename='b'), record()]),
        ]
    )
    return made


def names(reader, limit=0, default=None):
    def name(serialized):
        return record_walk.text_feature(serialized, 'image/filename', default)

    return [
        (place.path[-10:], place.index, text)
        for place, text in record_walk.walk(reader, name, 'reading', limit)
    ]


def test_places_and_values_without_what_cannot_be_read(reader):
    assert names(reader) == [('0.tfrecord', 0, b'a'), ('1.tfrecord', 0, b'b')]
    assert names(reader, default='none') == [
        ('0.tfrecord', 0, b'a'),
        ('1.tfrecord', 0, b'b'),
        ('1.tfrecord', 1, b'none'),
    ]


def test_only_so_many_are_looked_at(reader):
    assert names(reader, limit=2) == [('0.tfrecord', 0, b'a')]


def test_a_place_reads_as_a_sentence_has_it():
    assert str(record_walk.Place('x.tfrecord', 7)) == 'x.tfrecord, record 7'


def test_a_reader_without_files_is_refused():
    empty = input_reader_pb2.InputReader()
    empty.tf_record_input_reader.input_path.append('/nowhere/*.tfrecord')
    with pytest.raises(errors.UserError, match='/nowhere'):
        names(empty)
