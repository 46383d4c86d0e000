"""Checks across the config fields of a two-stage detector."""

from __future__ import annotations

from typing import Iterator, Union

from estimator_lib.config import message_checks, reader_checks, support
from estimator_lib.config.rules import PipelineConfig, Problem
from estimator_lib.config.section import Section
from model_fns.detection import generations
from model_fns.detection.config_rules import checks, rotated
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

# Fields of the box features and of the mask head.
_CROP_FIELDS = ('initial_crop_size', 'maxpool_kernel_size', 'maxpool_stride')
_MASK_FIELDS = (
    'conv_hyperparams',
    'mask_prediction_conv_depth',
    'mask_height',
    'mask_width',
    'mask_prediction_num_conv_layers',
    'masks_are_class_agnostic',
    'convolve_then_upsample_masks',
)
_THIRD_STAGE_FIELDS = ('predict_instance_masks', 'predict_keypoints', *_MASK_FIELDS)
_MASK_HEAD = 'second_stage_box_predictor.mask_rcnn_box_predictor'


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
    model = Section(pipeline).child('model.faster_rcnn')
    yield from _problems(model)
    if model.message.HasField('context_config'):
        for reader in reader_checks.list_readers(pipeline):
            if not reader.message.load_context_features:
                yield reader.problem(
                    'load_context_features',
                    expected=f'true: {model.at("context_config")} attends to these features',
                )
    yield from _instance_readers(pipeline)


def learns_masks(config: faster_rcnn_pb2.FasterRcnn) -> bool:
    """Check whether a model predicts masks."""
    head = config.second_stage_box_predictor.mask_rcnn_box_predictor
    return config.number_of_stages == 3 and head.predict_instance_masks


def learns_keypoints(config: faster_rcnn_pb2.FasterRcnn) -> bool:
    """Check whether a model predicts keypoints."""
    head = config.second_stage_box_predictor.mask_rcnn_box_predictor
    return config.number_of_stages == 3 and head.predict_keypoints


def _instance_readers(pipeline: PipelineConfig) -> Iterator[Problem]:
    """Check that readers have the masks and keypoints that the model learns."""
    model = Section(pipeline).child('model.faster_rcnn')
    if learns_masks(model.message):
        if pipeline.train_config.merge_multiple_label_boxes:
            yield Problem(
                'train_config.merge_multiple_label_boxes',
                'true; a mask is learned for one class (number_of_stages: 3): expected false.',
            )
        for reader in reader_checks.list_readers(pipeline):
            if not reader.message.load_instance_masks:
                yield reader.problem(
                    'load_instance_masks',
                    'false; the model learns masks (number_of_stages: 3): expected true, and '
                    'records with image/object/mask.',
                )
    if learns_keypoints(model.message):
        head = model.child(f'{_MASK_HEAD}.keypoint_head')
        for reader in reader_checks.list_readers(pipeline):
            if reader.message.num_keypoints != head.message.num_keypoints:
                yield reader.problem(
                    'num_keypoints',
                    f'{reader.message.num_keypoints}; the model learns keypoints '
                    f'(number_of_stages: 3): expected {head.message.num_keypoints}, that of '
                    f'{head.path}, and records with image/object/keypoint.',
                )


def find_warnings(pipeline: PipelineConfig) -> Iterator[str]:
    """Yield warnings about values of a two-stage detector that are probably mistakes."""
    model = Section(pipeline).child('model.faster_rcnn')
    config, predictor = model.message, model.child(_MASK_HEAD)
    if config.second_stage_box_predictor.HasField('rfcn_box_predictor'):
        for field in _CROP_FIELDS:
            if config.HasField(field):
                yield (
                    f'{model.at(field)} has no effect: rfcn_box_predictor samples its maps by its '
                    'own crop_height and crop_width.'
                )
    yield from _backbone_warnings(pipeline)
    head = predictor.message
    if config.number_of_stages < 3:
        for field in _THIRD_STAGE_FIELDS:
            if head.HasField(field):
                yield f'{predictor.at(field)} has no effect without number_of_stages: 3.'
    elif not learns_masks(config):
        for field in _MASK_FIELDS:
            if head.HasField(field):
                yield f'{predictor.at(field)} has no effect without predict_instance_masks: true.'
    miner = model.child('hard_example_miner')
    for field in ('max_negatives_per_positive', 'min_negatives_per_image'):
        if getattr(miner.message, field):
            yield (f'{miner.at(field)} has no effect: proposals are mined by their losses alone.')


