"""Input functions for any task: from files to batches, reproducible and resumable.

The seed alone decides the order of the examples and their augmentation (`record_streams`). The
position is part of the checkpoint (`reader_state`). Errors name the records that cannot be used
(`corrupt_records`, `record_inspection`).
"""

from __future__ import annotations

import collections
import dataclasses
import threading
import zlib
from typing import Any, Callable, Deque, List, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors, tf_estimator
from estimator_lib.data import (
    corrupt_records,
    exclusion,
    reader_state,
    record_inspection,
    record_streams,
)
from estimator_lib.data.caches import example_cache
from estimator_lib.data.reader_state import (
    READER,
    READER_SCOPE,
    ReaderState,
    advance_position,
    pop_reader_state,
)
from estimator_lib.data.reading import Reading, create_batches, plan_reading, take_turns
from estimator_lib.data.record_inspection import (
    check_first_examples,
    examine_first,
    inspect_records,
)
from estimator_lib.data.record_sources import input_files, named_readers
from estimator_lib.data.records import count_records, known_count
from estimator_lib.task import Task
from protos import input_reader_pb2

__all__ = [
    'READER_SCOPE',
    'ReaderState',
    'RecordInput',
    'advance_position',
    'check_first_examples',
    'count_records',
    'create_input_fn',
    'examine_first',
    'input_files',
    'inspect_records',
    'known_count',
    'named_readers',
    'pop_reader_state',
]

tf1 = tf.compat.v1
ModeKeys = tf_estimator.ModeKeys


def create_input_fn(
    task: Task,
    reader: input_reader_pb2.InputReader,
    mode: str,
    batch_size: int,
    seed: int,
    *,
    shard: Optional[Tuple[int, int]] = None,
    **options: Any,
) -> RecordInput:
    """Create the `input_fn` of a reader; the options are those of `reading.plan_reading`."""
    return RecordInput(plan_reading(task, reader, mode, batch_size, seed, **options), shard)


