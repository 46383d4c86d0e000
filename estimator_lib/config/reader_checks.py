"""What is wrong with input readers: each by itself, and what they have to have in common."""

from __future__ import annotations

from typing import Any, Iterator, List, Mapping, Tuple

from estimator_lib.config.rules import PipelineConfig, Problem
from protos import input_reader_pb2

InputReader = input_reader_pb2.InputReader

_TRAINING = 'train_input_reader'


def check_reader(path: str, reader: InputReader, needed: bool = True) -> Iterator[Problem]:
    """Yield what is wrong with the sources of one input reader.

    Args:
        path: of the reader in the config.
        reader: the message.
        needed: whether it has to name files.
    """
    inputs = reader.tf_record_input_reader.input_path
    if not any(inputs):
        if not needed:
            return
        yield Problem(
            f'{path}.tf_record_input_reader.input_path',
            'not set; expected TFRecord files, or patterns of them.',
        )
        return
    for index, each in enumerate(inputs):
        if not each:
            yield Problem(f'{path}.tf_record_input_reader.input_path.{index}', 'an empty path.')
    weights, counts = reader.sample_from_datasets_weights, reader.examples_per_batch
    shares = {'sample_from_datasets_weights': weights, 'examples_per_batch': counts}
    for name, values in shares.items():
        if values and len(values) != len(inputs):
            yield Problem(
                f'{path}.{name}',
                f'{len(values)} values for {len(inputs)} input_path; expected one for each.',
            )
    if weights and counts:
        yield Problem(
            f'{path}.examples_per_batch', 'it excludes sample_from_datasets_weights; set one.'
        )
    if weights and not any(weights):
        yield Problem(f'{path}.sample_from_datasets_weights', 'all are 0; nothing would be read.')
    yield from _check_cache(path, reader)


def _check_cache(path: str, reader: InputReader) -> Iterator[Problem]:
    """Yield fields of a cache that `cache` does not ask for, and a folder that cannot hold one."""
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
    """Yield counts of examples that do not add up to the batch size."""
    counts = reader.examples_per_batch
    if counts and sum(counts) != batch_size:
        yield Problem(
            'train_input_reader.examples_per_batch',
            f'{" + ".join(map(str, counts))} = {sum(counts)}; expected a sum of {batch_size}, '
            'train_config.batch_size.',
        )


def check_agreement(config: PipelineConfig, fields: Mapping[str, str]) -> Iterator[Problem]:
    """Yield fields that readers disagree on, though examples are decoded in one way.

    Args:
        config: the whole config.
        fields: `ConfigRules.same_in_readers`.
    """
    readers = _readers(config)
    for field, decider in fields.items():
        if not decider:
            yield from _differing(field, readers)
            continue
        section, _, name = decider.partition('.')
        yield from _differing(field, [one for one in readers if one[0] != _TRAINING])
        if getattr(config, section).HasField(name):
            value = getattr(getattr(config, section), name)
            training = [one for one in readers if one[0] == _TRAINING]
            yield from _differences(field, training, decider, value)


def _readers(config: PipelineConfig) -> List[Tuple[str, InputReader]]:
    """Return all readers with their paths; the first decides."""
    readers = [(f'eval_input_reader.{k}', one) for k, one in enumerate(config.eval_input_reader)]
    if config.HasField(_TRAINING):
        readers.insert(0, (_TRAINING, config.train_input_reader))
    return readers


def _differing(field: str, readers: List[Tuple[str, InputReader]]) -> Iterator[Problem]:
    """Yield what a reader says otherwise than the first one."""
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
