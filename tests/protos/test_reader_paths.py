import pytest

from protos import input_reader_pb2, reader_paths


@pytest.mark.parametrize(
    ('text', 'kind', 'field'),
    [
        ({'coco_input_reader': {'image_path': ['a', 'b']}}, 'coco_input_reader', 'image_path'),
        ({'tf_record_input_reader': {'input_path': ['a', 'b']}}, '', 'input_path'),
    ],
)
def test_paths_of_all_kinds(text, kind, field):
    reader = input_reader_pb2.InputReader(**text)
    assert reader_paths.files_kind(reader) == kind
    name = kind or 'tf_record_input_reader'
    assert reader_paths.reader_paths(reader) == (f'{name}.{field}', ['a', 'b'])


def test_a_reader_without_files_is_one_of_records_without_a_path():
    empty = ('tf_record_input_reader.input_path', [])
    external = input_reader_pb2.InputReader(external_input_reader={})
    for reader in (input_reader_pb2.InputReader(), external):
        assert reader_paths.files_kind(reader) == ''
        assert reader_paths.reader_paths(reader) == empty


def test_readers_of_files_have_their_images_in_one_field():
    oneof = input_reader_pb2.InputReader.DESCRIPTOR.oneofs_by_name['input_reader']
    others = {'tf_record_input_reader', 'external_input_reader'}
    assert {field.name for field in oneof.fields} - others == set(reader_paths.FILE_KINDS)
