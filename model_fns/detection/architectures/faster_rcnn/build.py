"""Construction of a two-stage detector from a config."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.config.section import Section
from model_fns import layers
from model_fns.detection import detector, fields, generations
from model_fns.detection.architectures.faster_rcnn import (
    context_attention,
    extractors,
    keypoint_heatmaps,
    model,
    position_sensitive,
    regions,
    sampling,
    second_stage,
    stages,
    third_stage,
)
from model_fns.detection.boxes import (
    anchors,
    axis_aligned,
    box_coders,
    quadrilaterals,
    rotated_anchors,
    rotated_coder,
)
from model_fns.detection.boxes.family import BoxFamily, ModelBoxes, model_family
from model_fns.detection.config_rules import kinds
from model_fns.detection.config_rules import two_stage as two_stage_checks
from model_fns.detection.data import image_resizers
from model_fns.detection.detections import post_processing, suppression
from model_fns.detection.losses import losses, mining
from model_fns.detection.networks import hyperparams
from protos import box_coding_pb2, box_predictors_pb2, faster_rcnn_pb2, hyperparams_pb2

_Config = faster_rcnn_pb2.FasterRcnn

_HEAD = 'second_stage_box_predictor.mask_rcnn_box_predictor'

# Optional outputs, by the config fields that enable them.
_OUTPUTS = {
    'output_final_box_features': fields.DETECTION_FEATURES,
    'output_final_box_rpn_features': fields.CROPPED_FEATURES,
    'output_reframed_masks': fields.REFRAMED_MASKS,
}


class _BoxKind(NamedTuple):
    """Parts that depend on `box_type`.

    Attributes:
        family: family of the boxes.
        anchors: module that builds their anchors.
        build_coder: config -> coder of both stages.
        matched_region: least overlap of an anchor and a box for a match.
        matched_proposal: least overlap of a proposal and a box for a match.
    """

    family: BoxFamily
    anchors: Any
    build_coder: Callable[[_Config], box_coders.BoxCoder]
    matched_region: float
    matched_proposal: float


def _rotated_coder(config: _Config) -> rotated_coder.RotatedBoxCoder:
    coder = config.rotated_box_coder
    if not config.HasField('rotated_box_coder'):
        coder = box_coding_pb2.RotatedBoxCoder(angle_scale=5.0)
    return rotated_coder.build_from_message(coder)


_BOX_KINDS = {
    box_coding_pb2.UPRIGHT: _BoxKind(
        axis_aligned, anchors, lambda config: model.CODER, regions.MATCHED, second_stage.MATCHED
    ),
    # At the same distance rotated boxes overlap less than axis-aligned ones. The thresholds are
    # those of the published two-stage detector of rotated boxes.
    box_coding_pb2.ROTATED: _BoxKind(quadrilaterals, rotated_anchors, _rotated_coder, 0.6, 0.4),
}


@detector.DETECTORS.register('faster_rcnn')
def build_faster_rcnn(
    section: Section[_Config], quantization: Optional[layers.Quantization] = None
) -> model.FasterRcnnModel:
    """Build the detector that a config describes.

    Args:
        section: configuration message of the model.
        quantization: must be None.

    Raises:
        errors.ConfigError: a part is missing or unknown, or a field is not supported.
    """
    config = section.message
    two_stage_checks.check(section)
    if quantization is not None:
        raise errors.ConfigError(f'graph_rewriter: {kinds.NO_QUANTIZED_TWO_STAGE}.')
    named = config.feature_extractor
    return model.FasterRcnnModel(
        num_classes=config.num_classes,
        resizer=image_resizers.build_image_resizer(section.child('image_resizer')),
        backbone=stages.Backbone(
            extractors.find(section.child('feature_extractor')),
            named.first_stage_features_stride,
            named.batch_norm_trainable,
            _backbone_style(section.child('feature_extractor')),
        ),
        first=_first_stage(section),
        second=_second_stage(section) if config.number_of_stages > 1 else None,
        where=section.path,
        family=_BOX_KINDS[config.box_type].family,
        coder=_BOX_KINDS[config.box_type].build_coder(config),
    )


def _backbone_style(
    section: Section[faster_rcnn_pb2.FasterRcnnFeatureExtractor],
) -> Optional[Callable[[bool], layers.LayerStyle]]:
    if not section.message.override_base_feature_extractor_hyperparams:
        return None
    return lambda is_training: hyperparams.build_layer_style(
        section.child('conv_hyperparams'), is_training
    )


def _first_stage(section: Section[_Config]) -> stages.FirstStage:
    config = section.message
    kind = _BOX_KINDS[config.box_type]
    family, coder = model_family(kind.family), kind.build_coder(config)

    def build_head(is_training: bool) -> regions.RegionHead:
        name = 'first_stage_box_predictor_conv_hyperparams'
        style = hyperparams.build_layer_style(section.child(name), is_training)
        return regions.RegionHead(
            style,
            config.first_stage_box_predictor_depth,
            config.first_stage_box_predictor_kernel_size,
            config.first_stage_atrous_rate,
            coder.code_size,
            # torchvision's head of the first stage has ReLU.
            tf.nn.relu if _has_torchvision_pyramid(config) else tf.nn.relu6,
        )

    proposals = config.first_stage_max_proposals
    return stages.FirstStage(
        anchor_generator=kind.anchors.build_anchor_generator(
            section.child('first_stage_anchor_generator')
        ),
        build_head=build_head,
        rules=suppression.Rules(
            score_threshold=config.first_stage_nms_score_threshold,
            iou_threshold=config.first_stage_nms_iou_threshold,
            max_per_class=proposals,
            max_total=proposals,
            # TensorFlow's combined kernel keeps boxes that clipping leaves without area. The other
            # published form drops them.
            drop_empty=not config.use_combined_nms_in_first_stage,
            family=family,
        ),
        losses=regions.RegionLosses(
            coder,
            _sampler(
                config,
                config.first_stage_minibatch_size,
                config.first_stage_positive_balance_fraction,
            ),
            config.first_stage_localization_loss_weight,
            config.first_stage_objectness_loss_weight,
            family,
            kind.matched_region,
        ),
        clips_anchors=config.clip_anchors_to_image,
    )


def _second_stage(section: Section[_Config]) -> stages.SecondStage:
    config = section.message
    is_position_sensitive = config.second_stage_box_predictor.HasField('rfcn_box_predictor')
    family = model_family(_BOX_KINDS[config.box_type].family)
    crops = second_stage.Crops(
        config.initial_crop_size,
        config.maxpool_kernel_size,
        config.maxpool_stride,
        family,
        _alignment(config),
        _cropped_maps(config),
    )
    return stages.SecondStage(
        crops=None if is_position_sensitive else crops,
        build_head=(_position_sensitive if is_position_sensitive else _box_head)(section),
        losses=_box_losses(section),
        post_processor=post_processing.build_post_processing(
            section.child('second_stage_post_processing'),
            config.num_classes,
            family,
            change_frame=False,  # boxes are in pixels, and are normalized afterwards
        ),
        sampler=_proposal_sampler(config),
        third=_third_stage(section, family) if config.number_of_stages > 2 else None,
        outputs=frozenset(name for field, name in _OUTPUTS.items() if getattr(config, field)),
        context=_context(config),
    )


def _third_stage(section: Section[_Config], family: ModelBoxes) -> stages.ThirdStage:
    config = section.message
    head = section.child(_HEAD)
    return stages.ThirdStage(
        _masks(section) if head.message.predict_instance_masks else None,
        _keypoints(head.child('keypoint_head')) if head.message.predict_keypoints else None,
        _instance_crops(config, family),
    )


def _instance_crops(config: _Config, family: ModelBoxes) -> Optional[second_stage.Crops]:
    """Build the crops of the third stage, with a pyramid, whose features of boxes are one cell.

    The heads of masks and keypoints have crops of their own, as in He et al. 2017, figure 4, right.
    """
    if not generations.has_pyramid(config.feature_extractor.type):
        return None
    return second_stage.Crops(
        config.instance_crop_size,
        family=family,
        alignment=_alignment(config),
        maps=_cropped_maps(config),
    )


def _has_torchvision_pyramid(config: _Config) -> bool:
    pyramid = config.feature_extractor.fpn
    return pyramid.layout == pyramid.TORCHVISION


def _cropped_maps(config: _Config) -> Optional[int]:
    """Return the number of maps that boxes are cropped from: all but torchvision's last one."""
    pyramid = config.feature_extractor.fpn
    return pyramid.max_level - pyramid.min_level if _has_torchvision_pyramid(config) else None


