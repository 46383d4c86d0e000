"""Checks across the config fields of a single-shot detector, and shared checks of detectors."""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping, Union

from estimator_lib.config import message_checks
from estimator_lib.config.rules import PipelineConfig, Problem
from estimator_lib.config.section import Section
from model_fns.detection.config_rules.kinds import SINGLE_SHOT
from protos import (
    anchors_pb2,
    box_predictors_pb2,
    feature_pyramids_pb2,
    ssd_pb2,
    train_pb2,
)

Pyramid = Union[
    feature_pyramids_pb2.FeaturePyramidNetworks,
    feature_pyramids_pb2.BidirectionalFeaturePyramidNetworks,
]

Head = Union[
    box_predictors_pb2.ConvolutionalBoxPredictor,
    box_predictors_pb2.WeightSharedConvolutionalBoxPredictor,
]

# Numbers in the code of a box, by coder.
_CODE_SIZES: Mapping[str, int] = {
    'faster_rcnn_box_coder': 4,
    'mean_stddev_box_coder': 4,
    'square_box_coder': 3,
    'rotated_box_coder': 5,
}
# Steps after which a decay of 0.9997 has forgotten nearly all of its initial value.
# 0.9997^10000 is 0.05.
SLOW_STATISTICS = 10_000
# As the published generator: scale 0.1 with ratio 1, the smallest scale with ratios 2 and 1/2.
_REDUCED = 3  # anchors of a cell of the first map, where they are reduced


def check_ssd(pipeline: PipelineConfig) -> Iterator[Problem]:
    """Check `model.ssd` beyond single fields."""
    model = Section(pipeline).child('model.ssd')
    yield from _anchors(model)
    yield from _predictor(model)


def check_part(section: Section[Any], further: Iterable[Problem] = ()) -> None:
    """Check a part of `model.ssd` that is built without the rest of the config.

    Args:
        section: the part.
        further: more problems of the part.

    Raises:
        errors.ConfigError: there are problems; the message lists all.
    """
    message_checks.check_message(SINGLE_SHOT, section, further)


def is_short(config: train_pb2.TrainConfig) -> bool:
    """Check whether a run from scratch ends before slow moving statistics have settled."""
    return 0 < config.num_steps < SLOW_STATISTICS and not config.fine_tune_checkpoint


def _anchors(model: Section[ssd_pb2.Ssd]) -> Iterator[Problem]:
    section, extractor = model.child('anchor_generator'), model.message.feature_extractor
    generator = section.message
    yield from anchor_problems(section)
    if generator.HasField('ssd_anchor_generator'):
        yield from _equal_counts(model)
    neck = extractor.WhichOneof('feature_pyramid_oneof')
    if generator.HasField('multiscale_anchor_generator') and neck:
        anchors = section.child('multiscale_anchor_generator')
        yield from anchor_level_problems(anchors, getattr(extractor, neck), neck)


def anchor_problems(section: Section[anchors_pb2.AnchorGenerator]) -> Iterator[Problem]:
    """Check that the lists of an anchor generator have matching lengths and orders."""
    multiscale = section.message.multiscale_anchor_generator
    ratios = list(multiscale.aspect_ratios)
    if multiscale.layout == multiscale.TORCHVISION and ratios != sorted(ratios, reverse=True):
        yield section.problem(
            'multiscale_anchor_generator.aspect_ratios',
            f'{ratios}; expected {sorted(ratios, reverse=True)}: weights of torchvision have the '
            'anchors of a cell in this order.',
        )
    if section.message.HasField('ssd_anchor_generator'):
        yield from _ssd_anchors(section.child('ssd_anchor_generator'))


def anchor_level_problems(
    section: Section[anchors_pb2.MultiscaleAnchorGenerator], pyramid: Pyramid, neck: str = 'fpn'
) -> Iterator[Problem]:
    """Check that anchors have the levels of the feature pyramid.

    Args:
        section: the anchors.
        pyramid: the feature pyramid.
        neck: the field of the feature extractor that holds the pyramid.

    Yields:
        The problems.
    """
    for field in ('min_level', 'max_level'):
        expected = getattr(pyramid, field)
        if getattr(section.message, field) != expected:
            yield section.problem(field, expected=f'{expected}, that of feature_extractor.{neck}')


def _num_layers(config: anchors_pb2.SsdAnchorGenerator) -> int:
    return len(config.scales) or config.num_layers


