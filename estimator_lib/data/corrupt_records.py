"""Corrupt frames and invalid records: left out and counted, or found and named."""

from __future__ import annotations

import logging
from typing import Any, Callable, Iterator, NamedTuple, Optional, Set, Tuple

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.data import record_streams, records
from estimator_lib.data.record_sources import Source
from estimator_lib.data.record_streams import CORRUPT_FRAME, INDEX_SPAN, Order, unconverted
from estimator_lib.task import Example, Features, Labels, Task

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')

MAX_NAMED = 20  # corrupt records that the log names; the others are only counted
# A session raises the latter where TensorFlow's message quotes bytes of a record.
SESSION_ERRORS = (tf.errors.OpError, UnicodeDecodeError)
_AT_ONCE = 32
_READERS = 16


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
    """Return one record as features and labels; varied when it is for training.

    Args:
        task: knows how.
        mode: a `tf.estimator.ModeKeys`.
        record: string scalar.
        seed: int64 [2], of the augmentation.
    """
    return vary(task, mode, task.decode(record), seed)


def vary(task: Task, mode: str, example: Example, seed: tf.Tensor) -> Tuple[Features, Labels]:
    """Return one decoded example as features and labels; see `decode`."""
    if mode == tf.estimator.ModeKeys.TRAIN:
        example = task.augment(example, seed)
    return task.prepare(example, mode)


def attempt(function: Callable[[tf.Tensor], Any], record: tf.Tensor) -> Tuple[tf.Tensor, Any]:
    """Run a function on a record where a failure must not end the dataset.

    A graph has no exceptions, but a dataset can leave out an element that fails; so the function
    runs in a dataset of its own, followed by zeros. That takes about 0.15 ms.

    Args:
        function: from a string scalar to tensors of static rank.
        record: string scalar.

    Returns:
        bool scalar, whether it worked; and what the function returned, zeros where it failed.
    """

    def succeed(record: tf.Tensor) -> Tuple[tf.Tensor, Any]:
        return tf.constant(True), function(record)

    tried = tf.data.Dataset.from_tensors(record).map(unconverted(succeed))
    zeros = tf.nest.map_structure(
        lambda spec: tf.zeros([side or 0 for side in spec.shape], spec.dtype), tried.element_spec
    )
    blank = tf.data.Dataset.from_tensors(zeros)
    return tried.ignore_errors().concatenate(blank).take(1).get_single_element()


def attempt_all(
    source: Source, function: Callable[[tf.Tensor], Any], limit: int = -1, limit_each: int = -1
) -> Iterator[Tuple[int, bytes, bool, Any]]:
    """Run a function on the records of files, in order.

    Args:
        source: whose files.
        function: see `attempt`.
        limit: so many records in all; -1: all.
        limit_each: so many of each file; -1: all.

    Yields:
        Record id, record, whether the function worked (False for a corrupt frame), and what it
        returned, as arrays.
    """

    def read(*file: tf.Tensor) -> tf.data.Dataset:
        dataset = record_streams.read_file(*file, True, source.sequences)
        return dataset.take(limit_each)

    def try_one(record_id: tf.Tensor, record: tf.Tensor) -> Any:
        worked, returned = attempt(function, record)
        worked = tf.logical_and(worked, tf.not_equal(record, CORRUPT_FRAME))
        return record_id, record, worked, returned

    with tf.Graph().as_default():
        dataset = record_streams.file_tensors(source.files).flat_map(unconverted(read)).take(limit)
        calls = record_streams.parallel_calls()
        dataset = dataset.map(unconverted(try_one), calls, deterministic=True)
        for batch in record_streams.elements(dataset.batch(_AT_ONCE).prefetch(1)):
            for index in range(len(batch[0])):
                yield tf.nest.map_structure(lambda values: values[index], batch)  # noqa: B023


def skip_invalid(
    stream: tf.data.Dataset,
    function: Callable[[tf.Tensor, tf.Tensor], Any],
    report: Callable[..., bool],
    num_parallel_calls: int,
) -> tf.data.Dataset:
    """Return maps a stream of records, without those that fail.

    Args:
        stream: from `record_streams.create_stream`.
        function: from position and record to tensors of static rank.
        report: called with number, position, record id and record of each that failed, in order;
            returns False.
        num_parallel_calls: see `tf.data.Dataset.map`.

    Returns:
        Elements (number, position, what the function returned).
    """

    def try_one(number: tf.Tensor, rest: Any) -> Any:
        position, (record_id, record) = rest
        worked, mapped = attempt(lambda record: function(position, record), record)
        failed = tf.where(worked, b'', record)  # only what failed is looked at again
        return worked, (number, position, record_id, failed), mapped

    def keep(worked: tf.Tensor, place: Any, mapped: Any) -> tf.Tensor:
        del mapped

        def tell() -> tf.Tensor:
            return tf.ensure_shape(tf.numpy_function(report, place, tf.bool), [])

        return tf.cond(worked, lambda: tf.constant(True), tell)

    def strip(worked: Any, place: Any, mapped: Any) -> Any:
        del worked
        return (*place[:2], mapped)

    tried = stream.map(unconverted(try_one), num_parallel_calls, deterministic=True)
    return tried.filter(unconverted(keep)).map(unconverted(strip))