def _alignment(config: _Config) -> Optional[second_stage.Alignment]:
    if not config.HasField('roi_align'):
        return None
    extractor = config.feature_extractor
    strides = [extractor.first_stage_features_stride]
    if generations.has_pyramid(extractor.type):
        levels = range(extractor.fpn.min_level, extractor.fpn.max_level + 1)
        strides = [2**level for level in levels]
    return second_stage.Alignment(
        strides, config.roi_align.samples_per_side, config.roi_align.aligned
    )


def _position_sensitive(
    section: Section[_Config],
) -> Callable[[bool], position_sensitive.PositionSensitiveHead]:
    predictor = section.child('second_stage_box_predictor.rfcn_box_predictor')
    head, num_classes = predictor.message, section.message.num_classes
    bins = position_sensitive.Bins(
        (head.num_spatial_bins_height, head.num_spatial_bins_width),
        (head.crop_height, head.crop_width),
    )

    def build_head(is_training: bool) -> position_sensitive.PositionSensitiveHead:
        style = hyperparams.build_layer_style(predictor.child('conv_hyperparams'), is_training)
        return position_sensitive.PositionSensitiveHead(style, num_classes, bins, head.depth)

    return build_head


def _box_head(section: Section[_Config]) -> Callable[[bool], second_stage.BoxHead]:
    config = section.message
    head = config.second_stage_box_predictor.mask_rcnn_box_predictor

    def build_head(is_training: bool) -> second_stage.BoxHead:
        return second_stage.BoxHead(
            _fully_connected(section, is_training),
            config.num_classes,
            head.share_box_across_classes,
            head.dropout_keep_probability if head.use_dropout else 1.0,
            _BOX_KINDS[config.box_type].build_coder(config).code_size,
        )

    return build_head


