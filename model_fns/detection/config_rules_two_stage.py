"""Rules of the config fields of two-stage detectors: what they are, and what goes with what."""

from __future__ import annotations

import dataclasses
from typing import Iterator, Tuple

from estimator_lib.config import support, validation
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
    PipelineConfig,
    Problem,
    Range,
    because,
    names,
    or_0,
    ranges,
)
from model_fns.detection import config_rules_checks
from model_fns.detection.config_rules_fields import FIELD_SUPPORT
from model_fns.detection.config_rules_values import VALUES
from protos import (
    anchors_pb2,
    box_predictors_pb2,
    faster_rcnn_pb2,
    hyperparams_pb2,
    input_reader_pb2,
)

_WHERE = 'model.faster_rcnn'
CODE_SIZE = 4
_MASK_HEAD = f'{_WHERE}.second_stage_box_predictor.mask_rcnn_box_predictor'
_OF_CROPS = ('initial_crop_size', 'maxpool_kernel_size', 'maxpool_stride')

_OF_MASKS = (
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
_TENSORFLOW_2 = 'it belongs to the feature extractors of TensorFlow 2, which are not available'
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
        'clip_anchors_to_image context_config '
        'use_static_balanced_label_sampler use_static_shapes use_combined_nms_in_first_stage'
    ),
    'Context': names(
        'max_num_context_features attention_bottleneck_dimension attention_temperature '
        'context_feature_length use_long_term_attention num_attention_heads num_attention_layers '
        'attention_position'
    ),
    'FasterRcnnFeatureExtractor': names('type first_stage_features_stride batch_norm_trainable'),
    'BoxPredictor': names('mask_rcnn_box_predictor rfcn_box_predictor'),
    'RfcnBoxPredictor': ALL,
    'MaskRCNNBoxPredictor': names(
        'fc_hyperparams use_dropout dropout_keep_probability box_code_size share_box_across_classes'
    )
    | frozenset(_OF_MASKS),
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
    'FasterRcnnFeatureExtractor': {
        'pad_to_multiple': 'as in the published models of TensorFlow 1, inputs are not padded'
    },
}
QUANTIZED = (
    'two-stage detectors are not quantised, as no published one is; train in float32, without '
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
    'FasterRcnnFeatureExtractor': because(
        _TENSORFLOW_2, 'conv_hyperparams override_base_feature_extractor_hyperparams fpn'
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
    'MaskRCNNBoxPredictor.box_code_size': Range(CODE_SIZE, CODE_SIZE),
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


def _but_own(rules: ConfigRules) -> ConfigRules:
    """The rules of all detectors, without those that two-stage ones have others for."""
    own = ('DetectionModel', 'BoxPredictor')
    tables = {
        name: {key: value for key, value in getattr(rules, name).items() if key not in own}
        for name in ('supported', 'ignored', 'unsupported')
    }
    return dataclasses.replace(rules, conditions={}, **tables)


FIELDS = (
    _but_own(FIELD_SUPPORT)
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


def check(config: faster_rcnn_pb2.FasterRcnn, where: str) -> None:
    """Raises for what is wrong with a `model.faster_rcnn` that is built without its config.

    Args:
        config: of the model.
        where: its path.

    Raises:
        errors.ConfigError: with every problem.
    """
    validation.check_message(FIELDS, config, where, _problems(config, where))


def check_two_stage(pipeline: PipelineConfig) -> Iterator[Problem]:
    """What is wrong with `model.faster_rcnn`, beside what single messages are checked for."""
    yield from _problems(pipeline.model.faster_rcnn, _WHERE)
    if pipeline.model.faster_rcnn.HasField('context_config'):
        yield from _context_without(pipeline.model.faster_rcnn)
        for path, reader in _readers(pipeline):
            if not reader.load_context_features:
                yield Problem(
                    f'{path}.load_context_features',
                    f'false; expected true: {_WHERE}.context_config attends to these features.',
                )
    if pipeline.model.faster_rcnn.number_of_stages == 3:
        yield from _readers_of_masks(pipeline)


def _context_without(config: faster_rcnn_pb2.FasterRcnn) -> Iterator[Problem]:
    """What attends to nothing: boxes that are found are cropped anew, for these."""
    for field in ('output_final_box_features', 'output_final_box_rpn_features'):
        if getattr(config, field):
            yield Problem(f'{_WHERE}.{field}', 'true; expected false with context_config.')
    if config.number_of_stages == 3:
        yield Problem(f'{_WHERE}.number_of_stages', '3; expected 2 with context_config.')


def _readers(pipeline: PipelineConfig) -> Iterator[Tuple[str, input_reader_pb2.InputReader]]:
    if pipeline.HasField('train_input_reader'):
        yield 'train_input_reader', pipeline.train_input_reader
    for index, reader in enumerate(pipeline.eval_input_reader):
        yield f'eval_input_reader.{index}', reader


def _readers_of_masks(pipeline: PipelineConfig) -> Iterator[Problem]:
    for path, reader in _readers(pipeline):
        if not reader.load_instance_masks:
            yield Problem(
                f'{path}.load_instance_masks',
                'false; the model learns masks (number_of_stages: 3): expected true, and records '
                'with image/object/mask.',
            )


def doubts(pipeline: PipelineConfig) -> Iterator[str]:
    """What is allowed of a two-stage detector, and probably not meant."""
    config = pipeline.model.faster_rcnn
    if config.second_stage_box_predictor.HasField('rfcn_box_predictor'):
        for field in _OF_CROPS:
            if config.HasField(field):
                yield (
                    f'{_WHERE}.{field} has no effect: rfcn_box_predictor samples its maps by its '
                    'own crop_height and crop_width.'
                )
    if config.number_of_stages < 3:
        head = config.second_stage_box_predictor.mask_rcnn_box_predictor
        for field in _OF_MASKS:
            if head.HasField(field):
                yield f'{_MASK_HEAD}.{field} has no effect without number_of_stages: 3.'
    miner = config.hard_example_miner
    for field in ('max_negatives_per_positive', 'min_negatives_per_image'):
        if getattr(miner, field):
            yield (
                f'{_WHERE}.hard_example_miner.{field} has no effect: proposals are mined by their '
                'losses alone.'
            )


def _problems(config: faster_rcnn_pb2.FasterRcnn, where: str) -> Iterator[Problem]:
    yield from config_rules_checks.resizer_problems(f'{where}.image_resizer', config.image_resizer)
    yield from _anchors(
        f'{where}.first_stage_anchor_generator', config.first_stage_anchor_generator
    )
    yield from _operations(config, where)
    if config.number_of_stages > 1:
        yield from _second_stage(config, where)
    if config.HasField('context_config') and (
        config.number_of_stages == 1
        or config.second_stage_box_predictor.HasField('rfcn_box_predictor')
    ):
        yield Problem(
            f'{where}.context_config',
            'it is for the box features of mask_rcnn_box_predictor, and the model has none: '
            'leave it out.',
        )


def _anchors(path: str, config: anchors_pb2.AnchorGenerator) -> Iterator[Problem]:
    """Anchors are in pixels, and on one feature map."""
    kind = config.WhichOneof('anchor_generator_oneof')
    flexible = len(config.flexible_grid_anchor_generator.anchor_grid)
    pyramid = config.multiscale_anchor_generator
    if kind == 'ssd_anchor_generator':
        yield Problem(f'{path}.{kind}', 'its anchors are normalized; expected anchors in pixels.')
    elif kind in ('multiscale_anchor_generator', 'flexible_grid_anchor_generator'):
        if getattr(config, kind).normalize_coordinates:
            yield Problem(f'{path}.{kind}.normalize_coordinates', 'true; expected false.')
        levels = flexible or pyramid.max_level - pyramid.min_level + 1
        if levels != 1:
            yield Problem(
                f'{path}.{kind}', f'anchors for {levels} feature maps; the first stage has one.'
            )


def _operations(config: faster_rcnn_pb2.FasterRcnn, where: str) -> Iterator[Problem]:
    """Hyperparameters are of the layers that they are used for."""
    for path, message in support.set_messages(FIELDS, config, where):
        if not isinstance(message, hyperparams_pb2.Hyperparams):
            continue
        wanted = 'FC' if path.endswith('fc_hyperparams') else 'CONV'
        given = hyperparams_pb2.Hyperparams.Op.Name(message.op)
        if given != wanted:
            layers = 'fully connected' if wanted == 'FC' else 'convolutions'
            yield Problem(f'{path}.op', f'{given}; the layers are {layers}: expected {wanted}.')


def _crops(config: faster_rcnn_pb2.FasterRcnn, where: str) -> Iterator[Problem]:
    for field in _OF_CROPS:
        if not config.HasField(field):
            yield Problem(f'{where}.{field}', f'not set; expected {FEW}.')
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


def _masks(config: box_predictors_pb2.MaskRCNNBoxPredictor, where: str) -> Iterator[Problem]:
    if not config.predict_instance_masks:
        yield Problem(
            f'{where}.number_of_stages',
            '3; the third stage predicts masks: expected predict_instance_masks: true in '
            'mask_rcnn_box_predictor, or number_of_stages: 2.',
        )
    elif not config.HasField('conv_hyperparams'):
        yield Problem(
            f'{where}.second_stage_box_predictor.mask_rcnn_box_predictor.conv_hyperparams',
            'is missing; masks are predicted by convolutions.',
        )


def _second_stage(config: faster_rcnn_pb2.FasterRcnn, where: str) -> Iterator[Problem]:
    head = config.second_stage_box_predictor
    if head.HasField('rfcn_box_predictor'):
        path = f'{where}.second_stage_box_predictor.rfcn_box_predictor'
        yield from _bins(head.rfcn_box_predictor, path)
        if config.number_of_stages == 3:
            yield Problem(
                f'{where}.number_of_stages', '3; rfcn_box_predictor has no masks: expected 1 or 2.'
            )
        for field in ('output_final_box_features', 'output_final_box_rpn_features'):
            if getattr(config, field):
                yield Problem(
                    f'{where}.{field}', 'true; rfcn_box_predictor computes no features of boxes.'
                )
    else:
        yield from _crops(config, where)
        if config.number_of_stages == 3:
            yield from _masks(head.mask_rcnn_box_predictor, where)
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
    yield from config_rules_checks.post_processing_problems(
        f'{where}.second_stage_post_processing', config.second_stage_post_processing
    )
