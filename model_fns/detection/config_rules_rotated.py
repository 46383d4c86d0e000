"""Which parts of a config are for rotated boxes alone, and which for upright ones alone."""

from __future__ import annotations

from typing import Iterator, Tuple

from estimator_lib.config.rules import PipelineConfig, Problem
from protos import ssd_pb2

_WHERE = 'model.ssd'
_CODER = 'rotated_box_coder'
# Members of choices, by the path of the choice in `model.ssd`.
_OF_ROTATED = {
    'box_coder': (_CODER,),
    'loss.localization_loss': ('gaussian_wasserstein', 'gaussian_kullback_leibler'),
}
# Those that a rotated detector cannot have, and what it has in their place.
_OF_UPRIGHT = {
    'box_coder': (
        ('faster_rcnn_box_coder', 'mean_stddev_box_coder', 'square_box_coder'),
        _CODER,
    ),
    'loss.localization_loss': (
        ('weighted_iou', 'weighted_giou'),
        'gaussian_wasserstein, gaussian_kullback_leibler or weighted_smooth_l1',
    ),
    'similarity_calculator': (('neg_sq_dist_similarity',), 'iou_similarity'),
}
_STEPS_OF_UPRIGHT = ('random_jitter_boxes',)


def check_rotated(pipeline: PipelineConfig) -> Iterator[Problem]:
    """What does not go with `model.ssd.box_type`."""
    config = pipeline.model.ssd
    if config.box_type == ssd_pb2.ROTATED:
        yield from _of_upright(config)
        for index, step in enumerate(pipeline.train_config.data_augmentation_options):
            kind = step.WhichOneof('preprocessing_step')
            if kind in _STEPS_OF_UPRIGHT:
                path = f'train_config.data_augmentation_options.{index}.{kind}'
                yield Problem(path, 'it is for upright boxes, and box_type is ROTATED.')
    else:
        yield from _of_rotated(config)


def _of_upright(config: ssd_pb2.Ssd) -> Iterator[Problem]:
    for path, (members, expected) in _OF_UPRIGHT.items():
        for member in _chosen(config, path, members):
            yield Problem(
                f'{_WHERE}.{path}.{member}',
                f'it is for upright boxes, and box_type is ROTATED; expected {expected}.',
            )
    rules = config.post_processing.batch_non_max_suppression
    path = f'{_WHERE}.post_processing.batch_non_max_suppression'
    if rules.use_combined_nms:
        yield Problem(f'{path}.use_combined_nms', 'true; its kernel knows upright boxes alone.')
    if not rules.change_coordinate_frame:
        yield Problem(
            f'{path}.change_coordinate_frame',
            'false; rotated boxes are always relative to the image without its padding.',
        )


def _of_rotated(config: ssd_pb2.Ssd) -> Iterator[Problem]:
    rest = 'it is for rotated boxes; expected box_type: ROTATED with it.'
    for path, members in _OF_ROTATED.items():
        for member in _chosen(config, path, members):
            yield Problem(f'{_WHERE}.{path}.{member}', rest)
    kind = config.anchor_generator.WhichOneof('anchor_generator_oneof')
    if kind and getattr(config.anchor_generator, kind).angles:
        yield Problem(f'{_WHERE}.anchor_generator.{kind}.angles', rest)
    if config.similarity_calculator.iou_similarity.HasField('max_angle_difference'):
        path = f'{_WHERE}.similarity_calculator.iou_similarity.max_angle_difference'
        yield Problem(path, rest)


def _chosen(config: ssd_pb2.Ssd, path: str, members: Tuple[str, ...]) -> Iterator[str]:
    """Which of the members of a choice are set."""
    message = config
    for part in path.split('.'):
        message = getattr(message, part)
    return (member for member in members if message.HasField(member))
