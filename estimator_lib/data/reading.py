"""The plan of a reading, made of the fields of an input reader, and its dataset of batches."""

from __future__ import annotations

import dataclasses
import logging
import math
import zlib
from typing import Any, Callable, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors, tf_estimator
from estimator_lib.data import (
    corrupt_records,
    mixing,
    reader_state,
    record_streams,
    repeat_factors,
)
from estimator_lib.data.caches.example_cache import CachePlan, ExampleCache, plan_cache
from estimator_lib.data.record_sources import Source, create_sources
from estimator_lib.data.record_streams import Order, unconverted
from estimator_lib.data.records import count_records
from estimator_lib.data.sequences import Sequences
from estimator_lib.task import IMAGE, Example, Features, Labels, Mixing, Task
from estimator_lib.task_interfaces import training_step
from protos import input_reader_pb2

ModeKeys = tf_estimator.ModeKeys
log = logging.getLogger('estimator_lib')

_SCOPE = 'records_of_'

# Images of one size are collected from this many batches of records.
_BATCHES_BY_SIZE = 8
_SIZE_SPAN = 2**32  # Two sides in one int64.


@dataclasses.dataclass(frozen=True)
class Reading:
    """Plan of a reading: the files, their order, and the batches.

    Attributes:
        task: decodes, augments and prepares.
        mode: a `tf_estimator.ModeKeys`.
        batch_size: number of examples in a batch, or in one of its parts.
        sources: the sources that are read.
        num_sources: number of all sources, with those of weight or count 0.
        order: the order of the records.
        num_parallel_calls: number of examples decoded at a time.
        num_prefetch_batches: number of batches prefetched; negative: chosen by TensorFlow.
        drop_remainder: whether to drop a last batch that is not full.
        max_examples: limit of the number of examples; None for no limit.
        batch_parts: number of parts that a batch is divided into.
        cache: cache settings of decoded examples; None for no cache.
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
        """True if each batch has images of one size only."""
        return self.mode != ModeKeys.TRAIN and self.task.batches_by_size()

    @property
    def scope(self) -> str:
        """Name scope of the iterator; it identifies this input in error messages."""
        paths = sorted({file.path for source in self.sources for file in source.files})
        return f'{_SCOPE}{zlib.crc32(repr(paths).encode()):08x}'

    def caused(self, error: tf.errors.OpError) -> bool:
        """Return whether this reading (or, at worst, some reading) caused a session's error."""
        if error.op is not None and 'Iterator' not in error.op.type:
            return False
        text = error.op.name if error.op is not None else error.message
        if _SCOPE in text:  # a strategy makes its own iterators, without the scope
            return f'{self.scope}/' in text
        return 'Iterator' in text

    @property
    def fingerprints(self) -> np.ndarray:
        """Fingerprints of the files of each source, int64 [num_sources]; 0 if it is unused."""
        prints = np.zeros([self.num_sources], np.int64)
        for source in self.sources:
            prints[source.index] = source.fingerprint
        return prints

    @property
    def mixings(self) -> Sequence[Mixing]:
        """The augmentations that combine examples; none outside of training."""
        return self.task.mixings() if self.mode == ModeKeys.TRAIN else ()

    @property
    def num_ahead(self) -> int:
        """Number of examples behind a batch that are part of it, as partners of its examples."""
        return len(self.mixings) * mixing.POOL

    def training_step(
        self, source: Source, start: tf.Tensor, number: tf.Tensor
    ) -> Optional[tf.Tensor]:
        """Return the training step that an example of a source is for; None outside of training.

        It is int64, from 0. Where several sources are mixed at random it is that of the mean. In a
        batch of 8 that two processes share, each reads 4: its example 4 is for step 1.

        Args:
            source: of the example.
            start: int64 [num_sources + 1, 3]: start of the streams.
            number: int64: number of the example in the stream of the source, from the start.
        """
        if self.mode != ModeKeys.TRAIN:
            return None
        parts = [each.per_batch or each.weight for each in self.sources]
        if len(parts) > 1:
            share = (source.per_batch or source.weight) / sum(parts)
            number = tf.cast(tf.cast(number, tf.float64) / share, tf.int64)
        # Only the examples of this process are counted.
        of_all = (start[-1, 0] + number) * self.order.shard[1]
        return of_all // (self.batch_size * self.batch_parts)

    def source_order(self, source: Source) -> Order:
        """Return the order of one source, which has its share of the readers."""
        num_readers = math.ceil(self.order.num_readers * source.weight)
        return dataclasses.replace(self.order, num_readers=num_readers)

    def source_seed(self, source: Source) -> int:
        """Return the seed that, with a record's position, seeds its augmentation."""
        return record_streams.stream_seed(self.order, source)

    def sharded(self, shard: Tuple[int, int]) -> Reading:
        """Return the plan of one of several processes that share the records.

        Args:
            shard: (index, count) of this process.

        Raises:
            errors.ConfigError: the processes cannot divide `examples_per_batch` equally.
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
    repeat_factor_threshold: float = 0.0,
) -> Reading:
    """Derive the plan of a reading from the fields of a reader, for a mode.

    Args:
        task: decodes, augments and prepares.
        reader: files, order, sources and policy.
        mode: TRAIN shuffles, augments and repeats as the reader says. The other modes read all
            files once, in order (shuffled only where `shuffle` is set), without augmentation.
        batch_size: number of examples in a batch.
        seed: decides the order, the mixture and the augmentation.
        num_epochs: replaces the reader's value in training; 0: forever.
        sample_1_of_n: replaces the reader's value.
        max_examples: limit of the number of examples; not for training.
        batch_parts: number of equal parts that a batch is divided into.
        share_batches: True if the processes divide the records of each batch among them. False if
            they divide the files (or, where there are too few, the records of each file), and each
            builds its own batches.
        repeat_factor_threshold: threshold of `repeat_factors`; 0: records come once in an epoch.

    Raises:
        errors.ConfigError: fields of the reader contradict each other.
        errors.DataError: no files, or no records.
    """
    if batch_size % batch_parts:
        raise ValueError(f'A batch of {batch_size} has no {batch_parts} equal parts.')
    training = mode == ModeKeys.TRAIN
    if training and max_examples is not None:
        raise ValueError(
            f'max_examples is {max_examples} in training, which ends by num_epochs or steps; '
            'expected None.'
        )
    if not training and reader.num_epochs > 1:
        log.warning('num_epochs: %d: an evaluation reads its examples once', reader.num_epochs)
    sources, num_sources = _create_sources(task, reader, mode, batch_size)
    if repeat_factor_threshold:
        sources = repeat_factors.add_factors(task, sources, repeat_factor_threshold)
    return Reading(
        task=task,
        mode=mode,
        batch_size=batch_size // batch_parts,
        sources=sources,
        num_sources=num_sources,
        order=_plan_order(reader, training, seed, num_epochs, sample_1_of_n, share_batches),
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
    """Build the dataset of batches from a position on.

    Args:
        reading: the plan.
        start: int64 [num_sources + 1, 3]: a position as `reader_state` describes it.
        watch: called with the start of each batch, int64 [num_sources].
        cache: the cache of decoded examples.

    Returns:
        Elements (features, labels); the features have `READER`, see `reader_state.add_state`.
    """
    start = tf.convert_to_tensor(start, tf.int64)
    if reading.mode == ModeKeys.TRAIN:
        num_dividing = 1 if reading.order.shares_batches else reading.order.shard[1]
        start = reader_state.valid_start(start, reading.fingerprints, num_dividing)
    if reading.groups_sizes:
        (source,) = reading.sources  # an evaluation reads all of its files as one source
        dataset = _create_batches_by_size(reading, source, start, cache)
    else:
        examples = [_create_examples(reading, source, start, cache) for source in reading.sources]
        dataset = record_streams.mix(examples, reading.sources, reading.order.seed, start[-1, 0])
        batch = dataset.padded_batch if reading.task.pads_batches() else dataset.batch
        dataset = batch(reading.batch_size, drop_remainder=reading.drop_remainder)
    dataset = reader_state.add_state(dataset, reading.fingerprints, start, watch)
    if reading.num_prefetch_batches:
        prefetched = reading.num_prefetch_batches
        dataset = dataset.prefetch(tf.data.AUTOTUNE if prefetched < 0 else prefetched)
    return record_streams.steady(dataset)


def take_turns(datasets: Sequence[tf.data.Dataset], count: int) -> tf.data.Dataset:
    """Combine the batches of several datasets, which give so many at each turn.

    Args:
        datasets: results of `create_batches`.
        count: number of consecutive batches of a dataset.
    """
    turns = tf.data.Dataset.from_tensor_slices(np.arange(len(datasets)).repeat(count)).repeat()
    joined = tf.data.Dataset.choose_from_datasets(datasets, turns, stop_on_empty_dataset=True)
    return record_streams.steady(joined)


def create_sequences(
    task: Task, reader: input_reader_pb2.InputReader, frame: Optional[int] = None
) -> Optional[Sequences]:
    """Create the splitting of a reader's records into frames; None if a record is one example.

    Args:
        task: splits a sequence by its keys.
        reader: has the `input_type`.
        frame: the frame to take of each sequence, as in `Sequences`.
    """
    if reader.input_type != input_reader_pb2.TF_SEQUENCE_EXAMPLE:
        return None
    return Sequences(task.split_sequence, frame)


def _create_sources(
    task: Task, reader: input_reader_pb2.InputReader, mode: str, batch_size: int
) -> Tuple[Tuple[Source, ...], int]:
    """Create the sources of a reader with their sequences; return them and the number of paths."""
    sources, num_sources = create_sources(reader, mode, batch_size)
    # The published system takes one frame of a sequence at a time in training, else all.
    frame = reader.frame_index if mode == ModeKeys.TRAIN else None
    sequences = create_sequences(task, reader, frame)
    return tuple(dataclasses.replace(each, sequences=sequences) for each in sources), num_sources


def _plan_order(
    reader: input_reader_pb2.InputReader,
    training: bool,
    seed: int,
    num_epochs: Optional[int],
    sample_1_of_n: Optional[int],
    share_batches: bool,
) -> Order:
    """Derive the order of the records, see `plan_reading`."""
    shuffle = reader.shuffle and (training or reader.HasField('shuffle'))
    return Order(
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


def _create_examples(
    reading: Reading, source: Source, start: tf.Tensor, cache: Optional[ExampleCache]
) -> tf.data.Dataset:
    """Build the elements of `_decode` of one source."""
    return _decode(reading, source, _create_stream(reading, source, start), cache, start)


def _create_batches_by_size(
    reading: Reading, source: Source, start: tf.Tensor, cache: Optional[ExampleCache]
) -> tf.data.Dataset:
    """Build batches of the elements of `_create_examples`, each of images of one size.

    Images of one size are collected from a few consecutive batches of records, so that memory is
    bounded however many sizes there are. Images that all have the same size come in the order of
    their records, in full batches.
    """

    def group(*window: Any) -> tf.data.Dataset:
        examples = _decode(reading, source, tf.data.Dataset.zip(window), cache, start)
        return examples.group_by_window(
            unconverted(_size_key),
            unconverted(lambda _, examples: examples.batch(reading.batch_size)),
            reading.batch_size,
        )

    stream = _create_stream(reading, source, start)
    return stream.window(_BATCHES_BY_SIZE * reading.batch_size).flat_map(unconverted(group))


def _size_key(place: Any, features: Features, labels: Labels) -> tf.Tensor:
    """Return the height and width of an example's image as one number: int64 scalar."""
    del place, labels
    height, width = tf.unstack(tf.shape(features[IMAGE], tf.int64)[:2])
    return height * _SIZE_SPAN + width


