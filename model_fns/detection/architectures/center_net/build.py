"""Construction of a CenterNet from a config."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

from estimator_lib import errors
from estimator_lib.config.section import Section
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
    section: Section[_Config], quantization: Optional[layers.Quantization] = None
) -> model.CenterNetModel:
    """Build the detector that a config describes.

    Args:
        section: configuration message of the model.
        quantization: always None.

    Raises:
        errors.ConfigError: a part is missing or unknown, or a field is not supported.
        errors.DataError: the label map of keypoints cannot be read.
    """
    config = section.message
    if quantization is not None:
        # A config rule refuses it before.
        raise ValueError(f'CenterNets are not quantized; got {quantization}.')
    center_net_checks.check(section)
    suppression = None
    if config.HasField('post_processing'):
        suppression = post_processing.build_post_processing(
            section.child('post_processing'),
            config.num_classes,
            axis_aligned,
            background_column=False,
        )
    return model.CenterNetModel(
        config.num_classes,
        image_resizers.build_image_resizer(section.child('image_resizer')),
        extractors.find(section),
        _objects(section),
        _searches(section),
        separable_heads=config.use_depthwise,
        post_processor=suppression,
    )


def _objects(section: Section[_Config]) -> objects.Objects:
    config = section.message
    centers, boxes = config.object_center_params, config.object_detection_task
    return objects.Objects(
        num_classes=config.num_classes,
        center_loss=_focal(centers.classification_loss),
        box_loss=_cell_loss(section.child('object_detection_task.localization_loss')),
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


def _searches(section: Section[_Config]) -> List[keypoint_search.Search]:
    config = section.message
    if not config.keypoint_estimation_task:
        return []
    tasks = section.children('keypoint_estimation_task')
    label_map = LabelMap.read(config.keypoint_label_map_path)
    places = [_places(task, label_map, config.num_classes) for task in tasks]
    numbers = sorted(number for _, task_keypoints in places for number, _ in task_keypoints)
    if numbers != list(range(len(numbers))):
        raise section.error(
            'keypoint_label_map_path',
            f'the keypoints of the classes of {section.at("keypoint_estimation_task")} have the '
            f'ids {", ".join(map(str, numbers))}; expected each from 0 to {len(numbers) - 1} once.',
        )
    return [_search(task, *place) for task, place in zip(tasks, places)]


def _places(
    section: Section[_Config.KeypointEstimation], label_map: LabelMap, num_classes: int
) -> Tuple[int, Sequence[Tuple[int, str]]]:
    """Return the index of a task's class, and the ids and labels of its keypoints."""
    by_name = {item.name: item for item in label_map.items}
    field, name = 'keypoint_class_name', section.message.keypoint_class_name
    if name not in by_name:
        raise section.error(
            field,
            f'{label_map.path} has no class {name!r}{errors.did_you_mean(name, by_name)}',
        )
    item = by_name[name]
    if not item.keypoints:
        raise section.error(
            field,
            f'{label_map.path} names no keypoints of the class {name!r}; expected keypoints '
            '{ id: 0 label: "nose" } and so on.',
        )
    if item.id > num_classes:
        raise section.error(
            field,
            f'the class {name!r} has the id {item.id} in {label_map.path}; expected at most '
            f'{num_classes}, num_classes.',
        )
    labels = [label for _, label in item.keypoints]
    for label in section.message.keypoint_label_to_std:
        if label not in labels:
            raise section.error(
                'keypoint_label_to_std',
                f'the class {name!r} has no keypoint {label!r}{errors.did_you_mean(label, labels)}',
            )
    return to_index(item.id), item.keypoints


def _search(
    section: Section[_Config.KeypointEstimation],
    class_index: int,
    places: Sequence[Tuple[int, str]],
) -> keypoint_search.Search:
    config = section.message
    return keypoint_search.Search(
        _keypoints(section, class_index, places),
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
    section: Section[_Config.KeypointEstimation],
    class_index: int,
    places: Sequence[Tuple[int, str]],
) -> keypoints.KeypointTask:
    config = section.message
    count, weight = len(places), config.task_loss_weight
    prefix = f'{config.task_name}/'
    return keypoints.KeypointTask(
        name=config.task_name,
        class_index=class_index,
        keypoints=tuple(number for number, _ in places),
        # Labels without a deviation have 1, as published.
        deviations=tuple(config.keypoint_label_to_std.get(label, 1.0) for _, label in places),
        heatmap_loss=_focal(config.loss.classification_loss),
        point_loss=_cell_loss(section.child('loss.localization_loss')),
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
    # Unset exponents are 0, the default of the published schema, not 2 and 4 as in the paper.
    return PenaltyReducedFocalLoss(focal.alpha, focal.beta)


def _cell_loss(section: Section[losses_pb2.LocalizationLoss]) -> losses.LocalizationLoss:
    return losses.build_localization_loss(section, axis_aligned)
