"""Field support of segmentation, ranges of its numbers, and which go in order."""

from __future__ import annotations

import numpy as np

from estimator_lib.config.rules import (
    ALL,
    AT_LEAST_0,
    AT_LEAST_1,
    CHANNELS,
    COUNT,
    DECAY,
    FEW,
    FRACTION,
    PIXELS,
    POSITIVE_FRACTION,
    SCALE,
    ConfigRules,
    Range,
    names,
    or_0,
    ranges,
    requires,
)

_MESSAGES = names(
    'Segmentation AtrousSpatialPyramidPooling DensePredictionCell DensePredictionCell.Branch '
    'SegmentationDecoder SegmentationPreprocessing SegmentationLoss InstanceCenterHead OffsetHead '
    'EdgeHead InstanceGrouping SegmentationEvaluation SegmentationExport'
)

_RANGES = {
    **ranges(
        AT_LEAST_1,
        'SegmentationPreprocessing.max_contrast_factor '
        'SegmentationPreprocessing.max_saturation_factor',
    ),
    **ranges(
        CHANNELS,
        'AtrousSpatialPyramidPooling.num_filters DensePredictionCell.num_filters '
        'SegmentationDecoder.num_filters InstanceCenterHead.num_filters OffsetHead.num_filters '
        'EdgeHead.num_filters',
    ),
    **ranges(
        FEW,
        'Segmentation.logits_kernel_size DensePredictionCell.Branch.kernel_size '
        'SegmentationDecoder.output_strides EdgeHead.edge_width',
    ),
    **ranges(
        or_0(FEW),
        'SegmentationPreprocessing.max_motion_blur_length '
        'InstanceGrouping.suppression_window SegmentationExport.output_stride',
    ),
    **ranges(
        or_0(COUNT),
        'Segmentation.num_classes InstanceGrouping.max_instances '
        'SegmentationEvaluation.training_metrics_window',
    ),
    **ranges(or_0(PIXELS), 'SegmentationEvaluation.crop_height SegmentationEvaluation.crop_width'),
    **ranges(
        PIXELS,
        'Segmentation.crop_height Segmentation.crop_width '
        'AtrousSpatialPyramidPooling.atrous_rates '
        'AtrousSpatialPyramidPooling.image_pooling_crop_height '
        'AtrousSpatialPyramidPooling.image_pooling_crop_width '
        'AtrousSpatialPyramidPooling.image_pooling_stride_height '
        'AtrousSpatialPyramidPooling.image_pooling_stride_width '
        'DensePredictionCell.Branch.rate_height DensePredictionCell.Branch.rate_width '
        'DensePredictionCell.Branch.grid_height DensePredictionCell.Branch.grid_width '
        'SegmentationPreprocessing.min_resize_value SegmentationPreprocessing.max_resize_value '
        'SegmentationPreprocessing.resize_factor SegmentationExport.atrous_rates',
    ),
    **ranges(
        AT_LEAST_0,
        'SegmentationPreprocessing.scale_factor_step_size SegmentationLoss.weight '
        'SegmentationLoss.dice_weight '
        'SegmentationLoss.class_weights InstanceCenterHead.weight OffsetHead.weight '
        'EdgeHead.weight EdgeHead.edge_pixel_weight',
    ),
    **ranges(
        SCALE,
        'Segmentation.image_pyramid SegmentationEvaluation.scales SegmentationExport.scales',
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
        Range(float(np.float32(0.01)), 100),
        'SegmentationPreprocessing.min_scale_factor SegmentationPreprocessing.max_scale_factor',
    ),
    'InstanceCenterHead.sigma': Range(0, 1000, open_low=True),
    'SegmentationPreprocessing.max_rotation_degrees': Range(0, 180),
}

_REQUIRES = {
    'Segmentation.merge_method': 'image_pyramid > 1',
    'SegmentationLoss.hard_example_mining_step': 'top_k_percent_pixels < 1',
    'SegmentationLoss.class_weighting_examples': (
        'class_weighting: INVERSE_FREQUENCY|MEDIAN_FREQUENCY'
    ),
    'SegmentationPreprocessing.keep_aspect_ratio': 'min_resize_value',
    'SegmentationPreprocessing.motion_blur_probability': 'max_motion_blur_length > 1',
    'SegmentationExport.atrous_rates': 'output_stride',
    **requires(
        'operation: CONVOLUTION',
        'DensePredictionCell.Branch.kernel_size DensePredictionCell.Branch.rate_height '
        'DensePredictionCell.Branch.rate_width',
    ),
    **requires(
        'operation: PYRAMID_POOLING',
        'DensePredictionCell.Branch.grid_height DensePredictionCell.Branch.grid_width',
    ),
}

VALUES = ConfigRules(
    supported={'DetectionModel': names('segmentation'), **dict.fromkeys(_MESSAGES, ALL)},
    ranges=_RANGES,
    requires=_REQUIRES,
    ordered={'SegmentationPreprocessing': (('min_scale_factor', 'max_scale_factor'),)},
)
