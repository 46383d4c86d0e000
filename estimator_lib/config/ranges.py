"""The range of each number in a config that has one."""

from __future__ import annotations

import dataclasses
import math
from typing import Dict, Mapping


@dataclasses.dataclass(frozen=True)
class Range:
    """An interval.

    Attributes:
        low: its lower end.
        high: its upper end.
        open_low: whether `low` itself is out.
        open_high: whether `high` itself is out.
    """

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def holds(self, value: float) -> bool:
        """Whether a value is in it."""
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        return above and below

    def __str__(self) -> str:
        ends = []
        if self.low > -math.inf:
            ends.append(f'{"more than" if self.open_low else "at least"} {self.low:g}')
        if self.high < math.inf:
            ends.append(f'{"less than" if self.open_high else "at most"} {self.high:g}')
        return ' and '.join(ends)


AT_LEAST_0 = Range(0)
AT_LEAST_1 = Range(1)
POSITIVE = Range(0, open_low=True)
FRACTION = Range(0, 1, open_high=True)  # what a decay or a momentum is
SHARE = Range(0, 1)
KEPT_SHARE = Range(0, 1, open_low=True)
NOT_POSITIVE = Range(high=0)
ANY = Range()  # any number that is one


def _of(allowed: Range, fields: str) -> Dict[str, Range]:
    return dict.fromkeys(fields.split(), allowed)


_OF_WINDOWS: Mapping[str, Range] = {
    **_of(SHARE, 'min_object_covered overlap_thresh random_coef'),
    **_of(POSITIVE, 'min_aspect_ratio max_aspect_ratio'),
    **_of(KEPT_SHARE, 'min_area max_area'),
}

