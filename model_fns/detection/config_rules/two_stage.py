"""Checks across the config fields of a two-stage detector."""

from __future__ import annotations

from typing import Iterator, Union

from estimator_lib.config import message_checks, support
from estimator_lib.config.rules import PipelineConfig, Problem
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
_WHERE = 'model.faster_rcnn'
_MASK_HEAD = f'{_WHERE}.second_stage_box_predictor.mask_rcnn_box_predictor'


def check(config: faster_rcnn_pb2.FasterRcnn, where: str) -> None:
    """Check a `model.faster_rcnn` that is built without the rest of the config.

    Args:
        config: the model.
        where: its path.

    Raises:
        errors.ConfigError: there are problems; the message lists all.
    """
    message_checks.check_message(TWO_STAGE, config, where, _problems(config, where))


def check_two_stage(pipeline: PipelineConfig) -> Iterator[Problem]:
    """Check `model.faster_rcnn` beyond single fields."""
    yield from _problems(pipeline.model.faster_rcnn, _WHERE)
    if pipeline.model.faster_rcnn.HasField('context_config'):
        for path, reader in checks.readers(pipeline):
            if not reader.load_context_features:
                yield Problem(
                    f'{path}.load_context_features',
                    f'false; expected true: {_WHERE}.context_config attends to these features.',
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
    config = pipeline.model.faster_rcnn
    if learns_masks(config):
        if pipeline.train_config.merge_multiple_label_boxes:
            yield Problem(
                'train_config.merge_multiple_label_boxes',
                'true; a mask is learned for one class (number_of_stages: 3): expected false.',
            )
        for path, reader in checks.readers(pipeline):
            if not reader.load_instance_masks:
                yield Problem(
                    f'{path}.load_instance_masks',
                    'false; the model learns masks (number_of_stages: 3): expected true, and '
                    'records with image/object/mask.',
                )
    if learns_keypoints(config):
        head = config.second_stage_box_predictor.mask_rcnn_box_predictor.keypoint_head
        for path, reader in checks.readers(pipeline):
            if reader.num_keypoints != head.num_keypoints:
                yield Problem(
                    f'{path}.num_keypoints',
                    f'{reader.num_keypoints}; the model learns keypoints (number_of_stages: 3): '
                    f'expected {head.num_keypoints}, that of {_MASK_HEAD}.keypoint_head, and '
                    'records with image/object/keypoint.',
                )


def find_warnings(pipeline: PipelineConfig) -> Iterator[str]:
    """Yield warnings about values of a two-stage detector that are probably mistakes."""
    config = pipeline.model.faster_rcnn
    if config.second_stage_box_predictor.HasField('rfcn_box_predictor'):
        for field in _CROP_FIELDS:
            if config.HasField(field):
                yield (
                    f'{_WHERE}.{field} has no effect: rfcn_box_predictor samples its maps by its '
                    'own crop_height and crop_width.'
                )
    yield from _backbone_warnings(pipeline)
    head = config.second_stage_box_predictor.mask_rcnn_box_predictor
    if config.number_of_stages < 3:
        for field in _THIRD_STAGE_FIELDS:
            if head.HasField(field):
                yield f'{_MASK_HEAD}.{field} has no effect without number_of_stages: 3.'
    elif not learns_masks(config):
        for field in _MASK_FIELDS:
            if head.HasField(field):
                yield f'{_MASK_HEAD}.{field} has no effect without predict_instance_masks: true.'
    miner = config.hard_example_miner
    for field in ('max_negatives_per_positive', 'min_negatives_per_image'):
        if getattr(miner, field):
            yield (
                f'{_WHERE}.hard_example_miner.{field} has no effect: proposals are mined by their '
                'losses alone.'
            )


def _backbone_warnings(pipeline: PipelineConfig) -> Iterator[str]:
    extractor = pipeline.model.faster_rcnn.feature_extractor
    path = f'{_WHERE}.feature_extractor'
    overridden = extractor.override_base_feature_extractor_hyperparams
    has_pyramid = generations.has_pyramid(extractor.type)
    if has_pyramid and extractor.HasField('first_stage_features_stride'):
        yield (
            f'{path}.first_stage_features_stride has no effect: {extractor.type} has the strides '
            'of the levels of fpn.'
        )
    if not has_pyramid and pipeline.model.faster_rcnn.HasField('instance_crop_size'):
        yield (
            f'{_WHERE}.instance_crop_size has no effect: {extractor.type} has no feature pyramid, '
            'and masks and keypoints have the features of classes, of initial_crop_size.'
        )
    if not has_pyramid and extractor.HasField('pad_to_multiple'):
        yield (
            f'{path}.pad_to_multiple has no effect: {extractor.type} has no feature pyramid, and '
            'takes images of any size.'
        )
    if extractor.HasField('conv_hyperparams') and not (overridden or has_pyramid):
        yield (
            f'{path}.conv_hyperparams has no effect without '
            'override_base_feature_extractor_hyperparams: true.'
        )
    training = pipeline.train_config
    if extractor.batch_norm_trainable and not overridden and checks.is_short(training):
        yield (
            f'{path}.batch_norm_trainable: the published moving statistics follow the network '
            f'within some {checks.SLOW_STATISTICS} steps, and evaluations use them: a run of '
            f'{training.num_steps} steps from scratch needs conv_hyperparams with a smaller '
            'batch_norm.decay and override_base_feature_extractor_hyperparams: true, or '
            'batch_norm_trainable: false.'
        )


def _problems(config: faster_rcnn_pb2.FasterRcnn, where: str) -> Iterator[Problem]:
    yield from checks.resizer_problems(f'{where}.image_resizer', config.image_resizer)
    yield from _anchors(
        f'{where}.first_stage_anchor_generator',
        config.first_stage_anchor_generator,
        config.feature_extractor,
        config.clip_anchors_to_image,
    )
    yield from _pyramid(config, where)
    yield from _operations(config, where)
    yield from rotated.check_two_stages(config, where)
    extractor = config.feature_extractor
    overridden = extractor.override_base_feature_extractor_hyperparams
    if overridden and not extractor.HasField('conv_hyperparams'):
        yield Problem(
            f'{where}.feature_extractor.conv_hyperparams',
            'is missing; override_base_feature_extractor_hyperparams takes them for all layers of '
            'the backbone.',
        )
    if config.number_of_stages > 1:
        yield from _second_stage(config, where)
    if config.HasField('context_config'):
        yield from _context(config, where)


def _context(config: faster_rcnn_pb2.FasterRcnn, where: str) -> Iterator[Problem]:
    """Check for stages and outputs that attention to other images does not support."""
    is_position_sensitive = config.second_stage_box_predictor.HasField('rfcn_box_predictor')
    if config.number_of_stages == 1 or is_position_sensitive:
        yield Problem(
            f'{where}.context_config',
            'it is for the box features of mask_rcnn_box_predictor, and the model has none: '
            'leave it out.',
        )
    if config.number_of_stages == 3:
        yield Problem(
            f'{where}.number_of_stages',
            '3; masks and keypoints do not attend to other images: with context_config expected 2.',
        )
    yield from _check_features(config, where, 'context_config does not apply to these features')


def _anchors(
    path: str,
    config: anchors_pb2.AnchorGenerator,
    extractor: faster_rcnn_pb2.FasterRcnnFeatureExtractor,
    clips: bool,
) -> Iterator[Problem]:
    """Check that anchors are in pixels, and on the feature maps of the model."""
    kind = config.WhichOneof('anchor_generator_oneof')
    if kind is None:
        return
    if kind == 'ssd_anchor_generator':
        yield Problem(f'{path}.{kind}', 'its anchors are normalized; expected anchors in pixels.')
        return
    yield from checks.anchor_problems(path, config)
    multiscale = config.multiscale_anchor_generator
    if clips and multiscale.layout == multiscale.TORCHVISION:
        yield Problem(
            f'{path}.{kind}.layout',
            'TORCHVISION, whose anchors are never clipped; leave out clip_anchors_to_image.',
        )
    if kind != 'grid_anchor_generator' and getattr(config, kind).normalize_coordinates:
        yield Problem(f'{path}.{kind}.normalize_coordinates', 'true; expected false.')
    levels, expected = 1, 1
    if kind == 'multiscale_anchor_generator':
        levels = _levels(config.multiscale_anchor_generator)
    elif kind == 'flexible_grid_anchor_generator':
        levels = len(config.flexible_grid_anchor_generator.anchor_grid)
    has_pyramid = generations.has_pyramid(extractor.type)
    if has_pyramid:
        expected = _levels(extractor.fpn)
    if has_pyramid and kind == 'multiscale_anchor_generator':
        yield from checks.anchor_level_problems(
            path, config.multiscale_anchor_generator, extractor.fpn
        )
    elif levels != expected:
        maps = f'{expected}, the levels of feature_extractor.fpn' if has_pyramid else 'one'
        yield Problem(
            f'{path}.{kind}', f'anchors for {levels} feature maps; the first stage has {maps}.'
        )


def _levels(config: _Levels) -> int:
    """Return the number of levels from the first to the last."""
    return config.max_level - config.min_level + 1


def _pyramid(config: faster_rcnn_pb2.FasterRcnn, where: str) -> Iterator[Problem]:
    """Check the settings of a feature pyramid, and fields that exclude it."""
    extractor = config.feature_extractor
    if not generations.has_pyramid(extractor.type):
        if extractor.HasField('fpn'):
            yield Problem(
                f'{where}.feature_extractor.fpn',
                f'{extractor.type} has no feature pyramid: leave it out, or expected a type that '
                f'has one, like {generations.with_pyramid("faster_rcnn_resnet50")}.',
            )
        return
    fpn = extractor.fpn
    if fpn.layout == fpn.TORCHVISION and fpn.max_level <= fpn.min_level:
        yield Problem(
            f'{where}.feature_extractor.fpn.max_level',
            f'{fpn.max_level}; expected at least {fpn.min_level + 1}: with layout: TORCHVISION the '
            'last level is a max pool of the one before.',
        )
    overridden = extractor.override_base_feature_extractor_hyperparams
    if not (overridden or extractor.HasField('conv_hyperparams')):
        yield Problem(
            f'{where}.feature_extractor.conv_hyperparams',
            'is missing; the convolutions of the feature pyramid have them.',
        )
    head = 'first_stage_box_predictor_conv_hyperparams'
    normalizer = getattr(config, head).WhichOneof('normalizer_oneof')
    if normalizer is not None:
        yield Problem(
            f'{where}.{head}.{normalizer}',
            'the first stage has one layer for all levels of the feature pyramid, and statistics '
            'of one: leave it out.',
        )
    if config.second_stage_box_predictor.HasField('rfcn_box_predictor'):
        yield Problem(
            f'{where}.second_stage_box_predictor.rfcn_box_predictor',
            'its maps are of one level, and the feature pyramid has several: expected '
            'mask_rcnn_box_predictor.',
        )


def _operations(config: faster_rcnn_pb2.FasterRcnn, where: str) -> Iterator[Problem]:
    """Check that the `op` of hyperparameters is that of their layers."""
    for path, message in support.set_messages(TWO_STAGE, config, where):
        if not isinstance(message, hyperparams_pb2.Hyperparams):
            continue
        wanted = 'FC' if path.endswith('fc_hyperparams') else 'CONV'
        actual = hyperparams_pb2.Hyperparams.Op.Name(message.op)
        if actual != wanted:
            layers = 'fully connected' if wanted == 'FC' else 'convolutions'
            yield Problem(f'{path}.op', f'{actual}; the layers are {layers}: expected {wanted}.')


def _crops(config: faster_rcnn_pb2.FasterRcnn, where: str) -> Iterator[Problem]:
    for field in _CROP_FIELDS:
        if not config.HasField(field):
            allowed = TWO_STAGE.range(config.DESCRIPTOR.fields_by_name[field])
            yield Problem(f'{where}.{field}', f'not set; expected {allowed}.')
    if config.maxpool_kernel_size > config.initial_crop_size >= 1:
        yield Problem(
            f'{where}.maxpool_kernel_size',
            f'{config.maxpool_kernel_size}; expected at most {config.initial_crop_size}, '
            'initial_crop_size.',
        )


def _bins(config: box_predictors_pb2.RfcnBoxPredictor, where: str) -> Iterator[Problem]:
    for side in ('height', 'width'):
        crop, bins = getattr(config, f'crop_{side}'), getattr(config, f'num_spatial_bins_{side}')
        if bins >= 1 and crop % bins:
            nearest = max(bins, round(crop / bins) * bins)
            yield Problem(
                f'{where}.crop_{side}',
                f'{crop}; expected a multiple of {bins}, num_spatial_bins_{side}, like {nearest}.',
            )


def _third_stage(config: faster_rcnn_pb2.FasterRcnn, where: str) -> Iterator[Problem]:
    """Check the heads of masks and keypoints."""
    head = config.second_stage_box_predictor.mask_rcnn_box_predictor
    path = f'{where}.second_stage_box_predictor.mask_rcnn_box_predictor'
    if not (head.predict_instance_masks or head.predict_keypoints):
        yield Problem(
            f'{where}.number_of_stages',
            '3; the third stage predicts masks or keypoints: expected predict_instance_masks: true '
            'or predict_keypoints: true in mask_rcnn_box_predictor, or number_of_stages: 2.',
        )
    if head.predict_instance_masks and not head.HasField('conv_hyperparams'):
        yield Problem(
            f'{path}.conv_hyperparams', 'is missing; masks are predicted by convolutions.'
        )
    if head.predict_keypoints and not head.HasField('keypoint_head'):
        yield Problem(
            f'{path}.keypoint_head',
            'is missing; expected the number of keypoints and its layers with predict_keypoints.',
        )
    if config.output_reframed_masks and not head.predict_instance_masks:
        yield Problem(
            f'{where}.output_reframed_masks',
            'true; the model predicts no masks: expected false, or predict_instance_masks: true.',
        )


def _check_features(
    config: faster_rcnn_pb2.FasterRcnn, where: str, reason: str
) -> Iterator[Problem]:
    for field in ('output_final_box_features', 'output_final_box_rpn_features'):
        if getattr(config, field):
            yield Problem(f'{where}.{field}', f'true; {reason}: expected false.')


def _second_stage(config: faster_rcnn_pb2.FasterRcnn, where: str) -> Iterator[Problem]:
    head = config.second_stage_box_predictor
    if head.HasField('rfcn_box_predictor'):
        path = f'{where}.second_stage_box_predictor.rfcn_box_predictor'
        yield from _bins(head.rfcn_box_predictor, path)
        if config.number_of_stages == 3:
            yield Problem(
                f'{where}.number_of_stages',
                '3; rfcn_box_predictor has no masks and no keypoints: expected 1 or 2.',
            )
        if config.HasField('roi_align'):
            yield Problem(
                f'{where}.roi_align', 'rfcn_box_predictor samples bins of its own: leave it out.'
            )
        yield from _check_features(config, where, 'rfcn_box_predictor computes none of boxes')
    else:
        yield from _crops(config, where)
        if config.number_of_stages == 3:
            yield from _third_stage(config, where)
    if not config.HasField('second_stage_box_predictor'):
        yield Problem(
            f'{where}.second_stage_box_predictor',
            'is missing; expected mask_rcnn_box_predictor or rfcn_box_predictor, or '
            'number_of_stages: 1.',
        )
    size, most = config.second_stage_batch_size, config.first_stage_max_proposals
    if size > most and not config.HasField('hard_example_miner'):
        yield Problem(
            f'{where}.second_stage_batch_size',
            f'{size}; expected at most {most}, first_stage_max_proposals.',
        )
    kind = config.second_stage_classification_loss.WhichOneof('classification_loss')
    if kind == 'bootstrapped_sigmoid':
        yield Problem(
            f'{where}.second_stage_classification_loss.{kind}',
            'the published program takes softmax for it; expected weighted_softmax, '
            'weighted_sigmoid, weighted_sigmoid_focal or weighted_logits_softmax.',
        )
    yield from checks.post_processing_problems(
        f'{where}.second_stage_post_processing', config.second_stage_post_processing
    )
