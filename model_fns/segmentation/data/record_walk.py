"""Going through the records of a reader once before a run, to find something out about them all."""

from __future__ import annotations

from typing import Any, Callable, Iterator, NamedTuple, Optional, Tuple

import tensorflow as tf
import tqdm

from estimator_lib.data import corrupt_records, record_sources, record_streams, records
from protos import input_reader_pb2


class Place(NamedTuple):
    """Where a record is.

    Attributes:
        path: of its file.
        index: in the file, from 0.
    """

    path: str
    index: int

    def __str__(self) -> str:
        return f'{self.path}, record {self.index}'


def walk(
    reader: input_reader_pb2.InputReader,
    function: Callable[[tf.Tensor], Any],
    doing: str,
    limit: int = 0,
) -> Iterator[Tuple[Place, Any]]:
    """What a function makes of each record, in the order of files; shows how far it is.

    Records for which it fails are left out: reading them for training or evaluation says so.

    Args:
        reader: whose records.
        function: from a string scalar to tensors of static shape.
        doing: what is being done, for the bar.
        limit: so many records are looked at; 0: all.

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
            yield Place(file.path, index), outcome


def text_feature(record: tf.Tensor, key: str, default: Optional[str] = None) -> tf.Tensor:
    """Return one text of a record; running it fails where there is none and no default."""
    feature = tf.io.FixedLenFeature([], tf.string, default)
    return tf.io.parse_single_example(record, {key: feature})[key]
