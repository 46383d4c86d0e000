"""The sources of an input reader: its paths as one source, or as several that are mixed."""

from __future__ import annotations

import dataclasses
import logging
import zlib
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib import errors, tf_estimator
from estimator_lib.data import file_examples, records
from estimator_lib.data.sequences import Sequences
from protos import input_reader_pb2, reader_paths

if TYPE_CHECKING:
    from protos import pipeline_pb2

log = logging.getLogger('estimator_lib')

# Key of the names of the classes that were looked for in an image, see `labeled_classes`.
LABELED = 'image/class/labeled'


@dataclasses.dataclass(frozen=True)
class Source:
    """Files that are read as one stream of records.

    Attributes:
        index: the index of its path in the reader when sources are mixed, else 0.
        files: the files, in order: TFRecord files, or data sets in another format.
        weight: fraction of the examples that come from this source.
        per_batch: number of examples of this source in each batch; None: drawn by `weight`.
        sequences: splitting of records into frames; None if a record is one example.
        repeats: (record id, repeat factor) of the records whose factor is more than 1, by id.
        without: ids of records that are left out, sorted; the others keep their positions.
    """

    index: int
    files: Tuple[records.RecordFile, ...]
    weight: float = 1.0
    per_batch: Optional[int] = None
    sequences: Optional[Sequences] = None
    repeats: Tuple[Tuple[int, float], ...] = ()
    without: Tuple[int, ...] = ()

    @property
    def has_examples(self) -> bool:
        """True if the files are data sets in another format than TFRecord."""
        return self.files[0].examples is not None

    @property
    def fingerprint(self) -> int:
        """Nonzero number made of the repeats, and names and sizes of files without their folder."""
        # Without the folder, so that a copy of the data elsewhere continues at the saved position.
        listed: List[Tuple[Any, ...]] = [
            content for file in self.files for content in file.contents()
        ]
        listed += self.repeats
        listed += [(file.suffix,) for file in self.files if file.suffix]
        # In a saved position 0 means that there is none (`reader_state.valid_start`).
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
        errors.ConfigError: the reader has no paths.
        errors.DataError: a path is empty or matches nothing.
    """
    return _find_files(reader, range(len(_paths(reader))))


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
    num_paths = len(_paths(reader))
    shares = _shares(reader, num_paths, batch_size if mode == tf_estimator.ModeKeys.TRAIN else None)
    if shares is None:
        return [Source(0, tuple(_find_files(reader, range(num_paths))))], 1
    taken = [index for index, share in enumerate(shares) if share > 0]
    if mode != tf_estimator.ModeKeys.TRAIN:
        return [Source(0, tuple(_find_files(reader, taken)))], 1
    sources = [
        Source(
            index,
            tuple(_find_files(reader, [index])),
            weight=shares[index] / sum(shares),
            per_batch=reader.examples_per_batch[index] if reader.examples_per_batch else None,
        )
        for index in taken
    ]
    return sources, num_paths


def _paths(reader: input_reader_pb2.InputReader) -> List[str]:
    """Return the paths of a reader."""
    field, paths = reader_paths.reader_paths(reader)
    name = f'input reader {reader.name!r}: ' if reader.name else ''
    kind = reader.WhichOneof('input_reader')
    if not field.startswith(f'{kind}.'):
        got = f'{kind} is set' if kind else 'no input is set'
        name = f' {reader.name!r}' if reader.name else ''
        raise errors.ConfigError(
            f'input reader{name}: {got}; expected tf_record_input_reader {{ input_path: "..." }}.'
        )
    if not paths:
        expected = (
            'folder of images' if reader_paths.files_kind(reader) else 'TFRecord file or glob'
        )
        raise errors.DataError(
            f'{name}{field}: no path is given; expected at least one {expected}.'
        )
    return paths


def _find_files(
    reader: input_reader_pb2.InputReader, indices: Iterable[int]
) -> List[records.RecordFile]:
    """Find the files of some of the paths of a reader."""
    name = f'input reader {reader.name!r}: ' if reader.name else ''
    field, paths = reader_paths.reader_paths(reader)
    kind = reader_paths.files_kind(reader)
    added = _added_features(reader, len(paths))
    if not kind and not any(added):
        return records.find_files([paths[index] for index in indices], f'{name}{field}')
    if not kind:
        files: Dict[str, records.RecordFile] = {}
        for index in indices:
            for file in records.find_files([paths[index]], f'{name}{field}'):
                marked = file._replace(suffix=added[index])
                if files.setdefault(file.path, marked) != marked:
                    raise errors.ConfigError(
                        f'{name}labeled_classes: {file.path} is in two entries of {field} of which '
                        'other classes were looked for; expected it in one.'
                    )
        return [files[path] for path in sorted(files)]
    opener = file_examples.OPENERS.get(kind)
    indices = list(indices)
    try:
        opened = [opener(reader, index) for index in indices]
    except errors.UserError as error:
        raise type(error)(f'{name}{kind}: {error}') from None
    sizes = [sum(size for _, size in examples.contents()) for examples in opened]
    return [
        records.RecordFile(examples.path, '', size, examples, added[index])
        for examples, size, index in zip(opened, sizes, indices)
    ]


def labeled_names(reader: input_reader_pb2.InputReader) -> List[List[str]]:
    """Return the names in each entry of `labeled_classes`; none: all classes were looked for."""
    return [
        [name.strip() for name in entry.split(',') if name.strip()]
        for entry in reader.labeled_classes
    ]


def _added_features(reader: input_reader_pb2.InputReader, num_paths: int) -> List[bytes]:
    """Return the features that each record of a path gets, serialized; appending them adds them."""
    entries = labeled_names(reader)
    if len(entries) not in (0, 1, num_paths):
        raise errors.ConfigError(
            f'labeled_classes has {len(entries)} entries; expected one for each of the {num_paths} '
            f'entries of {reader_paths.reader_paths(reader)[0]}, or one for all.'
        )
    added = []
    for names in entries or [[]]:
        example = tf.train.Example()
        if names:
            values = [name.encode() for name in names]
            example.features.feature[LABELED].bytes_list.value.extend(values)
        # Concatenated messages of protobuf merge, and so do their maps: no record has to be parsed.
        added.append(example.SerializeToString())
    return added if len(added) == num_paths else added * num_paths


def _shares(
    reader: input_reader_pb2.InputReader, num_paths: int, batch_size: Optional[int]
) -> Optional[Sequence[float]]:
    """Return weights or counts, one a path; None when neither is set."""
    weights = list(reader.sample_from_datasets_weights)
    counts = list(reader.examples_per_batch)
    if weights and counts:
        raise errors.ConfigError(
            f'examples_per_batch is {counts} and sample_from_datasets_weights is {weights}; '
            'expected one of them.'
        )
    field = 'examples_per_batch' if counts else 'sample_from_datasets_weights'
    shares = counts or weights
    if not shares:
        return None
    if len(shares) != num_paths:
        raise errors.ConfigError(
            f'{field} has {len(shares)} entries; expected one for each of the {num_paths} '
            f'entries of {reader_paths.reader_paths(reader)[0]}.'
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
