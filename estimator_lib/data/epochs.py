"""Number of the examples of an epoch of training."""

from __future__ import annotations

from estimator_lib import errors, tf_estimator
from estimator_lib.data import record_sources, records
from protos import input_reader_pb2


def count_examples(reader: input_reader_pb2.InputReader) -> int:
    """Return the number of examples of a pass over the data, without repeats of rare classes.

    Args:
        reader: the reader of training; `num_examples` is believed where it is set.

    Raises:
        errors.ConfigError: the number is not known: paths are mixed, or records are sequences.
        errors.DataError: there are no files, or one is corrupt.
    """
    if reader.num_examples:
        return reader.num_examples
    reason = _why_unknown(reader)
    if reason:
        raise errors.ConfigError(
            'train_input_reader.num_examples is not set, and epochs need it: '
            f'{reason}; expected the number, or durations in steps, examples or percent.'
        )
    # The batch size is only compared with examples_per_batch, which `_why_unknown` has refused.
    sources, _ = record_sources.create_sources(reader, tf_estimator.ModeKeys.TRAIN, 1)
    count = _sampled(reader, records.count_records(sources[0].files))
    if not count:
        paths = errors.shortened([file.path for file in sources[0].files], 3)
        raise errors.DataError(f'train_input_reader: there are no examples in {paths}.')
    return count


def known_examples(reader: input_reader_pb2.InputReader) -> int:
    """Return the number of `count_examples` if it is known without reading; else 0.

    Args:
        reader: the reader of training.
    """
    if reader.num_examples or _why_unknown(reader):
        return reader.num_examples
    try:
        count = records.known_count(record_sources.input_files(reader))
    except errors.UserError:
        return 0
    return _sampled(reader, count or 0)


def _why_unknown(reader: input_reader_pb2.InputReader) -> str:
    """Return the reason why the examples of an epoch cannot be counted; '' if they can."""
    if reader.sample_from_datasets_weights or reader.examples_per_batch:
        return 'paths are mixed by weights or counts, and do not end together'
    if reader.input_type == input_reader_pb2.TF_SEQUENCE_EXAMPLE:
        return 'records are sequences of several examples'
    return ''


def _sampled(reader: input_reader_pb2.InputReader, count: int) -> int:
    """Return the number of examples that `sample_1_of_n_examples` leaves."""
    every = max(1, reader.sample_1_of_n_examples)
    # `Dataset.shard(n, 0)` keeps the elements 0, n, 2n and so on: a rest is one example more.
    return (count + every - 1) // every
