"""Checks that readers load the masks and keypoints that metrics and models need."""

from __future__ import annotations

from typing import Iterator

from estimator_lib import errors
from estimator_lib.config.rules import PipelineConfig, Problem
from model_fns.detection import metrics
from model_fns.detection.config_rules import two_stage

# Reader fields of masks and keypoints, each with words for messages.
_FIELDS = (
    ('load_instance_masks', 'masks are', 'true'),
    ('num_keypoints', 'keypoints are', 'how many an object has'),
)


def check_readers(config: PipelineConfig) -> Iterator[Problem]:
    """Check that evaluations read the masks and keypoints that their metrics need."""
    try:
        needs = metrics.find_instance_sets(config.eval_config)
    except errors.ConfigError:
        return  # another check reports unknown sets of metrics
    for (field, what, expected), name in zip(_FIELDS, needs):
        for index, reader in enumerate(config.eval_input_reader):
            if name is not None and not getattr(reader, field):
                yield Problem(
                    f'eval_input_reader.{index}.{field}',
                    f'{what} not read, but eval_config asks for {name}; expected {expected}.',
                )


def find_warnings(config: PipelineConfig) -> Iterator[str]:
    """Yield warnings about masks and keypoints that are read but not learned from."""
    two_stages = config.model.faster_rcnn
    learned = (
        two_stage.learns_masks(two_stages),
        two_stage.learns_keypoints(two_stages)
        or bool(config.model.center_net.keypoint_estimation_task),
    )
    for (field, *_), is_learned in zip(_FIELDS, learned):
        if getattr(config.train_input_reader, field) and not is_learned:
            yield (
                f'train_input_reader.{field} is for pictures of the groundtruth only: '
                'the model does not learn from it.'
            )
