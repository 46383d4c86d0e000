"""Checks across the config fields of a CenterNet."""

from __future__ import annotations

import re
from typing import Iterator

from estimator_lib.config import message_checks
from estimator_lib.config.rules import PipelineConfig, Problem
from model_fns.detection.config_rules import checks
from model_fns.detection.config_rules.kinds import CENTER_NET
from protos import center_net_pb2, losses_pb2, post_processing_pb2

_Config = center_net_pb2.CenterNet

_WHERE = 'model.center_net'
_FOCAL = 'penalty_reduced_logistic_focal_loss'
# Localization losses for predictions at single cells.
_OF_CELLS = ('l1_localization_loss', 'weighted_smooth_l1')
_DECAY = 'batch_norm_decay'


def check(config: _Config, where: str) -> None:
    """Check a `model.center_net` that is built without the rest of the config.

    Args:
        config: the model.
        where: its path.

    Raises:
        errors.ConfigError: there are problems; the message lists all.
    """
    message_checks.check_message(CENTER_NET, config, where, _problems(config, where))


def check_center_net(pipeline: PipelineConfig) -> Iterator[Problem]:
    """Check `model.center_net` beyond single fields."""
    yield from _problems(pipeline.model.center_net, _WHERE)
    if pipeline.model.center_net.keypoint_estimation_task:
        for path, reader in checks.readers(pipeline):
            if not reader.num_keypoints:
                yield Problem(
                    f'{path}.num_keypoints',
                    'missing; the model learns keypoints (keypoint_estimation_task): expected how '
                    'many an object has, and records with image/object/keypoint.',
                )
    if pipeline.model.center_net.object_center_params.use_labeled_classes:
        for index, option in enumerate(pipeline.train_config.data_augmentation_options):
            step = option.WhichOneof('preprocessing_step')
            if step in ('mixup', 'mosaic'):
                yield Problem(
                    f'train_config.data_augmentation_options.{index}.{step}',
                    'it combines images, of which different classes were looked for; with '
                    'use_labeled_classes expected a step on single images.',
                )


def find_warnings(pipeline: PipelineConfig) -> Iterator[str]:
    """Yield warnings about values of a CenterNet that are allowed but probably mistakes."""
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
    has_published_decay = extractor.type.startswith('mobilenet') and not extractor.HasField(_DECAY)
    if has_published_decay and checks.is_short(training):
        yield (
            f'{_WHERE}.feature_extractor.{_DECAY}: the published moving statistics of MobileNets '
            f'follow the network within some {checks.SLOW_STATISTICS} steps, and evaluations use '
            f'them: a run of {training.num_steps} steps from scratch needs a smaller one, '
            '0.97 say.'
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
    yield from checks.resizer_problems(f'{where}.image_resizer', config.image_resizer)
    yield from _check_cell_loss(
        f'{where}.object_detection_task.localization_loss',
        config.object_detection_task.localization_loss,
    )
    yield from _heads(config, where)
    yield from _keypoints(config, where)
    if config.HasField('post_processing'):
        yield from _suppression(f'{where}.post_processing', config.post_processing)


def _check_cell_loss(where: str, config: losses_pb2.LocalizationLoss) -> Iterator[Problem]:
    kind = config.WhichOneof('localization_loss')
    if kind is not None and kind not in _OF_CELLS:
        yield Problem(
            f'{where}.{kind}', f'not for single cells; expected {" or ".join(_OF_CELLS)}.'
        )


def _heads(config: _Config, where: str) -> Iterator[Problem]:
    """Check that the lists of a head have a value for each convolution."""
    heads = [
        ('object_center_params.center_head_params', config.object_center_params.center_head_params),
        ('object_detection_task.scale_head_params', config.object_detection_task.scale_head_params),
        (
            'object_detection_task.offset_head_params',
            config.object_detection_task.offset_head_params,
        ),
    ]
    for index, task in enumerate(config.keypoint_estimation_task):
        for name in ('heatmap_head_params', 'offset_head_params', 'regress_head_params'):
            heads.append((f'keypoint_estimation_task.{index}.{name}', getattr(task, name)))
    for path, head in heads:
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
        yield from _check_cell_loss(f'{path}.loss.localization_loss', task.loss.localization_loss)
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
    yield from checks.post_processing_problems(where, config)