def _masks(section: Section[_Config]) -> third_stage.Masks:
    config = section.message
    predictor = section.child(_HEAD)
    head = predictor.message

    def build_head(is_training: bool) -> third_stage.MaskHead:
        return third_stage.MaskHead(
            hyperparams.build_layer_style(predictor.child('conv_hyperparams'), is_training),
            config.num_classes,
            height=head.mask_height,
            width=head.mask_width,
            depth=head.mask_prediction_conv_depth,
            num_layers=head.mask_prediction_num_conv_layers,
            shared=head.masks_are_class_agnostic,
            enlarges_late=head.convolve_then_upsample_masks,
            where=predictor.path,
        )

    weight = config.second_stage_mask_prediction_loss_weight
    return third_stage.Masks(
        build_head, third_stage.MaskLoss(weight, predictor.at('predict_instance_masks'))
    )


def _keypoints(
    section: Section[box_predictors_pb2.KeypointHead],
) -> keypoint_heatmaps.Keypoints:
    head = section.message

    def build_head(is_training: bool) -> keypoint_heatmaps.KeypointHead:
        style = hyperparams.build_layer_style(section.child('conv_hyperparams'), is_training)
        return keypoint_heatmaps.KeypointHead(
            style, head.num_keypoints, head.depth, head.num_conv_layers
        )

    loss = keypoint_heatmaps.KeypointLoss(head.loss_weight, section.path)
    return keypoint_heatmaps.Keypoints(build_head, loss)


def _context(config: _Config) -> Optional[context_attention.ContextAttention]:
    if not config.HasField('context_config'):
        return None
    context = config.context_config
    return context_attention.ContextAttention(
        context.attention_bottleneck_dimension,
        context.attention_temperature,
        on_crops=context.attention_position == faster_rcnn_pb2.POST_RPN,
    )


def _fully_connected(section: Section[_Config], is_training: bool) -> layers.LayerStyle:
    # `op` was checked before, and has no influence on the style.
    configured, named = section.child(f'{_HEAD}.fc_hyperparams'), hyperparams_pb2.Hyperparams()
    named.CopyFrom(configured.message)
    named.ClearField('op')
    style = hyperparams.build_layer_style(Section(named, configured.path), is_training)
    if generations.find_generation(section.message.feature_extractor.type) is generations.SECOND:
        # As published: these layers ignore the initializer and the regularizer of the config.
        return style.but(initializer=layers.XAVIER, regularizer=None)
    return style


def _box_losses(section: Section[_Config]) -> second_stage.BoxLosses:
    config = section.message
    kind = 'second_stage_classification_loss'
    # As published, an unset loss is softmax.
    chosen = losses.softmax()
    if getattr(config, kind).WhichOneof('classification_loss'):
        chosen = losses.build_classification_loss(section.child(kind), config.num_classes)
    weights = (
        config.second_stage_localization_loss_weight,
        config.second_stage_classification_loss_weight,
    )
    reduction: mining.Reduction = mining.Sum()
    if config.HasField('hard_example_miner'):
        # As published: without a ratio of positives and negatives.
        reduction = mining.build_hard_examples(config.hard_example_miner, *weights, balanced=False)
    kind = _BOX_KINDS[config.box_type]
    return second_stage.BoxLosses(
        kind.build_coder(config),
        chosen,
        reduction,
        *weights,
        model_family(kind.family),
        kind.matched_proposal,
    )


def _sampler(config: _Config, size: int, fraction: float) -> sampling.BalancedSampler:
    # As published, the static sampler needs static shapes and is ignored without them.
    fill = config.use_static_balanced_label_sampler and config.use_static_shapes
    return sampling.BalancedSampler(size, fraction, fill)


def _proposal_sampler(config: _Config) -> Optional[sampling.BalancedSampler]:
    if config.HasField('hard_example_miner'):
        return None
    size, fraction = config.second_stage_batch_size, config.second_stage_balance_fraction
    return _sampler(config, size, fraction)
