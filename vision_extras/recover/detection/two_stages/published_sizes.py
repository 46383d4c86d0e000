"""Published sizes of two-stage detectors, which a checkpoint does not tell.

They are those of the configs that were published for the TF1 Object Detection API.
"""

from __future__ import annotations

from typing import Tuple

from protos import faster_rcnn_pb2, post_processing_pb2
from vision_extras.recover.detection.two_stages import second_stages
from vision_extras.recover.facts import Proposal, Refusal

SCALES = (0.25, 0.5, 1.0, 2.0)
RATIOS = (0.5, 1.0, 2.0)
# (shorter, longer) side of images in pixels.
_SIDES = (600, 1024)
_SIDES_WITH_MASKS = (800, 1365)
_SIDE_OF_CELLS = 1200  # of networks of searched cells
_UNPOOLED = ('inception_resnet_v2', 'nas')
# Networks whose first stage has more rows and columns, alone or with masks.
_DENSE = ('inception_resnet_v2',)
_DENSE_WITH_MASKS = ('inception_resnet_v2', 'resnet50', 'resnet101')
_SMALL_MASKS, _MASKS = 15, 33


def set_all(model: faster_rcnn_pb2.FasterRcnn, anchors: int, proposal: Proposal) -> None:
    """Set anchors, crops, sizes of images and masks, and suppression.

    Args:
        model: with its feature extractor and its second stage; changed in place.
        anchors: number of anchors of a cell.
        proposal: lists what is not known.

    Raises:
        Refusal: the number of anchors is not the published one.
    """
    published = len(SCALES) * len(RATIOS)
    if anchors != published:
        raise Refusal(
            f'a checkpoint tells no anchors, and its {anchors} anchors of a cell are not the '
            f'published {published}'
        )
    kind, has_masks = model.feature_extractor.type, second_stages.has_masks(model)
    dense = _has(kind, _DENSE_WITH_MASKS if has_masks else _DENSE)
    stride = 8 if dense else 16
    model.feature_extractor.first_stage_features_stride = stride
    model.first_stage_atrous_rate = 2 if dense else 1
    grid = model.first_stage_anchor_generator.grid_anchor_generator
    grid.scales.extend(SCALES)
    grid.aspect_ratios.extend(RATIOS)
    grid.height_stride = grid.width_stride = stride
    _set_resizer(model, has_masks)
    if not second_stages.is_position_sensitive(model):
        crop, pool = (17, 1) if _has(kind, _UNPOOLED) else (14, 2)
        model.initial_crop_size, model.maxpool_kernel_size, model.maxpool_stride = crop, pool, pool
    if has_masks:
        head = model.second_stage_box_predictor.mask_rcnn_box_predictor
        size = _SMALL_MASKS if kind == 'faster_rcnn_inception_v2' else _MASKS
        head.mask_height = head.mask_width = size
    processing = model.second_stage_post_processing
    processing.score_converter = post_processing_pb2.PostProcessing.SOFTMAX
    suppression = processing.batch_non_max_suppression
    suppression.score_threshold, suppression.iou_threshold = 0.0, 0.6
    suppression.max_detections_per_class = suppression.max_total_detections = 100
    proposal.unknown.append(
        'A checkpoint tells neither the size of images, nor anchors, crops, atrous rates, the size '
        'of masks and suppression: they are the published ones.'
    )


def _set_resizer(model: faster_rcnn_pb2.FasterRcnn, has_masks: bool) -> None:
    resizer = model.image_resizer
    if model.feature_extractor.type == 'faster_rcnn_nas':
        resizer.fixed_shape_resizer.height = resizer.fixed_shape_resizer.width = _SIDE_OF_CELLS
        return
    keeping = resizer.keep_aspect_ratio_resizer
    sides = _SIDES_WITH_MASKS if has_masks else _SIDES
    keeping.min_dimension, keeping.max_dimension = sides


def _has(kind: str, names: Tuple[str, ...]) -> bool:
    return any(kind.endswith(name) for name in names)
