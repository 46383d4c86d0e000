"""Corrupt frames and invalid records: skipped and counted, or located and described."""

from __future__ import annotations

import logging
from typing import Any, Callable, Iterator, NamedTuple, Optional, Set, Tuple

import tensorflow as tf

from estimator_lib import errors, tf_estimator
from estimator_lib.data import record_streams, records
from estimator_lib.data.file_examples import FileExamples, UnusableFileError
from estimator_lib.data.record_sources import Source
from estimator_lib.data.record_streams import CORRUPT_FRAME, INDEX_SPAN, Order, unconverted
from estimator_lib.task import Example, Features, Labels, Task

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')

MAX_NAMED = 20  # corrupt records that the log names; the others are only counted
# A session raises UnicodeDecodeError where TensorFlow's message quotes bytes of a record.
SESSION_ERRORS = (tf.errors.OpError, UnicodeDecodeError)
# Records of one session.run, whose overhead was measured as 0.4 ms: more than a small record takes.
_AT_ONCE = 32
# Files that the search for a corrupt frame reads at a time. Where several frames are corrupt it
# finds the first of this alternating order, not of the sorted files.
_READERS = 16


class RecordProblem(NamedTuple):
    """A record that cannot be used.

    Attributes:
        path: the path of its file.
        index: the index of the record in the file, from 0; `records.WHOLE_FILE`: the file is the
            record.
        problem: a description of the problem.
    """

    path: str
    index: int
    problem: str

    @property
    def place(self) -> str:
        """The file, and the number of the record in it."""
        return self.path if self.index < 0 else f'{self.path}, record {self.index}'

    def __str__(self) -> str:
        return f'{self.place}: {self.problem}'


def decode(task: Task, mode: str, record: tf.Tensor, seed: tf.Tensor) -> Tuple[Features, Labels]:
    """Decode one record into features and labels, and augment it when it is for training.

    Args:
        task: decodes, augments and prepares.
        mode: a `tf_estimator.ModeKeys`.
        record: string scalar.
        seed: int64 [2]: seed of the augmentation.
    """
    return vary(task, mode, task.decode(record), seed)


def vary(task: Task, mode: str, example: Example, seed: tf.Tensor) -> Tuple[Features, Labels]:
    """Turn one decoded example into features and labels; augment it for training.

    The example is not combined with others: `mixing.mix_examples` does that.
    """
    if mode == tf_estimator.ModeKeys.TRAIN:
        for mixing in task.mixings():
            example = mixing.vary(example, seed)
        example = task.augment(example, seed)
    return task.prepare(example, mode)


def attempt(
    function: Callable[[tf.Tensor], Any],
    record: tf.Tensor,
    repair: Optional[Callable[[tf.Tensor], tf.Tensor]] = None,
) -> Tuple[tf.Tensor, Any]:
    """Run a function on a record so that a failure does not end the dataset.

    A graph has no exceptions, but a dataset can skip an element that fails. So the function runs in
    its own dataset of one element, followed by an element of zeros. That takes about 0.15 ms.

    Args:
        function: maps a string scalar to tensors of static rank.
        record: string scalar.
        repair: maps a record on which the function failed to one on which it runs again, or fails
            likewise; None: there is one attempt.

    Returns:
        A bool scalar, true on success, and the result of the function; zeros on failure.
    """

    def succeed(record: tf.Tensor) -> Tuple[tf.Tensor, Any]:
        return tf.constant(True), function(record)

    candidates = tf.data.Dataset.from_tensors(record)
    if repair is not None:  # read only after a failure, because datasets are lazy
        candidates = candidates.concatenate(candidates.map(unconverted(repair)))
    tried = candidates.map(unconverted(succeed))
    # Unknown sides are 0: nobody reads these values, but both datasets must have one element_spec.
    zeros = tf.nest.map_structure(
        lambda spec: tf.zeros([side or 0 for side in spec.shape], spec.dtype), tried.element_spec
    )
    blank = tf.data.Dataset.from_tensors(zeros)
    # After a success the blank element is a second one, which `get_single_element` refuses.
    return tried.ignore_errors().concatenate(blank).take(1).get_single_element()


