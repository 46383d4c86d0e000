"""Checks across the config fields of a CenterNet."""

from __future__ import annotations

import re
from typing import Iterator

from estimator_lib.config import message_checks
from estimator_lib.config.rules import PipelineConfig, Problem
from estimator_lib.config.section import Section
from model_fns.detection.config_rules import checks
from model_fns.detection.config_rules.kinds import CENTER_NET
from protos import center_net_pb2

_Config = center_net_pb2.CenterNet

_DECAY = 'feature_extractor.batch_norm_decay'


def check(section: Section[_Config]) -> None:
    """Check a `model.center_net` that is built without the rest of the config.

    Args:
        section: the model.

    Raises:
        errors.ConfigError: there are problems; the message lists all.
    """
    message_checks.check_message(CENTER_NET, section, _keypoints(section))


def check_center_net(pipeline: PipelineConfig) -> Iterator[Problem]:
    """Check `model.center_net` beyond single fields."""
    yield from _keypoints(Section(pipeline).child('model.center_net'))


def find_warnings(pipeline: PipelineConfig) -> Iterator[str]:
    """Yield warnings about values of a CenterNet that are allowed but probably mistakes."""
    model = Section(pipeline).child('model.center_net')
    extractor = model.message.feature_extractor
    training = pipeline.train_config
    has_decay = extractor.HasField('batch_norm_decay')
    if extractor.type.startswith('mobilenet') and not has_decay and checks.is_short(training):
        yield (
            f'{model.at(_DECAY)}: the published moving statistics of MobileNets '
            f'follow the network within some {checks.SLOW_STATISTICS} steps, and evaluations use '
            f'them: a run of {training.num_steps} steps from scratch needs a smaller one, '
            '0.97 say.'
        )


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
        for field, _ in loss.message.ListFields():
            if field.name not in ('localization_loss', 'classification_loss'):
                yield loss.problem(field.name, 'it is of anchors, and there are none here.')
