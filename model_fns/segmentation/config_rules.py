"""Rules of the config fields of segmentation."""

from __future__ import annotations

from typing import Iterator

from estimator_lib.config.rules import (
    ALL,
    AT_LEAST_0,
    AT_LEAST_1,
    DECAY,
    FRACTION,
    POSITIVE,
    POSITIVE_FRACTION,
    ConfigRules,
    PipelineConfig,
    Problem,
    Range,
    names,
    problems_of,
    ranges,
)
from model_fns import config_rules
from model_fns.segmentation.data import presets
from model_fns.segmentation.networks import backbones

# What stands before a variable's name in checkpoints of other tasks, by checkpoint type.
CHECKPOINT_SCOPES = {'classification': '', 'detection': 'FeatureExtractor/', 'segmentation': ''}

_MESSAGES = names(
    'Segmentation AtrousSpatialPyramidPooling DensePredictionCell DensePredictionCell.Branch '
    'SegmentationDecoder SegmentationPreprocessing SegmentationLoss InstanceCenterHead OffsetHead '
    'EdgeHead InstanceGrouping SegmentationEvaluation SegmentationExport'
)

_RANGES = {
    **ranges(
        AT_LEAST_1,
        'Segmentation.crop_height Segmentation.crop_width Segmentation.logits_kernel_size '
        'AtrousSpatialPyramidPooling.atrous_rates AtrousSpatialPyramidPooling.num_filters '
        'AtrousSpatialPyramidPooling.image_pooling_crop_height '
        'AtrousSpatialPyramidPooling.image_pooling_crop_width '
        'AtrousSpatialPyramidPooling.image_pooling_stride_height '
        'AtrousSpatialPyramidPooling.image_pooling_stride_width DensePredictionCell.num_filters '
        'DensePredictionCell.Branch.kernel_size DensePredictionCell.Branch.rate_height '
        'DensePredictionCell.Branch.rate_width DensePredictionCell.Branch.grid_height '
        'DensePredictionCell.Branch.grid_width SegmentationDecoder.output_strides '
        'SegmentationDecoder.num_filters SegmentationPreprocessing.min_resize_value '
        'SegmentationPreprocessing.max_resize_value SegmentationPreprocessing.resize_factor '
        'SegmentationPreprocessing.max_contrast_factor '
        'SegmentationPreprocessing.max_saturation_factor EdgeHead.edge_width '
        'SegmentationExport.atrous_rates',
    ),
    **ranges(
        AT_LEAST_0,
        'SegmentationPreprocessing.scale_factor_step_size SegmentationLoss.weight '
        'SegmentationLoss.class_weights InstanceCenterHead.weight OffsetHead.weight '
        'EdgeHead.weight EdgeHead.edge_pixel_weight',
    ),
    **ranges(
        POSITIVE,
        'Segmentation.image_pyramid SegmentationPreprocessing.min_scale_factor '
        'SegmentationPreprocessing.max_scale_factor InstanceCenterHead.sigma '
        'SegmentationEvaluation.scales SegmentationExport.scales',
    ),
    **ranges(
        FRACTION,
        'SegmentationPreprocessing.flip_probability '
        'SegmentationPreprocessing.max_brightness_change '
        'SegmentationPreprocessing.motion_blur_probability EdgeHead.tolerance '
        'InstanceGrouping.center_threshold',
    ),
    **ranges(
        POSITIVE_FRACTION,
        'SegmentationLoss.top_k_percent_pixels AtrousSpatialPyramidPooling.dropout_keep_prob '
        'DensePredictionCell.dropout_keep_prob',
    ),
    **ranges(
        DECAY,
        'AtrousSpatialPyramidPooling.batch_norm_decay DensePredictionCell.batch_norm_decay',
    ),
    'SegmentationPreprocessing.max_rotation_degrees': Range(0, 180),
}


def _problems(config: PipelineConfig) -> Iterator[Problem]:
    where, model = 'model.segmentation', config.model.segmentation
    if model.backbone.name:
        yield from problems_of(backbones.get_backbone, model.backbone.name)
    else:
        yield Problem(
            f'{where}.backbone.name',
            'not set; expected the name of a network, like "mobilenet_v2".',
        )
    yield from problems_of(presets.from_config, model)
    both = model.HasField('instance_center') and model.HasField('offset')
    if model.HasField('instance_grouping') and not both:
        yield Problem(
            f'{where}.instance_grouping',
            'instances are found with an instance_center and an offset head; expected both of '
            'them.',
        )


RULES = (
    config_rules.EVERY_TASK
    + config_rules.NO_BOXES
    + config_rules.BACKBONE
    + ConfigRules(
        supported={
            'DetectionModel': names('segmentation'),
            **dict.fromkeys(_MESSAGES, ALL),
        },
        ranges=_RANGES,
        checkpoint_types={'a checkpoint of the same model': tuple(CHECKPOINT_SCOPES)},
        problems=(_problems,),
    )
)
