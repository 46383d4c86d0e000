import gzip
import struct

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator_lib import errors
from estimator_lib.data import records
from tests.estimator_lib.data import record_cases as cases


def _file(path):
    (file,) = records.find_files([str(path)], 'field')
    return file


def test_masked_crc_of_known_values():
    # CRC-32C of '123456789' is 0xE3069283 (RFC 3720 lists its residues); of 32 zero bytes
    # 0x8A9136AA. Masked: rotated right by 15, plus 0xA282EAD8.
    for data, crc in [(b'123456789', 0xE3069283), (bytes(32), 0x8A9136AA)]:
        rotated = ((crc >> 15) | (crc << 17)) & 0xFFFFFFFF
        assert records.masked_crc(data) == (rotated + 0xA282EAD8) & 0xFFFFFFFF


@settings(max_examples=20, deadline=None)
@given(payloads=st.lists(st.binary(max_size=50), max_size=8))
def test_frames_of_what_tensorflow_writes(tmp_path_factory, payloads):
    path = cases.write(tmp_path_factory.mktemp('frames') / 'f', payloads)
    with open(path, 'rb') as stream:
        content = stream.read()
    file = records.RecordFile(path, '', len(content))
    frames, error = records.list_frames(file)
    assert error is None
    assert [frame.length for frame in frames] == [len(payload) for payload in payloads]
    for frame, payload in zip(frames, payloads):
        start = frame.offset + 12
        assert content[start : start + frame.length] == payload
        crc = content[start + frame.length : start + frame.length + 4]
        assert crc == struct.pack('<I', records.masked_crc(payload))
        assert content[frame.payload_offset : frame.end - 4] == payload
    for number, frame in enumerate(frames, 1):
        rest, error = records.list_frames(file, frame.end)
        assert [each.offset for each in rest] == [each.offset for each in frames[number:]]
        assert error is None


def test_counts_plain_and_compressed_files(tmp_path):
    cases.write_ids(tmp_path / 'a', range(5))
    cases.write_ids(tmp_path / 'b.gz', range(7))
    cases.gzipped(cases.write_ids(tmp_path / 'c', range(2)))  # told by its first bytes
    files = records.find_files([str(tmp_path / '*')], 'field')
    assert [file.compression for file in files] == ['', 'GZIP', 'GZIP']
    assert records.known_count(files) is None
    assert records.count_records(files[:2]) == 12
    assert (records.known_count(files[:2]), records.known_count(files)) == (12, None)
    assert records.count_records(files) == 14 == records.known_count(files)


def test_a_record_whose_length_looks_like_gzip_is_not(tmp_path):
    length = 0x088B1F  # its little-endian bytes are GZIP's magic ones
    path = cases.write(tmp_path / 'a', [bytes(length)])
    with open(path, 'rb') as stream:
        assert stream.read(3) == b'\x1f\x8b\x08'
    assert records.count_records([_file(path)]) == 1


@pytest.mark.parametrize(
    'end, index, problem',
    [
        (-5, 2, 'truncated: 5 bytes of the record are missing'),
        (2 * 20 + 7, 2, 'truncated: 7 of 12 header bytes are there'),
        (6, 0, 'truncated: 6 of 12 header bytes are there'),
    ],
)
def test_a_truncated_file_is_named(tmp_path, end, index, problem):
    path = cases.write(tmp_path / 'a', [b'abcd'] * 3)  # frames of 20 bytes
    with open(path, 'rb') as stream:
        content = stream.read()
    with open(path, 'wb') as stream:
        stream.write(content[:end])
    with pytest.raises(errors.DataError) as caught:
        records.count_records([_file(path)])
    assert str(caught.value) == f'{path}, record {index}: {problem}.'


def test_a_corrupt_length_is_named(tmp_path):
    path = cases.write(tmp_path / 'a', [b'abcd'] * 3)
    cases.change_byte(path, 20)
    with pytest.raises(errors.DataError, match="record 1: the CRC of the record's length is wrong"):
        records.count_records([_file(path)])


def test_another_kind_of_file_is_named(tmp_path):
    (tmp_path / 'a').write_text('a picture, perhaps')
    with pytest.raises(errors.DataError, match='a, record 0: not a TFRecord file'):
        records.count_records([_file(tmp_path / 'a')])


