"""Tiny TFRecords, a task that reads them, and ways to read: for the tests of inputs."""

from __future__ import annotations

import collections
import gzip
from typing import Dict, Iterable, List, Optional

import numpy as np
import tensorflow as tf

from estimator_lib import tf_estimator
from estimator_lib.data import inputs, record_streams
from estimator_lib.task import IMAGE, SOURCE_ID, Task
from protos import input_reader_pb2

tf1 = tf.compat.v1
TRAIN, EVAL = tf_estimator.ModeKeys.TRAIN, tf_estimator.ModeKeys.EVAL

_KEYS = {
    'id': tf.io.FixedLenFeature([], tf.int64),
    'image': tf.io.FixedLenFeature([], tf.string, ''),
}
BAD_LABEL = 999


class IdTask(Task):
    """Examples that are a number; the number `BAD_LABEL` is out of range, and image 'x' is none."""

    name = 'ids'

    def decode(self, serialized):
        parsed = tf.io.parse_single_example(serialized, _KEYS)
        label = parsed['id']
        in_range = tf.Assert(label < BAD_LABEL, ['id is', label, 'expected less than', BAD_LABEL])
        picture = tf.cond(
            tf.equal(parsed['image'], ''),
            lambda: tf.zeros([], tf.uint8),
            lambda: tf.io.decode_png(parsed['image'])[0, 0, 0],
        )
        with tf.control_dependencies([in_range, picture]):
            return {'id': tf.identity(label), SOURCE_ID: tf.strings.as_string(label)}

    def augment(self, example, seed):
        noise = tf.random.stateless_uniform([], seed, minval=0, maxval=10**9, dtype=tf.int64)
        return {**example, 'noise': noise}

    def prepare(self, example, mode):
        noise = example.get('noise', tf.zeros([], tf.int64))
        return {IMAGE: example['id'], SOURCE_ID: example[SOURCE_ID], 'noise': noise}, {}


IdTask.__abstractmethods__ = frozenset()  # the engine's input side asks for no more


def example(number: int, image: bytes = b'') -> bytes:
    """A record."""
    message = tf.train.Example()
    message.features.feature['id'].int64_list.value.append(number)
    if image:
        message.features.feature['image'].bytes_list.value.append(image)
    return message.SerializeToString()


def write(path, serialized: Iterable[bytes]) -> str:
    """A TFRecord file; a GZIP one when its name says so."""
    options = tf.io.TFRecordOptions(compression_type='GZIP' if str(path).endswith('.gz') else '')
    with tf.io.TFRecordWriter(str(path), options) as writer:
        for record in serialized:
            writer.write(record)
    return str(path)


def write_ids(path, numbers: Iterable[int]) -> str:
    """A TFRecord file of examples with these numbers."""
    return write(path, map(example, numbers))


def write_shards(folder, sizes: Iterable[int], prefix: str = 'part', first: int = 0) -> str:
    """Files of consecutive numbers; the pattern that matches them."""
    for index, size in enumerate(sizes):
        write_ids(folder / f'{prefix}-{index:02d}.tfrecord', range(first, first + size))
        first += size
    return str(folder / f'{prefix}-*.tfrecord')


def gzipped(path: str) -> str:
    """The same file compressed, under the same name."""
    with open(path, 'rb') as file:
        content = file.read()
    with gzip.open(path, 'wb') as file:
        file.write(content)
    return path


def change_byte(path: str, offset: int) -> None:
    """Flip the bits of one byte."""
    with open(path, 'r+b') as file:
        file.seek(offset)
        value = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([value ^ 0xFF]))


def reader_of(*patterns: str, **fields) -> input_reader_pb2.InputReader:
    """An input reader of these paths."""
    fields.setdefault('shuffle_buffer_size', 7)
    fields.setdefault('num_readers', 3)
    fields.setdefault('read_block_length', 2)
    reader = input_reader_pb2.InputReader(**fields)
    reader.tf_record_input_reader.input_path.extend(patterns)
    return reader