def _create_stream(reading: Reading, source: Source, start: tf.Tensor) -> tf.data.Dataset:
    """Build the stream of the records of one source."""
    order = reading.source_order(source)
    if reading.mixings:
        # The last examples have partners in the next epoch, and `_mix` ends the stream.
        order = dataclasses.replace(order, num_epochs=0)
    stream = record_streams.create_stream(source, order, start[source.index, :2])
    return stream if reading.max_examples is None else stream.take(reading.max_examples)


def _decode(
    reading: Reading,
    source: Source,
    stream: tf.data.Dataset,
    cache: Optional[ExampleCache],
    start: tf.Tensor,
) -> tf.data.Dataset:
    """Decode a stream, which begins at a start, into elements (place, features, labels).

    The place is (source index, position, number, record id), see `record_streams.create_stream`.
    """
    stream_seed = tf.constant(reading.source_seed(source), tf.int64)
    source_index = tf.constant(source.index, tf.int64)
    mixings = reading.mixings

    def find_step(number: tf.Tensor) -> Optional[tf.Tensor]:
        return reading.training_step(source, start, number)

    def decode(number: tf.Tensor, position: tf.Tensor, record: tf.Tensor) -> Any:
        seed = tf.stack([stream_seed, position])
        example = (cache or reading.task).decode(record)
        with training_step.provide(find_step(number)):
            if mixings:
                return mixings[0].vary(example, seed)
            return corrupt_records.vary(reading.task, reading.mode, example, seed)

    def decode_next(number: tf.Tensor, rest: Any) -> Any:
        position, (record_id, record) = rest
        return number, position, record_id, decode(number, position, record)

    def with_place(
        number: tf.Tensor, position: tf.Tensor, record_id: tf.Tensor, example: Any
    ) -> Any:
        return ((source_index, position, number, record_id), *example)

    calls = reading.num_parallel_calls
    if reading.order.skip_corrupt:
        seed = reading.source_seed(source)
        tester = corrupt_records.RecordTester(reading.task, reading.mode, source, seed)
        report = corrupt_records.SkippedLog(tester)
        examples = corrupt_records.skip_invalid(stream, decode, report, calls)
    elif mixings:
        examples = stream.map(unconverted(decode_next), calls, deterministic=True)
    else:
        return stream.map(
            unconverted(lambda *record: with_place(*decode_next(*record))),
            calls,
            deterministic=True,
        )
    if mixings:
        examples = _mix(reading, source, examples, find_step)
    return examples.map(unconverted(with_place))


