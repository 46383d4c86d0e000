"""Checks across the config fields of a two-stage detector."""

from __future__ import annotations

from typing import Iterator, Union

from estimator_lib.config import message_checks, support
from estimator_lib.config.rules import PipelineConfig, Problem
from estimator_lib.config.section import Section
from model_fns.detection import generations
from model_fns.detection.config_rules import checks
from model_fns.detection.config_rules.kinds import TWO_STAGE
from protos import (
    anchors_pb2,
    box_predictors_pb2,
    faster_rcnn_pb2,
    feature_pyramids_pb2,
    hyperparams_pb2,
)

_Model = Section[faster_rcnn_pb2.FasterRcnn]
_Levels = Union[anchors_pb2.MultiscaleAnchorGenerator, feature_pyramids_pb2.FeaturePyramidNetworks]

_CROP_FIELDS = ('initial_crop_size', 'maxpool_kernel_size', 'maxpool_stride')


def check(section: Section[faster_rcnn_pb2.FasterRcnn]) -> None:
    """Check a `model.faster_rcnn` that is built without the rest of the config.

    Args:
        section: the model.

    Raises:
        errors.ConfigError: there are problems; the message lists all.
    """
    message_checks.check_message(TWO_STAGE, section, _problems(section))


def check_two_stage(pipeline: PipelineConfig) -> Iterator[Problem]:
    """Check `model.faster_rcnn` beyond single fields."""
    yield from _problems(Section(pipeline).child('model.faster_rcnn'))


def find_warnings(pipeline: PipelineConfig) -> Iterator[str]:
    """Yield warnings about the backbone of a two-stage detector that are probably mistakes."""
    model = Section(pipeline).child('model.faster_rcnn')
    section = model.child('feature_extractor')
    extractor = section.message
    overridden = extractor.override_base_feature_extractor_hyperparams
    has_pyramid = generations.has_pyramid(extractor.type)
    if has_pyramid and extractor.HasField('first_stage_features_stride'):
        yield (
            f'{section.at("first_stage_features_stride")} has no effect: {extractor.type} has the '
            'strides of the levels of fpn.'
        )
    if not has_pyramid and model.message.HasField('instance_crop_size'):
        yield (
            f'{model.at("instance_crop_size")} has no effect: {extractor.type} has no feature '
            'pyramid, and masks and keypoints have the features of classes, of initial_crop_size.'
        )
    if not has_pyramid and extractor.HasField('pad_to_multiple'):
        yield (
            f'{section.at("pad_to_multiple")} has no effect: {extractor.type} has no feature '
            'pyramid, and takes images of any size.'
        )
    if extractor.HasField('conv_hyperparams') and not (overridden or has_pyramid):
        yield (
            f'{section.at("conv_hyperparams")} has no effect without '
            'override_base_feature_extractor_hyperparams: true.'
        )
    training = pipeline.train_config
    if extractor.batch_norm_trainable and not overridden and checks.is_short(training):
        yield (
            f'{section.at("batch_norm_trainable")}: the published moving statistics follow the '
            f'network within some {checks.SLOW_STATISTICS} steps, and evaluations use them: a run '
            f'of {training.num_steps} steps from scratch needs conv_hyperparams with a smaller '
            'batch_norm.decay and override_base_feature_extractor_hyperparams: true, or '
            'batch_norm_trainable: false.'
        )


def _problems(model: _Model) -> Iterator[Problem]:
    config = model.message
    yield from _anchors(model)
    yield from _pyramid(model)
    yield from _operations(model)
    if config.number_of_stages > 1:
        yield from _second_stage(model)


