"""Number of the examples of an epoch of training."""

from __future__ import annotations

import logging

from estimator_lib import errors, tf_estimator
from estimator_lib.data import record_sources, records
from protos import input_reader_pb2

log = logging.getLogger('estimator_lib')


def count_examples(reader: input_reader_pb2.InputReader) -> int:
    """Return the number of examples of a pass over the data, without repeats of rare classes.

    Args:
        reader: the reader of training; `num_examples` is believed where it is set.

    Raises:
        errors.ConfigError: the number is not known: paths are mixed, or records are sequences.
        errors.DataError: there are no files, or one is corrupt.
    """
    field = 'train_input_reader.num_examples'
    if reader.num_examples:
        return reader.num_examples
    reason = ''
    if reader.sample_from_datasets_weights or reader.examples_per_batch:
        reason = 'paths are mixed by weights or counts, and do not end together'
    elif reader.input_type == input_reader_pb2.TF_SEQUENCE_EXAMPLE:
        reason = 'records are sequences of several examples'
    if reason:
        raise errors.ConfigError(
            f'{field} is not set, and epochs need it: {reason}; expected the number, or durations '
            'in steps, examples or percent.'
        )
    sources, _ = record_sources.create_sources(reader, tf_estimator.ModeKeys.TRAIN, 1)
    count = records.count_records(sources[0].files)
    every = max(1, reader.sample_1_of_n_examples)
    count = (count + every - 1) // every
    log.info('an epoch has %d examples', count)
    if not count:
        raise errors.DataError('train_input_reader: there are no examples.')
    return count