# Those of detectors, and of what varies their examples.
_OF_DETECTION: Mapping[str, Range] = {
    **_of(
        AT_LEAST_1,
        'TrainConfig.max_number_of_boxes InputReader.max_number_of_boxes Ssd.num_classes '
        'SsdFeatureExtractor.pad_to_multiple SsdFeatureExtractor.num_layers '
        'FeaturePyramidNetworks.min_level FeaturePyramidNetworks.additional_layer_depth '
        'KeepAspectRatioResizer.min_dimension KeepAspectRatioResizer.max_dimension '
        'FixedShapeResizer.height FixedShapeResizer.width ConditionalShapeResizer.size_threshold '
        'PadToMultipleResizer.multiple '
        'GridAnchorGenerator.height GridAnchorGenerator.width GridAnchorGenerator.height_stride '
        'GridAnchorGenerator.width_stride SsdAnchorGenerator.num_layers '
        'SsdAnchorGenerator.height_stride SsdAnchorGenerator.width_stride '
        'MultiscaleAnchorGenerator.scales_per_octave AnchorGrid.height_stride '
        'AnchorGrid.width_stride '
        'ConvolutionalBoxPredictor.kernel_size ConvolutionalBoxPredictor.box_code_size '
        'WeightSharedConvolutionalBoxPredictor.kernel_size '
        'WeightSharedConvolutionalBoxPredictor.box_code_size '
        'BatchNonMaxSuppression.max_detections_per_class '
        'BatchNonMaxSuppression.max_total_detections '
        'BatchNonMaxSuppression.max_classes_per_detection '
        'RandomResizeMethod.target_height RandomResizeMethod.target_width ResizeImage.new_height '
        'ResizeImage.new_width DropLabelProbabilistically.label RemapLabels.original_labels '
        'RemapLabels.new_label RandomDownscaleToTargetPixels.min_target_pixels '
        'RandomPatchGaussian.min_patch_size RandomSquareCropByScale.num_scales '
        'RandomScaleCropAndPadToSquare.output_size',
    ),
    **_of(
        AT_LEAST_0,
        'EvalConfig.max_num_boxes_to_visualize KeypointEdge.start KeypointEdge.end '
        'Ssd.negative_class_weight '
        'SsdFeatureExtractor.min_depth MultiscaleAnchorGenerator.min_level '
        'SsdAnchorGenerator.interpolated_scale_aspect_ratio '
        'ConvolutionalBoxPredictor.min_depth ConvolutionalBoxPredictor.max_depth '
        'ConvolutionalBoxPredictor.num_layers_before_predictor '
        'WeightSharedConvolutionalBoxPredictor.depth '
        'WeightSharedConvolutionalBoxPredictor.num_layers_before_predictor '
        'L1Regularizer.weight L2Regularizer.weight TruncatedNormalInitializer.stddev '
        'RandomNormalInitializer.stddev '
        'Loss.classification_weight Loss.localization_weight Loss.min_num_negative_samples '
        'Loss.desired_negative_sampling_ratio HardExampleMiner.num_hard_examples '
        'HardExampleMiner.max_negatives_per_positive HardExampleMiner.min_negatives_per_image '
        'SigmoidFocalClassificationLoss.gamma '
        'BatchNonMaxSuppression.score_threshold BatchNonMaxSuppression.soft_nms_sigma '
        'RandomPixelValueScale.minval RandomPixelValueScale.maxval RandomAdjustContrast.min_delta '
        'RandomAdjustContrast.max_delta RandomAdjustSaturation.min_delta '
        'RandomAdjustSaturation.max_delta '
        'RandomPadImage.min_image_height RandomPadImage.min_image_width '
        'RandomPadImage.max_image_height RandomPadImage.max_image_width '
        'RandomAbsolutePadImage.max_height_padding RandomAbsolutePadImage.max_width_padding '
        'RandomBlackPatches.max_black_patches '
        'RandomPatchGaussian.min_gaussian_stddev RandomPatchGaussian.max_gaussian_stddev '
        'RandomSquareCropByScale.max_border AdjustGamma.gamma',
    ),
    **_of(
        POSITIVE,
        'SsdFeatureExtractor.depth_multiplier BatchNorm.epsilon VarianceScalingInitializer.factor '
        'GridAnchorGenerator.scales GridAnchorGenerator.aspect_ratios '
        'SsdAnchorGenerator.min_scale SsdAnchorGenerator.max_scale SsdAnchorGenerator.scales '
        'SsdAnchorGenerator.aspect_ratios SsdAnchorGenerator.base_anchor_height '
        'SsdAnchorGenerator.base_anchor_width MultiscaleAnchorGenerator.anchor_scale '
        'MultiscaleAnchorGenerator.aspect_ratios AnchorGrid.base_sizes AnchorGrid.aspect_ratios '
        'FasterRcnnBoxCoder.y_scale FasterRcnnBoxCoder.x_scale FasterRcnnBoxCoder.height_scale '
        'FasterRcnnBoxCoder.width_scale SquareBoxCoder.y_scale SquareBoxCoder.x_scale '
        'SquareBoxCoder.length_scale MeanStddevBoxCoder.stddev '
        'WeightedSmoothL1LocalizationLoss.delta WeightedSoftmaxClassificationLoss.logit_scale '
        'WeightedSoftmaxClassificationAgainstLogitsLoss.logit_scale PostProcessing.logit_scale '
        'TemperatureScalingCalibration.scaler '
        'RandomImageScale.min_scale_ratio RandomImageScale.max_scale_ratio '
        'RandomCropPadImage.min_padded_size_ratio RandomCropPadImage.max_padded_size_ratio '
        'SSDRandomCropPadOperation.min_padded_size_ratio '
        'SSDRandomCropPadOperation.max_padded_size_ratio '
        'SSDRandomCropPadFixedAspectRatio.min_padded_size_ratio '
        'SSDRandomCropPadFixedAspectRatio.max_padded_size_ratio '
        'RandomCropToAspectRatio.aspect_ratio SSDRandomCropFixedAspectRatio.aspect_ratio '
        'SSDRandomCropPadFixedAspectRatio.aspect_ratio '
        'RandomSquareCropByScale.scale_min RandomSquareCropByScale.scale_max '
        'RandomScaleCropAndPadToSquare.scale_min RandomScaleCropAndPadToSquare.scale_max',
    ),
    **_of(FRACTION, 'BatchNorm.decay'),
    **_of(Range(0, 1), 'RandomDistortColor.color_ordering'),
    **_of(Range(0, 100), 'RandomJpegQuality.min_jpeg_quality RandomJpegQuality.max_jpeg_quality'),
    **_of(
        SHARE,
        'EvalConfig.recall_lower_bound EvalConfig.recall_upper_bound '
        'EvalConfig.min_score_threshold BatchNonMaxSuppression.iou_threshold '
        'HardExampleMiner.iou_threshold ThresholdedIouSimilarity.iou_threshold '
        'SigmoidFocalClassificationLoss.alpha BootstrappedSigmoidClassificationLoss.alpha '
        'RandomHorizontalFlip.probability RandomVerticalFlip.probability '
        'RandomRotation90.probability RandomRGBtoGray.probability RandomAdjustBrightness.max_delta '
        'RandomAdjustHue.max_delta RandomJitterBoxes.ratio RandomCropToAspectRatio.overlap_thresh '
        'RandomBlackPatches.probability RandomBlackPatches.size_to_image_ratio '
        'RandomSelfConcatImage.concat_vertical_probability '
        'RandomSelfConcatImage.concat_horizontal_probability '
        'DropLabelProbabilistically.drop_probability RandomJpegQuality.random_coef '
        'RandomDownscaleToTargetPixels.random_coef RandomPatchGaussian.random_coef',
    ),
    **_of(
        KEPT_SHARE,
        'ConvolutionalBoxPredictor.dropout_keep_probability '
        'WeightSharedConvolutionalBoxPredictor.dropout_keep_probability '
        'RandomExampleSampler.positive_sample_fraction',
    ),
    **_of(
        ANY,
        # What these may be depends on the similarity.
        'ArgMaxMatcher.matched_threshold ArgMaxMatcher.unmatched_threshold '
        'ConvolutionalBoxPredictor.class_prediction_bias_init '
        'WeightSharedConvolutionalBoxPredictor.class_prediction_bias_init '
        'ConvolutionalBoxPredictor.BoxEncodingsClipRange.min '
        'ConvolutionalBoxPredictor.BoxEncodingsClipRange.max '
        'WeightSharedConvolutionalBoxPredictor.BoxEncodingsClipRange.min '
        'WeightSharedConvolutionalBoxPredictor.BoxEncodingsClipRange.max '
        'TruncatedNormalInitializer.mean RandomNormalInitializer.mean '
        'KeepAspectRatioResizer.per_channel_pad_value SigmoidParameters.a SigmoidParameters.b '
        'XYPairs.XYPair.x XYPairs.XYPair.y NormalizeImage.original_minval '
        'NormalizeImage.original_maxval NormalizeImage.target_minval NormalizeImage.target_maxval '
        'SubtractChannelMean.means RandomPadImage.pad_color RandomAbsolutePadImage.pad_color '
        'RandomCropPadImage.pad_color SSDRandomCropPadOperation.pad_color_r '
        'SSDRandomCropPadOperation.pad_color_g SSDRandomCropPadOperation.pad_color_b '
        'AdjustGamma.gain',
    ),
    # The messages that say how a window is drawn.
    **{
        f'{message}.{field}': allowed
        for message in (
            'RandomCropImage',
            'RandomCropPadImage',
            'SSDRandomCropOperation',
            'SSDRandomCropPadOperation',
            'SSDRandomCropFixedAspectRatioOperation',
            'SSDRandomCropPadFixedAspectRatioOperation',
        )
        for field, allowed in _OF_WINDOWS.items()
        if not (message == 'SSDRandomCropFixedAspectRatioOperation' and 'aspect_ratio' in field)
    },
}

