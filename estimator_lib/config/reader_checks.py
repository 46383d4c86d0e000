"""Checks of the input readers of a config, of each one and of their agreement."""

from __future__ import annotations

from typing import Any, Iterator, List, Mapping

from estimator_lib.config.rules import PipelineConfig, Problem
from estimator_lib.config.section import Section
from protos import input_reader_pb2, reader_paths

InputReader = input_reader_pb2.InputReader
Reader = Section[InputReader]

_TRAINING = 'train_input_reader'


def check_reader(section: Reader, needed: bool = True) -> Iterator[Problem]:
    """Check the input files and the cache of one input reader.

    Args:
        section: the reader.
        needed: whether the reader must name files.

    Yields:
        The problems.
    """
    reader = section.message
    field, inputs = reader_paths.reader_paths(reader)
    kind = reader_paths.files_kind(reader)
    if not any(inputs):
        if not needed:
            return
        expected = 'folders of images' if kind else 'TFRecord files, or patterns of them'
        yield section.problem(field, f'not set; expected {expected}.')
        return
    for index, each in enumerate(inputs):
        if not each:
            yield Problem(f'{section.at(field)}.{index}', 'an empty path.')
    if kind:
        yield from _check_files(section, kind)
    elif reader.tiles.size:
        yield section.problem(
            'tiles',
            'records are read as they are; expected a reader of files, or the records of '
            f'convert-records --tile={reader.tiles.size} and no tiles.',
        )
    weights = reader.sample_from_datasets_weights
    for name in ('sample_from_datasets_weights', 'examples_per_batch'):
        values = getattr(reader, name)
        if values and len(values) != len(inputs):
            yield section.problem(
                name,
                f'{len(values)} values for {len(inputs)} {field.partition(".")[2]}; expected one '
                'for each.',
            )
    if weights and not any(weights):
        text = 'all are 0; nothing would be read.'
        yield section.problem('sample_from_datasets_weights', text)
    yield from _check_cache(section)


def _check_files(section: Reader, kind: str) -> Iterator[Problem]:
    """Check the further paths of a reader of files, one for each folder of images."""
    files = section.child(kind)
    message = files.message
    count = len(message.image_path)
    lists = {'options.list_path': list(message.options.list_path)}
    if 'annotation_path' in message.DESCRIPTOR.fields_by_name:
        lists['annotation_path'] = list(message.annotation_path)
    for field, values in lists.items():
        if len(values) != count and (values or field == 'annotation_path'):
            yield files.problem(
                field, f'{len(values)} values for {count} image_path; expected one for each.'
            )
    if section.message.input_type == input_reader_pb2.TF_SEQUENCE_EXAMPLE:
        yield section.problem(
            'input_type',
            f'TF_SEQUENCE_EXAMPLE, which {kind} has none of; expected tf_record_input_reader.',
        )


def _check_cache(section: Reader) -> Iterator[Problem]:
    """Check that the folder of the cache is on a local disk."""
    if '://' in section.message.cache_folder:
        yield section.problem('cache_folder', expected='a folder of a local disk')


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
        yield from _differing(field, [each for each in readers if each.path != _TRAINING])
        if getattr(config, section).HasField(name):
            value = getattr(getattr(config, section), name)
            training = [each for each in readers if each.path == _TRAINING]
            yield from _differences(field, training, decider, value)


def list_readers(config: PipelineConfig) -> List[Reader]:
    """Return all readers; the first one decides where they must agree."""
    whole = Section(config)
    training = [whole.child(_TRAINING)] if config.HasField(_TRAINING) else []
    return [*training, *whole.children('eval_input_reader')]


def _differing(field: str, readers: List[Reader]) -> Iterator[Problem]:
    """Check that all readers have the value of the first one."""
    for first in readers[:1]:
        yield from _differences(field, readers[1:], first.at(field), getattr(first.message, field))


def _differences(
    field: str, readers: List[Reader], decider: str, expected: Any
) -> Iterator[Problem]:
    for reader in readers:
        got = getattr(reader.message, field)
        if reader.message.HasField(field) and got != expected:
            text = f'{got!r}; {decider} is {expected!r}, and examples are read in one way'
            yield reader.problem(field, f'{text}; expected it.')
