"""Checks of combinations of fields that a segmentation network does not support.

Ranges of single values are checked with the rest of the pipeline config.
"""

from __future__ import annotations

from typing import Sequence, Tuple

from estimator_lib import errors
from estimator_lib.config import message_checks
from estimator_lib.config.rules import ConfigRules
from estimator_lib.config.section import Section
from model_fns.segmentation.networks import backbones, image_pyramid
from protos import segmentation_pb2

_Model = Section[segmentation_pb2.Segmentation]

# Input size divided by feature size: strides that backbones support.
_OUTPUT_STRIDES = (1, 2, 4, 8, 16, 32)
# Fields with an effect on a pyramid without batch norm.
_OF_PLAIN_PYRAMID = ('atrous_rates', 'batch_norm', 'batch_norm_decay')
# Switches: `false` has no effect.
_SWITCHES = (
    'image_level_feature',
    'concat_projection',
    'squeeze_and_excitation',
    'quantized_sigmoid_gate',
)


def check(
    model: _Model, num_classes: int, backbone: backbones.SegmentationBackbone, output_stride: int
) -> None:
    """Refuse a network that is not supported, or a field without an effect.

    Args:
        model: the config of the model.
        num_classes: of the semantic head.
        backbone: of the network.
        output_stride: of the backbone.

    Raises:
        errors.ConfigError: the first problem.
    """
    message_checks.check_message(ConfigRules(), model)
    config = model.message
    if num_classes < 2:
        text = f'got {num_classes}; expected at least 2, background included.'
        raise model.error('num_classes', text)
    check_output_stride(output_stride, model.at('backbone.output_stride'))
    _check_pyramid(model.child('aspp'))
    if config.HasField('decoder'):
        _check_decoder(model, num_classes)
        strides = tuple(config.decoder.output_strides) or (4,)
        field = model.at('decoder.output_strides')
        check_decoder_strides(strides, output_stride, field)
        filters = config.decoder.unet_filters
        if filters and len(filters) != len(strides):
            expected = f'{len(strides)}, one for each of output_strides ({_listed(strides)})'
            raise model.error('decoder.unet_filters', expected=expected)
        for stride in strides:
            if stride > 1 or not config.decoder.unet_filters:
                backbone.decoder_tap(stride, field)
    _check_scales(model)
    if config.HasField('edge') and config.edge.num_classes not in (2, num_classes):
        raise model.error(
            'edge.num_classes',
            f'got {config.edge.num_classes}; expected 2 (edge or none) or {num_classes}, the '
            'number of semantic classes.',
        )


def check_output_stride(stride: int, field: str) -> None:
    """Refuse an output stride that no backbone has.

    Args:
        stride: of the features.
        field: the config field, for the message.

    Raises:
        errors.ConfigError: the stride is not supported.
    """
    if stride not in _OUTPUT_STRIDES:
        raise errors.ConfigError(f'{field}: got {stride}; expected {_listed(_OUTPUT_STRIDES)}.')


def check_decoder_strides(strides: Sequence[int], output_stride: int, field: str) -> None:
    """Refuse a decoder whose strides do not decrease from that of the backbone.

    Args:
        strides: of the decoder; empty: there is none.
        output_stride: of the backbone.
        field: the config field, for the message.

    Raises:
        errors.ConfigError: the strides do not decrease.
    """
    every = (output_stride, *strides)
    if any(coarse <= fine for coarse, fine in zip(every, every[1:])) or 0 in strides:
        raise errors.ConfigError(
            f'{field}: the decoder has output strides {_listed(strides)} behind a backbone of '
            f'{output_stride}; expected each to be below the one before it.'
        )


def scale_rates(
    rates: Sequence[int], old_stride: int, new_stride: int, explicit: Sequence[int], where: str = ''
) -> Tuple[int, ...]:
    """Return the atrous rates for another output stride.

    Args:
        rates: those at the old stride.
        old_stride: output stride of these rates.
        new_stride: the other output stride.
        explicit: rates at the new stride; empty: the old ones, scaled with the features.
        where: the config message with the new stride, for errors.

    Returns:
        As many rates as before. For example, 6, 12, 18 at 16 become 12, 24, 36 at 8.

    Raises:
        errors.ConfigError: the number of rates differs, or a scaled rate is not an integer.
    """
    field = f'{where}.atrous_rates' if where else 'atrous_rates'
    if explicit:
        if len(explicit) != len(rates):
            raise errors.ConfigError(
                f'{field}: got {len(explicit)} ({_listed(explicit)}); expected '
                f'{len(rates)}, as many as in training ({_listed(rates) or "none"}).'
            )
        return tuple(explicit)
    # In integers: a rounded rate would be another reach, without a word.
    if any(rate * old_stride % new_stride for rate in rates):
        raise errors.ConfigError(
            f'{field}: the rates {_listed(rates)} at output stride {old_stride} are no whole '
            f'numbers at {new_stride}; expected them to be given, or another output stride.'
        )
    return tuple(rate * old_stride // new_stride for rate in rates)


def _check_pyramid(section: Section[segmentation_pb2.AtrousSpatialPyramidPooling]) -> None:
    pyramid = section.message
    if not pyramid.batch_norm:
        _check_plain_pyramid(section)
        return
    if (
        pyramid.squeeze_and_excitation
        and not pyramid.concat_projection
        and len(pyramid.atrous_rates)
    ):
        raise section.error(
            'squeeze_and_excitation',
            f'the gate has num_filters channels, and the {len(pyramid.atrous_rates) + 1} branches '
            'together have more; expected concat_projection: true, or no atrous_rates.',
        )


def _check_plain_pyramid(section: Section[segmentation_pb2.AtrousSpatialPyramidPooling]) -> None:
    """Refuse fields of branches, which a pyramid without batch norm does not have."""
    for descriptor, _ in section.message.ListFields():
        name = descriptor.name
        if name not in _OF_PLAIN_PYRAMID and _is_used(section.message, name):
            raise section.error(
                name,
                'with batch_norm: false there are no branches, and it has no effect; expected only '
                f'{", ".join(_OF_PLAIN_PYRAMID)}.',
            )


def _check_decoder(model: _Model, num_classes: int) -> None:
    config, section = model.message, model.child('decoder')
    decoder = section.message
    if not decoder.output_is_logits:
        return
    if decoder.HasField('num_filters') and decoder.num_filters != num_classes:
        raise section.error(
            'num_filters',
            f'got {decoder.num_filters} with output_is_logits; expected {num_classes}, the number '
            'of classes, or nothing.',
        )
    if config.logits_kernel_size != 1 or (not config.aspp.batch_norm and config.aspp.atrous_rates):
        raise section.error(
            'output_is_logits',
            'there is no further layer that logits_kernel_size or aspp.atrous_rates without '
            'batch_norm could speak of; expected them unset.',
        )


def _check_scales(model: _Model) -> None:
    field, scales = 'image_pyramid', model.message.image_pyramid
    # Losses and logits are named with two decimals: equal names would replace each other.
    names = [image_pyramid.scale_name(scale) for scale in scales]
    for scale, name in zip(scales, names):
        if names.count(name) > 1:
            raise model.error(
                field,
                f'got {_listed(scales)}, with {scale:.2f} more than once; expected scales that '
                'differ in their first two decimals.',
            )


def _is_used(message: segmentation_pb2.AtrousSpatialPyramidPooling, name: str) -> bool:
    if not message.HasField(name):
        return False
    return bool(getattr(message, name)) if name in _SWITCHES else True


def _listed(values: Sequence[float]) -> str:
    return ', '.join(f'{value:g}' for value in values)