_OF_SEGMENTATION: Mapping[str, Range] = {
    **_of(
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
    **_of(
        AT_LEAST_0,
        'SegmentationPreprocessing.scale_factor_step_size SegmentationLoss.weight '
        'SegmentationLoss.class_weights InstanceCenterHead.weight OffsetHead.weight '
        'EdgeHead.weight EdgeHead.edge_pixel_weight',
    ),
    **_of(
        POSITIVE,
        'Segmentation.image_pyramid SegmentationPreprocessing.min_scale_factor '
        'SegmentationPreprocessing.max_scale_factor InstanceCenterHead.sigma '
        'SegmentationEvaluation.scales SegmentationExport.scales',
    ),
    **_of(
        SHARE,
        'SegmentationPreprocessing.flip_probability '
        'SegmentationPreprocessing.max_brightness_change '
        'SegmentationPreprocessing.motion_blur_probability EdgeHead.tolerance '
        'InstanceGrouping.center_threshold',
    ),
    **_of(
        KEPT_SHARE,
        'SegmentationLoss.top_k_percent_pixels AtrousSpatialPyramidPooling.dropout_keep_prob '
        'DensePredictionCell.dropout_keep_prob',
    ),
    **_of(
        FRACTION,
        'AtrousSpatialPyramidPooling.batch_norm_decay DensePredictionCell.batch_norm_decay',
    ),
    'SegmentationPreprocessing.max_rotation_degrees': Range(0, 180),
}

# By `Message.field`. Values that are not set are not looked at: defaults are in range.
RANGES: Mapping[str, Range] = {
    **_OF_SEGMENTATION,
    **_OF_DETECTION,
    **_of(
        AT_LEAST_1,
        'TrainConfig.batch_size EvalConfig.batch_size EvalConfig.num_examples '
        'CheckpointConfig.save_every_n_steps CheckpointConfig.save_every_n_seconds '
        'ProgressConfig.every_n_steps EarlyStopping.patience_evaluations '
        'BestExport.keep_max LatestExport.keep_max '
        'InputReader.sample_1_of_n_examples InputReader.num_readers InputReader.read_block_length '
        'InputReader.num_parallel_batches '
        'Classification.num_classes Backbone.min_depth Backbone.multi_grid '
        'Backbone.channel_divisor '
        'ExponentialDecayLearningRate.decay_steps CosineDecayLearningRate.total_steps '
        'ExponentialDecayWithWarmupLearningRate.decay_steps '
        'DeepLabLearningRate.learning_rate_decay_step',
    ),
    **_of(
        AT_LEAST_0,
        'TrainConfig.startup_delay_steps '
        'TrainConfig.gradient_clipping_by_norm TrainConfig.bias_grad_multiplier '
        'TrainConfig.last_layer_gradient_multiplier GradientMultiplier.multiplier '
        'EarlyStopping.min_delta InputReader.sample_from_datasets_weights '
        'InputReader.num_prefetch_batches '
        'Classification.auxiliary_loss_weight Classification.labels_offset '
        'Backbone.weight_decay AdamOptimizer.epsilon '
        'FtrlOptimizer.initial_accumulator_value FtrlOptimizer.l1 FtrlOptimizer.l2 '
        'ConstantLearningRate.learning_rate ExponentialDecayLearningRate.initial_learning_rate '
        'ExponentialDecayLearningRate.burnin_learning_rate '
        'ExponentialDecayLearningRate.min_learning_rate '
        'ManualStepLearningRate.initial_learning_rate '
        'ManualStepLearningRate.LearningRateSchedule.learning_rate '
        'CosineDecayLearningRate.learning_rate_base CosineDecayLearningRate.warmup_learning_rate '
        'PolynomialDecayLearningRate.initial_learning_rate '
        'PolynomialDecayLearningRate.end_learning_rate '
        'ExponentialDecayWithWarmupLearningRate.learning_rate_base '
        'ExponentialDecayWithWarmupLearningRate.warmup_learning_rate '
        'ExponentialDecayWithWarmupLearningRate.min_learning_rate '
        'DeepLabLearningRate.base_learning_rate DeepLabLearningRate.end_learning_rate '
        'DeepLabLearningRate.learning_rates DeepLabLearningRate.slow_start_learning_rate',
    ),
    **_of(
        POSITIVE,
        'TrainConfig.keep_checkpoint_every_n_hours Backbone.depth_multiplier '
        'Backbone.batch_norm_epsilon RMSPropOptimizer.epsilon '
        'AdagradOptimizer.initial_accumulator_value AdadeltaOptimizer.epsilon '
        'ExponentialDecayLearningRate.decay_factor '
        'ExponentialDecayWithWarmupLearningRate.decay_factor '
        'PolynomialDecayLearningRate.power DeepLabLearningRate.learning_power '
        'DeepLabLearningRate.learning_rate_decay_factor',
    ),
    **_of(
        FRACTION,
        'Classification.label_smoothing Backbone.batch_norm_decay '
        'Optimizer.moving_average_decay RMSPropOptimizer.momentum_optimizer_value '
        'RMSPropOptimizer.decay MomentumOptimizer.momentum_optimizer_value AdamOptimizer.beta1 '
        'AdamOptimizer.beta2 AdadeltaOptimizer.rho',
    ),
    **_of(KEPT_SHARE, 'Classification.dropout_keep_prob'),
    **_of(NOT_POSITIVE, 'FtrlOptimizer.learning_rate_power'),
}