class SkippedLog:
    """Names the first corrupt records in the log, each once.

    Args:
        tester: finds out what is wrong with them.
    """

    def __init__(self, tester: RecordTester):
        self._tester = tester
        self._named: Set[int] = set()
        self._last_number = -2  # which no first number follows
        self._run_start = 0  # position of the first of the failures that followed on one another

    def __call__(self, number: int, position: int, record_id: int, record: bytes) -> bool:
        """Take note of a record that failed; False.

        Raises:
            ValueError: no record of a whole epoch could be used.
        """
        if record_id not in self._named and len(self._named) < MAX_NAMED:
            self._named.add(int(record_id))
            log.warning('skipped %s', self._tester.problem(record_id, record, position))
            if len(self._named) == MAX_NAMED:
                log.warning('further corrupt records are skipped without a message')
        if number != self._last_number + 1:
            self._run_start = position
        self._last_number = number
        first_whole_epoch = -(-self._run_start // INDEX_SPAN)
        if position // INDEX_SPAN > first_whole_epoch:
            raise ValueError('no record of a whole epoch could be used')
        return False


class RecordTester:
    """Decodes single records, to find out what is wrong with one.

    Args:
        task: knows how.
        mode: a `tf.estimator.ModeKeys`.
        source: that the records are from.
        stream_seed: the first half of the seed of augmentation; a record's position is the other.
    """

    def __init__(self, task: Task, mode: str, source: Source, stream_seed: int = 0):
        self._task = task
        self._mode = mode
        self._source = source
        self._stream_seed = stream_seed
        self._session: Optional[tf1.Session] = None

    def problem(
        self, record_id: int, record: bytes, position: int = 0, decode: bool = True
    ) -> Optional[RecordProblem]:
        """What is wrong with a record; None when nothing is.

        Args:
            record_id: see `record_streams.INDEX_SPAN`.
            record: its bytes, or `CORRUPT_FRAME`.
            position: with which it failed.
            decode: False for one that decodes: only its keys and values are looked at.
        """
        file, index = record_streams.locate(self._source, record_id)
        if record == CORRUPT_FRAME:
            return describe_corrupt_frame(file, index)
        text = self._failure(record, position) if decode else self._complaint(record)
        return None if text is None else RecordProblem(file.path, index, text)

    def close(self) -> None:
        """End its session, if it needed one."""
        if self._session is not None:
            self._session.close()

    def _open(self) -> tf1.Session:
        with tf.Graph().as_default() as graph:
            self._record = tf1.placeholder(tf.string, [])
            self._position = tf1.placeholder(tf.int64, [])
            # In a function, as it runs in a dataset: a lookup table initializes itself there.
            one = tf.data.Dataset.from_tensors((self._record, self._position))
            one = one.map(unconverted(self._decode)).get_single_element()
            self._decoded = tf.nest.flatten(one)
        return record_streams.open_session(graph)

    def _decode(self, record: tf.Tensor, position: tf.Tensor) -> Tuple[Features, Labels]:
        seed = tf.stack([tf.constant(self._stream_seed, tf.int64), position])
        return decode(self._task, self._mode, record, seed)

    def _failure(self, record: bytes, position: int) -> Optional[str]:
        if self._session is None:
            self._session = self._open()
        try:
            self._session.run(self._decoded, {self._record: record, self._position: position})
        except tf.errors.ResourceExhaustedError:  # which is not the fault of the record
            raise
        except SESSION_ERRORS as error:
            return self._complaint(record) or errors.plain_message(as_op_error(error))
        return None

    def _complaint(self, record: bytes) -> Optional[str]:
        try:
            tf.train.Example.FromString(record)
        except Exception:  # protobuf's DecodeError, of which there is one a runtime
            return 'not a tf.train.Example'
        return self._task.check_example(record)


def as_op_error(error: Exception) -> tf.errors.OpError:
    """One of `SESSION_ERRORS` with the message that TensorFlow meant, as far as it is text."""
    if isinstance(error, UnicodeDecodeError):
        return tf.errors.InvalidArgumentError(None, None, error.object.decode(errors='replace'))
    return error


def describe_corrupt_frame(file: records.RecordFile, index: int) -> RecordProblem:
    """What is wrong with a frame that cannot be read."""
    frames, error = records.list_frames(file)
    if error is not None and index >= error.index:
        lost = f'{error.problem}; what may follow in this file cannot be read'
        return RecordProblem(file.path, error.index, lost)
    rest = f'; the {len(frames) - index - 1} that follow cannot be read' if file.compression else ''
    return RecordProblem(file.path, index, f"the CRC of the record's bytes is wrong{rest}")


def find_corrupt_frame(source: Source) -> Optional[RecordProblem]:
    """Return the first corrupt frame that is met in the files of a source; None when there is none.

    What TensorFlow's reader says of one has neither path nor record, so the files are read again.
    """
    order = Order(seed=0, num_readers=_READERS, num_epochs=1, skip_corrupt=True)
    with tf.Graph().as_default():
        stream = record_streams.create_stream(source, order, tf.zeros([2], tf.int64))
        corrupt = stream.filter(unconverted(lambda _, rest: tf.equal(rest[1][1], CORRUPT_FRAME)))
        for _, (_, (record_id, _)) in record_streams.elements(corrupt.take(1)):
            return describe_corrupt_frame(*record_streams.locate(source, record_id))
    return None


def data_error(problem: RecordProblem) -> errors.DataError:
    """Return the error that a corrupt record is reported by."""
    return errors.DataError(
        f'{problem}. Mend or remove the record, or set corrupt_record_policy: SKIP to leave such '
        'records out.'
    )
