"""Configs that recoveries of detectors begin with, and what a checkpoint does not tell."""

from __future__ import annotations

from protos import faster_rcnn_pb2, hyperparams_pb2, pipeline_pb2
from vision_extras.recover import bases
from vision_extras.recover.facts import Proposal, Refusal

UNKNOWN = (
    'A checkpoint tells neither the size of images, nor anchors, normalization, activations and '
    'suppression: they are the published ones.'
)
# What does not change what a single-shot detector computes.
_TRAINING = (
    'matcher',
    'similarity_calculator',
    'encode_background_as_zeros',
    'normalize_loss_by_num_matches',
    'normalize_loc_loss_by_codesize',
    'loss',
)
# Types of networks whose published configs override the hyperparameters of the backbone.
_OVERRIDING = ('inception', '_fpn', '_ppn')
_EFFICIENT = 'efficientnet'
# Names of what only graphs tell, by the field of the pyramid.
_SINGLE_SHOT = {'': 'ssd', 'fpn': 'ssd_fpn', 'bifpn': 'efficientdet'}
# Sides of images of EfficientDets, from D0, and of pyramids of separable convolutions.
_EFFICIENT_SIDES = (512, 640, 768, 896, 1024, 1280, 1408, 1536)
_SIDE_OF_LITE = 320
# Networks of two stages without a pooling of crops, and those whose first stage has more rows and
# columns, alone or with masks.
_UNPOOLED = ('inception_resnet_v2', 'nas')
_DENSE = ('inception_resnet_v2',)
_DENSE_WITH_MASKS = ('inception_resnet_v2', 'resnet50', 'resnet101')
_SIDES_WITH_MASKS = (800, 1365)
_SIDE_OF_CELLS = 1200
_SMALL_MASKS, _MASKS = 15, 33


def single_shot(kind: str, head: str) -> pipeline_pb2.TrainEvalPipelineConfig:
    """Build the config of a single-shot detector without what an artifact tells.

    Args:
        kind: type of the feature extractor.
        head: field of the box predictor.
    """
    config = bases.load('demo_efficientdet' if _EFFICIENT in kind else 'bccd_ssd', 'detection')
    ssd = config.model.ssd
    shared = ssd.box_predictor.weight_shared_convolutional_box_predictor
    bias = shared.class_prediction_bias_init
    styles = [hyperparams_pb2.Hyperparams() for _ in range(2)]
    styles[0].CopyFrom(ssd.feature_extractor.conv_hyperparams)
    styles[1].CopyFrom(shared.conv_hyperparams)
    bases.keep(ssd, _TRAINING)
    ssd.feature_extractor.type = kind
    ssd.box_coder.faster_rcnn_box_coder.SetInParent()
    ssd.post_processing.batch_non_max_suppression.SetInParent()
    predictor = getattr(ssd.box_predictor, head)
    ssd.feature_extractor.conv_hyperparams.CopyFrom(styles[0])
    predictor.conv_hyperparams.CopyFrom(styles[1])
    if any(part in kind for part in _OVERRIDING):
        ssd.feature_extractor.override_base_feature_extractor_hyperparams = True
    predictor.use_dropout = False
    if '_fpn' in kind or _EFFICIENT in kind:
        predictor.class_prediction_bias_init = bias
    if _EFFICIENT in kind:
        ssd.add_background_class = False
        ssd.image_resizer.keep_aspect_ratio_resizer.pad_to_max_dimension = True
    return config