def _anchors(model: _Model) -> Iterator[Problem]:
    """Check that anchors are in pixels, and on the feature maps of the model."""
    section, extractor = (
        model.child('first_stage_anchor_generator'),
        model.message.feature_extractor,
    )
    config: anchors_pb2.AnchorGenerator = section.message
    kind = config.WhichOneof('anchor_generator_oneof')
    if kind in (None, 'ssd_anchor_generator'):
        return
    yield from checks.anchor_problems(section)
    levels, expected = 1, 1
    if kind == 'multiscale_anchor_generator':
        levels = _levels(config.multiscale_anchor_generator)
    elif kind == 'flexible_grid_anchor_generator':
        levels = len(config.flexible_grid_anchor_generator.anchor_grid)
    has_pyramid = generations.has_pyramid(extractor.type)
    if has_pyramid:
        expected = _levels(extractor.fpn)
    if has_pyramid and kind == 'multiscale_anchor_generator':
        yield from checks.anchor_level_problems(section.child(kind), extractor.fpn)
    elif levels != expected:
        maps = f'{expected}, the levels of feature_extractor.fpn' if has_pyramid else 'one'
        yield section.problem(
            kind, f'anchors for {levels} feature maps; the first stage has {maps}.'
        )


def _levels(config: _Levels) -> int:
    """Return the number of levels from the first to the last."""
    return config.max_level - config.min_level + 1


def _pyramid(model: _Model) -> Iterator[Problem]:
    """Check the settings of a feature pyramid, and fields that exclude it."""
    config, section = model.message, model.child('feature_extractor')
    extractor = section.message
    if not generations.has_pyramid(extractor.type):
        if extractor.HasField('fpn'):
            yield section.problem(
                'fpn',
                f'{extractor.type} has no feature pyramid: leave it out, or expected a type that '
                f'has one, like {generations.with_pyramid("faster_rcnn_resnet50")}.',
            )
        return
    fpn = extractor.fpn
    if fpn.layout == fpn.TORCHVISION and fpn.max_level <= fpn.min_level:
        yield section.problem(
            'fpn.max_level',
            expected=f'at least {fpn.min_level + 1}: with layout: TORCHVISION the last level is a '
            'max pool of the one before',
        )
    overridden = extractor.override_base_feature_extractor_hyperparams
    if not (overridden or extractor.HasField('conv_hyperparams')):
        yield section.problem(
            'conv_hyperparams',
            'is missing; the convolutions of the feature pyramid have them.',
        )
    head = 'first_stage_box_predictor_conv_hyperparams'
    normalizer = getattr(config, head).WhichOneof('normalizer_oneof')
    if normalizer is not None:
        yield model.problem(
            f'{head}.{normalizer}',
            'the first stage has one layer for all levels of the feature pyramid, and statistics '
            'of one: leave it out.',
        )
    if config.second_stage_box_predictor.HasField('rfcn_box_predictor'):
        yield model.problem(
            'second_stage_box_predictor.rfcn_box_predictor',
            'its maps are of one level, and the feature pyramid has several: expected '
            'mask_rcnn_box_predictor.',
        )


def _operations(model: _Model) -> Iterator[Problem]:
    """Check that the `op` of hyperparameters is that of their layers."""
    for section in support.set_messages(TWO_STAGE, model):
        if not isinstance(section.message, hyperparams_pb2.Hyperparams):
            continue
        wanted = 'FC' if section.path.endswith('fc_hyperparams') else 'CONV'
        actual = hyperparams_pb2.Hyperparams.Op.Name(section.message.op)
        if actual != wanted:
            layers = 'fully connected' if wanted == 'FC' else 'convolutions'
            yield section.problem('op', f'{actual}; the layers are {layers}: expected {wanted}.')


def _bins(section: Section[box_predictors_pb2.RfcnBoxPredictor]) -> Iterator[Problem]:
    config = section.message
    for side in ('height', 'width'):
        crop, bins = getattr(config, f'crop_{side}'), getattr(config, f'num_spatial_bins_{side}')
        if bins >= 1 and crop % bins:
            nearest = max(bins, round(crop / bins) * bins)
            yield section.problem(
                f'crop_{side}',
                expected=f'a multiple of {bins}, num_spatial_bins_{side}, like {nearest}',
            )


def _second_stage(model: _Model) -> Iterator[Problem]:
    config = model.message
    if config.second_stage_box_predictor.HasField('rfcn_box_predictor'):
        yield from _bins(model.child('second_stage_box_predictor.rfcn_box_predictor'))
        return
    for field in _CROP_FIELDS:
        if not config.HasField(field):
            allowed = TWO_STAGE.range(config.DESCRIPTOR.fields_by_name[field])
            yield model.problem(field, f'not set; expected {allowed}.')
