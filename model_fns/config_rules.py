"""Config rules that several tasks share."""

from __future__ import annotations

from typing import Iterator

from estimator_lib.config import reader_checks
from estimator_lib.config.rules import ConfigRules, PipelineConfig, Problem
from protos import input_reader_pb2, reader_paths

_USUAL_BITS = 8


def _channels(config: PipelineConfig) -> Iterator[Problem]:
    """Check the channels of the readers."""
    readers = reader_checks.list_readers(config)
    deciding = readers[0].message if readers else config.train_input_reader
    total = 3 + deciding.num_additional_channels
    for section in readers:
        reader = section.message
        for name in ('channel_means', 'channel_deviations'):
            values = list(getattr(reader, name))
            if values and len(values) != total:
                yield section.problem(name, f'{len(values)} values for {total} channels.')
            elif values and reader is not deciding and values != list(getattr(deciding, name)):
                yield section.problem(name, 'other values than those of the first reader.')
        kind = reader_paths.files_kind(reader)
        if kind:
            yield from _channels_of_files(section, deciding)
        is_sequence = reader.input_type == input_reader_pb2.TF_SEQUENCE_EXAMPLE
        if deciding.num_additional_channels and is_sequence:
            text = 'TF_SEQUENCE_EXAMPLE, which has no further channels; expected TF_EXAMPLE.'
            yield section.problem('input_type', text)


def _channels_of_files(
    section: reader_checks.Reader, deciding: input_reader_pb2.InputReader
) -> Iterator[Problem]:
    """Check the channels of a reader of files, by those of the reader that decides."""
    reader = section.message
    files = section.child(reader_paths.files_kind(reader))
    message = files.message
    folders, count = len(message.options.additional_channel_path), len(message.image_path)
    wanted = deciding.num_additional_channels * count
    if folders != wanted:
        yield files.problem(
            'options.additional_channel_path',
            f'{folders} folders; expected {wanted}: {deciding.num_additional_channels} '
            f'(num_additional_channels) for each of {count} image_path.',
        )
    if reader.image_bits != deciding.image_bits and not reader.HasField('image_bits'):
        yield section.problem(
            'image_bits',
            f'not set; a reader of files needs that of the first reader, {deciding.image_bits}.',
        )
    if reader.image_bits > _USUAL_BITS and message.options.HasField('bits'):
        yield files.problem('options.bits', 'it makes images of 8 bits and excludes image_bits.')


# Channels beside the colors, and values of more than 8 bits, for all tasks.
CHANNELS = ConfigRules(
    same_in_readers={'num_additional_channels': '', 'image_bits': ''}, problems=(_channels,)
)
