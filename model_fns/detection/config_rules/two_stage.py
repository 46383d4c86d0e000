"""Rules of the single config fields of two-stage detectors."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Tuple

from estimator_lib.config.rules import (
    ALL,
    AT_LEAST_0,
    CHANNELS,
    COUNT,
    FEW,
    FRACTION,
    PIXELS,
    POSITIVE,
    POSITIVE_FRACTION,
    Condition,
    ConfigRules,
    Range,
    because,
    names,
    or_0,
    ranges,
)
from model_fns.detection.config_rules.fields import FIELD_SUPPORT
from model_fns.detection.config_rules.values import VALUES
from protos import (
    faster_rcnn_pb2,
)

CODE_SIZE = 4
# Fields of features of boxes, and of masks.
OF_CROPS = ('initial_crop_size', 'maxpool_kernel_size', 'maxpool_stride')
OF_MASKS = (
    'conv_hyperparams',
    'predict_instance_masks',
    'mask_prediction_conv_depth',
    'mask_height',
    'mask_width',
    'mask_prediction_num_conv_layers',
    'masks_are_class_agnostic',
    'convolve_then_upsample_masks',
)
_ONE_COMPUTATION = 'there is one way to compute it, which is fast'
_HEAD = 'the head of a two-stage detector is mask_rcnn_box_predictor or rfcn_box_predictor'

_SUPPORTED = {
    'DetectionModel': names('faster_rcnn'),
    'FasterRcnn': names(
        'number_of_stages num_classes image_resizer feature_extractor '
        'first_stage_anchor_generator first_stage_atrous_rate '
        'first_stage_box_predictor_conv_hyperparams first_stage_box_predictor_kernel_size '
        'first_stage_box_predictor_depth first_stage_minibatch_size '
        'first_stage_positive_balance_fraction first_stage_nms_score_threshold '
        'first_stage_nms_iou_threshold first_stage_max_proposals '
        'first_stage_localization_loss_weight first_stage_objectness_loss_weight '
        'initial_crop_size maxpool_kernel_size maxpool_stride second_stage_box_predictor '
        'second_stage_batch_size second_stage_balance_fraction second_stage_post_processing '
        'second_stage_localization_loss_weight second_stage_classification_loss_weight '
        'second_stage_mask_prediction_loss_weight output_final_box_features '
        'output_final_box_rpn_features hard_example_miner second_stage_classification_loss '
        'clip_anchors_to_image context_config output_reframed_masks '
        'use_static_balanced_label_sampler use_static_shapes use_combined_nms_in_first_stage '
        'box_type rotated_box_coder'
    ),
    'Context': names(
        'max_num_context_features attention_bottleneck_dimension attention_temperature '
        'context_feature_length use_long_term_attention num_attention_heads num_attention_layers '
        'attention_position'
    ),
    'FasterRcnnFeatureExtractor': names(
        'type first_stage_features_stride batch_norm_trainable conv_hyperparams '
        'override_base_feature_extractor_hyperparams pad_to_multiple fpn'
    ),
    'BoxPredictor': names('mask_rcnn_box_predictor rfcn_box_predictor'),
    'RfcnBoxPredictor': ALL,
    'MaskRCNNBoxPredictor': names(
        'fc_hyperparams use_dropout dropout_keep_probability box_code_size share_box_across_classes'
    )
    | frozenset(OF_MASKS),
}
_IGNORED = {
    'FasterRcnn': {
        **because(
            _ONE_COMPUTATION,
            'use_matmul_crop_and_resize use_matmul_gather_in_matcher '
            'use_partitioned_nms_in_first_stage',
        ),
        'use_static_shapes_for_eval': 'the shapes of an evaluation are those of training',
        'return_raw_detections_during_predict': 'raw detections are always among the outputs',
        'resize_masks': 'masks are resized once, with their image',
    },
}
QUANTIZED = (
    'two-stage detectors are not quantized, as no published one is; train in float32, without '
    'graph_rewriter'
)
_UNSUPPORTED = {
    'TrainEvalPipelineConfig': {'graph_rewriter': QUANTIZED},
    'FasterRcnn': {
        'inplace_batchnorm_update': 'statistics are updated with the step; leave it out',
    },
    'Context': because(
        'proposals attend to features of other images, not to each other',
        'use_self_attention self_attention_in_sequence',
    ),
    'BoxPredictor': because(
        _HEAD, 'convolutional_box_predictor weight_shared_convolutional_box_predictor'
    ),
    'MaskRCNNBoxPredictor': {
        'predict_keypoints': 'the published program does nothing by it; leave it out',
    },
}
_RANGES = {
    **ranges(
        COUNT,
        'FasterRcnn.num_classes FasterRcnn.first_stage_minibatch_size '
        'FasterRcnn.first_stage_max_proposals FasterRcnn.second_stage_batch_size',
    ),
    **ranges(
        FEW,
        'FasterRcnn.first_stage_box_predictor_kernel_size FasterRcnn.initial_crop_size '
        'FasterRcnn.maxpool_kernel_size FasterRcnn.maxpool_stride',
    ),
    **ranges(COUNT, 'Context.max_num_context_features Context.context_feature_length'),
    'Context.attention_bottleneck_dimension': CHANNELS,
    'Context.attention_temperature': POSITIVE,
    'FasterRcnn.first_stage_atrous_rate': PIXELS,
    'FasterRcnnFeatureExtractor.pad_to_multiple': PIXELS,
    'FasterRcnn.first_stage_box_predictor_depth': CHANNELS,
    **ranges(
        AT_LEAST_0,
        'FasterRcnn.first_stage_localization_loss_weight '
        'FasterRcnn.first_stage_objectness_loss_weight '
        'FasterRcnn.second_stage_localization_loss_weight '
        'FasterRcnn.second_stage_classification_loss_weight '
        'FasterRcnn.second_stage_mask_prediction_loss_weight',
    ),
    **ranges(
        FRACTION,
        'FasterRcnn.first_stage_positive_balance_fraction '
        'FasterRcnn.first_stage_nms_score_threshold FasterRcnn.first_stage_nms_iou_threshold '
        'FasterRcnn.second_stage_balance_fraction',
    ),
    'FasterRcnn.number_of_stages': Range(1, 3),
    **ranges(
        FEW,
        'RfcnBoxPredictor.num_spatial_bins_height RfcnBoxPredictor.num_spatial_bins_width '
        'RfcnBoxPredictor.crop_height RfcnBoxPredictor.crop_width',
    ),
    'RfcnBoxPredictor.depth': CHANNELS,
    'RfcnBoxPredictor.box_code_size': Range(CODE_SIZE, CODE_SIZE),
    **ranges(
        FEW,
        'MaskRCNNBoxPredictor.mask_height MaskRCNNBoxPredictor.mask_width '
        'MaskRCNNBoxPredictor.mask_prediction_num_conv_layers',
    ),
    'MaskRCNNBoxPredictor.mask_prediction_conv_depth': or_0(CHANNELS),
    'MaskRCNNBoxPredictor.dropout_keep_probability': POSITIVE_FRACTION,
    # Four or, of rotated boxes, five: see `config_rules_rotated`.
    'MaskRCNNBoxPredictor.box_code_size': Range(CODE_SIZE, CODE_SIZE + 1),
}
_REQUIRED = {
    'FasterRcnn': (
        'num_classes image_resizer feature_extractor first_stage_anchor_generator '
        'first_stage_box_predictor_conv_hyperparams'
    ),
    'FasterRcnnFeatureExtractor': 'type',
    'MaskRCNNBoxPredictor': 'fc_hyperparams',
    'RfcnBoxPredictor': 'conv_hyperparams',
}
_CONDITIONS = {
    'Context.use_long_term_attention': Condition(
        lambda value, config: value, 'without it there is no attention: leave context_config out'
    ),
    **dict.fromkeys(
        ('Context.num_attention_heads', 'Context.num_attention_layers'),
        Condition(lambda value, config: value == 1, 'the published models have one; expected 1'),
    ),
    'Context.attention_position': Condition(
        lambda value, config: value != faster_rcnn_pb2.ATTENTION_DEFAULT,
        'with it there is no attention; expected POST_BOX_CLASSIFIER or POST_RPN',
    ),
}


def but_own(rules: ConfigRules, own: Tuple[str, ...]) -> ConfigRules:
    """The rules of all detectors, without those that a kind of them has others for.

    Args:
        rules: of fields, which have no conditions then.
        own: the messages that it has rules for.
    """
    tables: Dict[str, Any] = {
        name: {key: value for key, value in getattr(rules, name).items() if key not in own}
        for name in ('supported', 'ignored', 'unsupported')
    }
    return dataclasses.replace(rules, conditions={}, **tables)


FIELDS = (
    but_own(FIELD_SUPPORT, ('DetectionModel', 'BoxPredictor'))
    + VALUES
    + ConfigRules(
        supported=_SUPPORTED,
        ignored=_IGNORED,
        unsupported=_UNSUPPORTED,
        ranges=_RANGES,
        required={message: tuple(fields.split()) for message, fields in _REQUIRED.items()},
        conditions=_CONDITIONS,
    )
)
