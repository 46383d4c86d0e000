"""Paths of an input reader, whatever the format of its files."""

from __future__ import annotations

from typing import List, Tuple

from protos import input_reader_pb2

RECORDS = 'tf_record_input_reader'
_FILES_FIELD = 'image_path'
# Fields of an input reader that read files of another format.
FILE_KINDS = tuple(
    field.name
    for field in input_reader_pb2.InputReader.DESCRIPTOR.oneofs_by_name['input_reader'].fields
    if _FILES_FIELD in field.message_type.fields_by_name
)


def reader_paths(reader: input_reader_pb2.InputReader) -> Tuple[str, List[str]]:
    """Return the paths that are sources of a reader, with the path of their field.

    Args:
        reader: a reader of TFRecords or of files of another format. One that names no files counts
            as a reader of TFRecords without a path.
    """
    kind = files_kind(reader)
    if kind:
        return f'{kind}.{_FILES_FIELD}', list(getattr(reader, kind).image_path)
    return f'{RECORDS}.input_path', list(reader.tf_record_input_reader.input_path)


def files_kind(reader: input_reader_pb2.InputReader) -> str:
    """Return the field of a reader's message of files of another format; '' for TFRecords."""
    kind = reader.WhichOneof('input_reader')
    return kind if kind in FILE_KINDS else ''
