"""The sources of an input reader: its paths as one source, or as several that are mixed."""

from __future__ import annotations

import dataclasses
import logging
import os
import zlib
from typing import TYPE_CHECKING, List, Optional, Sequence, Tuple

from estimator_lib import errors, tf_estimator
from estimator_lib.data import records
from estimator_lib.data.sequences import Sequences
from protos import input_reader_pb2

if TYPE_CHECKING:
    from protos import pipeline_pb2

log = logging.getLogger('estimator_lib')


@dataclasses.dataclass(frozen=True)
class Source:
    """Files that are read as one stream of records.

    Attributes:
        index: the index of its `input_path` when sources are mixed, else 0.
        files: the files, in order.
        weight: fraction of the examples that come from this source.
        per_batch: number of examples of this source in each batch; None: drawn by `weight`.
        sequences: splitting of records into frames; None if a record is one example.
    """

    index: int
    files: Tuple[records.RecordFile, ...]
    weight: float = 1.0
    per_batch: Optional[int] = None
    sequences: Optional[Sequences] = None

    @property
    def fingerprint(self) -> int:
        """Nonzero number made of the names and sizes of the files, without their folder."""
        listed = [(os.path.basename(file.path), file.size) for file in self.files]
        return zlib.crc32(repr(listed).encode()) or 1


def named_readers(
    config: pipeline_pb2.TrainEvalPipelineConfig,
) -> List[Tuple[str, input_reader_pb2.InputReader]]:
    """Return the readers of a config with their names in messages: `eval_input_reader[0]`."""
    evaluation = enumerate(config.eval_input_reader)
    named = [(f'eval_input_reader[{index}]', reader) for index, reader in evaluation]
    return [('train_input_reader', config.train_input_reader), *named]


def input_files(reader: input_reader_pb2.InputReader) -> List[records.RecordFile]:
    """Return the files of a reader, of all its sources, sorted and each once.

    Raises:
        errors.ConfigError: the reader has no TFRecord paths.
        errors.DataError: a path is empty or matches nothing.
    """
    return records.find_files(_patterns(reader), _field(reader))


def create_sources(
    reader: input_reader_pb2.InputReader, mode: str, batch_size: int
) -> Tuple[List[Source], int]:
    """Create the sources of a reader, in the order of their index.

    Training mixes the paths by `sample_from_datasets_weights` or `examples_per_batch`. An
    evaluation takes each example once, so it reads the paths one after the other. Both leave out
    paths of weight or count 0.

    Args:
        reader: the reader with the paths.
        mode: a `tf_estimator.ModeKeys`.
        batch_size: required sum of `examples_per_batch`.

    Returns:
        The sources, and the number of all paths.

    Raises:
        errors.ConfigError: weights or counts do not fit the paths or the batch.
        errors.DataError: a path is empty or matches nothing.
    """
    patterns, field = _patterns(reader), _field(reader)
    shares = _shares(
        reader, len(patterns), batch_size if mode == tf_estimator.ModeKeys.TRAIN else None
    )
    if shares is None:
        return [Source(0, tuple(records.find_files(patterns, field)))], 1
    taken = [index for index, share in enumerate(shares) if share > 0]
    if mode != tf_estimator.ModeKeys.TRAIN:
        files = records.find_files([patterns[index] for index in taken], field)
        return [Source(0, tuple(files))], 1
    sources = [
        Source(
            index,
            tuple(records.find_files([patterns[index]], field)),
            weight=shares[index] / sum(shares),
            per_batch=reader.examples_per_batch[index] if reader.examples_per_batch else None,
        )
        for index in taken
    ]
    return sources, len(patterns)


def _patterns(reader: input_reader_pb2.InputReader) -> List[str]:
    kind = reader.WhichOneof('input_reader')
    if kind != 'tf_record_input_reader':
        got = 'external_input_reader is set' if kind else 'no input is set'
        name = f' {reader.name!r}' if reader.name else ''
        raise errors.ConfigError(
            f'input reader{name}: {got}; expected tf_record_input_reader {{ input_path: "..." }}.'
        )
    if not reader.tf_record_input_reader.input_path:
        raise errors.DataError(
            f'{_field(reader)}: no path is given; expected at least one TFRecord file or glob.'
        )
    return list(reader.tf_record_input_reader.input_path)


def _field(reader: input_reader_pb2.InputReader) -> str:
    name = f'input reader {reader.name!r}: ' if reader.name else ''
    return f'{name}tf_record_input_reader.input_path'


def _shares(
    reader: input_reader_pb2.InputReader, num_paths: int, batch_size: Optional[int]
) -> Optional[Sequence[float]]:
    """Return weights or counts, one a path; None when neither is set."""
    weights = list(reader.sample_from_datasets_weights)
    counts = list(reader.examples_per_batch)
    if weights and counts:
        raise errors.ConfigError(
            'examples_per_batch and sample_from_datasets_weights are both set; expected one.'
        )
    field = 'examples_per_batch' if counts else 'sample_from_datasets_weights'
    shares = counts or weights
    if not shares:
        return None
    if len(shares) != num_paths:
        raise errors.ConfigError(
            f'{field} has {len(shares)} entries; expected one for each of the {num_paths} '
            'entries of input_path.'
        )
    # NaN fails this condition too.
    if not (all(0 <= share < float('inf') for share in shares) and sum(shares) > 0):
        raise errors.ConfigError(
            f'{field} is {shares}; expected numbers that are not negative, not all 0.'
        )
    if counts and batch_size is not None and sum(counts) != batch_size:
        raise errors.ConfigError(
            f'examples_per_batch is {counts}, {sum(counts)} in all; expected counts that add up '
            f'to the batch size, {batch_size}.'
        )
    return shares
