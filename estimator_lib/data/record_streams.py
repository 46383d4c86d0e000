"""The order of the records: a pure function of the seed and the epoch.

A stream consists of epochs, and each epoch seeds its shuffles by its number. So a stream can resume
at any (epoch, index) with the same records as an uninterrupted one: the epoch is read again, and
its first `index` records are dropped before they are decoded.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import Any, Callable, Iterator, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints import reader_positions
from estimator_lib.data import records
from estimator_lib.data.record_sources import Source

tf1 = tf.compat.v1

# Two numbers in one int64. The position of a record in a stream is epoch * INDEX_SPAN + index in
# the epoch; positions only grow. The id of a record is number of its file * FILE_SPAN + index in
# the file.
# 2^31 epochs of 4 billion records, and 2^27 files of 69 billion records.
INDEX_SPAN = 2**32
FILE_SPAN = 2**36

# Replaces a corrupt frame in the stream. It is no valid `tf.train.Example`: a truncated field tag.
CORRUPT_FRAME = b'\xff'

_MAX = np.iinfo(np.int64).max
_SEED_SPAN = 2**32
# Above the seeds of up to 256 sources, so that these draws do not repeat those of the order.
_MIXING_SALT = 1 << 40
_FRAMES_SALT = 1 << 41
# A fixed number: the thread of tf.data that tunes such numbers can hold up the end of an iterator
# for half a minute.
_MAX_PARALLEL_READS = 16
_BUFFER_SHARE = 8  # 1 / 8 of the size of the shuffle buffer is prefetched


@dataclasses.dataclass(frozen=True)
class Order:
    """Order of the records of a stream.

    Attributes:
        seed: seed of all shuffles and of the mixing of sources.
        shuffle_buffer_size: size of the shuffle buffer of records; 0 or 1: file order.
        files_buffer_size: size of the shuffle buffer of files; 0 or 1: sorted.
        num_readers: number of files that are read alternatingly.
        block_length: number of consecutive records of one file.
        sample_1_of_n: keep every n-th record.
        num_epochs: number of epochs; 0: forever.
        shard: (index, count) of the part of the records that is read.
        cache: keep the records in memory.
        skip_corrupt: continue after a corrupt frame, with `CORRUPT_FRAME` in its place.
        shares_batches: each process reads all files in the same order, and keeps the record at its
            `index` of every `count` consecutive records. So together the processes read in a step
            what one process would read. Otherwise the processes divide the files, which is faster.
    """

    seed: int
    shuffle_buffer_size: int = 0
    files_buffer_size: int = 0
    num_readers: int = 1
    block_length: int = 1
    sample_1_of_n: int = 1
    num_epochs: int = 0
    shard: Tuple[int, int] = (0, 1)
    cache: bool = False
    skip_corrupt: bool = False
    shares_batches: bool = False


def unconverted(function: Callable) -> Callable:
    """Keep AutoGraph from converting a dataset's function, which takes long."""
    return tf.autograph.experimental.do_not_convert(function)


