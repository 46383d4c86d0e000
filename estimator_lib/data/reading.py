"""What is read, and how: from the fields of an input reader to a dataset of batches."""

from __future__ import annotations

import dataclasses
import logging
import math
import zlib
from typing import Any, Callable, Optional, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.data import corrupt_records, reader_state, record_streams
from estimator_lib.data.example_cache import CachePlan, ExampleCache, plan_cache
from estimator_lib.data.record_sources import Source, create_sources
from estimator_lib.data.record_streams import Order, unconverted
from estimator_lib.data.records import count_records
from estimator_lib.data.sequences import Sequences
from estimator_lib.task import IMAGE, Features, Labels, Task
from protos import input_reader_pb2

ModeKeys = tf.estimator.ModeKeys
log = logging.getLogger('estimator_lib')

_SCOPE = 'records_of_'

# Records, in batches, among which images of one size are looked for.
_BATCHES_BY_SIZE = 8
_SIZE_SPAN = 2**32  # Two sides in one int64.


@dataclasses.dataclass(frozen=True)
class Reading:
    """All that decides what is read and how.

    Attributes:
        task: decodes, augments and prepares.
        mode: a `tf.estimator.ModeKeys`.
        batch_size: examples in a batch, or in one of its parts.
        sources: what is read.
        num_sources: with those that nothing is taken of.
        order: of the records.
        num_parallel_calls: examples that are decoded at a time.
        num_prefetch_batches: batches that are ready ahead; negative: as many as seem useful.
        drop_remainder: whether a last batch that is not full is left out.
        max_examples: of all; None for no limit.
        batch_parts: in how many parts a batch is given.
        cache: how decoded examples are kept; None: they are not.
    """

    task: Task
    mode: str
    batch_size: int
    sources: Tuple[Source, ...]
    num_sources: int
    order: Order
    num_parallel_calls: int = 1
    num_prefetch_batches: int = 2
    drop_remainder: bool = True
    max_examples: Optional[int] = None
    batch_parts: int = 1
    cache: Optional[CachePlan] = None

    @property
    def groups_sizes(self) -> bool:
        """Whether a batch has images of one size only."""
        return self.mode != ModeKeys.TRAIN and self.task.batches_by_size()

    @property
    def scope(self) -> str:
        """A name scope that tells the iterators of several inputs apart in error messages."""
        paths = sorted({file.path for source in self.sources for file in source.files})
        return f'{_SCOPE}{zlib.crc32(repr(paths).encode()):08x}'

    def failed_with(self, error: tf.errors.OpError) -> bool:
        """Whether an error of a session came from reading this (or, at worst, from reading)."""
        if error.op is not None and 'Iterator' not in error.op.type:
            return False
        text = error.op.name if error.op is not None else error.message
        if _SCOPE in text:  # not so under a strategy, which makes its own iterators
            return f'{self.scope}/' in text
        return 'Iterator' in text

    @property
    def fingerprints(self) -> np.ndarray:
        """int64 [num_sources]: of the files of each source; 0 where nothing is taken of one."""
        prints = np.zeros([self.num_sources], np.int64)
        for source in self.sources:
            prints[source.index] = source.fingerprint
        return prints

    def order_of(self, source: Source) -> Order:
        """Return the order of one source: it has its share of the readers."""
        num_readers = math.ceil(self.order.num_readers * source.weight)
        return dataclasses.replace(self.order, num_readers=num_readers)

    def seed_of(self, source: Source) -> int:
        """With a record's position, the seed of its augmentation."""
        return record_streams.stream_seed(self.order, source)

    def sharded(self, shard: Tuple[int, int]) -> Reading:
        """Return the same for one of several processes that share the records.

        Args:
            shard: (index, count) of this process.

        Raises:
            errors.ConfigError: they share each batch, and cannot share its `examples_per_batch`.
            errors.DataError: there are fewer records than processes.
        """
        sources = self.sources
        for source in sources:
            _check_shard(source, shard[1])
        order = dataclasses.replace(self.order, shard=shard)
        if order.shares_batches and self.batch_parts > 1:
            sources = tuple(_share_counts(source, shard[1]) for source in sources)
        return dataclasses.replace(self, order=order, sources=sources)


