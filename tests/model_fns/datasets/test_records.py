import hashlib

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns.datasets import records
from model_fns.structures import images


def _read(path):
    return list(tf.compat.v1.io.tf_record_iterator(str(path)))


def test_values_become_lists_of_their_kind():
    serialized = records.serialize(
        {
            'bytes': b'\xff',
            'text': 'größe',
            'texts': ['a', 'b'],
            'integer': 3,
            'flag': True,
            'float': 0.5,
            'integers': np.array([1, 2], np.uint8),
            'floats': np.array([0.25, 2], np.float64),
            'no_floats': np.zeros([0], np.float32),
            'nothing': [],
        }
    )
    feature = tf.train.Example.FromString(serialized).features.feature
    assert list(feature['bytes'].bytes_list.value) == [b'\xff']
    assert feature['text'].bytes_list.value[0].decode() == 'größe'
    assert list(feature['texts'].bytes_list.value) == [b'a', b'b']
    assert list(feature['integer'].int64_list.value) == [3]
    assert list(feature['flag'].int64_list.value) == [1]
    assert list(feature['float'].float_list.value) == [0.5]
    assert list(feature['integers'].int64_list.value) == [1, 2]
    assert list(feature['floats'].float_list.value) == [0.25, 2]
    assert feature['no_floats'].WhichOneof('kind') == 'float_list'
    assert feature['nothing'].WhichOneof('kind') is None


def test_bytes_do_not_depend_on_the_order_of_keys():
    values = {f'key{i}': i for i in range(20)}
    backwards = dict(reversed(list(values.items())))
    assert records.serialize(values) == records.serialize(backwards)


def test_a_value_that_no_feature_holds_is_named():
    with pytest.raises(ValueError, match='some_key'):
        records.serialize({'some_key': np.array([1j])})


def test_image_features():
    header = images.ImageHeader('png', 4, 6)
    features = records.image_features(b'abc', header, 'a.png', 'folder/a')
    assert features == {
        'image/encoded': b'abc',
        'image/format': 'png',
        'image/height': 4,
        'image/width': 6,
        'image/filename': 'a.png',
        'image/source_id': 'folder/a',
        'image/key/sha256': hashlib.sha256(b'abc').hexdigest(),
    }


def test_shards_take_turns_and_appear_when_complete(tmp_path):
    prefix = str(tmp_path / 'new' / 'train')
    with records.ShardWriter(prefix, 3) as writer:
        for i in range(7):
            writer.write(str(i).encode())
        assert not tf.io.gfile.glob(records.shard_pattern(prefix))
    assert writer.num_written == 7
    names = sorted(path.name for path in (tmp_path / 'new').iterdir())
    assert names == [f'train-0000{i}-of-00003.tfrecord' for i in range(3)]
    assert [_read(tmp_path / 'new' / name) for name in names] == [
        [b'0', b'3', b'6'],
        [b'1', b'4'],
        [b'2', b'5'],
    ]


def test_a_failure_leaves_what_was_there(tmp_path):
    prefix = str(tmp_path / 'train')
    with records.ShardWriter(prefix, 1) as writer:
        writer.write(b'old')
    with pytest.raises(KeyError), records.ShardWriter(prefix, 1) as writer:
        writer.write(b'new')
        raise KeyError
    (path,) = tmp_path.iterdir()
    assert _read(path) == [b'old']
    with records.ShardWriter(prefix, 1) as writer:
        writer.write(b'new')
    (path,) = tmp_path.iterdir()
    assert _read(path) == [b'new']


def test_old_shards_in_another_number_are_refused(tmp_path):
    prefix = str(tmp_path / 'train')
    with records.ShardWriter(prefix, 2):
        pass
    with (
        pytest.raises(errors.DataError, match=r'train-00000-of-00002\.tfrecord: .*2 old files'),
        records.ShardWriter(prefix, 3),
    ):
        pass
    with records.ShardWriter(str(tmp_path / 'val'), 3):
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / 'file').write_text('')
    prefix = str(tmp_path / 'file' / 'train')
    with (
        pytest.raises(errors.DataError, match='file/train: the records cannot be written'),
        records.ShardWriter(prefix, 1),
    ):
        pass


def test_num_shards_must_be_positive():
    with pytest.raises(ValueError, match='num_shards'):
        records.ShardWriter('x', 0)


@pytest.mark.parametrize('fails', ['write', 'close'])
def test_a_full_disk_is_one_sentence_and_leaves_nothing(tmp_path, monkeypatch, fails):
    class FullDisk(tf.io.TFRecordWriter):
        def write(self, record):
            self.refuse('write')

        def close(self):
            self.refuse('close')

        def refuse(self, call):
            if call == fails or fails == 'write':  # what is in memory cannot be written either
                raise tf.errors.ResourceExhaustedError(None, None, 'No space left on device')

    monkeypatch.setattr(tf.io, 'TFRecordWriter', FullDisk)
    message = 'train: the records cannot be written there: .*No space left on device.$'
    writing = records.ShardWriter(str(tmp_path / 'train'), 2)
    with pytest.raises(errors.DataError, match=message), writing as writer:
        writer.write(b'a')
    assert list(tmp_path.iterdir()) == []