def attempt_all(
    source: Source, function: Callable[[tf.Tensor], Any], limit: int = -1, limit_each: int = -1
) -> Iterator[Tuple[int, bytes, bool, Any]]:
    """Run a function on the records of files, in order.

    Args:
        source: the source of the files.
        function: maps a string scalar to tensors of static rank, as in `attempt`.
        limit: number of records to read in all; -1: all.
        limit_each: number of records to read of each file; -1: all.

    Yields:
        Record id, record, success (False for a corrupt frame), and the result, as arrays.
    """

    def read(*file: tf.Tensor) -> tf.data.Dataset:
        return record_streams.read_file(source, file, True).take(limit_each)

    def try_one(record_id: tf.Tensor, record: tf.Tensor) -> Any:
        worked, returned = attempt(function, record)
        # A function that does not parse the record succeeds on CORRUPT_FRAME too.
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
    function: Callable[[tf.Tensor, tf.Tensor, tf.Tensor], Any],
    report: SkippedLog,
    num_parallel_calls: int,
) -> tf.data.Dataset:
    """Map a function over a stream of records, and drop the records that fail.

    Args:
        stream: the dataset of `record_streams.create_stream`.
        function: maps number, position and record to tensors of static rank.
        report: repairs records that failed, and is called with number, position, record id and
            record of each that still fails, in order.
        num_parallel_calls: number of records that are mapped at a time.

    Returns:
        Elements (number, position, record id, result of the function).
    """

    def try_one(number: tf.Tensor, rest: Any) -> Any:
        position, (record_id, record) = rest

        def repair(record: tf.Tensor) -> tf.Tensor:
            repaired = tf.numpy_function(report.repair, [record_id, record], tf.string)
            return tf.ensure_shape(repaired, [])

        # The repair follows a failure, so that valid records are not parsed by Python (commit
        # 680dd8a1).
        worked, mapped = attempt(lambda record: function(number, position, record), record, repair)
        failed = tf.where(worked, b'', record)  # only failed records are decoded again
        return worked, (number, position, record_id, failed), mapped

    # The report is in the filter, not in the map: a filter takes one element at a time, in order.
    # `SkippedLog` relies on that to tell failures in a row.
    def keep(worked: tf.Tensor, place: Any, mapped: Any) -> tf.Tensor:
        del mapped

        def tell() -> tf.Tensor:
            return tf.ensure_shape(tf.numpy_function(report, place, tf.bool), [])

        return tf.cond(worked, lambda: tf.constant(True), tell)

    def strip(worked: Any, place: Any, mapped: Any) -> Any:
        del worked
        return (*place[:3], mapped)

    tried = stream.map(unconverted(try_one), num_parallel_calls, deterministic=True)
    return tried.filter(unconverted(keep)).map(unconverted(strip))


class SkippedLog:
    """Log of the first corrupt records, and of the first repaired ones, each once.

    Args:
        tester: finds the problem of a record.
    """

    def __init__(self, tester: RecordTester):
        self._tester = tester
        # By id: in an endless stream a corrupt record fails once in each epoch.
        self._named: Set[int] = set()
        self._repaired: Set[int] = set()
        self._last_number = -2  # no first number follows this one
        self._run_start = 0  # position of the first of consecutive failures

    def __call__(self, number: int, position: int, record_id: int, record: bytes) -> bool:
        """Log a record that failed; return False.

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
        # An endless stream of failures gives no element, so the session would wait forever without
        # a message.
        first_whole_epoch = -(-self._run_start // INDEX_SPAN)
        if position // INDEX_SPAN > first_whole_epoch:
            raise ValueError(
                'no record of a whole epoch could be used; the log says what is wrong with '
                f'{len(self._named)} of them'
            )
        return False

    def repair(self, record_id: int, record: bytes) -> bytes:
        """Return a record that failed without its malformed objects, and log these.

        Raises:
            ValueError: the record cannot be repaired.
        """
        repaired = self._tester.repair(record_id, record)
        if repaired is None:
            raise ValueError('this record cannot be repaired')
        if record_id not in self._repaired and len(self._repaired) < MAX_NAMED:
            self._repaired.add(int(record_id))
            log.warning('left out of its record: %s', repaired[1])
            if len(self._repaired) == MAX_NAMED:
                log.warning(
                    'further objects are left out without a message; --mode=check counts them'
                )
        return repaired[0]


class RecordTester:
    """Decoder of single records that finds the problem of a record.

    Args:
        task: decodes, augments and prepares.
        mode: a `tf_estimator.ModeKeys`.
        source: the source of the records.
        stream_seed: first half of the seed of the augmentation; the record's position is the other.
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
        """Find the problem of a record; return None for a valid record.

        Args:
            record_id: the id of the record, as at `record_streams.FILE_SPAN`.
            record: the bytes of the record, or `CORRUPT_FRAME`.
            position: the position at which the record failed.
            decode: False for a record that decodes: only its keys and values are checked.
        """
        file, index = record_streams.locate(self._source, record_id)
        if record == CORRUPT_FRAME:
            return describe_corrupt_frame(file, index)
        text = self._failure(record, position) if decode else self._complaint(record)
        return None if text is None else RecordProblem(*file.locate(index), text)

    def repair(self, record_id: int, record: bytes) -> Optional[Tuple[bytes, RecordProblem]]:
        """Return a malformed record without its malformed objects, and their problem.

        Args:
            record_id: the id of the record, as at `record_streams.FILE_SPAN`.
            record: the bytes of the record, or `CORRUPT_FRAME`.

        Returns:
            None: the record cannot be repaired.
        """
        repaired = None if record == CORRUPT_FRAME else self._task.checks.repair_example(record)
        if repaired is None:
            return None
        file, index = record_streams.locate(self._source, record_id)
        return repaired[0], RecordProblem(*file.locate(index), repaired[1])

    def close(self) -> None:
        """Close the session, if there is one."""
        if self._session is not None:
            self._session.close()

    def _open(self) -> tf1.Session:
        with tf.Graph().as_default() as graph:
            self._record = tf1.placeholder(tf.string, [])
            self._position = tf1.placeholder(tf.int64, [])
            # Decoding runs in a dataset, as in training: lookup tables initialize themselves there.
            dataset = tf.data.Dataset.from_tensors((self._record, self._position))
            decoded = dataset.map(unconverted(self._decode)).get_single_element()
            self._decoded = tf.nest.flatten(decoded)
        return record_streams.open_session(graph)

    def _decode(self, record: tf.Tensor, position: tf.Tensor) -> Tuple[Features, Labels]:
        seed = tf.stack([tf.constant(self._stream_seed, tf.int64), position])
        return decode(self._task, self._mode, record, seed)

    def _failure(self, record: bytes, position: int) -> Optional[str]:
        if self._session is None:
            self._session = self._open()
        try:
            self._session.run(self._decoded, {self._record: record, self._position: position})
        except tf.errors.ResourceExhaustedError:  # too little memory is not the record's problem
            raise
        except SESSION_ERRORS as error:
            # The task names the key and the value; TensorFlow only the op that failed.
            return self._complaint(record) or errors.plain_message(as_op_error(error))
        return None

    def _complaint(self, record: bytes) -> Optional[str]:
        try:
            tf.train.Example.FromString(record)
        except Exception:  # each protobuf runtime has its own DecodeError
            return 'not a tf.train.Example'
        return self._task.checks.check_example(record)