def plan_reading(
    task: Task,
    reader: input_reader_pb2.InputReader,
    mode: str,
    batch_size: int,
    seed: int,
    *,
    num_epochs: Optional[int] = None,
    sample_1_of_n: Optional[int] = None,
    max_examples: Optional[int] = None,
    batch_parts: int = 1,
    share_batches: bool = False,
) -> Reading:
    """What the fields of a reader mean in a mode.

    Args:
        task: decodes, augments and prepares.
        reader: files, order, sources, policy.
        mode: TRAIN shuffles, augments and repeats as the reader says; the other modes read all
            files once, in order (shuffled only where `shuffle` is set), without augmentation.
        batch_size: examples in a batch.
        seed: decides the order, the mixture and the augmentation.
        num_epochs: in place of the reader's; 0: for ever. Training only.
        sample_1_of_n: in place of the reader's.
        max_examples: end after so many; not for training.
        batch_parts: give batches in so many equal parts, one after the other.
        share_batches: processes share out the records of each batch, so that one batch is what all
            of them take at a time; else they share out the files (or, where there are not enough,
            the records of each), and each makes batches of its own.

    Raises:
        errors.ConfigError: the reader's fields do not fit each other.
        errors.DataError: no files, or no records.
    """
    if batch_size % batch_parts:
        raise ValueError(f'A batch of {batch_size} has no {batch_parts} equal parts.')
    training = mode == ModeKeys.TRAIN
    if training and max_examples is not None:
        raise ValueError('max_examples is for evaluation; training ends by num_epochs or steps.')
    if not training and reader.num_epochs > 1:
        log.warning('num_epochs: %d: an evaluation reads its examples once', reader.num_epochs)
    sources, num_sources = create_sources(reader, mode, batch_size)
    # The published system takes one frame of a sequence at a time in training, else all.
    sequences = sequences_of(task, reader, reader.frame_index if training else None)
    sources = [dataclasses.replace(source, sequences=sequences) for source in sources]
    shuffle = reader.shuffle and (training or reader.HasField('shuffle'))
    order = Order(
        seed=seed % 2**32,
        shuffle_buffer_size=reader.shuffle_buffer_size if shuffle else 0,
        files_buffer_size=reader.filenames_shuffle_buffer_size if shuffle else 0,
        num_readers=reader.num_readers if training or shuffle else 1,
        block_length=reader.read_block_length,
        sample_1_of_n=sample_1_of_n or reader.sample_1_of_n_examples,
        num_epochs=(reader.num_epochs if num_epochs is None else num_epochs) if training else 1,
        cache=reader.cache == input_reader_pb2.InputReader.RECORDS and training,
        skip_corrupt=reader.corrupt_record_policy == input_reader_pb2.SKIP,
        shares_batches=share_batches,
    )
    return Reading(
        task=task,
        mode=mode,
        batch_size=batch_size // batch_parts,
        sources=tuple(sources),
        num_sources=num_sources,
        order=order,
        num_parallel_calls=_num_parallel_calls(reader, batch_size),
        num_prefetch_batches=reader.num_prefetch_batches,
        drop_remainder=_drops_remainder(task, reader, training),
        max_examples=max_examples,
        batch_parts=batch_parts,
        cache=plan_cache(reader),
    )


def create_batches(
    reading: Reading,
    start: Any,
    watch: Optional[Callable[[np.ndarray], Any]] = None,
    cache: Optional[ExampleCache] = None,
) -> tf.data.Dataset:
    """Return batches from a position on.

    Args:
        reading: what is read and how.
        start: int64 [num_sources + 1, 3], see `reader_state`.
        watch: called with the positions, int64 [num_sources], that each batch starts from.
        cache: of decoded examples.

    Returns:
        Elements (features, labels); the features have `READER`: `position`, `skipped`.
    """
    start = tf.convert_to_tensor(start, tf.int64)
    if reading.mode == ModeKeys.TRAIN:
        start = reader_state.valid_start(start, reading.fingerprints)
    if reading.groups_sizes:
        (source,) = reading.sources  # An evaluation reads all of its files as one.
        dataset = _create_batches_by_size(reading, source, start, cache)
    else:
        examples = [_create_examples(reading, source, start, cache) for source in reading.sources]
        dataset = record_streams.mix(examples, reading.sources, reading.order.seed, start[-1, 0])
        batch = dataset.padded_batch if reading.task.pads_batches() else dataset.batch
        dataset = batch(reading.batch_size, drop_remainder=reading.drop_remainder)
    dataset = reader_state.with_state(dataset, reading.fingerprints, start, watch)
    if reading.num_prefetch_batches:
        prefetched = reading.num_prefetch_batches
        dataset = dataset.prefetch(tf.data.AUTOTUNE if prefetched < 0 else prefetched)
    return record_streams.steady(dataset)


def sequences_of(
    task: Task, reader: input_reader_pb2.InputReader, frame: Optional[int] = None
) -> Optional[Sequences]:
    """How the records of a reader become examples; None: each is one.

    Args:
        task: knows their keys.
        reader: says what they are.
        frame: see `Sequences`.
    """
    if reader.input_type != input_reader_pb2.TF_SEQUENCE_EXAMPLE:
        return None
    return Sequences(task.split_sequence, frame)


