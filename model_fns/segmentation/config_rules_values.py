"""Field support of segmentation, ranges of its numbers, and which go in order."""

from __future__ import annotations

import numpy as np

from estimator_lib.config.rules import (
    ALL,
    AT_LEAST_0,
    AT_LEAST_1,
    DECAY,
    FRACTION,
    POSITIVE,
    POSITIVE_FRACTION,
    ConfigRules,
    Range,
    names,
    ranges,
)

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
        'SegmentationLoss.dice_weight '
        'SegmentationLoss.class_weights InstanceCenterHead.weight OffsetHead.weight '
        'EdgeHead.weight EdgeHead.edge_pixel_weight',
    ),
    **ranges(
        POSITIVE,
        'Segmentation.image_pyramid InstanceCenterHead.sigma '
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
    **ranges(
        # The number that a 32-bit field holds for 0.01.
        Range(float(np.float32(0.01))),
        'SegmentationPreprocessing.min_scale_factor SegmentationPreprocessing.max_scale_factor',
    ),
    'SegmentationPreprocessing.max_rotation_degrees': Range(0, 180),
}

VALUES = ConfigRules(
    supported={'DetectionModel': names('segmentation'), **dict.fromkeys(_MESSAGES, ALL)},
    ranges=_RANGES,
    ordered={'SegmentationPreprocessing': (('min_scale_factor', 'max_scale_factor'),)},
)