def as_op_error(error: Exception) -> tf.errors.OpError:
    """Convert one of `SESSION_ERRORS` to an `OpError` with TensorFlow's message."""
    if isinstance(error, UnicodeDecodeError):
        # The `object` of a UnicodeDecodeError is the whole text that did not decode: the message.
        return tf.errors.InvalidArgumentError(None, None, error.object.decode(errors='replace'))
    return error


def describe_corrupt_frame(file: records.RecordFile, index: int) -> RecordProblem:
    """Describe the problem of a record that cannot be read."""
    if file.examples is not None:
        return _describe_unusable_files(file.examples, index)
    frames, error = records.list_frames(file)
    if error is not None and index >= error.index:
        lost = f'{error.problem}; what may follow in this file cannot be read'
        return RecordProblem(file.path, error.index, lost)
    # A compressed file is read as a whole: behind a wrong CRC nothing can be located by its offset.
    rest = f'; the {len(frames) - index - 1} that follow cannot be read' if file.compression else ''
    return RecordProblem(file.path, index, f"the CRC of the record's bytes is wrong{rest}")


def _describe_unusable_files(examples: FileExamples, index: int) -> RecordProblem:
    try:
        examples.read(index)
    except UnusableFileError as error:
        return RecordProblem(error.place, records.WHOLE_FILE, error.problem)
    problem = 'it could not be read, and now it can'
    return RecordProblem(examples.place(index), records.WHOLE_FILE, problem)


def find_corrupt_frame(source: Source) -> Optional[RecordProblem]:
    """Find the first corrupt frame in the files of a source; return None when there is none.

    TensorFlow's error names neither the file nor the record, so the files are read again.
    """
    order = Order(seed=0, num_readers=_READERS, num_epochs=1, skip_corrupt=True)
    with tf.Graph().as_default():
        stream = record_streams.create_stream(source, order, tf.zeros([2], tf.int64))
        corrupt = stream.filter(unconverted(lambda _, rest: tf.equal(rest[1][1], CORRUPT_FRAME)))
        for _, (_, (record_id, _)) in record_streams.elements(corrupt.take(1)):
            return describe_corrupt_frame(*record_streams.locate(source, record_id))
    return None


def data_error(problem: RecordProblem) -> errors.DataError:
    """Return the error that reports a corrupt record."""
    return errors.DataError(
        f'{problem}. Fix or remove the record, or set corrupt_record_policy: SKIP to leave such '
        'records out.'
    )