def add_single_shot(proposal: Proposal, anchors: int, num_maps: int) -> None:
    """Add what a checkpoint of a single-shot detector does not tell.

    Args:
        proposal: with a feature extractor; changed in place.
        anchors: number of anchors of a cell, of the last map.
        num_maps: number of maps.

    Raises:
        Refusal: the number of anchors is not the published one.
    """
    ssd = proposal.config.model.ssd
    extractor = ssd.feature_extractor
    pyramid = extractor.WhichOneof('feature_pyramid_oneof') or ''
    ssd.MergeFrom(bases.published(_SINGLE_SHOT[pyramid]).ssd)
    if pyramid:
        levels, generator = getattr(extractor, pyramid), ssd.anchor_generator
        multiscale = generator.multiscale_anchor_generator
        multiscale.min_level, multiscale.max_level = levels.min_level, levels.max_level
        ratios = len(multiscale.aspect_ratios)
        multiscale.scales_per_octave, others = divmod(anchors, ratios)
        expected = f'several scales of {ratios} published aspect ratios'
    else:
        spaced = ssd.anchor_generator.ssd_anchor_generator
        spaced.num_layers = num_maps
        ratios = len(spaced.aspect_ratios) + 1
        others, expected = anchors - ratios, f'the published {ratios}'
    if others or not anchors:
        raise Refusal(
            f'a checkpoint tells no anchors, and its {anchors} anchors of a cell are not {expected}'
        )
    if pyramid == 'bifpn':
        size = extractor.type.partition('-b')[2][0]
        keeping = ssd.image_resizer.keep_aspect_ratio_resizer
        keeping.min_dimension = keeping.max_dimension = _EFFICIENT_SIDES[int(size)]
    elif pyramid and extractor.use_depthwise and 'mobilenet' in extractor.type:
        fixed = ssd.image_resizer.fixed_shape_resizer
        fixed.height = fixed.width = _SIDE_OF_LITE
    proposal.unknown.append(UNKNOWN)


def center_net(kind: str) -> pipeline_pb2.TrainEvalPipelineConfig:
    """Build the config of a CenterNet without its number of classes and its heads."""
    config = bases.load('demo_centernet', 'detection')
    model = config.model.center_net
    bases.keep(model, ('object_detection_task', 'object_center_params'))
    for field in ('scale_head_params', 'offset_head_params'):
        model.object_detection_task.ClearField(field)
    model.object_center_params.ClearField('center_head_params')
    model.MergeFrom(bases.published('center_net').center_net)
    model.ClearField('keypoint_estimation_task')
    if not kind.startswith('hourglass'):
        model.ClearField('feature_extractor')
    model.feature_extractor.type = kind
    return config


def add_two_stages(proposal: Proposal, anchors: int) -> None:
    """Add what a checkpoint of a two-stage detector does not tell.

    Args:
        proposal: with a feature extractor and a second stage; changed in place.
        anchors: number of anchors of a cell.

    Raises:
        Refusal: the number of anchors is not the published one.
    """
    model = proposal.config.model.faster_rcnn
    model.MergeFrom(bases.published('faster_rcnn').faster_rcnn)
    grid = model.first_stage_anchor_generator.grid_anchor_generator
    usual = len(grid.scales) * len(grid.aspect_ratios)
    if anchors != usual:
        raise Refusal(
            f'a checkpoint tells no anchors, and its {anchors} anchors of a cell are not the '
            f'published {usual}'
        )
    kind, head = model.feature_extractor.type, model.second_stage_box_predictor
    has_masks = head.mask_rcnn_box_predictor.predict_instance_masks
    if kind.endswith(_DENSE_WITH_MASKS if has_masks else _DENSE):
        grid.height_stride = grid.width_stride = 8
        model.feature_extractor.first_stage_features_stride = 8
        model.first_stage_atrous_rate = 2
    if head.HasField('rfcn_box_predictor'):
        for name in ('initial_crop_size', 'maxpool_kernel_size', 'maxpool_stride'):
            model.ClearField(name)
    elif kind.endswith(_UNPOOLED):
        model.initial_crop_size, model.maxpool_kernel_size, model.maxpool_stride = 17, 1, 1
    if has_masks:
        _set_masks(model)
    if kind == 'faster_rcnn_nas':
        fixed = model.image_resizer.fixed_shape_resizer
        fixed.height = fixed.width = _SIDE_OF_CELLS
    proposal.unknown.append(
        'A checkpoint tells neither the size of images, nor anchors, crops, atrous rates, the size '
        'of masks and suppression: they are the published ones.'
    )


def _set_masks(model: faster_rcnn_pb2.FasterRcnn) -> None:
    keeping = model.image_resizer.keep_aspect_ratio_resizer
    keeping.min_dimension, keeping.max_dimension = _SIDES_WITH_MASKS
    head = model.second_stage_box_predictor.mask_rcnn_box_predictor
    is_small = model.feature_extractor.type == 'faster_rcnn_inception_v2'
    head.mask_height = head.mask_width = _SMALL_MASKS if is_small else _MASKS