def steady(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Return the dataset with deterministic order, without autotuning and graph rewriting.

    TensorFlow 2.15's autotuning has a thread for each iterator. Deleting the iterator, as at the
    end of an evaluation, waits until that thread wakes up, sometimes for half a minute. Rewriting
    the dataset's graph delays the first batch and makes later ones no faster.
    """
    options = tf.data.Options()
    options.deterministic = True
    options.autotune.enabled = False
    # 1,050 microseconds of an image with it, 1,058 without (docs/performance.md, "Input").
    options.experimental_optimization.apply_default_optimizations = False
    # Each reader has its share already; a strategy would divide its files again.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return dataset.with_options(options)


def open_session(graph: Optional[tf.Graph] = None) -> tf1.Session:
    """Open a session without graph optimization, for a graph that runs only a few times."""
    config = tf1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return tf1.Session(graph=graph, config=config)


def parallel_calls() -> int:
    """Return the number of records to decode at a time: two for each core."""
    return 2 * (os.cpu_count() or 1)


def create_stream(source: Source, order: Order, start: tf.Tensor) -> tf.data.Dataset:
    """Build the stream of the records of a source from a position on.

    Args:
        source: the files.
        order: the order of the records.
        start: int64 [2]: epoch, and index of the first record in the epoch; negative if it is that
            of all readers together.

    Returns:
        Elements (number, (position, (record id, record))): int64 and string scalars. The number
        counts the elements from 0; `INDEX_SPAN` and `FILE_SPAN` explain position and id.
    """
    first = first_index(start[1])
    cached = None
    if order.cache:
        # In a function even where TensorFlow is eager, because a shuffle takes its second seed from
        # the graph in one case and from the process in the other.
        cached = tf.data.Dataset.from_tensors(0).flat_map(
            unconverted(lambda _: _read_files(source, order, _epoch_seeds(order, source, 0)[0]))
        )
        cached = (_read_examples(source, cached) if source.has_examples else cached).cache()

    def read_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
        seeds = _epoch_seeds(order, source, epoch)
        dataset = cached or _read_files(source, order, seeds[0])
        if source.repeats:
            dataset = _repeat(dataset, source.repeats, seeds[1])
        dataset = _shuffle(dataset, order.shuffle_buffer_size, seeds[1])
        if order.sample_1_of_n > 1:
            # Behind the shuffle, as dataset_builder.py of the Object Detection API has it: where
            # records are shuffled, each epoch keeps other ones.
            dataset = dataset.shard(order.sample_1_of_n, 0)
        index = tf.where(tf.equal(epoch, start[0]), first, np.int64(0))
        positions = tf.data.Dataset.range(epoch * INDEX_SPAN + index, _MAX)
        return tf.data.Dataset.zip((positions, dataset.skip(index)))

    epochs = tf.data.Dataset.range(start[0], order.num_epochs or _MAX)
    # Not `repeat`, which would give all epochs the seeds of the first.
    stream = epochs.flat_map(unconverted(read_epoch))
    if order.shares_batches:
        index, count = order.shard
        # The position follows a record of this process, or is that of all, or the beginning.
        others = tf.where(tf.less_equal(start[1], 0), np.int64(index), np.int64(count - 1))
        # Behind the epochs and the shuffles, which must be the same in all processes.
        stream = stream.skip(others).shard(count, 0)
    # Behind the positions, which stay those of the whole data.
    if source.without:
        stream = _leave_out(stream, source.without)
    if source.sequences is not None:
        seed = stream_seed(order, source) + _FRAMES_SALT
        stream = source.sequences.one_frame(stream, seed)
    if order.shuffle_buffer_size >= _BUFFER_SHARE:
        # The prefetched records are decoded while the buffer of the next epoch fills.
        stream = stream.prefetch(order.shuffle_buffer_size // _BUFFER_SHARE)
    if source.has_examples and not order.cache:
        # Files are read as late as this, so that shuffling and skipping them costs nothing.
        stream = _read_examples(source, stream)
    return tf.data.Dataset.zip((tf.data.Dataset.range(_MAX), stream))


def first_index(index: tf.Tensor) -> tf.Tensor:
    """Return the indices of the next records of saved ones, which may be of all readers together.

    Args:
        index: int64, of any shape.
    """
    return tf.where(tf.less(index, 0), reader_positions.joint_index(index), index)


def mix(
    datasets: Sequence[tf.data.Dataset],
    sources: Sequence[Source],
    seed: int,
    start: tf.Tensor,
) -> tf.data.Dataset:
    """Mix the examples of several sources into one dataset.

    The seed and i alone decide the source of the i-th example. The mixture ends with the first
    source that ends, because the proportions would change without it.

    Args:
        datasets: one dataset for each source.
        sources: the sources, with their weights or their counts in each batch.
        seed: seed of the draws.
        start: int64 scalar: number of examples drawn before.
    """
    if len(datasets) == 1:
        return datasets[0]
    counts = [source.per_batch for source in sources]
    bounds = np.cumsum([source.weight for source in sources])

    def choose(draw: tf.Tensor) -> tf.Tensor:
        if counts[0] is not None:
            value = tf.math.floormod(draw, sum(counts))
            return tf.searchsorted(np.cumsum(counts), value[tf.newaxis], 'right', tf.int64)[0]
        value = tf.random.stateless_uniform([1], [seed + _MIXING_SALT, draw], dtype=tf.float64)
        # Without the last bound: rounding may leave it below 1, and a draw above it.
        return tf.searchsorted(bounds[:-1], value, 'right', tf.int64)[0]

    choices = tf.data.Dataset.range(start, _MAX).map(unconverted(choose))
    return tf.data.Dataset.choose_from_datasets(datasets, choices, stop_on_empty_dataset=True)


def read_file(source: Source, file: Sequence[tf.Tensor], skip_corrupt: bool) -> tf.data.Dataset:
    """Build the dataset of (record id, record) of a file.

    Args:
        source: has the file, and the splitting of records into frames, which have the id of their
            record.
        file: one of `file_tensors`.
        skip_corrupt: put `CORRUPT_FRAME` in the place of corrupt frames, and continue. Examples of
            other files always have it there.
    """
    path, compression, file_number = file
    if source.has_examples:
        return _read_examples(source, _list_examples(source, file_number))
    sequences = source.sequences
    record_ids = tf.data.Dataset.range(file_number * FILE_SPAN, _MAX)
    read = _read_past_corrupt if skip_corrupt else tf.data.TFRecordDataset
    payloads = _with_suffixes(read(path, compression), source, file_number)
    dataset = tf.data.Dataset.zip((record_ids, payloads))
    return dataset if sequences is None else sequences.all_frames(dataset)


def _with_suffixes(
    payloads: tf.data.Dataset, source: Source, file_number: tf.Tensor
) -> tf.data.Dataset:
    """Add the features that the reader adds to each record of a file."""
    suffixes = [file.suffix for file in source.files]
    if not any(suffixes):
        return payloads

    def add(record: tf.Tensor) -> tf.Tensor:
        whole = record + tf.gather(tf.constant(suffixes), file_number)
        return tf.where(tf.equal(record, CORRUPT_FRAME), record, whole)

    return payloads.map(unconverted(add))


def list_records(source: Source) -> Iterator[Tuple[int, bytes]]:
    """Yield the id of each record of a source with the record, or with `CORRUPT_FRAME`."""
    with tf.Graph().as_default():
        files = file_tensors(source.files)
        yield from elements(
            files.flat_map(unconverted(lambda *file: read_file(source, file, True)))
        )


def file_tensors(files: Sequence[records.RecordFile]) -> tf.data.Dataset:
    """Build elements (path, compression, file number), the first arguments of `read_file`."""
    return tf.data.Dataset.from_tensor_slices(
        (
            [file.path for file in files],
            [file.compression for file in files],
            np.arange(len(files), dtype=np.int64),
        )
    )


def locate(source: Source, record_id: int) -> Tuple[records.RecordFile, int]:
    """Return the file of a record, and the index of the record in it."""
    file_number, index = divmod(int(record_id), FILE_SPAN)
    return source.files[file_number], index


def elements(dataset: tf.data.Dataset) -> Iterator[Any]:
    """Yield the elements of a dataset of the current graph, one after the other."""
    iterator = tf1.data.make_initializable_iterator(steady(dataset))
    element = iterator.get_next()
    with open_session() as session:
        session.run([iterator.initializer, tf1.tables_initializer()])
        while True:
            try:
                yield session.run(element)
            except tf.errors.OutOfRangeError:
                return


def stream_seed(order: Order, source: Source) -> int:
    """Return the seed that, with a record's position, seeds its augmentation."""
    return order.seed + _SEED_SPAN * source.index


def _epoch_seeds(order: Order, source: Source, epoch: tf.Tensor) -> tf.Tensor:
    """Return the seeds of the shuffles of files and of records in an epoch: int64 [2]."""
    key = -1 - stream_seed(order, source)  # negative, so never the seed of an example
    pair = tf.stack([tf.constant(key, tf.int64), tf.cast(epoch, tf.int64)])
    return tf.random.stateless_uniform([2], pair, minval=None, maxval=None, dtype=tf.int64)


def _read_files(source: Source, order: Order, seed: tf.Tensor) -> tf.data.Dataset:
    """Read (record id, record) of this shard, in the order of one epoch's files.

    Examples of other files are not read yet: an empty text is in the place of each.
    """
    index, count = (0, 1) if order.shares_batches else order.shard
    by_files = len(source.files) >= count
    dataset = _shuffle(file_tensors(source.files), order.files_buffer_size, seed)
    if by_files:
        dataset = dataset.shard(count, index)
    files_here = -(-len(source.files) // count) if by_files else len(source.files)
    num_readers = max(1, min(order.num_readers, files_here))

    def read(*file: tf.Tensor) -> tf.data.Dataset:
        if source.has_examples:
            return _list_examples(source, file[-1])
        return read_file(source, file, order.skip_corrupt)

    dataset = dataset.interleave(
        unconverted(read),
        cycle_length=num_readers,
        block_length=max(1, order.block_length),
        num_parallel_calls=min(num_readers, _MAX_PARALLEL_READS),
        deterministic=True,
    )
    return dataset if by_files else dataset.shard(count, index)


def _list_examples(source: Source, file_number: tf.Tensor) -> tf.data.Dataset:
    """Build the dataset of (record id, '') of one of the data sets of a source."""
    counts = tf.constant([len(file.examples) for file in source.files], tf.int64)
    first = file_number * FILE_SPAN
    record_ids = tf.data.Dataset.range(first, first + counts[file_number])
    return record_ids.map(unconverted(lambda record_id: (record_id, '')))


def _read_examples(source: Source, dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Replace the '' of each (record id, '') by the record, or by `CORRUPT_FRAME`.

    Args:
        source: the data sets.
        dataset: elements (record id, ''), or (position, (record id, '')).
    """

    def read(record_id: np.int64) -> bytes:
        file, index = locate(source, int(record_id))
        try:
            # Not as a scalar array of objects: TensorFlow (2.15 to 2.21) never frees the string of
            # one that a Python function returns alone.
            return file.examples.read(index) + file.suffix
        except errors.DataError:  # described when a run fails, or by the log of what is skipped
            return CORRUPT_FRAME

    def read_next(*element: Any) -> Any:
        record_id = tf.nest.flatten(element)[-2]
        record = tf.ensure_shape(tf.numpy_function(read, [record_id], tf.string), [])
        return tf.nest.pack_sequence_as(element, [*tf.nest.flatten(element)[:-1], record])

    return dataset.map(unconverted(read_next), parallel_calls(), deterministic=True)


def _repeat(
    dataset: tf.data.Dataset, repeats: Sequence[Tuple[int, float]], seed: tf.Tensor
) -> tf.data.Dataset:
    """Repeat elements (record id, record) as often as `repeat_factors` explains.

    Args:
        dataset: the elements.
        repeats: `Source.repeats`.
        seed: int64 scalar, of the epoch.
    """
    ids = np.array([record_id for record_id, _ in repeats], np.int64)
    factors = np.array([factor for _, factor in repeats], np.float64)

    def copies(record_id: tf.Tensor, record: tf.Tensor) -> tf.data.Dataset:
        index = tf.minimum(tf.searchsorted(ids, record_id[tf.newaxis])[0], len(ids) - 1)
        is_rare = tf.equal(tf.gather(ids, index), record_id)
        factor = tf.where(is_rare, tf.gather(factors, index), tf.ones([], tf.float64))
        draw = tf.random.stateless_uniform([], tf.stack([seed, record_id]), dtype=tf.float64)
        count = tf.cast(tf.floor(factor + draw), tf.int64)
        return tf.data.Dataset.from_tensors((record_id, record)).repeat(count)

    return dataset.flat_map(unconverted(copies))


def _leave_out(stream: tf.data.Dataset, record_ids: Sequence[int]) -> tf.data.Dataset:
    """Leave out records of a stream of (position, (record id, record))."""
    ids = np.array(record_ids, np.int64)

    def is_kept(position: tf.Tensor, rest: Any) -> tf.Tensor:
        del position
        return tf.reduce_all(tf.not_equal(rest[0], ids))

    return stream.filter(unconverted(is_kept))


def _shuffle(dataset: tf.data.Dataset, buffer_size: int, seed: tf.Tensor) -> tf.data.Dataset:
    if buffer_size <= 1:
        return dataset
    # A dataset combines its seed with that of the graph, which the user's program may have set.
    graph = tf1.get_default_graph()
    graph_seed, graph.seed = graph.seed, 1
    try:
        # The epoch is in the seed. TensorFlow's own reshuffling counts the iterations of a process,
        # which begin again where a run resumes.
        return dataset.shuffle(buffer_size, seed, reshuffle_each_iteration=False)
    finally:
        graph.seed = graph_seed


def _unread_offsets(path: bytes, compression: bytes) -> np.ndarray:
    """Return the int64 offsets of the first corrupt frame of a file and of all later frames.

    TensorFlow's reader stops at the first corrupt frame without reporting its position. This
    function is called when the reader has stopped.
    """
    stat = tf.io.gfile.stat(path.decode())
    file = records.RecordFile(path.decode(), compression.decode(), stat.length)
    return np.array(_find_unread_offsets(file, stat.mtime_nsec), np.int64)


@functools.cache  # `written` is in the key: a file is read again only after a change
def _find_unread_offsets(file: records.RecordFile, written: int) -> Tuple[int, ...]:
    del written
    frames, error = records.list_frames(file)
    offsets = [frame.offset for frame in frames] + ([error.offset] if error else [])
    offsets = offsets[count_readable(file) :]
    # A compressed file has no random access; reading at -1 fails and gives one CORRUPT_FRAME.
    return (-1,) if offsets and file.compression else tuple(offsets)


def count_readable(file: records.RecordFile) -> int:
    """Count the records that TensorFlow's reader returns before a file ends or fails."""
    with tf.Graph().as_default():
        dataset = tf.data.TFRecordDataset(file.path, file.compression).ignore_errors()
        count = steady(dataset).reduce(np.int64(0), unconverted(lambda count, _: count + 1))
        with open_session() as session:
            return int(session.run(count))


def _read_past_corrupt(path: tf.Tensor, compression: tf.Tensor) -> tf.data.Dataset:
    """Build the records of a file, with `CORRUPT_FRAME` in the place of each corrupt frame.

    From the first corrupt frame on, each record is read by its own offset. Where the chain of
    frames breaks, one `CORRUPT_FRAME` replaces all that follows.
    """

    def read_frame(offset: tf.Tensor) -> tf.data.Dataset:
        # `tf.data.TFRecordDataset` has no argument for offsets (2.15 to 2.21). The size of the
        # buffer is the default of that class.
        variant = tf.raw_ops.TFRecordDatasetV2(
            filenames=[path],
            compression_type=compression,
            buffer_size=np.int64(1 << 18),
            byte_offsets=[offset],
        )
        record = tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string))
        corrupt = tf.data.Dataset.from_tensors(CORRUPT_FRAME)
        return record.take(1).ignore_errors().concatenate(corrupt).take(1)

    def read_rest(path: tf.Tensor) -> tf.data.Dataset:
        offsets = tf.numpy_function(_unread_offsets, [path, compression], tf.int64)
        offsets = tf.data.Dataset.from_tensor_slices(tf.ensure_shape(offsets, [None]))
        return offsets.flat_map(unconverted(read_frame))

    def read_start(path: tf.Tensor) -> tf.data.Dataset:
        # `ignore_errors` would retry a file that cannot be opened forever.
        path = tf.ensure_shape(tf.numpy_function(_require_readable, [path], tf.string), [])
        return tf.data.TFRecordDataset(path, compression).ignore_errors()

    paths = tf.data.Dataset.from_tensors(path)
    rest = paths.flat_map(unconverted(read_rest))
    return paths.flat_map(unconverted(read_start)).concatenate(rest)


def _require_readable(path: bytes) -> bytes:
    """Return the path; raise TensorFlow's error if the file cannot be read."""
    with tf.io.gfile.GFile(path.decode(), 'rb') as file:
        file.read(1)
    return path
