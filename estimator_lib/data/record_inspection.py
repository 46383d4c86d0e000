"""Looking at records one by one: for `--mode=check`, and after a run has failed at one."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib.data import corrupt_records, record_streams, records
from estimator_lib.data.corrupt_records import RecordProblem, RecordTester
from estimator_lib.data.reading import Reading
from estimator_lib.data.record_sources import Source, input_files
from estimator_lib.data.record_streams import DAMAGED, unconverted
from estimator_lib.task import Task
from protos import input_reader_pb2

tf1 = tf.compat.v1
ModeKeys = tf.estimator.ModeKeys

SAMPLE = 64  # records of each file that are looked at unless all are
_BATCH = 32


def inspect_records(
    task: Task,
    reader: input_reader_pb2.InputReader,
    *,
    check_all: bool = False,
    sample: int = SAMPLE,
    max_problems: int = 100,
    progress: Optional[Callable[[int, int], None]] = None,
) -> List[RecordProblem]:
    """What is wrong with the records of a reader.

    Looks at the frames of all files, and at the contents of the first records of each.

    Args:
        task: decodes and prepares records, and checks their keys and values.
        reader: whose files.
        check_all: look at the contents of all records.
        sample: how many of each file otherwise.
        max_problems: stop looking after so many.
        progress: called now and then with how many records were looked at, and how many will be.

    Returns:
        The problems, in order of files and records; `str` of one is a sentence.

    Raises:
        errors.UserError: there are no files to look at.
    """
    source = Source(0, tuple(input_files(reader)))
    problems, total = [], 0
    for file in source.files:
        count, broken = _walk(file)
        if broken is not None and not check_all and count > sample:
            problems.append(broken)  # else it is met on the way
        total += count if check_all else min(count, sample)
    tester = RecordTester(task, ModeKeys.EVAL)
    done = 0
    for batch in _attempts(task, source, -1 if check_all else sample):
        for worked, origin, record in zip(*batch):
            problem = _problem(tester, source, bool(worked), int(origin), record)
            if problem is not None:
                problems.append(problem)
        done += len(batch[0])
        if progress is not None:
            progress(min(done, total), total)
        if len(problems) >= max_problems:
            break
    tester.close()
    return sorted(problems)[:max_problems]


def find_failure(
    reading: Reading, error: tf.errors.OpError, recent: Sequence[np.ndarray] = ()
) -> Optional[RecordProblem]:
    """Decodes again, one by one, what the failed batch may have been made of.

    Args:
        reading: what was read and how.
        error: of the session.
        recent: tags, int64 [rows], that the last batches which were made started from, oldest
            first; empty when none was, or it is not known.

    Returns:
        The first record that fails; None when none does, or the error came from elsewhere.
    """
    if not reading.failed_with(error):
        return None
    if isinstance(error, tf.errors.DataLossError):
        files = [file for source in reading.sources for file in source.files]
        return corrupt_records.find_damage(files, error)
    if recent:
        # The failed batch is none of them; a few that follow it may be.
        limit = (len(recent) + 2) * reading.batch_size
        problem = _first_failure(reading, recent[0], limit)
        if problem is not None:
            return problem
    return _first_failure(reading, np.zeros([reading.rows], np.int64), limit=None)


def _first_failure(
    reading: Reading, tags: np.ndarray, limit: Optional[int]
) -> Optional[RecordProblem]:
    """The first record that fails, of so many from each source, or of one epoch."""
    for source in reading.sources:
        tester = RecordTester(reading.task, reading.mode, reading.seed_of(source))
        try:
            for tag, origin, record in _records_from(reading, source, int(tags[source.row]), limit):
                problem = tester.failure(record, tag)
                if problem is not None:
                    return RecordProblem(*record_streams.locate(source, origin), problem)
        except tf.errors.DataLossError as damage:
            return corrupt_records.find_damage(source.files, damage)
        except tf.errors.OpError:  # a file that is gone, say: not about one record
            return None
        finally:
            tester.close()
    return None


def _records_from(
    reading: Reading, source: Source, first_tag: int, limit: Optional[int]
) -> Iterator[Tuple[int, int, bytes]]:
    """(tag, origin, record) in order; without a limit, of one epoch."""
    order = reading.order_of(source)
    start = divmod(first_tag, record_streams.INDEX_SPAN)
    if limit is None:
        order = dataclasses.replace(order, num_epochs=start[0] + 1)
    with tf.Graph().as_default():
        stream = record_streams.create_stream(source, order, tf.constant(start, tf.int64))
        stream = stream.take(-1 if limit is None else limit)
        for _, (tag, (origin, record)) in _run_through(stream):
            yield tag, origin, record


def _attempts(task: Task, source: Source, sample: int) -> Iterator[Any]:
    """Batches of (whether it could be decoded, origin, record), in order."""

    def read(*file: tf.Tensor) -> tf.data.Dataset:
        return record_streams.read_file(*file, skip_damaged=True).take(sample)

    def try_one(origin: tf.Tensor, record: tf.Tensor) -> Tuple[tf.Tensor, ...]:
        def decode(record: tf.Tensor) -> Any:
            return corrupt_records.decode(task, ModeKeys.EVAL, record, tf.zeros([2], tf.int64))

        return corrupt_records.attempt(decode, record)[0], origin, record

    with tf.Graph().as_default():
        dataset = record_streams.file_tensors(source.files).flat_map(unconverted(read))
        dataset = dataset.map(
            unconverted(try_one), record_streams.parallel_calls(), deterministic=True
        )
        yield from _run_through(dataset.batch(_BATCH).prefetch(1))


def _run_through(dataset: tf.data.Dataset) -> Iterator[Any]:
    """The elements of a dataset of the current graph."""
    iterator = tf1.data.make_initializable_iterator(record_streams.steady(dataset))
    element = iterator.get_next()
    with record_streams.open_session() as session:
        session.run([iterator.initializer, tf1.tables_initializer()])
        while True:
            try:
                yield session.run(element)
            except tf.errors.OutOfRangeError:
                return


def _problem(
    tester: RecordTester, source: Source, worked: bool, origin: int, record: bytes
) -> Optional[RecordProblem]:
    path, index = record_streams.locate(source, origin)
    if record == DAMAGED:
        return corrupt_records.describe_damage(
            source.files[origin // record_streams.ORIGIN_SPAN], index
        )
    problem = tester.complaint(record) if worked else tester.failure(record)
    return None if problem is None else RecordProblem(path, index, problem)


def _walk(file: records.RecordFile) -> Tuple[int, Optional[RecordProblem]]:
    """How many frames a file has, and where its chain of frames breaks."""
    count = 0
    try:
        for _ in records.walk_frames(file):
            count += 1
    except records.FrameError as error:
        return count + 1, RecordProblem(file.path, error.index, error.problem)
    return count, None
