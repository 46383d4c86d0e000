"""Checks of combinations of fields that a segmentation network does not support.

Ranges of single values are checked with the rest of the pipeline config.
"""

from __future__ import annotations

from typing import Sequence, Tuple

from estimator_lib import errors
from model_fns.segmentation.networks import backbones, image_pyramid
from protos import segmentation_pb2

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
    config: segmentation_pb2.Segmentation,
    num_classes: int,
    backbone: backbones.SegmentationBackbone,
    output_stride: int,
    where: str,
) -> None:
    """Refuse a network that is not supported, or a field without an effect.

    Args:
        config: the model.
        num_classes: of the semantic head.
        backbone: of the network.
        output_stride: of the backbone.
        where: the message's place in the pipeline config.

    Raises:
        errors.ConfigError: the first problem.
    """
    if num_classes < 2:
        raise errors.ConfigError(
            f'{where}.num_classes: got {num_classes}; expected at least 2, background included.'
        )
    if config.HasField('aspp') and config.HasField('dense_prediction_cell'):
        raise errors.ConfigError(
            f'{where}: got both aspp and dense_prediction_cell; expected at most one of them, '
            'since both are put on the same features.'
        )
    check_output_stride(output_stride, f'{where}.backbone.output_stride')
    _check_pyramid(config.aspp, f'{where}.aspp')
    _check_logits(config, where)
    if config.HasField('decoder'):
        _check_decoder(config, num_classes, where)
        strides = tuple(config.decoder.output_strides) or (4,)
        field = f'{where}.decoder.output_strides'
        check_decoder_strides(strides, output_stride, field)
        _check_unet(config.decoder, strides, f'{where}.decoder')
        for stride in strides:
            if stride > 1 or not config.decoder.unet_filters:
                backbone.decoder_tap(stride, field)
    _check_scales(config.image_pyramid, f'{where}.image_pyramid')
    if config.HasField('edge') and config.edge.num_classes not in (2, num_classes):
        raise errors.ConfigError(
            f'{where}.edge.num_classes: got {config.edge.num_classes}; expected 2 (edge or none) '
            f'or {num_classes}, the number of semantic classes.'
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
    if any(rate * old_stride % new_stride for rate in rates):
        raise errors.ConfigError(
            f'{field}: the rates {_listed(rates)} at output stride {old_stride} are no whole '
            f'numbers at {new_stride}; expected them to be given, or another output stride.'
        )
    return tuple(rate * old_stride // new_stride for rate in rates)


def _check_pyramid(pyramid: segmentation_pb2.AtrousSpatialPyramidPooling, field: str) -> None:
    if not pyramid.batch_norm:
        _check_plain_pyramid(pyramid, field)
        return
    if bool(pyramid.image_pooling_crop_height) != bool(pyramid.image_pooling_crop_width):
        raise errors.ConfigError(
            f'{field}: got image_pooling_crop_height {pyramid.image_pooling_crop_height} and '
            f'image_pooling_crop_width {pyramid.image_pooling_crop_width}; expected both or '
            'neither.'
        )
    for name, needed in (
        ('image_pooling_stride_height', 'image_pooling_crop_height'),
        ('image_pooling_stride_width', 'image_pooling_crop_width'),
        ('image_pooling_crop_height', 'image_level_feature'),
        ('squeeze_and_excitation', 'image_level_feature'),
        ('quantized_sigmoid_gate', 'squeeze_and_excitation'),
        ('dropout_keep_prob', 'concat_projection'),
    ):
        if _is_used(pyramid, name) and not getattr(pyramid, needed):
            raise errors.ConfigError(
                f'{field}.{name}: it has no effect without {needed}; expected {needed} to be set, '
                f'or {name} not to be.'
            )
    if (
        pyramid.squeeze_and_excitation
        and not pyramid.concat_projection
        and len(pyramid.atrous_rates)
    ):
        raise errors.ConfigError(
            f'{field}.squeeze_and_excitation: the gate has num_filters channels, and the '
            f'{len(pyramid.atrous_rates) + 1} branches together have more; expected '
            'concat_projection: true, or no atrous_rates.'
        )


def _check_plain_pyramid(pyramid: segmentation_pb2.AtrousSpatialPyramidPooling, field: str) -> None:
    """Refuse fields of branches, which a pyramid without batch norm does not have."""
    for descriptor, _ in pyramid.ListFields():
        name = descriptor.name
        if name not in _OF_PLAIN_PYRAMID and _is_used(pyramid, name):
            raise errors.ConfigError(
                f'{field}.{name}: with batch_norm: false there are no branches, and it has '
                f'no effect; expected only {", ".join(_OF_PLAIN_PYRAMID)}.'
            )


def _check_logits(config: segmentation_pb2.Segmentation, where: str) -> None:
    size = config.logits_kernel_size
    if size == 1:
        return
    if size == 0:
        raise errors.ConfigError(f'{where}.logits_kernel_size: got 0; expected at least 1.')
    if config.aspp.batch_norm or config.HasField('dense_prediction_cell'):
        raise errors.ConfigError(
            f'{where}.logits_kernel_size: got {size}; expected 1, or aspp {{ batch_norm: false }}, '
            'since logits behind a projection come from single features.'
        )


def _check_decoder(config: segmentation_pb2.Segmentation, num_classes: int, where: str) -> None:
    decoder, field = config.decoder, f'{where}.decoder'
    if not decoder.output_is_logits:
        return
    if not decoder.sum_merge:
        raise errors.ConfigError(
            f'{field}.output_is_logits: got true without sum_merge; expected sum_merge: true, '
            'since logits are a sum.'
        )
    if decoder.HasField('num_filters') and decoder.num_filters != num_classes:
        raise errors.ConfigError(
            f'{field}.num_filters: got {decoder.num_filters} with output_is_logits; expected '
            f'{num_classes}, the number of classes, or nothing.'
        )
    if decoder.HasField('separable_convolution') and decoder.separable_convolution:
        raise errors.ConfigError(
            f'{field}.separable_convolution: with output_is_logits the decoder has 1x1 '
            'convolutions only; expected it unset or false.'
        )
    if config.logits_kernel_size != 1 or (not config.aspp.batch_norm and config.aspp.atrous_rates):
        raise errors.ConfigError(
            f'{field}.output_is_logits: there is no further layer that logits_kernel_size or '
            'aspp.atrous_rates without batch_norm could speak of; expected them unset.'
        )
    for head in ('instance_center', 'offset', 'edge'):
        if config.HasField(head):
            raise errors.ConfigError(
                f'{where}.{head}: a decoder whose output_is_logits leaves no features for another '
                'head; expected output_is_logits: false.'
            )


def _check_unet(
    decoder: segmentation_pb2.SegmentationDecoder, strides: Sequence[int], field: str
) -> None:
    """Refuse a U-Net without channels for each stride, and fields that it has no use for."""
    if not decoder.unet_filters:
        return
    if len(decoder.unet_filters) != len(strides):
        raise errors.ConfigError(
            f'{field}.unet_filters: {len(decoder.unet_filters)} values; expected {len(strides)}, '
            f'one for each of output_strides ({_listed(strides)}).'
        )
    for name in ('num_filters', 'sum_merge', 'output_is_logits'):
        if decoder.HasField(name) and getattr(decoder, name):
            raise errors.ConfigError(
                f'{field}.{name}: a U-Net concatenates features, with the channels of '
                'unet_filters; expected it unset.'
            )


def _check_scales(scales: Sequence[float], field: str) -> None:
    names = [image_pyramid.scale_name(scale) for scale in scales]
    for scale, name in zip(scales, names):
        if not scale > 0:
            raise errors.ConfigError(f'{field}: got {scale:g}; expected scales above 0.')
        if names.count(name) > 1:
            raise errors.ConfigError(
                f'{field}: got {_listed(scales)}, with {scale:.2f} more than once; expected scales '
                'that differ in their first two decimals.'
            )


def _is_used(message: segmentation_pb2.AtrousSpatialPyramidPooling, name: str) -> bool:
    if not message.HasField(name):
        return False
    return bool(getattr(message, name)) if name in _SWITCHES else True


def _listed(values: Sequence[float]) -> str:
    return ', '.join(f'{value:g}' for value in values)