def test_a_corrupt_gzip_file_is_named(tmp_path):
    path = cases.write(tmp_path / 'a.gz', [bytes([i] * 3000) for i in range(9)])
    with open(path, 'rb') as stream:
        content = stream.read()
    with open(path, 'wb') as stream:
        stream.write(content[: len(content) // 2])
    with pytest.raises(errors.DataError, match='the GZIP stream is corrupt'):
        records.count_records([_file(path)])


def test_a_short_gzip_payload_is_named(tmp_path):
    frame = struct.pack('<Q', 100)
    frame += struct.pack('<I', records.masked_crc(frame)) + bytes(10)
    with gzip.open(tmp_path / 'a.gz', 'wb') as stream:
        stream.write(frame)
    with pytest.raises(errors.DataError, match='truncated: 94 bytes of the record are missing'):
        records.count_records([_file(tmp_path / 'a.gz')])


def test_files_are_sorted_and_taken_once(tmp_path):
    cases.write_shards(tmp_path, [1, 1, 1])
    patterns = [str(tmp_path / name) for name in ('part-0[12]*', 'part-*', 'part-00*')]
    files = records.find_files(patterns, 'field')
    names = ['part-00.tfrecord', 'part-01.tfrecord', 'part-02.tfrecord']
    assert [file.path for file in files] == [str(tmp_path / name) for name in names]


def test_empty_files_are_left_out(tmp_path, caplog):
    cases.write_shards(tmp_path, [2, 0, 1])
    with gzip.open(tmp_path / 'part-03.tfrecord', 'wb'):
        pass
    files = records.find_files([str(tmp_path / 'part-*')], 'field')
    assert len(files) == 2
    assert '2 files' in caplog.text and 'part-01.tfrecord' in caplog.text


def test_only_empty_files_are_refused(tmp_path):
    pattern = cases.write_shards(tmp_path, [0])
    with pytest.raises(errors.DataError, match=r'1 file \(.*part-00.tfrecord\) without a single'):
        records.find_files([pattern], 'field')


def test_no_match_names_pattern_folder_and_neighbors(tmp_path):
    for name in ['train-00000-of-00002', 'train-00001-of-00002', 'label_map.pbtxt']:
        (tmp_path / name).write_text('x')
    pattern = str(tmp_path / 'train-?????-of-00010')
    with pytest.raises(errors.DataError) as caught:
        records.find_files([pattern], 'the_field')
    message = str(caught.value)
    assert message.startswith(
        f'the_field: no file matches {pattern!r}; the folder {str(tmp_path)!r}'
    )
    assert "'train-00000-of-00002'" in message and 'label_map' not in message
    assert message.endswith('and 1 more.')


def test_no_match_names_the_missing_folder(tmp_path):
    (tmp_path / 'records').mkdir()
    with pytest.raises(errors.DataError) as caught:
        records.find_files([str(tmp_path / 'recrods' / 'train' / '*.tfrecord')], 'field')
    message = str(caught.value)
    assert f'there is no folder {str(tmp_path / "recrods")!r}' in message
    assert "has 'records'." in message


@pytest.mark.parametrize(
    'pattern, said',
    [
        ('', 'the path is empty'),
        ('  ', 'the path is empty'),
        ('PATH_TO_BE_CONFIGURED/train.record', 'placeholder of a published config'),
        ('{folder}', 'it is a folder'),
    ],
)
def test_paths_that_cannot_be_files(tmp_path, pattern, said):
    with pytest.raises(errors.DataError, match=said):
        records.find_files([pattern.format(folder=tmp_path)], 'field')


def test_no_pattern_at_all():
    with pytest.raises(errors.DataError, match='field: no path is given'):
        records.find_files([], 'field')


@pytest.mark.parametrize('compression', ['', 'GZIP'])
def test_the_first_records_are_those_of_the_first_files(tmp_path, compression):
    options = tf.io.TFRecordOptions(compression_type=compression)
    for name, contents in (('a', [b'one', b'']), ('b', [b'three', b'four'])):
        with tf.io.TFRecordWriter(str(tmp_path / name), options) as writer:
            for content in contents:
                writer.write(content)
    files = records.find_files([str(tmp_path / '*')], 'field')
    assert records.first_records(files, 3) == [b'one', b'', b'three']
    assert records.first_records(files, 9) == [b'one', b'', b'three', b'four']


@pytest.mark.parametrize('compression', ['', 'GZIP'])
@pytest.mark.parametrize('corrupt', [b'0' * 30, b'0'], ids=['no header', 'truncated'])
def test_the_first_records_are_of_each_file_those_before_a_corrupt_one(
    tmp_path, compression, corrupt
):
    for name in 'ab':
        with tf.io.TFRecordWriter(str(tmp_path / name)) as writer:
            writer.write(f'of {name}'.encode())
    for name, rest in (('a', corrupt), ('b', b'')):
        content = (tmp_path / name).read_bytes() + rest
        (tmp_path / name).write_bytes(gzip.compress(content) if compression else content)
    files = records.find_files([str(tmp_path / '*')], 'field')
    assert records.first_records(files, 9) == [b'of a', b'of b']


def test_files_after_the_first_records_are_not_opened(tmp_path, monkeypatch):
    for name in 'ab':
        with tf.io.TFRecordWriter(str(tmp_path / name)) as writer:
            writer.write(b'one')
    first, second = records.find_files([str(tmp_path / '*')], 'field')
    opened, open_file = [], records._open
    monkeypatch.setattr(records, '_open', lambda file: opened.append(file) or open_file(file))
    assert records.first_records([first, second], 1) == [b'one']
    assert opened == [first]


@pytest.mark.parametrize('length', [5, 2**40, 2**63 - 1, 2**64 - 1])
@pytest.mark.parametrize('compression', ['', 'GZIP'])
def test_the_first_records_end_at_a_length_that_is_not_there(tmp_path, compression, length):
    header = struct.pack('<Q', length)
    content = header + struct.pack('<I', records.masked_crc(header)) + b'four'
    (tmp_path / 'a').write_bytes(gzip.compress(content) if compression else content)
    assert records.first_records(records.find_files([str(tmp_path / 'a')], 'field'), 9) == []


def test_the_first_records_end_at_what_is_no_record(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / 'a')) as writer:
        writer.write(b'one')
    (tmp_path / 'b').write_bytes(b'0' * 30)
    files = records.find_files([str(tmp_path / '*')], 'field')
    assert records.first_records(files, 9) == [b'one']