def _backbone_warnings(pipeline: PipelineConfig) -> Iterator[str]:
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
    yield from rotated.check_two_stages(model)
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
    if kind is None:
        return
    if kind == 'ssd_anchor_generator':
        yield section.problem(kind, 'its anchors are normalized; expected anchors in pixels.')
        return
    yield from checks.anchor_problems(section)
    multiscale = config.multiscale_anchor_generator
    chosen, clips = section.child(kind), model.message.clip_anchors_to_image
    if clips and multiscale.layout == multiscale.TORCHVISION:
        yield chosen.problem(
            'layout',
            'TORCHVISION, whose anchors are never clipped; leave out clip_anchors_to_image.',
        )
    if kind != 'grid_anchor_generator' and chosen.message.normalize_coordinates:
        yield chosen.problem('normalize_coordinates', expected='false')
    levels, expected = 1, 1
    if kind == 'multiscale_anchor_generator':
        levels = _levels(config.multiscale_anchor_generator)
    elif kind == 'flexible_grid_anchor_generator':
        levels = len(config.flexible_grid_anchor_generator.anchor_grid)
    has_pyramid = generations.has_pyramid(extractor.type)
    if has_pyramid:
        expected = _levels(extractor.fpn)
    if has_pyramid and kind == 'multiscale_anchor_generator':
        yield from checks.anchor_level_problems(chosen, extractor.fpn)
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


def _crops(model: _Model) -> Iterator[Problem]:
    config = model.message
    for field in _CROP_FIELDS:
        if not config.HasField(field):
            allowed = TWO_STAGE.range(config.DESCRIPTOR.fields_by_name[field])
            yield model.problem(field, f'not set; expected {allowed}.')
    if config.maxpool_kernel_size > config.initial_crop_size >= 1:
        yield model.problem(
            'maxpool_kernel_size',
            expected=f'at most {config.initial_crop_size}, initial_crop_size',
        )


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


def _third_stage(model: _Model) -> Iterator[Problem]:
    """Check the heads of masks and keypoints."""
    section = model.child(_MASK_HEAD)
    head = section.message
    if not (head.predict_instance_masks or head.predict_keypoints):
        yield model.problem(
            'number_of_stages',
            '3; the third stage predicts masks or keypoints: expected predict_instance_masks: true '
            'or predict_keypoints: true in mask_rcnn_box_predictor, or number_of_stages: 2.',
        )
    if head.predict_instance_masks and not head.HasField('conv_hyperparams'):
        yield section.problem(
            'conv_hyperparams', 'is missing; masks are predicted by convolutions.'
        )
    if head.predict_keypoints and not head.HasField('keypoint_head'):
        yield section.problem(
            'keypoint_head',
            'is missing; expected the number of keypoints and its layers with predict_keypoints.',
        )
    if model.message.output_reframed_masks and not head.predict_instance_masks:
        yield model.problem(
            'output_reframed_masks',
            'true; the model predicts no masks: expected false, or predict_instance_masks: true.',
        )


def _second_stage(model: _Model) -> Iterator[Problem]:
    config = model.message
    head = config.second_stage_box_predictor
    if head.HasField('rfcn_box_predictor'):
        yield from _bins(model.child('second_stage_box_predictor.rfcn_box_predictor'))
        if config.number_of_stages == 3:
            yield model.problem(
                'number_of_stages',
                '3; rfcn_box_predictor has no masks and no keypoints: expected 1 or 2.',
            )
    else:
        yield from _crops(model)
        if config.number_of_stages == 3:
            yield from _third_stage(model)
    if not config.HasField('second_stage_box_predictor'):
        yield model.problem(
            'second_stage_box_predictor',
            'is missing; expected mask_rcnn_box_predictor or rfcn_box_predictor, or '
            'number_of_stages: 1.',
        )
    size, most = config.second_stage_batch_size, config.first_stage_max_proposals
    if size > most and not config.HasField('hard_example_miner'):
        yield model.problem(
            'second_stage_batch_size', expected=f'at most {most}, first_stage_max_proposals'
        )
    kind = config.second_stage_classification_loss.WhichOneof('classification_loss')
    if kind == 'bootstrapped_sigmoid':
        yield model.problem(
            f'second_stage_classification_loss.{kind}',
            'the published program takes softmax for it; expected weighted_softmax, '
            'weighted_sigmoid, weighted_sigmoid_focal or weighted_logits_softmax.',
        )
    yield from checks.post_processing_problems(model.child('second_stage_post_processing'))
