"""Checks of config parts that are only for rotated or only for axis-aligned boxes."""

from __future__ import annotations

from typing import Iterator, Tuple

from estimator_lib.config.rules import PipelineConfig, Problem
from estimator_lib.config.section import Section
from protos import anchors_pb2, box_coding_pb2, faster_rcnn_pb2, ssd_pb2

_CODER = 'rotated_box_coder'
# Members of oneofs for rotated boxes only, by the path of the oneof in `model.ssd`.
_OF_ROTATED = {
    'box_coder': (_CODER,),
    'loss.localization_loss': ('gaussian_wasserstein', 'gaussian_kullback_leibler'),
}
# Members for axis-aligned boxes only, and what a rotated detector has in their place.
_OF_AXIS_ALIGNED = {
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
_AXIS_ALIGNED_STEPS = ('random_jitter_boxes',)
_ROTATED_ALONE = 'it is for rotated boxes; expected box_type: ROTATED with it.'
_AXIS_ALIGNED_KERNEL = 'true; its kernel knows axis-aligned boxes only.'
# Numbers in a box code.
_ROTATED_CODE_SIZE, _AXIS_ALIGNED_CODE_SIZE = 5, 4


def is_rotated(pipeline: PipelineConfig) -> bool:
    """Return whether the model's boxes are rotated."""
    kind = pipeline.model.WhichOneof('model')
    box_type = getattr(getattr(pipeline.model, kind or 'ssd'), 'box_type', box_coding_pb2.UPRIGHT)
    return box_type == box_coding_pb2.ROTATED


def check_steps(pipeline: PipelineConfig) -> Iterator[Problem]:
    """Check that the augmentation steps fit the boxes of the model."""
    if not is_rotated(pipeline):
        return
    for step in Section(pipeline).children('train_config.data_augmentation_options'):
        kind = step.message.WhichOneof('preprocessing_step')
        if kind in _AXIS_ALIGNED_STEPS:
            yield step.problem(kind, 'it is for axis-aligned boxes, and box_type is ROTATED.')


def check_rotated(pipeline: PipelineConfig) -> Iterator[Problem]:
    """Check that the parts of `model.ssd` fit its `box_type`."""
    check = _check_rotated_parts if is_rotated(pipeline) else _check_axis_aligned_parts
    yield from check(Section(pipeline).child('model.ssd'))


def check_two_stages(model: Section[faster_rcnn_pb2.FasterRcnn]) -> Iterator[Problem]:
    """Check that the parts of a two-stage detector fit its `box_type`."""
    config = model.message
    rotated = config.box_type == box_coding_pb2.ROTATED
    head = config.second_stage_box_predictor.mask_rcnn_box_predictor
    code_size = _ROTATED_CODE_SIZE if rotated else _AXIS_ALIGNED_CODE_SIZE
    if head.HasField('box_code_size') and head.box_code_size != code_size:
        kind = box_coding_pb2.BoxType.Name(config.box_type)
        yield model.problem(
            'second_stage_box_predictor.mask_rcnn_box_predictor.box_code_size',
            f'{head.box_code_size}; with box_type: {kind} expected {code_size}.',
        )
    if not rotated:
        yield from _angles(model.child('first_stage_anchor_generator'))


def _check_rotated_parts(model: Section[ssd_pb2.Ssd]) -> Iterator[Problem]:
    for path, (members, expected) in _OF_AXIS_ALIGNED.items():
        for member in _chosen(model, path, members):
            yield model.problem(
                f'{path}.{member}',
                f'it is for axis-aligned boxes, and box_type is ROTATED; expected {expected}.',
            )
    rules = model.child('post_processing.batch_non_max_suppression')
    if rules.message.use_combined_nms:
        yield rules.problem('use_combined_nms', _AXIS_ALIGNED_KERNEL)
    if not rules.message.change_coordinate_frame:
        yield rules.problem(
            'change_coordinate_frame',
            'false; rotated boxes are always relative to the image without its padding.',
        )


def _check_axis_aligned_parts(model: Section[ssd_pb2.Ssd]) -> Iterator[Problem]:
    for path, members in _OF_ROTATED.items():
        for member in _chosen(model, path, members):
            yield model.problem(f'{path}.{member}', _ROTATED_ALONE)
    yield from _angles(model.child('anchor_generator'))
    similarity = model.child('similarity_calculator.iou_similarity')
    if similarity.message.HasField('max_angle_difference'):
        yield similarity.problem('max_angle_difference', _ROTATED_ALONE)


def _angles(section: Section[anchors_pb2.AnchorGenerator]) -> Iterator[Problem]:
    """Check that anchors of axis-aligned boxes have no angles."""
    chosen = section.chosen('anchor_generator_oneof')
    if chosen and chosen.message.angles:
        yield chosen.problem('angles', _ROTATED_ALONE)


def _chosen(model: Section[ssd_pb2.Ssd], path: str, members: Tuple[str, ...]) -> Iterator[str]:
    """Return the members of a oneof that are set."""
    message = model.child(path).message
    return (member for member in members if message.HasField(member))
