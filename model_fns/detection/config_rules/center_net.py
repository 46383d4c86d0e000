"""Checks across the config fields of a CenterNet."""

from __future__ import annotations

import re
from typing import Iterator

from estimator_lib.config import message_checks, reader_checks
from estimator_lib.config.rules import PipelineConfig, Problem
from estimator_lib.config.section import Section
from model_fns.detection.config_rules import checks
from model_fns.detection.config_rules.kinds import CENTER_NET
from protos import center_net_pb2, losses_pb2, post_processing_pb2

_Config = center_net_pb2.CenterNet

_FOCAL = 'penalty_reduced_logistic_focal_loss'
# Localization losses for predictions at single cells.
_OF_CELLS = ('l1_localization_loss', 'weighted_smooth_l1')
_DECAY = 'feature_extractor.batch_norm_decay'


def check(section: Section[_Config]) -> None:
    """Check a `model.center_net` that is built without the rest of the config.

    Args:
        section: the model.

    Raises:
        errors.ConfigError: there are problems; the message lists all.
    """
    message_checks.check_message(CENTER_NET, section, _problems(section))


def check_center_net(pipeline: PipelineConfig) -> Iterator[Problem]:
    """Check `model.center_net` beyond single fields."""
    yield from _problems(Section(pipeline).child('model.center_net'))
    if pipeline.model.center_net.keypoint_estimation_task:
        for reader in reader_checks.list_readers(pipeline):
            if not reader.message.num_keypoints:
                yield reader.problem(
                    'num_keypoints',
                    'missing; the model learns keypoints (keypoint_estimation_task): expected how '
                    'many an object has, and records with image/object/keypoint.',
                )
    if pipeline.model.center_net.object_center_params.use_labeled_classes:
        for option in Section(pipeline).children('train_config.data_augmentation_options'):
            step = option.message.WhichOneof('preprocessing_step')
            if step in ('mixup', 'mosaic'):
                yield option.problem(
                    step,
                    'it combines images, of which different classes were looked for; with '
                    'use_labeled_classes expected a step on single images.',
                )


def find_warnings(pipeline: PipelineConfig) -> Iterator[str]:
    """Yield warnings about values of a CenterNet that are allowed but probably mistakes."""
    model = Section(pipeline).child('model.center_net')
    config = model.message
    extractor = config.feature_extractor
    if extractor.type == 'mobilenet_v2_fpn_sep_conv' and not extractor.use_separable_conv:
        yield (
            f'{model.at("feature_extractor.type")}: as published {extractor.type} has separable '
            'convolutions only with use_separable_conv: true.'
        )
    if pipeline.train_input_reader.ignored_boxes:
        yield (
            'train_input_reader.ignored_boxes: a CenterNet does not learn them, and takes their '
            'centers for background, as published with a weight of 0.'
        )
    training = pipeline.train_config
    has_decay = extractor.HasField('batch_norm_decay')
    if extractor.type.startswith('mobilenet') and not has_decay and checks.is_short(training):
        yield (
            f'{model.at(_DECAY)}: the published moving statistics of MobileNets '
            f'follow the network within some {checks.SLOW_STATISTICS} steps, and evaluations use '
            f'them: a run of {training.num_steps} steps from scratch needs a smaller one, '
            '0.97 say.'
        )
    focal = [model.child('object_center_params.classification_loss')]
    for task in model.children('keypoint_estimation_task'):
        focal.append(task.child('loss.classification_loss'))
    for loss in focal:
        chosen = loss.child(_FOCAL)
        if loss.message.HasField(_FOCAL) and not chosen.message.alpha:
            yield (
                f'{chosen.at("alpha")}: 0, as published where nothing is said, which '
                'lets easy cells count as much as others; the published models have alpha 2 and '
                'beta 4.'
            )


def _problems(section: Section[_Config]) -> Iterator[Problem]:
    yield from _check_cell_loss(section.child('object_detection_task.localization_loss'))
    yield from _keypoints(section)
    if section.message.HasField('post_processing'):
        yield from _suppression(section.child('post_processing'))


def _check_cell_loss(section: Section[losses_pb2.LocalizationLoss]) -> Iterator[Problem]:
    kind = section.message.WhichOneof('localization_loss')
    if kind is not None and kind not in _OF_CELLS:
        yield section.problem(kind, f'not for single cells; expected {" or ".join(_OF_CELLS)}.')


def _keypoints(section: Section[_Config]) -> Iterator[Problem]:
    tasks = section.children('keypoint_estimation_task')
    for field in ('task_name', 'keypoint_class_name'):
        values = [getattr(task.message, field) for task in tasks]
        for index, value in enumerate(values):
            if value in values[:index]:
                yield tasks[index].problem(
                    field, f'{value!r} is that of another task; expected one of its own.'
                )
    for task in tasks:
        if not re.fullmatch(r'\w[\w.-]*', task.message.task_name or 'a', re.ASCII):
            yield task.problem(
                'task_name',
                expected='letters, digits, "_", "-" and ".", for it is in names of variables',
            )
        for name, value in sorted(task.message.keypoint_label_to_std.items()):
            if not value > 0:
                yield task.problem(
                    'keypoint_label_to_std', f'{name}: {value:g}; expected more than 0.'
                )
        loss = task.child('loss')
        yield from _check_cell_loss(loss.child('localization_loss'))
        for field, _ in loss.message.ListFields():
            if field.name not in ('localization_loss', 'classification_loss'):
                yield loss.problem(field.name, 'it is of anchors, and there are none here.')


def _suppression(section: Section[post_processing_pb2.PostProcessing]) -> Iterator[Problem]:
    kind = post_processing_pb2.PostProcessing.ScoreConverter.Name(section.message.score_converter)
    if kind != 'IDENTITY':
        yield section.problem(
            'score_converter', f'{kind}; peaks have scores already: expected IDENTITY.'
        )
    yield from checks.post_processing_problems(section)
