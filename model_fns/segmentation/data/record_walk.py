"""Going through the records of a reader once before a run, to find something out about them all."""

from __future__ import annotations

from typing import Any, Callable, Iterator, NamedTuple, Optional, Tuple

import tensorflow as tf
import tqdm

from estimator_lib.data import corrupt_records, record_sources, record_streams, records
from estimator_lib.data.record_streams import DAMAGED, unconverted
from protos import input_reader_pb2

tf1 = tf.compat.v1

_AT_ONCE = 32


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
    with (
        tf.Graph().as_default(),
        tqdm.tqdm(
            total=min(limit, total) if limit else total, desc=doing, unit='record', disable=None
        ) as bar,
    ):
        for batch in _run_through(_outcomes(source, function, limit)):
            for row, (worked, origin) in enumerate(zip(*batch[:2])):
                bar.update()
                if worked:
                    outcome = tf.nest.map_structure(lambda values: values[row], batch[2])  # noqa: B023
                    yield Place(*record_streams.locate(source, origin)), outcome


def _outcomes(
    source: record_sources.Source, function: Callable[[tf.Tensor], Any], limit: int
) -> tf.data.Dataset:
    """Batches of (whether it worked, origin, what the function returned)."""

    def read(*file: tf.Tensor) -> tf.data.Dataset:
        return record_streams.read_file(*file, skip_damaged=True)

    def try_one(origin: tf.Tensor, record: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor, Any]:
        worked, outcome = corrupt_records.attempt(function, record)
        return tf.logical_and(worked, tf.not_equal(record, DAMAGED)), origin, outcome

    dataset = record_streams.file_tensors(source.files).flat_map(unconverted(read))
    dataset = dataset.take(limit or -1)
    dataset = dataset.map(unconverted(try_one), record_streams.parallel_calls(), deterministic=True)
    return dataset.batch(_AT_ONCE).prefetch(1)


def _run_through(dataset: tf.data.Dataset) -> Iterator[Any]:
    iterator = tf1.data.make_initializable_iterator(record_streams.steady(dataset))
    element = iterator.get_next()
    with record_streams.open_session() as session:
        session.run(iterator.initializer)
        while True:
            try:
                yield session.run(element)
            except tf.errors.OutOfRangeError:
                return


def text_feature(record: tf.Tensor, key: str, default: Optional[str] = None) -> tf.Tensor:
    """One text of a record; running it fails where there is none and no default."""
    feature = tf.io.FixedLenFeature([], tf.string, default)
    return tf.io.parse_single_example(record, {key: feature})[key]