def _ssd_anchors(section: Section[anchors_pb2.SsdAnchorGenerator]) -> Iterator[Problem]:
    """Check that lists have one value for each feature map."""
    config = section.message
    layers = _num_layers(config)
    if config.HasField('num_layers') and config.num_layers != layers:
        yield section.problem('scales', expected=f'{config.num_layers}, num_layers')
    for field in ('height_stride', 'width_stride', 'height_offset', 'width_offset'):
        count = len(getattr(config, field))
        other = (
            field.replace('height', 'width')
            if 'height' in field
            else field.replace('width', 'height')
        )
        if count not in (0, layers) or (not count and getattr(config, other)):
            yield section.problem(field, expected=f'{layers}, one for each feature map')
    is_bare = not (config.aspect_ratios or config.interpolated_scale_aspect_ratio)
    if is_bare and not (config.reduce_boxes_in_lowest_layer and layers == 1):
        yield section.problem(
            'aspect_ratios',
            'empty; expected at least one, or interpolated_scale_aspect_ratio above 0, for there '
            'are layers without anchors.',
        )


def _equal_counts(model: Section[ssd_pb2.Ssd]) -> Iterator[Problem]:
    """Check that a head shared by all feature maps has as many anchors on each map."""
    generator = model.message.anchor_generator.ssd_anchor_generator
    shared = model.message.box_predictor.HasField('weight_shared_convolutional_box_predictor')
    count = len(generator.aspect_ratios) + (generator.interpolated_scale_aspect_ratio > 0)
    reduced = generator.reduce_boxes_in_lowest_layer and _num_layers(generator) > 1
    if shared and reduced and count != _REDUCED:
        yield model.problem(
            'anchor_generator.ssd_anchor_generator.reduce_boxes_in_lowest_layer',
            f'true: cells have {_REDUCED} anchors on the first feature map, {count} on the others, '
            'and weight_shared_convolutional_box_predictor needs as many; expected false.',
        )


def _predictor(model: Section[ssd_pb2.Ssd]) -> Iterator[Problem]:
    kind = model.message.box_predictor.WhichOneof('box_predictor_oneof')
    coder = model.message.box_coder.WhichOneof('box_coder_oneof')
    if kind not in _HEADS:
        return
    head = model.child(f'box_predictor.{kind}')
    if coder in _CODE_SIZES:
        yield from code_size_problems(head, _CODE_SIZES[coder], coder)


def code_size_problems(section: Section[Head], size: int, coder: str) -> Iterator[Problem]:
    """Check that `box_code_size` is that of the box coder.

    Args:
        section: the head.
        size: the code size of the box coder.
        coder: the name of the box coder in messages.

    Yields:
        The problem, if there is one.
    """
    if section.message.HasField('box_code_size') and section.message.box_code_size != size:
        yield section.problem('box_code_size', expected=f'{size}, that of {coder}')


_HEADS = ('convolutional_box_predictor', 'weight_shared_convolutional_box_predictor')


def size_problems(section: Section[ssd_pb2.Ssd], multiple: int) -> Iterator[Problem]:
    """Check that input sizes are multiples of the stride that a bidirectional neck needs.

    Args:
        section: the model.
        multiple: the divisor of the sides, in pixels.

    Yields:
        The problems.
    """
    kind = section.message.image_resizer.WhichOneof('image_resizer_oneof')
    if kind is None or section.message.feature_extractor.pad_to_multiple % multiple == 0:
        return
    chosen = section.child(f'image_resizer.{kind}')
    resizer = chosen.message
    fields = {
        'fixed_shape_resizer': ('height', 'width'),
        'keep_aspect_ratio_resizer': ('max_dimension',),
        'pad_to_multiple_resizer': ('multiple',),
    }.get(kind, ())
    fix = f'pad_to_multiple: {multiple}'
    varies = kind == 'keep_aspect_ratio_resizer' and not resizer.pad_to_max_dimension
    if varies or not fields:
        yield chosen.problem(
            '',
            f'gives inputs of any size; expected multiples of {multiple} pixels, as the levels of '
            f'feature_extractor.bifpn are half of each other, so feature_extractor.{fix}.',
        )
        return
    for field in fields:
        if getattr(resizer, field) % multiple:
            yield chosen.problem(
                field,
                expected=f'a multiple of {multiple}, as the levels of feature_extractor.bifpn are '
                f'half of each other (or feature_extractor.{fix})',
            )
