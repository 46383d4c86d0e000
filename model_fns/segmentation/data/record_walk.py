"""Walk through all records of a reader once, before a run."""

from __future__ import annotations

from typing import Any, Callable, Iterator, NamedTuple, Optional, Tuple

import tensorflow as tf
import tqdm

from estimator_lib.data import corrupt_records, record_sources, record_streams, records
from protos import input_reader_pb2


class Place(NamedTuple):
    """Position of a record.

    Attributes:
        path: of its file.
        index: of the record in the file, from 0; -1: the file is the record.
    """

    path: str
    index: int

    def __str__(self) -> str:
        return self.path if self.index < 0 else f'{self.path}, record {self.index}'


def walk(
    reader: input_reader_pb2.InputReader,
    function: Callable[[tf.Tensor], Any],
    doing: str,
    limit: int = 0,
) -> Iterator[Tuple[Place, Any]]:
    """Yield the results of a function for each record, in the order of files; show a progress bar.

    Records for which it fails are left out: training or evaluation reports them.

    Args:
        reader: of the records.
        function: from a string scalar to tensors of static shape.
        doing: text of the progress bar.
        limit: number of records to read; 0: all.

    Raises:
        errors.UserError: the reader has no files.
    """
    files = tuple(record_sources.input_files(reader))
    source = record_sources.Source(0, files)
    total = records.count_records(files)
    total = min(limit, total) if limit else total
    outcomes = corrupt_records.attempt_all(source, function, limit or -1)
    for record_id, _, worked, outcome in tqdm.tqdm(
        outcomes, total=total, desc=doing, unit='record', disable=None
    ):
        if worked:
            file, index = record_streams.locate(source, record_id)
            yield Place(*file.locate(index)), outcome


def text_feature(record: tf.Tensor, key: str, default: Optional[str] = None) -> tf.Tensor:
    """Read a text feature of a record; the op fails where it is missing and has no default.

    Returns:
        String scalar.
    """
    feature = tf.io.FixedLenFeature([], tf.string, default)
    return tf.io.parse_single_example(record, {key: feature})[key]
