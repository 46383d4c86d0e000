"""Construction of a CenterNet from a config."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

from estimator_lib import errors
from model_fns import layers
from model_fns.detection import detector
from model_fns.detection.architectures.center_net import (
    extractors,
    heads,
    keypoint_search,
    keypoints,
    model,
    objects,
)
from model_fns.detection.boxes import axis_aligned
from model_fns.detection.config_rules import center_net as center_net_checks
from model_fns.detection.data import image_resizers
from model_fns.detection.detections import post_processing
from model_fns.detection.losses import losses
from model_fns.detection.losses.heatmap_losses import PenaltyReducedFocalLoss
from model_fns.structures.label_map import LabelMap, to_index
from protos import center_net_pb2, losses_pb2

_Config = center_net_pb2.CenterNet

_FILTERS, _KERNEL = 256, 3


@detector.DETECTORS.register('center_net')
def build_center_net(
    config: _Config, where: str, quantization: Optional[layers.Quantization] = None
) -> model.CenterNetModel:
    """Build the detector that a config describes.

    Args:
        config: configuration message of the model.
        where: path of the message, for error messages.
        quantization: always None.

    Raises:
        errors.ConfigError: a part is missing or unknown, or a field is not supported.
        errors.DataError: the label map of keypoints cannot be read.
    """
    if quantization is not None:
        # A config rule refuses it before.
        raise ValueError(f'CenterNets are not quantized; got {quantization}.')
    center_net_checks.check(config, where)
    suppression = None
    if config.HasField('post_processing'):
        suppression = post_processing.build_post_processing(
            config.post_processing,
            f'{where}.post_processing',
            config.num_classes,
            axis_aligned,
            background_column=False,
        )
    return model.CenterNetModel(
        config.num_classes,
        image_resizers.build_image_resizer(config.image_resizer, f'{where}.image_resizer'),
        extractors.find(config.feature_extractor, config.image_resizer, where),
        _objects(config, where),
        _searches(config, where),
        separable_heads=config.use_depthwise,
        post_processor=suppression,
    )


def _objects(config: _Config, where: str) -> objects.Objects:
    centers, boxes = config.object_center_params, config.object_detection_task
    return objects.Objects(
        num_classes=config.num_classes,
        center_loss=_focal(centers.classification_loss),
        box_loss=_cell_loss(
            boxes.localization_loss, f'{where}.object_detection_task.localization_loss'
        ),
        center_weight=centers.object_center_loss_weight,
        size_weight=boxes.task_loss_weight * boxes.scale_loss_weight,
        offset_weight=boxes.task_loss_weight * boxes.offset_loss_weight,
        least_overlap=centers.min_box_overlap_iou,
        max_detections=centers.max_box_predictions,
        peak_window=centers.peak_max_pool_kernel_size,
        center_head=_head(
            objects.CENTER,
            config.num_classes,
            centers.center_head_params,
            centers.heatmap_bias_init,
        ),
        size_head=_head(objects.SIZE, 2, boxes.scale_head_params),
        offset_head=_head(objects.OFFSET, 2, boxes.offset_head_params),
        only_labeled=centers.use_labeled_classes,
    )


def _searches(config: _Config, where: str) -> List[keypoint_search.Search]:
    if not config.keypoint_estimation_task:
        return []
    path = f'{where}.keypoint_estimation_task'
    label_map = LabelMap.read(config.keypoint_label_map_path)
    places = [
        _places(task, label_map, config.num_classes, f'{path}.{index}')
        for index, task in enumerate(config.keypoint_estimation_task)
    ]
    numbers = sorted(number for _, task_keypoints in places for number, _ in task_keypoints)
    if numbers != list(range(len(numbers))):
        raise errors.ConfigError(
            f'{where}.keypoint_label_map_path: the keypoints of the classes of {path} have the '
            f'ids {", ".join(map(str, numbers))}; expected each from 0 to {len(numbers) - 1} once.'
        )
    return [
        _search(task, class_index, task_keypoints, f'{path}.{index}')
        for index, (task, (class_index, task_keypoints)) in enumerate(
            zip(config.keypoint_estimation_task, places)
        )
    ]


def _places(
    task: _Config.KeypointEstimation, label_map: LabelMap, num_classes: int, where: str
) -> Tuple[int, Sequence[Tuple[int, str]]]:
    """Return the index of a task's class, and the ids and labels of its keypoints."""
    by_name = {item.name: item for item in label_map.items}
    path = f'{where}.keypoint_class_name'
    if task.keypoint_class_name not in by_name:
        raise errors.ConfigError(
            f'{path}: {label_map.path} has no class {task.keypoint_class_name!r}'
            f'{errors.did_you_mean(task.keypoint_class_name, by_name)}'
        )
    item = by_name[task.keypoint_class_name]
    if not item.keypoints:
        raise errors.ConfigError(
            f'{path}: {label_map.path} names no keypoints of the class '
            f'{task.keypoint_class_name!r}; expected keypoints {{ id: 0 label: "nose" }} and so on.'
        )
    if item.id > num_classes:
        raise errors.ConfigError(
            f'{path}: the class {item.name!r} has the id {item.id} in {label_map.path}; expected '
            f'at most {num_classes}, num_classes.'
        )
    labels = [label for _, label in item.keypoints]
    for label in task.keypoint_label_to_std:
        if label not in labels:
            raise errors.ConfigError(
                f'{where}.keypoint_label_to_std: the class {item.name!r} has no keypoint '
                f'{label!r}{errors.did_you_mean(label, labels)}'
            )
    return to_index(item.id), item.keypoints


