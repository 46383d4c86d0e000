"""Rules of the config fields of CenterNet."""

from __future__ import annotations

import re
from typing import Iterator

from estimator_lib.config import validation
from estimator_lib.config.rules import (
    ALL,
    ANY,
    AT_LEAST_0,
    CHANNELS,
    COUNT,
    DECAY,
    FEW,
    FRACTION,
    POSITIVE,
    SCALE,
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
from model_fns.detection.config_rules import checks as config_rules_checks
from model_fns.detection.config_rules import two_stage as config_rules_two_stage
from model_fns.detection.config_rules.checks import SLOW_STATISTICS
from model_fns.detection.config_rules.fields import FIELD_SUPPORT
from model_fns.detection.config_rules.values import VALUES
from protos import center_net_pb2, losses_pb2, post_processing_pb2

_Config = center_net_pb2.CenterNet

_WHERE = 'model.center_net'
_FOCAL = 'penalty_reduced_logistic_focal_loss'
# Losses of what is predicted at single cells.
_OF_CELLS = ('l1_localization_loss', 'weighted_smooth_l1')
_DECAY = 'batch_norm_decay'
_INTERPOLATIONS = ('nearest', 'bilinear')
_BRANCH = 'objects have boxes and keypoints here'
_DEPTH = 'keypoints have no depth here'

_SUPPORTED = {
    'DetectionModel': names('center_net'),
    'CenterNet': names(
        'num_classes feature_extractor image_resizer use_depthwise object_detection_task '
        'object_center_params keypoint_label_map_path keypoint_estimation_task post_processing'
    ),
    'CenterNetFeatureExtractor': names(
        'type channel_means channel_stds bgr_ordering depth_multiplier use_separable_conv '
        'upsampling_interpolation batch_norm_decay'
    ),
    'CenterNet.ObjectDetection': ALL,
    'CenterNet.ObjectCenterParams': names(
        'object_center_loss_weight classification_loss heatmap_bias_init min_box_overlap_iou '
        'max_box_predictions center_head_params peak_max_pool_kernel_size'
    ),
    'CenterNet.KeypointEstimation': names(
        'task_name task_loss_weight loss keypoint_class_name keypoint_label_to_std '
        'keypoint_regression_loss_weight keypoint_heatmap_loss_weight keypoint_offset_loss_weight '
        'heatmap_bias_init keypoint_candidate_score_threshold num_candidates_per_keypoint '
        'peak_max_pool_kernel_size unmatched_keypoint_score box_scale candidate_search_scale '
        'candidate_ranking_mode score_distance_offset score_distance_multiplier '
        'std_dev_multiplier offset_peak_radius per_keypoint_offset clip_out_of_frame_keypoints '
        'rescore_instances rescoring_threshold heatmap_head_params offset_head_params '
        'regress_head_params'
    ),
    'CenterNet.PredictionHeadParams': ALL,
    'ClassificationLoss': names(_FOCAL),
    'PenaltyReducedLogisticFocalLoss': ALL,
}
_IGNORED = {
    'CenterNet': {'compute_heatmap_sparse': 'there is one way to compute it, which is fast'},
}
_UNSUPPORTED = {
    'TrainEvalPipelineConfig': {
        'graph_rewriter': (
            'CenterNets are not quantized, as no published one is; train in float32, without '
            'graph_rewriter'
        )
    },
    'CenterNet': {
        **because(
            _BRANCH,
            'mask_estimation_task densepose_estimation_task track_estimation_task '
            'temporal_offset_task deepmac_mask_estimation',
        ),
        'output_prediction_dict': 'detections are put out, not the maps that they are found on',
    },
    'CenterNetFeatureExtractor': {
        'use_depthwise': (
            'the published feature extractors have no layer that it is about; see '
            'use_separable_conv, and model.center_net.use_depthwise for the heads'
        )
    },
    'CenterNet.ObjectCenterParams': {
        'use_labeled_classes': 'all classes are looked for in all images',
        'keypoint_weights_for_center': (
            'the published program cannot train with it; centers are those of boxes'
        ),
    },
    'CenterNet.KeypointEstimation': {
        **because(_DEPTH, 'predict_depth per_keypoint_depth keypoint_depth_loss_weight'),
        **because(
            'keypoints are looked for near where their object has them',
            'argmax_postprocessing gaussian_denom_ratio',
        ),
    },
    'ClassificationLoss': because(
        f'the loss of heat maps is {_FOCAL}',
        'weighted_sigmoid weighted_softmax weighted_logits_softmax bootstrapped_sigmoid '
        'weighted_sigmoid_focal weighted_dice_classification_loss',
    ),
}
_RANGES = {
    **ranges(COUNT, 'CenterNet.num_classes CenterNet.ObjectCenterParams.max_box_predictions'),
    **ranges(COUNT, 'CenterNet.KeypointEstimation.num_candidates_per_keypoint'),
    **ranges(
        AT_LEAST_0,
        'CenterNet.ObjectDetection.task_loss_weight CenterNet.ObjectDetection.offset_loss_weight '
        'CenterNet.ObjectDetection.scale_loss_weight '
        'CenterNet.ObjectCenterParams.object_center_loss_weight '
        'CenterNet.KeypointEstimation.task_loss_weight '
        'CenterNet.KeypointEstimation.keypoint_regression_loss_weight '
        'CenterNet.KeypointEstimation.keypoint_heatmap_loss_weight '
        'CenterNet.KeypointEstimation.keypoint_offset_loss_weight '
        'CenterNet.KeypointEstimation.candidate_search_scale '
        'CenterNet.KeypointEstimation.score_distance_offset '
        'CenterNet.KeypointEstimation.score_distance_multiplier '
        'PenaltyReducedLogisticFocalLoss.alpha PenaltyReducedLogisticFocalLoss.beta',
    ),
    **ranges(
        POSITIVE,
        'CenterNetFeatureExtractor.channel_stds CenterNet.KeypointEstimation.box_scale '
        'CenterNet.KeypointEstimation.std_dev_multiplier',
    ),
    **ranges(
        FRACTION,
        'CenterNet.KeypointEstimation.keypoint_candidate_score_threshold '
        'CenterNet.KeypointEstimation.unmatched_keypoint_score '
        'CenterNet.KeypointEstimation.rescoring_threshold',
    ),
    'CenterNet.ObjectCenterParams.min_box_overlap_iou': Range(0, 1, open_low=True, open_high=True),
    **ranges(
        ANY,
        'CenterNetFeatureExtractor.channel_means CenterNet.ObjectCenterParams.heatmap_bias_init '
        'CenterNet.KeypointEstimation.heatmap_bias_init',
    ),
    **ranges(
        or_0(FEW),
        'CenterNet.ObjectCenterParams.peak_max_pool_kernel_size '
        'CenterNet.KeypointEstimation.peak_max_pool_kernel_size '
        'CenterNet.KeypointEstimation.offset_peak_radius',
    ),
    **ranges(FEW, 'CenterNet.PredictionHeadParams.kernel_sizes'),
    'CenterNet.PredictionHeadParams.num_filters': CHANNELS,
    'CenterNetFeatureExtractor.depth_multiplier': SCALE,
    'CenterNetFeatureExtractor.batch_norm_decay': DECAY,
}
_REQUIRED = {
    'CenterNet': (
        'num_classes feature_extractor image_resizer object_detection_task object_center_params'
    ),
    'CenterNetFeatureExtractor': 'type',
    'CenterNet.ObjectDetection': 'localization_loss',
    'CenterNet.ObjectCenterParams': 'classification_loss',
    'CenterNet.KeypointEstimation': 'task_name loss keypoint_class_name',
}
_CONDITIONS = {
    'CenterNetFeatureExtractor.upsampling_interpolation': Condition(
        lambda value, config: value in _INTERPOLATIONS, 'expected nearest or bilinear'
    ),
}

FIELDS = (
    config_rules_two_stage.but_own(FIELD_SUPPORT, ('DetectionModel', 'ClassificationLoss'))
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


def check(config: _Config, where: str) -> None:
    """Raises for what is wrong with a `model.center_net` that is built without its config.

    Args:
        config: of the model.
        where: its path.

    Raises:
        errors.ConfigError: with every problem.
    """
    validation.check_message(FIELDS, config, where, _problems(config, where))


def check_center_net(pipeline: PipelineConfig) -> Iterator[Problem]:
    """What is wrong with `model.center_net`, beside what single messages are checked for."""
    yield from _problems(pipeline.model.center_net, _WHERE)
    if pipeline.model.center_net.keypoint_estimation_task:
        for path, reader in config_rules_checks.readers(pipeline):
            if not reader.num_keypoints:
                yield Problem(
                    f'{path}.num_keypoints',
                    'missing; the model learns keypoints (keypoint_estimation_task): expected how '
                    'many an object has, and records with image/object/keypoint.',
                )


def doubts(pipeline: PipelineConfig) -> Iterator[str]:
    """What is allowed of a CenterNet, and probably not meant."""
    config = pipeline.model.center_net
    extractor = config.feature_extractor
    if extractor.type == 'mobilenet_v2_fpn_sep_conv' and not extractor.use_separable_conv:
        yield (
            f'{_WHERE}.feature_extractor.type: as published {extractor.type} has separable '
            'convolutions only with use_separable_conv: true.'
        )
    if pipeline.train_input_reader.ignored_boxes:
        yield (
            'train_input_reader.ignored_boxes: a CenterNet does not learn them, and takes their '
            'centers for background, as published with a weight of 0.'
        )
    training = pipeline.train_config
    short = 0 < training.num_steps < SLOW_STATISTICS and not training.fine_tune_checkpoint
    if short and extractor.type.startswith('mobilenet') and not extractor.HasField(_DECAY):
        yield (
            f'{_WHERE}.feature_extractor.{_DECAY}: the published moving statistics of MobileNets '
            f'follow the network within some {SLOW_STATISTICS} steps, and evaluations use them: a '
            f'run of {training.num_steps} steps from first values needs a smaller one, 0.97 say.'
        )
    focal = [('object_center_params', config.object_center_params.classification_loss)]
    for index, task in enumerate(config.keypoint_estimation_task):
        path = f'keypoint_estimation_task.{index}.loss'
        focal.append((path, task.loss.classification_loss))
    for path, loss in focal:
        if loss.HasField(_FOCAL) and not loss.penalty_reduced_logistic_focal_loss.alpha:
            yield (
                f'{_WHERE}.{path}.{_FOCAL}.alpha: 0, as published where nothing is said, which '
                'lets easy cells count as much as others; the published models have alpha 2 and '
                'beta 4.'
            )


def _problems(config: _Config, where: str) -> Iterator[Problem]:
    for field in ('channel_means', 'channel_stds'):
        count = len(getattr(config.feature_extractor, field))
        if count not in (0, 3):
            path = f'{where}.feature_extractor.{field}'
            yield Problem(path, f'{count} values; expected 3, or none.')
    yield from config_rules_checks.resizer_problems(f'{where}.image_resizer', config.image_resizer)
    yield from _of_cells(
        f'{where}.object_detection_task.localization_loss',
        config.object_detection_task.localization_loss,
    )
    yield from _heads(config, where)
    yield from _keypoints(config, where)
    if config.HasField('post_processing'):
        yield from _suppression(f'{where}.post_processing', config.post_processing)


def _of_cells(where: str, config: losses_pb2.LocalizationLoss) -> Iterator[Problem]:
    kind = config.WhichOneof('localization_loss')
    if kind is not None and kind not in _OF_CELLS:
        yield Problem(
            f'{where}.{kind}', f'not for single cells; expected {" or ".join(_OF_CELLS)}.'
        )


def _heads(config: _Config, where: str) -> Iterator[Problem]:
    """Lists of which each has a value for each convolution of a head."""
    found = [
        ('object_center_params.center_head_params', config.object_center_params.center_head_params),
        ('object_detection_task.scale_head_params', config.object_detection_task.scale_head_params),
        (
            'object_detection_task.offset_head_params',
            config.object_detection_task.offset_head_params,
        ),
    ]
    for index, task in enumerate(config.keypoint_estimation_task):
        for name in ('heatmap_head_params', 'offset_head_params', 'regress_head_params'):
            found.append((f'keypoint_estimation_task.{index}.{name}', getattr(task, name)))
    for path, head in found:
        filters, kernels = len(head.num_filters), len(head.kernel_sizes)
        if filters and kernels and filters != kernels:
            yield Problem(
                f'{where}.{path}.kernel_sizes',
                f'{kernels} values; expected {filters}, one for each of num_filters.',
            )


def _keypoints(config: _Config, where: str) -> Iterator[Problem]:
    tasks = config.keypoint_estimation_task
    if tasks and not config.keypoint_label_map_path:
        yield Problem(
            f'{where}.keypoint_label_map_path',
            'missing; expected a label map with the keypoints of the classes.',
        )
    for field in ('task_name', 'keypoint_class_name'):
        values = [getattr(task, field) for task in tasks]
        for index, value in enumerate(values):
            if value in values[:index]:
                path = f'{where}.keypoint_estimation_task.{index}.{field}'
                yield Problem(path, f'{value!r} is that of another task; expected one of its own.')
    for index, task in enumerate(tasks):
        path = f'{where}.keypoint_estimation_task.{index}'
        if not re.fullmatch(r'\w[\w.-]*', task.task_name or 'a', re.ASCII):
            yield Problem(
                f'{path}.task_name',
                f'{task.task_name!r}; expected letters, digits, "_", "-" and ".", for it is in '
                'names of variables.',
            )
        for name, value in sorted(task.keypoint_label_to_std.items()):
            if not value > 0:
                yield Problem(
                    f'{path}.keypoint_label_to_std', f'{name}: {value:g}; expected more than 0.'
                )
        yield from _of_cells(f'{path}.loss.localization_loss', task.loss.localization_loss)
        for field, _ in task.loss.ListFields():
            if field.name not in ('localization_loss', 'classification_loss'):
                yield Problem(
                    f'{path}.loss.{field.name}', 'it is of anchors, and there are none here.'
                )


def _suppression(where: str, config: post_processing_pb2.PostProcessing) -> Iterator[Problem]:
    if config.score_converter != post_processing_pb2.PostProcessing.IDENTITY:
        kind = post_processing_pb2.PostProcessing.ScoreConverter.Name(config.score_converter)
        yield Problem(
            f'{where}.score_converter', f'{kind}; peaks have scores already: expected IDENTITY.'
        )
    yield from config_rules_checks.post_processing_problems(where, config)
