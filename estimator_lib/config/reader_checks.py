"""What is wrong with input readers: each by itself, and what they have to have in common."""

from __future__ import annotations

from typing import Any, Iterator, List, Tuple

from estimator_lib.config import support
from estimator_lib.config.support import Problem
from protos import input_reader_pb2, pipeline_pb2

InputReader = input_reader_pb2.InputReader

_TRAINING = 'train_input_reader'


def check_reader(path: str, reader: InputReader) -> Iterator[Problem]:
    """One input reader: what it reads, and how several sources share a batch.

    Args:
        path: of the reader in the config.
        reader: the message.
    """
    inputs = reader.tf_record_input_reader.input_path
    if not any(inputs):
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


def check_batch_counts(reader: InputReader, batch_size: int) -> Iterator[Problem]:
    """How many examples of a training batch come from each source."""
    counts = reader.examples_per_batch
    if counts and sum(counts) != batch_size:
        yield Problem(
            'train_input_reader.examples_per_batch',
            f'{" + ".join(map(str, counts))} = {sum(counts)}; expected a sum of {batch_size}, '
            'train_config.batch_size.',
        )


def check_agreement(config: pipeline_pb2.TrainEvalPipelineConfig) -> Iterator[Problem]:
    """Examples are decoded in one way, whichever reader they come from."""
    readers = _readers(config)
    if support.is_detector(config):
        yield from _differing('use_display_name', readers)
        yield from _differing('load_instance_masks', readers)
        yield from _differing('mask_type', readers)
        yield from _differing('num_keypoints', readers)
        yield from _most_boxes(config, readers)


def _readers(config: pipeline_pb2.TrainEvalPipelineConfig) -> List[Tuple[str, InputReader]]:
    """All readers with their paths; the first decides."""
    readers = [(f'eval_input_reader.{k}', one) for k, one in enumerate(config.eval_input_reader)]
    if config.HasField(_TRAINING):
        readers.insert(0, (_TRAINING, config.train_input_reader))
    return readers


def _differing(field: str, readers: List[Tuple[str, InputReader]]) -> Iterator[Problem]:
    """The readers after the first that set a field to something else than it has there."""
    for path, reader in readers[1:]:
        first, expected = readers[0][0], getattr(readers[0][1], field)
        if reader.HasField(field) and getattr(reader, field) != expected:
            yield _difference(
                f'{path}.{field}', getattr(reader, field), f'{first}.{field}', expected
            )


def _most_boxes(
    config: pipeline_pb2.TrainEvalPipelineConfig, readers: List[Tuple[str, InputReader]]
) -> Iterator[Problem]:
    """Evaluations agree; in training `train_config.max_number_of_boxes` decides where it is set."""
    field = 'max_number_of_boxes'
    yield from _differing(field, [one for one in readers if one[0] != _TRAINING])
    expected, given = config.train_config, config.train_input_reader
    if expected.HasField(field) and given.HasField(field):
        yield from _differing(field, [('train_config', expected), (_TRAINING, given)])


def _difference(path: str, got: Any, other: str, expected: Any) -> Problem:
    return Problem(
        path, f'{got!r}; {other} is {expected!r}, and examples are read in one way; expected it.'
    )