def _create_examples(
    reading: Reading, source: Source, start: tf.Tensor, cache: Optional[ExampleCache]
) -> tf.data.Dataset:
    """Return elements ((source index, position, number), features, labels) of one source."""
    return _decode(reading, source, _create_stream(reading, source, start), cache)


def _create_batches_by_size(
    reading: Reading, source: Source, start: tf.Tensor, cache: Optional[ExampleCache]
) -> tf.data.Dataset:
    """Return batches of the elements of `_create_examples`, each of images of one size.

    Images of one size are put together among a few batches of records that follow each other, so
    that memory is bounded however many sizes there are. Images that have all the same size come in
    the order of their records, in full batches.
    """

    def group(*window: Any) -> tf.data.Dataset:
        examples = _decode(reading, source, tf.data.Dataset.zip(window), cache)
        return examples.group_by_window(
            unconverted(_size_key),
            unconverted(lambda _, examples: examples.batch(reading.batch_size)),
            reading.batch_size,
        )

    stream = _create_stream(reading, source, start)
    return stream.window(_BATCHES_BY_SIZE * reading.batch_size).flat_map(unconverted(group))


def _size_key(place: Any, features: Features, labels: Labels) -> tf.Tensor:
    """int64 scalar: the height and width of an example's image as one number."""
    del place, labels
    height, width = tf.unstack(tf.shape(features[IMAGE], tf.int64)[:2])
    return height * _SIZE_SPAN + width


def _create_stream(reading: Reading, source: Source, start: tf.Tensor) -> tf.data.Dataset:
    """Return the records of one source, see `record_streams.create_stream`."""
    order = reading.order_of(source)
    stream = record_streams.create_stream(source, order, start[source.index, :2])
    return stream if reading.max_examples is None else stream.take(reading.max_examples)


def _decode(
    reading: Reading, source: Source, stream: tf.data.Dataset, cache: Optional[ExampleCache]
) -> tf.data.Dataset:
    """Elements ((source index, position, number), features, labels) of a stream of records."""
    stream_seed = tf.constant(reading.seed_of(source), tf.int64)
    source_index = tf.constant(source.index, tf.int64)

    def decode(position: tf.Tensor, record: tf.Tensor) -> Any:
        seed = tf.stack([stream_seed, position])
        example = (cache or reading.task).decode(record)
        return corrupt_records.vary(reading.task, reading.mode, example, seed)

    def decode_next(number: tf.Tensor, rest: Any) -> Any:
        position, (_, record) = rest
        return number, position, decode(position, record)

    def with_place(number: tf.Tensor, position: tf.Tensor, example: Any) -> Any:
        return ((source_index, position, number), *example)

    calls = reading.num_parallel_calls
    if reading.order.skip_corrupt:
        seed = reading.seed_of(source)
        tester = corrupt_records.RecordTester(reading.task, reading.mode, source, seed)
        report = corrupt_records.SkippedLog(tester)
        examples = corrupt_records.skip_invalid(stream, decode, report, calls)
        return examples.map(unconverted(with_place))
    return stream.map(
        unconverted(lambda *record: with_place(*decode_next(*record))), calls, deterministic=True
    )


def _drops_remainder(task: Task, reader: input_reader_pb2.InputReader, training: bool) -> bool:
    if training or not reader.HasField('drop_remainder'):
        return training and reader.drop_remainder
    if reader.drop_remainder and task.batches_by_size():
        log.warning(
            'drop_remainder: true has no effect in an evaluation with batches by size of image: '
            'it would leave out all images of a rare size'
        )
        return False
    return reader.drop_remainder


def _num_parallel_calls(reader: input_reader_pb2.InputReader, batch_size: int) -> int:
    # What the cores do not get to would take memory and bring nothing.
    most = record_streams.parallel_calls()
    if not reader.HasField('num_parallel_batches'):
        return most
    return max(1, min(reader.num_parallel_batches * batch_size, most))


def _check_shard(source: Source, count: int) -> None:
    """Refuse shares of the records that would be empty, and read for ever."""
    if len(source.files) >= count:
        return
    num_records = count_records(source.files)
    if num_records < count:
        raise errors.DataError(
            f'{source.files[0].path}: {num_records} records for {count} workers; expected at '
            'least one for each.'
        )


def _share_counts(source: Source, count: int) -> Source:
    """Return a source as one of several processes reads it that share each batch."""
    if source.per_batch is None:
        return source
    if source.per_batch % count:
        raise errors.ConfigError(
            f'examples_per_batch has a count of {source.per_batch}, which {count} workers that '
            'share each batch cannot take equal parts of; expected multiples of '
            f'{count}.'
        )
    return dataclasses.replace(source, per_batch=source.per_batch // count)