class RecordInput:
    """An `input_fn` that reads records.

    Without a distribution strategy a call returns tensors: (features, labels) of the next batch.
    The features have `READER`, the values of `ReaderState`. Under a strategy a call returns the
    dataset, which starts at the position of the latest checkpoint.

    Args:
        reading: the plan of the reading.
        shard: (index, count) of this process among those that share the records. None: in training,
            the chief and the workers of the Estimator's cluster share them.
        workers: see `as_workers`.
    """

    def __init__(
        self,
        reading: Reading,
        shard: Optional[Tuple[int, int]] = None,
        workers: Sequence[str] = (),
    ):
        self._reading = self._last_reading = reading
        self._shard = shard
        self._workers = tuple(workers)
        # After an example that fails, the dataset continues as far as it prefetches.
        most = max(reading.num_prefetch_batches, 8) + 2
        self._recent: Deque[np.ndarray] = collections.deque(maxlen=most)
        # Threads of tf.data append to `_recent` while `failure` reads it.
        self._lock = threading.Lock()
        self._cache: Optional[example_cache.ExampleCache] = None

    def __call__(
        self,
        input_context: Optional[tf.distribute.InputContext] = None,
        config: Optional[tf_estimator.RunConfig] = None,
    ) -> Any:
        """Build the input in the current graph.

        Args:
            input_context: the input pipeline of a strategy.
            config: the Estimator's config, with its cluster and `model_dir`.
        """
        names, own = self._readers(input_context, config)
        self._last_reading = reading = self._reading.sharded((own, len(names)))
        self._recent.clear()
        self._open_cache(reading, config)
        if not tf.distribute.has_strategy():
            return self._tensors(reading, names, own)
        if reading.mode == ModeKeys.TRAIN:
            reader_state.remember_names(names, own)
        return self._resumed(reading, names, own, config)

    def open(self, config: tf_estimator.RunConfig) -> Callable[[], Tuple[Any, Any]]:
        """Open the records in eager TensorFlow, at the position of the latest checkpoint.

        Args:
            config: the run's config, with its `model_dir`.

        Returns:
            A function to call once in the graph of a training step. It creates the variable of the
            position, and returns the next batch as a call of this object does; under a strategy,
            the batch of each replica.
        """
        names, own = self._readers(None, config)
        self._last_reading = reading = self._reading.sharded((own, len(names)))
        self._recent.clear()
        self._open_cache(reading, config)

        def resumed(input_context: Any = None) -> tf.data.Dataset:
            del input_context  # One process reads for all its replicas.
            dataset = self._resumed(reading, names, own, config)
            if self.ends:
                return dataset
            # Else the workers would ask each other at each step whether one has reached its end.
            return dataset.apply(
                tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY)
            )

        strategy = tf.distribute.get_strategy()
        shared = tf.distribute.has_strategy()
        iterator = iter(
            strategy.distribute_datasets_from_function(resumed) if shared else resumed()
        )

        def next_batch() -> Tuple[Any, Any]:
            if shared:
                reader_state.remember_names(names, own)
                return iterator.get_next()
            with tf1.name_scope(f'{reading.scope}/'):
                reader_state.create_position_variables(names, own, reading.num_sources)
                (features, labels), waited = _timed(iterator.get_next)
                features[READER]['wait_seconds'] = waited
                return features, labels

        return next_batch

    @property
    def ends(self) -> bool:
        """True if the examples end after some epochs."""
        return bool(self._reading.order.num_epochs)

    def locate(self, record_id: int, source_index: Optional[int] = None) -> Tuple[str, int]:
        """Return the path of a record's file, and the index of the record in the file, from 0.

        The index is -1 where the file is the record, as an image.

        Args:
            record_id: one of `ReaderState.records`.
            source_index: its element of `ReaderState.sources`; None for an input with one source,
                as in evaluation.
        """
        sources = {source.index: source for source in self._last_reading.sources}
        if source_index is None:
            (source_index,) = sources
        file, index = record_streams.locate(sources[source_index], record_id)
        return file.locate(index)

    def without(self, names: Sequence[str]) -> RecordInput:
        """Return an input that leaves out some records.

        Args:
            names: source ids, or `file:index` of records; see `exclusion.leave_out`.

        Raises:
            errors.DataError: there is no such record, or none is left.
        """
        reading = self._reading
        sources = exclusion.leave_out(reading.task, reading.sources, names)
        return RecordInput(
            dataclasses.replace(reading, sources=sources), self._shard, self._workers
        )

    def as_workers(self, names: Sequence[str]) -> RecordInput:
        """Return an input for one process that reads what several workers share out in training.

        Each worker has its own reader. A batch has one part for each replica; those of the first
        worker's replicas come first.

        Args:
            names: names of the workers' readers, as in `reader_state.variable_name`.
        """
        order = dataclasses.replace(self._reading.order, shares_batches=True)
        return RecordInput(dataclasses.replace(self._reading, order=order), None, names)

    def _resumed(
        self,
        reading: Reading,
        names: Sequence[str],
        own: int,
        config: Optional[tf_estimator.RunConfig],
    ) -> tf.data.Dataset:
        """Return the batches from this reader's position in the latest checkpoint on."""
        if reading.mode != ModeKeys.TRAIN:
            start = np.zeros([reading.num_sources + 1, reader_state.COLUMNS], np.int64)
            return create_batches(reading, start, self._watch, self._cache)
        model_dir = config.model_dir if config is not None else None

        def find_start(index: int) -> np.ndarray:
            return reader_state.read_position(model_dir, names, index, reading.num_sources)

        return self._batches(reading, find_start, own)

    def _batches(
        self, reading: Reading, find_start: Callable[[int], Any], own: int
    ) -> tf.data.Dataset:
        """Return the batches of training; `find_start` gives the start of a reader by its index."""
        if not self._workers:
            return create_batches(reading, find_start(own), self._watch, self._cache)
        count = len(self._workers)
        batches = [
            create_batches(
                self._reading.sharded((index, count)), find_start(index), self._watch, self._cache
            )
            for index in range(count)
        ]
        return take_turns(batches, reading.batch_parts // count)

    def failure(self, error: Exception) -> Optional[errors.UserError]:
        """Explain an error of a session that a record or a lack of memory has caused.

        Args:
            error: one of `corrupt_records.SESSION_ERRORS`, as `session.run` raised it, or a
                `MemoryError`.

        Returns:
            An error that names the file and the record, or the setting to lower so that the memory
            suffices; None when the error has another cause.
        """
        reading = self._last_reading
        section = 'train_config' if reading.mode == ModeKeys.TRAIN else 'eval_config'
        cause = f'{section}.batch_size ({reading.batch_size} here) or the size of the images'
        short = errors.out_of_memory(error, cause)
        if short is not None:
            return short
        with self._lock:
            recent = list(self._recent)
        error = corrupt_records.as_op_error(error)
        problem = record_inspection.find_failure(reading, error, recent)
        return None if problem is None else corrupt_records.data_error(problem)

    def _tensors(self, reading: Reading, names: Sequence[str], own: int) -> Tuple[Any, Any]:
        # The slash takes the scope by its exact name. Without it a second call would get a suffix,
        # and `Reading.caused` would not find the scope in the error of a session.
        with tf1.name_scope(f'{reading.scope}/'):
            if reading.mode == ModeKeys.TRAIN:
                starts = reader_state.create_position_variables(names, own, reading.num_sources)
                dataset = self._batches(reading, starts.__getitem__, own)
            else:
                start = tf.zeros([reading.num_sources + 1, reader_state.COLUMNS], tf.int64)
                dataset = create_batches(reading, start, self._watch, self._cache)
            iterator = tf1.data.make_initializable_iterator(dataset)
            # Initialized with the tables: after variables are restored, in each new session.
            tf1.add_to_collection(tf1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
            (features, labels), waited = _timed(iterator.get_next)
            features[READER]['wait_seconds'] = waited
            return features, labels

    def _open_cache(self, reading: Reading, config: Optional[tf_estimator.RunConfig]) -> None:
        """Open the cache of decoded examples, which all calls share."""
        plan = reading.cache
        if plan is None or self._cache is not None:
            return
        folder = ''
        if plan.in_file:
            folder = plan.file_folder(config.model_dir if config is not None else None)

        def open_store(graph_def: tf1.GraphDef) -> Any:
            if not plan.in_file:
                return example_cache.MemoryStore(plan.max_bytes)
            digest = example_cache.digest_of_decoding(graph_def)
            index, count = reading.order.shard
            # A file for each shard, because one process writes a file and others can only read it.
            name = f'{reading.scope}-{digest[:8]}-{index}-of-{count}'
            records = zlib.crc32(reading.fingerprints.tobytes())
            return example_cache.open_file(plan, folder, name, f'{digest}-{records:08x}')

        self._cache = example_cache.ExampleCache(
            reading.task.decode, open_store, lambda: _count_examples(reading)
        )

    def _readers(
        self,
        context: Optional[tf.distribute.InputContext],
        config: Optional[tf_estimator.RunConfig],
    ) -> Tuple[List[str], int]:
        """Return the names of the processes that share the records, and this one's index."""
        if self._workers:
            return list(self._workers), 0
        names, own = ['chief_0'], 0
        if self._reading.mode == ModeKeys.TRAIN and config is not None:
            names, own = _trainers(config)
        count = len(names)
        if self._shard is not None:
            own, count = self._shard
        elif context is not None and context.num_input_pipelines > 1:
            own, count = context.input_pipeline_id, context.num_input_pipelines
        # Names of tasks do not fit shards that a program, or another strategy, has made.
        if count != len(names):
            names = [f'worker_{index}' for index in range(count)]
        return names, own

    def _watch(self, positions: np.ndarray) -> None:
        with self._lock:
            self._recent.append(positions)


def _trainers(config: tf_estimator.RunConfig) -> Tuple[List[str], int]:
    """Return the names of a cluster's training processes, and the index of this one."""
    cluster = config.cluster_spec.as_dict()
    names = [
        f'{role}_{index}'
        # The order in which a strategy numbers its workers (`id_in_cluster` of
        # multi_worker_util.py), as `reader_state.advance_position` assumes.
        for role in ('chief', 'master', 'worker')
        for index in range(len(cluster.get(role, ())))
    ]
    own = f'{config.task_type}_{config.task_id}'
    # An evaluator, and a machine alone, read all records.
    return (names, names.index(own)) if own in names else (['chief_0'], 0)


def _count_examples(reading: Reading) -> Optional[int]:
    """Count the examples of the files; return None where that is not possible."""
    if any(source.sequences for source in reading.sources):
        return None
    try:
        return count_records({file for source in reading.sources for file in source.files})
    except errors.DataError:
        return None


def _timed(get_next: Callable[[], Any]) -> Tuple[Any, tf.Tensor]:
    """Return the next batch, and the seconds that the step waits for it: float32 scalar."""
    before = tf.timestamp()
    with tf.control_dependencies([before]):
        batch = get_next()
    with tf.control_dependencies(tf.nest.flatten(batch)):
        after = tf.timestamp()
    # One thread takes ops in any order that their inputs allow. Without this dependency it computes
    # the whole step before `after`, which then counts as waiting.
    with tf.control_dependencies([after]):
        batch = tf.nest.map_structure(tf.identity, batch, expand_composites=True)
    # The difference is float64: in float32 seconds since 1970 are 128 apart.
    return batch, tf.cast(after - before, tf.float32)