def _search(
    config: _Config.KeypointEstimation,
    class_index: int,
    places: Sequence[Tuple[int, str]],
    where: str,
) -> keypoint_search.Search:
    return keypoint_search.Search(
        _keypoints(config, class_index, places, where),
        ranking=config.candidate_ranking_mode,
        least_score=config.keypoint_candidate_score_threshold,
        max_candidates=config.num_candidates_per_keypoint,
        peak_window=config.peak_max_pool_kernel_size,
        unmatched_score=config.unmatched_keypoint_score,
        box_scale=config.box_scale,
        reach=config.candidate_search_scale,
        distance_offset=config.score_distance_offset,
        distance_multiplier=config.score_distance_multiplier,
        deviation_multiplier=config.std_dev_multiplier,
        clips=config.clip_out_of_frame_keypoints,
        rescores=config.rescore_instances,
        rescoring_threshold=config.rescoring_threshold,
    )


def _keypoints(
    config: _Config.KeypointEstimation,
    class_index: int,
    places: Sequence[Tuple[int, str]],
    where: str,
) -> keypoints.KeypointTask:
    count, weight = len(places), config.task_loss_weight
    prefix = f'{config.task_name}/'
    return keypoints.KeypointTask(
        name=config.task_name,
        class_index=class_index,
        keypoints=tuple(number for number, _ in places),
        deviations=tuple(config.keypoint_label_to_std.get(label, 1.0) for _, label in places),
        heatmap_loss=_focal(config.loss.classification_loss),
        point_loss=_cell_loss(config.loss.localization_loss, f'{where}.loss.localization_loss'),
        heatmap_weight=weight * config.keypoint_heatmap_loss_weight,
        offset_weight=weight * config.keypoint_offset_loss_weight,
        regression_weight=weight * config.keypoint_regression_loss_weight,
        radius=config.offset_peak_radius,
        own_offsets=config.per_keypoint_offset,
        heatmap_head=_head(
            prefix + keypoints.HEATMAP, count, config.heatmap_head_params, config.heatmap_bias_init
        ),
        offset_head=_head(
            prefix + keypoints.OFFSET,
            2 * count if config.per_keypoint_offset else 2,
            config.offset_head_params,
        ),
        regression_head=_head(prefix + keypoints.REGRESSION, 2 * count, config.regress_head_params),
    )


def _head(
    name: str,
    channels: int,
    config: _Config.PredictionHeadParams,
    bias: Optional[float] = None,
) -> heads.Head:
    """Build a head with as many convolutions as the longer list has values."""
    count = max(len(config.num_filters), len(config.kernel_sizes), 1)
    filters = tuple(config.num_filters) or (_FILTERS,) * count
    kernels = tuple(config.kernel_sizes) or (_KERNEL,) * count
    return heads.Head(name, channels, bias, filters, kernels)


def _focal(config: losses_pb2.ClassificationLoss) -> PenaltyReducedFocalLoss:
    focal = config.penalty_reduced_logistic_focal_loss
    return PenaltyReducedFocalLoss(focal.alpha, focal.beta)


def _cell_loss(config: losses_pb2.LocalizationLoss, where: str) -> losses.LocalizationLoss:
    return losses.build_localization_loss(config, where, axis_aligned)