class Read:
    """What was read.

    Attributes:
        ids: of each batch, a list.
        noise: what augmentation drew for each example.
        positions: behind each batch.
        skipped: corrupt records, behind each batch.
        ended: whether the input ended.
    """

    def __init__(self):
        self.ids: List[List[int]] = []
        self.noise: List[List[int]] = []
        self.positions: List[np.ndarray] = []
        self.skipped: List[int] = []
        self.ended = False

    @property
    def all_ids(self) -> List[int]:
        return [number for batch in self.ids for number in batch]


class Input:
    """A graph with an input, that can be read several times."""

    def __init__(
        self,
        reader,
        mode: str = TRAIN,
        batch_size: int = 4,
        seed: int = 1,
        task=None,
        workers=(),
        **options,
    ):
        task = task or IdTask()
        self.input_fn = inputs.create_input_fn(task, reader, mode, batch_size, seed, **options)
        if workers:
            self.input_fn = self.input_fn.as_workers(workers)
        with tf.Graph().as_default() as graph:
            features, _ = self.input_fn()
            features, state = inputs.pop_reader_state(features)
            self._fetches = [features[IMAGE], features['noise'], state.position, state.skipped]
            self._start = tf1.placeholder(tf.int64)
            variables = tf1.global_variables()
            self._assign = [variable.assign(self._start) for variable in variables]
            self._initialize = [tf1.global_variables_initializer(), tf1.tables_initializer()]
        self._session = record_streams.open_session(graph)

    def close(self) -> None:
        """End the reading ahead too."""
        self._session.close()

    def read(self, batches: Optional[int] = None, start: Optional[np.ndarray] = None) -> Read:
        """So many batches, or all, from a position."""
        self._session.run(self._initialize[0])
        if start is not None:
            self._session.run(self._assign, {self._start: start})
        self._session.run(self._initialize[1])
        found = Read()
        while batches is None or len(found.ids) < batches:
            try:
                ids, noise, position, skipped = self._session.run(self._fetches)
            except tf.errors.OutOfRangeError:
                found.ended = True
                break
            found.ids.append(list(ids))
            found.noise.append(list(noise))
            found.positions.append(position)
            found.skipped.append(int(skipped))
        return found


def run(reader, mode: str = TRAIN, batches: Optional[int] = None, start=None, **options) -> Read:
    """Read so many batches, or all; options are those of `Input`."""
    return Input(reader, mode, **options).read(batches, start)


class Stream:
    """A graph with a stream of records, not decoded by a task, that can be read several times."""

    def __init__(self, source, order):
        with tf.Graph().as_default() as graph:
            self._start = tf1.placeholder_with_default(np.zeros([2], np.int64), [2])
            self._count = tf1.placeholder_with_default(np.int64(-1), [])
            stream = record_streams.create_stream(source, order, self._start).take(self._count)
            iterator = tf1.data.make_initializable_iterator(record_streams.steady(stream))
            self._initialize = iterator.initializer
            _, (self._position, (_, self._record)) = iterator.get_next()
        self._session = record_streams.open_session(graph)

    def epochs(self, start=(0, 0), count: int = -1) -> Dict[int, List[int]]:
        """The numbers by epoch, in order."""
        self._session.run(self._initialize, {self._start: start, self._count: count})
        found = collections.defaultdict(list)
        while True:
            try:
                position, serialized = self._session.run((self._position, self._record))
            except tf.errors.OutOfRangeError:
                return found
            message = tf.train.Example.FromString(serialized)
            number = message.features.feature['id'].int64_list.value[0]
            found[position // record_streams.INDEX_SPAN].append(number)

    def ids(self, start=(0, 0), count: int = -1) -> List[int]:
        """The numbers in order."""
        return [number for epoch in self.epochs(start, count).values() for number in epoch]


def raw_ids(source, order) -> List[int]:
    """The numbers of a stream."""
    return Stream(source, order).ids()
