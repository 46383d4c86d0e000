"""TFRecords that come as one set: the parts that are made of them."""

import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns.datasets.recognition import reading, recognizers
from model_fns.recipes import facts
from tests.model_fns.datasets.recognition import public_layouts

STEMS = [f'{scene}_{frame:03d}' for scene in 'abcde' for frame in range(4)]


def write_one_set(root, compression='', stems=STEMS):
    root.mkdir()
    (root / 'label_map.pbtxt').write_text("item { id: 1 name: 'cat' }")
    with tf.io.TFRecordWriter(str(root / 'all.tfrecord'), compression) as writer:
        for stem in stems:
            writer.write(public_layouts.record(stem))


def read(reader):
    (path,) = reader.tf_record_input_reader.input_path
    return [bytes(one) for one in tf.data.TFRecordDataset(path).as_numpy_iterator()]


def source_ids(records):
    features = (tf.train.Example.FromString(one).features.feature for one in records)
    return [each['image/source_id'].bytes_list.value[0].decode() for each in features]


@pytest.mark.parametrize('compression', ['', 'GZIP'])
def test_a_scene_is_in_one_part_and_no_record_changes(tmp_path, compression):
    write_one_set(tmp_path / 'data', compression)
    data = recognizers.recognize(str(tmp_path / 'data'))
    made = reading.create(data, 'detection', str(tmp_path / 'run'))
    train, evaluation = read(made.train), read(made.evaluation)
    assert sorted(train + evaluation) == sorted(map(public_layouts.record, STEMS))
    scenes = [{name[0] for name in source_ids(part)} for part in (train, evaluation)]
    assert len(evaluation) == 4 and not scenes[0] & scenes[1]
    assert '4 of 20 images became one' in made.notes[0] and 'written again' in made.notes[0]
    assert len(facts.collect(made.train, made.evaluation).evaluation) == 4
    again = reading.create(data, 'detection', str(tmp_path / 'run'))
    assert read(again.evaluation) == evaluation


def test_records_without_names_are_told_apart_by_their_place(tmp_path):
    write_one_set(tmp_path / 'data', stems=['same'] * 10)
    made = reading.create(
        recognizers.recognize(str(tmp_path / 'data')), 'detection', str(tmp_path / 'run')
    )
    assert (len(read(made.train)), len(read(made.evaluation))) == (8, 2)


def test_a_file_of_something_else_is_said(tmp_path):
    (tmp_path / 'data').mkdir()
    (tmp_path / 'data/label_map.pbtxt').write_text("item { id: 1 name: 'cat' }")
    with tf.io.TFRecordWriter(str(tmp_path / 'data/all.tfrecord')) as writer:
        writer.write(b'\xffno example')
    data = recognizers.recognize(str(tmp_path / 'data'))
    with pytest.raises(errors.DataError, match=r'all\.tfrecord: record 0 is no tf\.train\.Example'):
        reading.create(data, 'detection', str(tmp_path / 'run'))


def test_a_record_without_an_image_has_no_facts(tmp_path):
    write_one_set(tmp_path / 'data')
    with tf.io.TFRecordWriter(str(tmp_path / 'data/more.tfrecord')) as writer:
        writer.write(tf.train.Example().SerializeToString())
    data = recognizers.recognize(str(tmp_path / 'data'))
    made = reading.create(data, 'detection', str(tmp_path / 'run'))
    collected = facts.collect(made.train, made.evaluation)
    assert len(collected.train) + len(collected.evaluation) == 20


@pytest.mark.parametrize('compression', ['', 'GZIP'])
@pytest.mark.parametrize('is_cut', [True, False])
def test_a_damaged_file_loses_no_record_in_silence(tmp_path, is_cut, compression):
    write_one_set(tmp_path / 'data', compression)
    path = tmp_path / 'data/all.tfrecord'
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content[: len(content) * 2 // 3] if is_cut else content)
    data = recognizers.recognize(str(tmp_path / 'data'))
    with pytest.raises(errors.DataError, match=r'all\.tfrecord: record \d+: .*written again'):
        reading.create(data, 'detection', str(tmp_path / 'run'))
    assert not list((tmp_path / 'run').glob('*.tfrecord'))