def _mix(
    reading: Reading,
    source: Source,
    examples: tf.data.Dataset,
    find_step: Callable[[tf.Tensor], Optional[tf.Tensor]],
) -> tf.data.Dataset:
    """Combine the examples of an endless stream; end after the last epoch."""
    end = reading.order.num_epochs * record_streams.INDEX_SPAN

    def finish(example: Example, seed: tf.Tensor) -> Any:
        return reading.task.prepare(reading.task.augment(example, seed), reading.mode)

    mixed = mixing.mix_examples(
        examples,
        reading.mixings,
        reading.source_seed(source),
        finish,
        reading.num_parallel_calls,
        find_step,
    )
    return (
        mixed.take_while(unconverted(lambda _, position, *rest: position < end)) if end else mixed
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
    # More calls than the cores can run would only take memory.
    most = record_streams.parallel_calls()
    if not reader.HasField('num_parallel_batches'):
        return most
    return max(1, min(reader.num_parallel_batches * batch_size, most))


def _check_shard(source: Source, count: int) -> None:
    """Refuse an empty share of the records: its reader would never return."""
    if len(source.files) >= count:
        return
    num_records = count_records(source.files)
    if num_records < count:
        raise errors.DataError(
            f'{source.files[0].path}: {num_records} records for {count} workers; expected at '
            'least one for each.'
        )


def _share_counts(source: Source, count: int) -> Source:
    """Return the share of a source for one of several processes that divide each batch."""
    if source.per_batch is None:
        return source
    if source.per_batch % count:
        raise errors.ConfigError(
            f'examples_per_batch has a count of {source.per_batch}, which {count} workers that '
            'share each batch cannot take equal parts of; expected multiples of '
            f'{count}.'
        )
    return dataclasses.replace(source, per_batch=source.per_batch // count)
