"""Inspection of single records: for `--mode=check`, and after a run has failed at one."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import tf_estimator
from estimator_lib.data import corrupt_records, record_streams, records
from estimator_lib.data.corrupt_records import RecordProblem, RecordTester
from estimator_lib.data.reading import Reading, create_sequences
from estimator_lib.data.record_sources import Source, input_files
from estimator_lib.task import Task
from protos import input_reader_pb2

ModeKeys = tf_estimator.ModeKeys

SAMPLE = 64  # records of each file that are inspected, unless all are
_FIRST = 100  # records in all that are inspected before training


def inspect_records(
    task: Task,
    reader: input_reader_pb2.InputReader,
    *,
    check_all: bool = False,
    sample: int = SAMPLE,
    max_problems: int = 10_000,
    progress: Optional[Callable[[int, int], None]] = None,
    examine: Optional[Callable[[bytes], None]] = None,
) -> List[RecordProblem]:
    """Find the problems of the records of a reader.

    The frames of all files are checked, and the contents of the first records of each. With
    `corrupt_record_policy: SKIP` readers leave malformed objects out of their images: such an
    image is a problem and valid.

    Args:
        task: decodes and prepares records, and checks their keys and values.
        reader: the reader of the files.
        check_all: check the contents of all records.
        sample: otherwise, the number of records of each file whose contents are checked.
        max_problems: number of problems after which to stop.
        progress: called with the number of records checked, and of all to check.
        examine: called with each valid record.

    Returns:
        The problems, in order of files and records; `str(problem)` is a sentence.

    Raises:
        errors.UserError: there are no files to check.
    """
    source = Source(0, tuple(input_files(reader)), sequences=create_sequences(task, reader))
    limit = -1 if check_all else sample
    problems, total = [], 0
    for file in source.files:
        if file.examples is not None:
            total += len(file.examples) if check_all else min(len(file.examples), sample)
            continue
        frames, error = records.list_frames(file)
        count = len(frames) + (error is not None)
        if error is not None and 0 <= limit < count:  # else it is found on the way
            problems.append(RecordProblem(file.path, error.index, error.problem))
        total += count if check_all else min(count, sample)

    def decode(record: tf.Tensor) -> tf.Tensor:
        decoded = corrupt_records.decode(task, ModeKeys.EVAL, record, tf.zeros([2], tf.int64))
        with tf.control_dependencies(tf.nest.flatten(decoded)):
            return tf.identity(True)  # the decoded values are not needed

    tester = RecordTester(task, ModeKeys.EVAL, source)
    attempts = corrupt_records.attempt_all(source, decode, limit_each=limit)
    for done, (record_id, record, worked, _) in enumerate(attempts, 1):
        problem = tester.problem(record_id, record, decode=not worked)
        is_valid = problem is None
        if not is_valid and reader.corrupt_record_policy == input_reader_pb2.SKIP:
            repaired = tester.repair(record_id, record)
            if repaired is not None and tester.problem(record_id, repaired[0]) is None:
                (record, problem), is_valid = repaired, True
        if is_valid and examine is not None:
            examine(record)
        problem = problem or _left_out(source, record_id)
        if problem is not None:
            problems.append(problem)
        if progress is not None:
            progress(min(done, total), total)
        if len(problems) >= max_problems:
            break
    tester.close()
    # Broken chains of frames stand first in the list, as they are found before any content is.
    return sorted(problems)[:max_problems]


def _left_out(source: Source, record_id: int) -> Optional[RecordProblem]:
    """Return the first problem that a reader of files leaves out of an example; None without."""
    file, index = record_streams.locate(source, record_id)
    error = None if file.examples is None else file.examples.left_out(index)
    if error is None:
        return None
    return RecordProblem(error.place, records.WHOLE_FILE, error.problem)


def check_first_examples(task: Task, reader: input_reader_pb2.InputReader) -> List[str]:
    """Ask the task whether the first training examples are worth training on.

    Args:
        task: has `check_first_examples`.
        reader: the reader of the training examples.

    Returns:
        Warnings, one sentence each.

    Raises:
        errors.UserError: there are no files, or nothing could be learned from the examples.
    """
    first = records.first_records(input_files(reader), _FIRST)
    are_all = len(first) < _FIRST
    return list(task.checks.check_first_examples(_frames(task, reader, first), are_all))


def examine_first(task: Task, reader: input_reader_pb2.InputReader, count: int) -> List[Any]:
    """Return `DataChecks.examine` of the first valid records of a reader.

    Args:
        task: examines the records.
        reader: the reader of the files.
        count: number of records to read.

    Raises:
        errors.UserError: there are no files.
    """
    first = _frames(task, reader, records.first_records(input_files(reader), count))
    return [
        task.checks.examine(record) for record in first if task.checks.check_example(record) is None
    ]


def _frames(
    task: Task, reader: input_reader_pb2.InputReader, payloads: Sequence[bytes]
) -> Sequence[bytes]:
    """Return the examples of records: themselves, or the frames of sequences."""
    if create_sequences(task, reader) is None:
        return payloads
    return [frame for record in payloads for frame in task.split_sequence(record)]


def find_failure(
    reading: Reading, error: tf.errors.OpError, recent: Sequence[np.ndarray] = ()
) -> Optional[RecordProblem]:
    """Decode the records of the failed batch again, one by one, and return the failing one.

    Args:
        reading: the plan of the reading.
        error: the error of the session.
        recent: int64 [num_sources] each: start positions of the last complete batches, oldest
            first; empty when they are not known.

    Returns:
        The first record that fails; None when none fails, or the error has another cause.
    """
    if not reading.caused(error):
        return None
    try:
        # The class of wrong CRCs and truncated frames; decoders raise InvalidArgumentError.
        if isinstance(error, tf.errors.DataLossError):
            problems = map(corrupt_records.find_corrupt_frame, reading.sources)
            return next(filter(None, problems), None)
        problem = None
        if recent:
            # The failed batch follows one of these, or lies between two of them.
            limit = (len(recent) + 2) * reading.batch_size + reading.num_ahead
            problem = _first_failure(reading, recent[0], limit)
        start = np.zeros([reading.num_sources], np.int64)
        return problem or _first_failure(reading, start, limit=None)
    except tf.errors.OpError:  # not about one record: a deleted file, for example
        return None


def _first_failure(
    reading: Reading, positions: np.ndarray, limit: Optional[int]
) -> Optional[RecordProblem]:
    """Find the first record that fails among `limit` of each source, or in one epoch."""
    for source in reading.sources:
        start = divmod(int(positions[source.index]), record_streams.INDEX_SPAN)
        tester = RecordTester(reading.task, reading.mode, source, reading.source_seed(source))
        try:
            for position, record_id, record in _iterate_records(reading, source, start, limit):
                problem = tester.problem(record_id, record, position)
                if problem is not None:
                    return problem
        finally:
            tester.close()
    return None


def _iterate_records(
    reading: Reading, source: Source, start: Tuple[int, int], limit: Optional[int]
) -> Iterator[Tuple[int, int, bytes]]:
    """Yield (position, record id, record) in order; without a limit, of one epoch."""
    # Else this reader would stop at the corrupt frame with the same error without a place.
    order = dataclasses.replace(reading.source_order(source), skip_corrupt=True)
    if limit is None:
        order = dataclasses.replace(order, num_epochs=start[0] + 1)
    with tf.Graph().as_default():
        stream = record_streams.create_stream(source, order, tf.constant(start, tf.int64))
        stream = stream.take(-1 if limit is None else limit)
        for _, (position, (record_id, record)) in record_streams.elements(stream):
            yield position, record_id, record
