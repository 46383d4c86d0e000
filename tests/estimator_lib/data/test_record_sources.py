import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.data import record_sources, record_streams, records
from protos import input_reader_pb2
from tests.estimator_lib.data import record_cases as cases


def test_paths_are_one_source_unless_they_are_mixed(tmp_path):
    first = cases.write_shards(tmp_path, [2, 2], 'a')
    second = cases.write_shards(tmp_path, [2], 'b')
    sources, num_sources = record_sources.create_sources(
        cases.reader_of(second, first), cases.TRAIN, batch_size=4
    )
    assert num_sources == 1
    assert [file.path[-13:] for file in sources[0].files] == [
        f'{name}.tfrecord' for name in ('a-00', 'a-01', 'b-00')
    ]


def test_weights_make_sources_without_those_of_weight_zero(tmp_path):
    paths = [cases.write_shards(tmp_path, [2], name) for name in 'abc']
    reader = cases.reader_of(*paths, sample_from_datasets_weights=[3, 0, 1])
    sources, num_sources = record_sources.create_sources(reader, cases.TRAIN, batch_size=4)
    assert num_sources == 3
    assert [(source.index, source.weight) for source in sources] == [(0, 0.75), (2, 0.25)]


def test_an_evaluation_reads_mixed_sources_one_after_the_other(tmp_path):
    paths = [cases.write_shards(tmp_path, [2], name) for name in 'abc']
    reader = cases.reader_of(*paths, examples_per_batch=[3, 0, 1])
    sources, num_sources = record_sources.create_sources(reader, cases.EVAL, batch_size=9)
    assert num_sources == len(sources) == 1
    assert len(sources[0].files) == 2


@pytest.mark.parametrize(
    'fields, said',
    [
        ({'sample_from_datasets_weights': [1]}, r'has 1 entries; expected one for each of the 2'),
        ({'sample_from_datasets_weights': [1, -1]}, r'expected numbers that are not negative'),
        ({'sample_from_datasets_weights': [0, 0]}, r'not all 0'),
        ({'sample_from_datasets_weights': [1, float('nan')]}, r'expected numbers'),
        ({'examples_per_batch': [1, 2]}, r'3 in all; expected counts that add up .* size, 4'),
        (
            {'examples_per_batch': [2, 2], 'sample_from_datasets_weights': [1, 1]},
            r'sample_from_datasets_weights is .*; expected one of them',
        ),
    ],
)
def test_shares_that_do_not_fit_are_refused(tmp_path, fields, said):
    pattern = cases.write_shards(tmp_path, [2])
    reader = cases.reader_of(pattern, pattern, **fields)
    with pytest.raises(errors.ConfigError, match=said):
        record_sources.create_sources(reader, cases.TRAIN, batch_size=4)


def test_a_reader_without_tfrecords_is_refused():
    with pytest.raises(errors.ConfigError, match='no input is set; expected tf_record_input'):
        record_sources.input_files(input_reader_pb2.InputReader())
    external = input_reader_pb2.InputReader(
        name='mine', external_input_reader=input_reader_pb2.ExternalInputReader()
    )
    with pytest.raises(errors.ConfigError, match="'mine': external_input_reader is set"):
        record_sources.input_files(external)
    empty = input_reader_pb2.InputReader(
        tf_record_input_reader=input_reader_pb2.TFRecordInputReader()
    )
    with pytest.raises(errors.DataError, match='no path is given'):
        record_sources.input_files(empty)


def test_the_fingerprint_follows_the_files_not_the_folder(tmp_path):
    prints = []
    for folder, sizes in [('a', [2, 3]), ('b', [2, 3]), ('c', [2, 4]), ('d', [2])]:
        (tmp_path / folder).mkdir()
        pattern = cases.write_shards(tmp_path / folder, sizes)
        sources, _ = record_sources.create_sources(cases.reader_of(pattern), cases.TRAIN, 4)
        prints.append(sources[0].fingerprint)
    assert prints[0] == prints[1]
    assert len(set(prints)) == 3
    assert 0 not in prints


def _looked_for(serialized):
    feature = tf.train.Example.FromString(serialized).features.feature
    return [name.decode() for name in feature[record_sources.LABELED].bytes_list.value]


def test_records_of_a_path_name_the_classes_that_were_looked_for(tmp_path):
    paths = [cases.write_ids(tmp_path / f'{name}.tfrecord', [0, 1]) for name in 'ab']
    reader = cases.reader_of(*paths, labeled_classes=['car, bus', ''])
    files = record_sources.input_files(reader)
    expected = [['car', 'bus']] * 2 + [[]] * 2
    assert list(map(_looked_for, records.first_records(files, 9))) == expected
    source = record_sources.Source(0, tuple(files))
    streamed = [record for _, record in record_streams.list_records(source)]
    assert list(map(_looked_for, streamed)) == expected
    # TensorFlow's parser reads the features of the record and those that were added.
    spec = {
        'id': tf.io.FixedLenFeature([], tf.int64, -1),
        record_sources.LABELED: tf.io.VarLenFeature(tf.string),
    }
    parsed = tf.io.parse_single_example(streamed[1], spec)
    assert parsed[record_sources.LABELED].values.numpy().tolist() == [b'car', b'bus']
    plain = cases.reader_of(*paths)
    unlabeled = record_sources.Source(0, tuple(record_sources.input_files(plain)))
    assert unlabeled.fingerprint != source.fingerprint


def test_a_corrupt_record_stays_one_where_features_are_added(tmp_path):
    path = cases.write_ids(tmp_path / 'a.tfrecord', [0, 1])
    cases.change_byte(path, 20)
    files = record_sources.input_files(cases.reader_of(path, labeled_classes=['car']))
    streamed = [
        record for _, record in record_streams.list_records(record_sources.Source(0, tuple(files)))
    ]
    assert streamed[0] == record_streams.CORRUPT_FRAME
    assert _looked_for(streamed[1]) == ['car']


def test_labeled_classes_that_do_not_fit_the_paths_are_refused(tmp_path):
    first, second, third = (cases.write_shards(tmp_path, [2], name) for name in 'abc')
    reader = cases.reader_of(first, second, third, labeled_classes=['car', 'bus'])
    with pytest.raises(errors.ConfigError, match='has 2 entries; expected one for each of the 3'):
        record_sources.input_files(reader)
    reader = cases.reader_of(first, first, labeled_classes=['car', 'bus'])
    with pytest.raises(errors.ConfigError, match='is in two entries'):
        record_sources.input_files(reader)
