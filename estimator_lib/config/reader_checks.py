"""Checks of the input readers of a config, of each one and of their agreement."""

from __future__ import annotations

from typing import Any, Iterator, List, Mapping, Tuple

from estimator_lib.config.rules import PipelineConfig, Problem
from protos import input_reader_pb2, reader_paths

InputReader = input_reader_pb2.InputReader

_TRAINING = 'train_input_reader'


def check_reader(path: str, reader: InputReader, needed: bool = True) -> Iterator[Problem]:
    """Check the input files and the cache of one input reader.

    Args:
        path: the path of the reader in the config.
        reader: the message.
        needed: whether the reader must name files.

    Yields:
        The problems.
    """
    field, inputs = reader_paths.reader_paths(reader)
    kind = reader_paths.files_kind(reader)
    if not any(inputs):
        if not needed:
            return
        expected = 'folders of images' if kind else 'TFRecord files, or patterns of them'
        yield Problem(f'{path}.{field}', f'not set; expected {expected}.')
        return
    for index, each in enumerate(inputs):
        if not each:
            yield Problem(f'{path}.{field}.{index}', 'an empty path.')
    if kind:
        yield from _check_files(path, reader, kind)
    elif reader.tiles.size:
        yield Problem(
            f'{path}.tiles',
            'records are read as they are; expected a reader of files, or the records of '
            f'convert-records --tile={reader.tiles.size} and no tiles.',
        )
    weights, counts = reader.sample_from_datasets_weights, reader.examples_per_batch
    shares = {'sample_from_datasets_weights': weights, 'examples_per_batch': counts}
    for name, values in shares.items():
        if values and len(values) != len(inputs):
            yield Problem(
                f'{path}.{name}',
                f'{len(values)} values for {len(inputs)} {field.partition(".")[2]}; expected one '
                'for each.',
            )
    if weights and counts:
        yield Problem(
            f'{path}.examples_per_batch', 'it excludes sample_from_datasets_weights; set one.'
        )
    if weights and not any(weights):
        yield Problem(f'{path}.sample_from_datasets_weights', 'all are 0; nothing would be read.')
    yield from _check_cache(path, reader)


def _check_files(path: str, reader: InputReader, kind: str) -> Iterator[Problem]:
    """Check the further paths of a reader of files, one for each folder of images."""
    message = getattr(reader, kind)
    count = len(message.image_path)
    lists = {'options.list_path': list(message.options.list_path)}
    if 'annotation_path' in message.DESCRIPTOR.fields_by_name:
        lists['annotation_path'] = list(message.annotation_path)
    for field, values in lists.items():
        if len(values) != count and (values or field == 'annotation_path'):
            yield Problem(
                f'{path}.{kind}.{field}',
                f'{len(values)} values for {count} image_path; expected one for each.',
            )
    if reader.input_type == input_reader_pb2.TF_SEQUENCE_EXAMPLE:
        yield Problem(
            f'{path}.input_type',
            f'TF_SEQUENCE_EXAMPLE, which {kind} has none of; expected tf_record_input_reader.',
        )


def _check_cache(path: str, reader: InputReader) -> Iterator[Problem]:
    """Check that fields of the cache fit its kind, and that its folder is on a local disk."""
    in_file = reader.cache == InputReader.FILE
    if reader.cache_max_megabytes and not (in_file or reader.cache == InputReader.MEMORY):
        yield Problem(
            f'{path}.cache_max_megabytes',
            f'{path}.cache is {InputReader.Cache.Name(reader.cache)}; expected it with MEMORY or '
            'FILE, which keep decoded examples.',
        )
    if reader.cache_folder and not in_file:
        yield Problem(
            f'{path}.cache_folder',
            f'{path}.cache is {InputReader.Cache.Name(reader.cache)}; expected it with FILE.',
        )
    elif '://' in reader.cache_folder:
        yield Problem(
            f'{path}.cache_folder',
            f'{reader.cache_folder!r}; expected a folder of a local disk.',
        )


def check_batch_counts(reader: InputReader, batch_size: int) -> Iterator[Problem]:
    """Check that the counts of examples add up to the batch size."""
    counts = reader.examples_per_batch
    if counts and sum(counts) != batch_size:
        yield Problem(
            'train_input_reader.examples_per_batch',
            f'{" + ".join(map(str, counts))} = {sum(counts)}; expected a sum of {batch_size}, '
            'train_config.batch_size.',
        )


def check_agreement(config: PipelineConfig, fields: Mapping[str, str]) -> Iterator[Problem]:
    """Check that readers agree on fields that decide how examples are decoded.

    Args:
        config: the whole config.
        fields: `ConfigRules.same_in_readers`.

    Yields:
        A problem for each reader that differs.
    """
    readers = list_readers(config)
    for field, decider in fields.items():
        if not decider:
            yield from _differing(field, readers)
            continue
        section, _, name = decider.partition('.')
        yield from _differing(field, [item for item in readers if item[0] != _TRAINING])
        if getattr(config, section).HasField(name):
            value = getattr(getattr(config, section), name)
            training = [item for item in readers if item[0] == _TRAINING]
            yield from _differences(field, training, decider, value)


def list_readers(config: PipelineConfig) -> List[Tuple[str, InputReader]]:
    """Return all readers with their paths, as `eval_input_reader.0`.

    The first one decides where readers must agree.
    """
    readers = [
        (f'eval_input_reader.{k}', reader) for k, reader in enumerate(config.eval_input_reader)
    ]
    if config.HasField(_TRAINING):
        readers.insert(0, (_TRAINING, config.train_input_reader))
    return readers


def _differing(field: str, readers: List[Tuple[str, InputReader]]) -> Iterator[Problem]:
    """Check that all readers have the value of the first one."""
    for first, reader in readers[:1]:
        decider = f'{first}.{field}'
        yield from _differences(field, readers[1:], decider, getattr(reader, field))


def _differences(
    field: str, readers: List[Tuple[str, InputReader]], decider: str, expected: Any
) -> Iterator[Problem]:
    for path, reader in readers:
        got = getattr(reader, field)
        if reader.HasField(field) and got != expected:
            text = f'{got!r}; {decider} is {expected!r}, and examples are read in one way'
            yield Problem(f'{path}.{field}', f'{text}; expected it.')
