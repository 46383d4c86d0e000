"""Config rules that several tasks share."""

from __future__ import annotations

from typing import Iterator

from estimator_lib.config import reader_checks
from estimator_lib.config.rules import ConfigRules, PipelineConfig, Problem
from protos import cluster_pb2, input_reader_pb2, reader_paths

_USUAL_BITS = 8


def _quantized(config: PipelineConfig) -> Iterator[Problem]:
    """Check for fields that exclude quantization-aware training."""
    if not config.graph_rewriter.HasField('quantization'):
        return
    train_config = config.train_config
    where = 'graph_rewriter.quantization'
    if train_config.use_bfloat16:
        yield Problem(where, 'it excludes train_config.use_bfloat16; expected false.')
    cluster = train_config.cluster
    if cluster.mode == cluster_pb2.ClusterConfig.CLONES and cluster.num_clones != 1:
        yield Problem(
            where,
            'the copies of the network of train_config.cluster.mode: CLONES would have one range '
            'between them; expected MIRRORED, whose replicas have ranges of their own.',
        )


def _quantization_warnings(config: PipelineConfig) -> Iterator[str]:
    if not config.graph_rewriter.HasField('quantization'):
        return
    asked = config.graph_rewriter.quantization
    if asked.symmetric:
        yield (
            'graph_rewriter.quantization.symmetric: honored here; the published system read it '
            'and trained with ranges that are not symmetric.'
        )
    steps = config.train_config.num_steps
    if 0 < steps < asked.delay:
        yield (
            f'graph_rewriter.quantization.delay: {asked.delay} is more than '
            f'train_config.num_steps, {steps}: training will end before it quantizes.'
        )
    elif asked.delay > 1:
        yield (
            f'graph_rewriter.quantization.delay: training does not quantize before step '
            f'{asked.delay}, evaluations always do: metrics of the steps before are lower than '
            'those of the network as it is trained.'
        )


def labeled_problems(config: PipelineConfig, needed: str) -> Iterator[Problem]:
    """Yield a problem for each reader that names the classes that were looked for.

    Args:
        config: the pipeline config.
        needed: what the model would need for it.
    """
    for reader in reader_checks.list_readers(config):
        if any(reader.message.labeled_classes):
            text = f'the classes exclude each other in the loss of the model; expected {needed}.'
            yield reader.problem('labeled_classes', text)


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

# Quantization-aware training, for the tasks whose networks are quantized.
QUANTIZED = ConfigRules(problems=(_quantized,), warnings=(_quantization_warnings,))
