"""Records that cannot be used: left out and counted, or found and named."""

from __future__ import annotations

import logging
import re
from typing import Any, Callable, Iterable, NamedTuple, Optional, Set, Tuple

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.data import record_streams, records
from estimator_lib.data.record_sources import Source
from estimator_lib.data.record_streams import DAMAGED, INDEX_SPAN, unconverted
from estimator_lib.task import Features, Labels, Task

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')

MAX_NAMED = 20  # corrupt records that the log names; the others are only counted


class RecordProblem(NamedTuple):
    """A record that cannot be used.

    Attributes:
        path: of its file.
        index: of the record in the file, from 0.
        problem: what is wrong with it.
    """

    path: str
    index: int
    problem: str

    def __str__(self) -> str:
        return f'{self.path}, record {self.index}: {self.problem}'


def decode(task: Task, mode: str, record: tf.Tensor, seed: tf.Tensor) -> Tuple[Features, Labels]:
    """One record as features and labels; varied when it is for training.

    Args:
        task: knows how.
        mode: a `tf.estimator.ModeKeys`.
        record: string scalar.
        seed: int64 [2], of the augmentation.
    """
    example = task.decode(record)
    if mode == tf.estimator.ModeKeys.TRAIN:
        example = task.augment(example, seed)
    return task.prepare(example, mode)


def attempt(function: Callable[[tf.Tensor], Any], record: tf.Tensor) -> Tuple[tf.Tensor, Any]:
    """Runs a function on a record where a failure must not end the dataset.

    A graph has no exceptions, but a dataset can leave out an element that fails; so the function
    runs in a dataset of its own, followed by zeros. That takes about 0.15 ms.

    Args:
        function: from a string scalar to tensors of static shape.
        record: string scalar.

    Returns:
        bool scalar, whether it worked; and what the function returned, zeros where it failed.
    """

    def succeed(record: tf.Tensor) -> Tuple[tf.Tensor, Any]:
        return tf.constant(True), function(record)

    tried = tf.data.Dataset.from_tensors(record).map(unconverted(succeed))
    zeros = tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), tried.element_spec)
    blank = tf.data.Dataset.from_tensors(zeros)
    return tried.ignore_errors().concatenate(blank).take(1).get_single_element()


def skip_failing(
    stream: tf.data.Dataset,
    function: Callable[[tf.Tensor, tf.Tensor], Any],
    report: Callable[..., bool],
    num_parallel_calls: int,
) -> tf.data.Dataset:
    """Maps a stream of records, without those that fail.

    Args:
        stream: from `record_streams.create_stream`.
        function: from tag and record to tensors of static shape.
        report: called with ordinal, tag, origin and record of each that failed, in order; returns
            False.
        num_parallel_calls: see `tf.data.Dataset.map`.

    Returns:
        Elements (tag, ordinal, what the function returned).
    """

    def try_one(ordinal: tf.Tensor, rest: Any) -> Any:
        tag, (origin, record) = rest
        worked, mapped = attempt(lambda record: function(tag, record), record)
        failed = tf.where(worked, b'', record)  # only what failed is looked at again
        return worked, ordinal, tag, origin, failed, mapped

    def keep(worked: tf.Tensor, *rest: Any) -> tf.Tensor:
        def tell() -> tf.Tensor:
            return tf.ensure_shape(tf.numpy_function(report, rest[:4], tf.bool), [])

        return tf.cond(worked, lambda: tf.constant(True), tell)

    def strip(worked: Any, ordinal: Any, tag: Any, origin: Any, failed: Any, mapped: Any) -> Any:
        del worked, origin, failed
        return tag, ordinal, mapped

    tried = stream.map(unconverted(try_one), num_parallel_calls, deterministic=True)
    return tried.filter(unconverted(keep)).map(unconverted(strip))


class SkippedLog:
    """Names the first corrupt records in the log, each once.

    Args:
        source: that they are from.
        tester: finds out what is wrong with them.
    """

    def __init__(self, source: Source, tester: RecordTester):
        self._source = source
        self._tester = tester
        self._named: Set[int] = set()
        self._last_ordinal = -2  # which no first ordinal follows
        self._run_start = 0  # tag of the first of the failures that followed on one another

    def __call__(self, ordinal: int, tag: int, origin: int, record: bytes) -> bool:
        """Takes note of a record that failed; False.

        Raises:
            ValueError: no record of a whole epoch could be used.
        """
        problem = None
        if origin not in self._named and len(self._named) < MAX_NAMED:
            self._named.add(int(origin))
            problem = self._describe(tag, origin, record)
            log.warning('skipped %s', problem)
            if len(self._named) == MAX_NAMED:
                log.warning('further corrupt records are skipped without a message')
        if ordinal != self._last_ordinal + 1:
            self._run_start = tag
        self._last_ordinal = ordinal
        first_whole_epoch = -(-self._run_start // INDEX_SPAN)
        if tag // INDEX_SPAN > first_whole_epoch:
            raise ValueError('no record of a whole epoch could be used')
        return False

    def _describe(self, tag: int, origin: int, record: bytes) -> RecordProblem:
        path, index = record_streams.locate(self._source, origin)
        if record == DAMAGED:
            file = self._source.files[origin // record_streams.ORIGIN_SPAN]
            return describe_damage(file, index)
        return RecordProblem(path, index, self._tester.failure(record, tag) or 'cannot be decoded')


class RecordTester:
    """Decodes single records, to find out what is wrong with one.

    Args:
        task: knows how.
        mode: a `tf.estimator.ModeKeys`.
        stream_seed: the first half of the seed of augmentation; a record's tag is the other.
    """

    def __init__(self, task: Task, mode: str, stream_seed: int = 0):
        self._task = task
        self._mode = mode
        self._stream_seed = stream_seed
        self._session: Optional[tf1.Session] = None

    def _open(self) -> tf1.Session:
        with tf.Graph().as_default() as graph:
            self._record = tf1.placeholder(tf.string, [])
            self._tag = tf1.placeholder(tf.int64, [])
            # In a function, as it runs in a dataset: a lookup table initialises itself there.
            one = tf.data.Dataset.from_tensors((self._record, self._tag))
            one = one.map(unconverted(self._decode)).get_single_element()
            self._decoded = tf.nest.flatten(one)
        return record_streams.open_session(graph)

    def _decode(self, record: tf.Tensor, tag: tf.Tensor) -> Tuple[Features, Labels]:
        seed = tf.stack([tf.constant(self._stream_seed, tf.int64), tag])
        return decode(self._task, self._mode, record, seed)

    def failure(self, record: bytes, tag: int = 0) -> Optional[str]:
        """Why a record does not decode; None when it does."""
        if self._session is None:
            self._session = self._open()
        try:
            self._session.run(self._decoded, {self._record: record, self._tag: tag})
        except tf.errors.OpError as error:
            return self.complaint(record) or plain_message(error)
        return None

    def complaint(self, record: bytes) -> Optional[str]:
        """What is wrong with the keys and values of a record; None when nothing is."""
        try:
            tf.train.Example.FromString(record)
        except Exception:  # protobuf's DecodeError, of which there is one a runtime
            return 'not a tf.train.Example'
        return self._task.check_example(record)

    def close(self) -> None:
        """Ends its session, if it needed one."""
        if self._session is not None:
            self._session.close()


def plain_message(error: tf.errors.OpError) -> str:
    """What TensorFlow has to say about a record, without graph nodes and stack traces."""
    lines = [line.strip() for line in error.message.split('\n')]
    # The cause comes last, and names its node; what precedes are places.
    causes = [line for line in lines if '[[{{node' in line and not line.startswith('[[')]
    text = causes[0] if causes else _before_node(lines)
    text = re.sub(r'\s*\[\[\{\{node.*', '', text)
    if text.startswith('assertion failed:'):
        text = text[len('assertion failed:') :].replace('[', '').replace(']', '').strip()
    return text[:300].rstrip('.')


def _before_node(lines: Iterable[str]) -> str:
    last = ''
    for line in lines:
        if line.startswith('[[{{node') and last:
            return last
        last = line or last
    return last


def describe_damage(file: records.RecordFile, index: int) -> RecordProblem:
    """What is wrong with a frame that cannot be read."""
    count = 0
    try:
        count = sum(1 for _ in records.walk_frames(file))
    except records.FrameError as error:
        if index >= error.index:
            lost = f'{error.problem}; what may follow in this file cannot be read'
            return RecordProblem(file.path, error.index, lost)
    rest = f'; the {count - index - 1} that follow cannot be read' if file.compression else ''
    return RecordProblem(file.path, index, f"the CRC of the record's bytes is wrong{rest}")


def find_damage(
    files: Iterable[records.RecordFile], error: tf.errors.DataLossError
) -> Optional[RecordProblem]:
    """The record that TensorFlow's reader failed at.

    Its message has no path, but the offset in the file; so of each file only the record there is
    read.
    """
    found = re.search(r'record at (\d+)', error.message)
    offset = int(found[1]) if found else None
    for file in files:
        index = _damaged_index(file, offset)
        if index is not None:
            return describe_damage(file, index)
    return None


def _damaged_index(file: records.RecordFile, offset: Optional[int]) -> Optional[int]:
    frames = []
    try:
        for frame in records.walk_frames(file):
            frames.append(frame)
            # The message has the place of the header, or that of the payload behind it.
            places = (frame.offset, frame.offset + records.HEADER_BYTES)
            at_offset = offset in places and not file.compression
            if at_offset and not records.payload_is_sound(file, frame):
                return frame.index
    except records.FrameError as error:
        return error.index
    if offset is not None and not file.compression:
        return None
    readable = record_streams.count_readable(file)
    return readable if readable < len(frames) else None


def data_error(problem: RecordProblem) -> errors.DataError:
    """The error that a corrupt record is reported by."""
    return errors.DataError(
        f'{problem}. Mend or remove the record, or set corrupt_record_policy: SKIP to leave such '
        'records out.'
    )
