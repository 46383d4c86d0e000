"""Ranges of the numbers of detection, what its messages must have, and which go in order."""

from __future__ import annotations

from estimator_lib.config.rules import (
    ANY,
    AT_LEAST_0,
    AT_LEAST_1,
    CHANNELS,
    COUNT,
    DECAY,
    FEW,
    FRACTION,
    PIXELS,
    POSITIVE,
    POSITIVE_FRACTION,
    SCALE,
    ConfigRules,
    Range,
    or_0,
    ranges,
)

_OF_WINDOWS = {
    **ranges(FRACTION, 'min_object_covered overlap_thresh random_coef'),
    **ranges(POSITIVE, 'min_aspect_ratio max_aspect_ratio'),
    **ranges(POSITIVE_FRACTION, 'min_area max_area'),
}

_RANGES = {
    **ranges(
        COUNT,
        'TrainConfig.max_number_of_boxes InputReader.max_number_of_boxes Ssd.num_classes '
        'BatchNonMaxSuppression.max_detections_per_class '
        'BatchNonMaxSuppression.max_total_detections '
        'BatchNonMaxSuppression.max_classes_per_detection DropLabelProbabilistically.label '
        'RemapLabels.original_labels RemapLabels.new_label',
    ),
    **ranges(
        Range(-1, 2**31 - 1),
        'InputReader.frame_index',
    ),
    **ranges(
        or_0(COUNT),
        'EvalConfig.max_num_boxes_to_visualize KeypointEdge.start KeypointEdge.end '
        'HardExampleMiner.num_hard_examples HardExampleMiner.min_negatives_per_image '
        'RandomBlackPatches.max_black_patches',
    ),
    **ranges(
        CHANNELS,
        'FeaturePyramidNetworks.additional_layer_depth',
    ),
    **ranges(
        or_0(CHANNELS),
        'SsdFeatureExtractor.min_depth ConvolutionalBoxPredictor.min_depth '
        'ConvolutionalBoxPredictor.max_depth WeightSharedConvolutionalBoxPredictor.depth '
        'BidirectionalFeaturePyramidNetworks.num_filters',
    ),
    **ranges(
        FEW,
        'SsdFeatureExtractor.num_layers SsdAnchorGenerator.num_layers '
        'MultiscaleAnchorGenerator.scales_per_octave ConvolutionalBoxPredictor.kernel_size '
        'ConvolutionalBoxPredictor.box_code_size '
        'WeightSharedConvolutionalBoxPredictor.kernel_size '
        'WeightSharedConvolutionalBoxPredictor.box_code_size RandomSquareCropByScale.num_scales',
    ),
    **ranges(
        or_0(FEW),
        'ConvolutionalBoxPredictor.num_layers_before_predictor '
        'WeightSharedConvolutionalBoxPredictor.num_layers_before_predictor '
        'BidirectionalFeaturePyramidNetworks.num_iterations InputReader.num_keypoints',
    ),
    **ranges(
        Range(1, 20),
        'FeaturePyramidNetworks.min_level FeaturePyramidNetworks.max_level '
        'BidirectionalFeaturePyramidNetworks.min_level '
        'BidirectionalFeaturePyramidNetworks.max_level',
    ),
    **ranges(
        Range(0, 20),
        'MultiscaleAnchorGenerator.min_level MultiscaleAnchorGenerator.max_level',
    ),
    **ranges(
        PIXELS,
        'SsdFeatureExtractor.pad_to_multiple KeepAspectRatioResizer.min_dimension '
        'KeepAspectRatioResizer.max_dimension FixedShapeResizer.height FixedShapeResizer.width '
        'ConditionalShapeResizer.size_threshold PadToMultipleResizer.multiple '
        'GridAnchorGenerator.height GridAnchorGenerator.width GridAnchorGenerator.height_stride '
        'GridAnchorGenerator.width_stride SsdAnchorGenerator.height_stride '
        'SsdAnchorGenerator.width_stride AnchorGrid.height_stride AnchorGrid.width_stride '
        'RandomResizeMethod.target_height RandomResizeMethod.target_width ResizeImage.new_height '
        'ResizeImage.new_width RandomPatchGaussian.min_patch_size '
        'RandomScaleCropAndPadToSquare.output_size',
    ),
    **ranges(
        or_0(PIXELS),
        'RandomPadImage.min_image_height RandomPadImage.min_image_width '
        'RandomPadImage.max_image_height RandomPadImage.max_image_width '
        'RandomAbsolutePadImage.max_height_padding RandomAbsolutePadImage.max_width_padding '
        'RandomSquareCropByScale.max_border',
    ),
    **ranges(
        SCALE,
        'SsdFeatureExtractor.depth_multiplier RandomImageScale.min_scale_ratio '
        'RandomImageScale.max_scale_ratio RandomCropPadImage.min_padded_size_ratio '
        'RandomCropPadImage.max_padded_size_ratio SSDRandomCropPadOperation.min_padded_size_ratio '
        'SSDRandomCropPadOperation.max_padded_size_ratio '
        'SSDRandomCropPadFixedAspectRatio.min_padded_size_ratio '
        'SSDRandomCropPadFixedAspectRatio.max_padded_size_ratio RandomSquareCropByScale.scale_min '
        'RandomSquareCropByScale.scale_max RandomScaleCropAndPadToSquare.scale_min '
        'RandomScaleCropAndPadToSquare.scale_max',
    ),
    **ranges(
        AT_LEAST_1,
        'RandomDownscaleToTargetPixels.min_target_pixels GaussianLocalizationLoss.tau',
    ),
    **ranges(
        AT_LEAST_0,
        'Ssd.negative_class_weight SsdAnchorGenerator.interpolated_scale_aspect_ratio '
        'L1Regularizer.weight L2Regularizer.weight TruncatedNormalInitializer.stddev '
        'RandomNormalInitializer.stddev Loss.classification_weight Loss.localization_weight '
        'Loss.min_num_negative_samples Loss.desired_negative_sampling_ratio '
        'HardExampleMiner.max_negatives_per_positive SigmoidFocalClassificationLoss.gamma '
        'BatchNonMaxSuppression.score_threshold BatchNonMaxSuppression.soft_nms_sigma '
        'RandomPixelValueScale.minval RandomPixelValueScale.maxval RandomAdjustContrast.min_delta '
        'RandomAdjustContrast.max_delta RandomAdjustSaturation.min_delta '
        'RandomAdjustSaturation.max_delta RandomPatchGaussian.min_gaussian_stddev '
        'RandomPatchGaussian.max_gaussian_stddev AdjustGamma.gamma',
    ),
    **ranges(
        POSITIVE,
        'BatchNorm.epsilon VarianceScalingInitializer.factor GridAnchorGenerator.scales '
        'GridAnchorGenerator.aspect_ratios SsdAnchorGenerator.min_scale '
        'SsdAnchorGenerator.max_scale SsdAnchorGenerator.scales SsdAnchorGenerator.aspect_ratios '
        'SsdAnchorGenerator.base_anchor_height SsdAnchorGenerator.base_anchor_width '
        'MultiscaleAnchorGenerator.anchor_scale MultiscaleAnchorGenerator.aspect_ratios '
        'AnchorGrid.base_sizes AnchorGrid.aspect_ratios FasterRcnnBoxCoder.y_scale '
        'FasterRcnnBoxCoder.x_scale FasterRcnnBoxCoder.height_scale '
        'FasterRcnnBoxCoder.width_scale SquareBoxCoder.y_scale SquareBoxCoder.x_scale '
        'SquareBoxCoder.length_scale MeanStddevBoxCoder.stddev RotatedBoxCoder.y_scale '
        'RotatedBoxCoder.x_scale RotatedBoxCoder.height_scale RotatedBoxCoder.width_scale '
        'RotatedBoxCoder.angle_scale IouSimilarity.max_angle_difference '
        'WeightedSmoothL1LocalizationLoss.delta WeightedSoftmaxClassificationLoss.logit_scale '
        'WeightedSoftmaxClassificationAgainstLogitsLoss.logit_scale PostProcessing.logit_scale '
        'TemperatureScalingCalibration.scaler RandomCropToAspectRatio.aspect_ratio '
        'SSDRandomCropFixedAspectRatio.aspect_ratio SSDRandomCropPadFixedAspectRatio.aspect_ratio',
    ),
    **ranges(
        # Radians: more than a turn is degrees.
        Range(-6.2832, 6.2832),
        'SsdAnchorGenerator.angles MultiscaleAnchorGenerator.angles GridAnchorGenerator.angles '
        'FlexibleGridAnchorGenerator.angles RandomRotation.min_angle RandomRotation.max_angle',
    ),
    **ranges(
        DECAY,
        'BatchNorm.decay',
    ),
    **ranges(
        Range(0, 1),
        'RandomDistortColor.color_ordering',
    ),
    **ranges(
        Range(0, 100),
        'RandomJpegQuality.min_jpeg_quality RandomJpegQuality.max_jpeg_quality',
    ),
    **ranges(
        FRACTION,
        'EvalConfig.recall_lower_bound EvalConfig.recall_upper_bound '
        'EvalConfig.min_score_threshold BatchNonMaxSuppression.iou_threshold '
        'HardExampleMiner.iou_threshold ThresholdedIouSimilarity.iou_threshold '
        'SigmoidFocalClassificationLoss.alpha BootstrappedSigmoidClassificationLoss.alpha '
        'RandomHorizontalFlip.probability RandomVerticalFlip.probability '
        'RandomRotation90.probability RandomRGBtoGray.probability '
        'RandomAdjustBrightness.max_delta RandomAdjustHue.max_delta RandomJitterBoxes.ratio '
        'RandomCropToAspectRatio.overlap_thresh RandomBlackPatches.probability '
        'RandomBlackPatches.size_to_image_ratio RandomSelfConcatImage.concat_vertical_probability '
        'RandomSelfConcatImage.concat_horizontal_probability '
        'DropLabelProbabilistically.drop_probability RandomJpegQuality.random_coef '
        'RandomDownscaleToTargetPixels.random_coef RandomPatchGaussian.random_coef '
        'RandomRotation.min_area_inside RandomRotation.probability',
    ),
    **ranges(
        POSITIVE_FRACTION,
        'SsdFeatureExtractor.drop_path_keep_prob '
        'ConvolutionalBoxPredictor.dropout_keep_probability '
        'WeightSharedConvolutionalBoxPredictor.dropout_keep_probability '
        'RandomExampleSampler.positive_sample_fraction',
    ),
    **ranges(
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

# Fields that a message is of no use without. A list must have something in it.
_REQUIRED = {
    'Ssd': (
        'num_classes image_resizer feature_extractor box_coder matcher similarity_calculator '
        'box_predictor anchor_generator loss'
    ),
    'SsdFeatureExtractor': 'type conv_hyperparams',
    'Hyperparams': 'initializer',
    'ConvolutionalBoxPredictor': 'conv_hyperparams',
    'WeightSharedConvolutionalBoxPredictor': 'conv_hyperparams',
    'ConvolutionalBoxPredictor.BoxEncodingsClipRange': 'min max',
    'WeightSharedConvolutionalBoxPredictor.BoxEncodingsClipRange': 'min max',
    'GridAnchorGenerator': 'scales aspect_ratios',
    'MultiscaleAnchorGenerator': 'aspect_ratios',
    'FlexibleGridAnchorGenerator': 'anchor_grid',
    'AnchorGrid': 'base_sizes aspect_ratios height_stride width_stride',
    'Loss': 'localization_loss classification_loss',
    'BootstrappedSigmoidClassificationLoss': 'alpha',
    'FunctionApproximation': 'x_y_pairs',
    'ClassIdFunctionApproximations': 'class_id_xy_pairs_map',
    'ClassIdSigmoidCalibrations': 'class_id_sigmoid_parameters_map',
    'XYPairs': 'x_y_pair',
    'TemperatureScalingCalibration': 'scaler',
    'NormalizeImage': 'original_maxval',
    'RandomResizeMethod': 'target_height target_width',
    'ResizeImage': 'new_height new_width',
    'SubtractChannelMean': 'means',
    'DropLabelProbabilistically': 'label',
    'RemapLabels': 'original_labels new_label',
    'SSDRandomCropOperation': 'min_aspect_ratio max_aspect_ratio min_area max_area',
    'SSDRandomCropPadOperation': 'min_aspect_ratio max_aspect_ratio min_area max_area',
    'SSDRandomCropFixedAspectRatioOperation': 'min_area max_area',
    'SSDRandomCropPadFixedAspectRatioOperation': (
        'min_aspect_ratio max_aspect_ratio min_area max_area'
    ),
}

# The choices that have to be made in a message. In all others none is a choice too, or what asks
# for them is checked where it is.
_CHOICES = (
    'image_resizer_oneof',
    'anchor_generator_oneof',
    'box_coder_oneof',
    'matcher_oneof',
    'region_similarity',
    'box_predictor_oneof',
    'regularizer_oneof',
    'initializer_oneof',
    'localization_loss',
    'classification_loss',
    'calibrator',
    'preprocessing_step',
)

_CROPS = (('min_aspect_ratio', 'max_aspect_ratio'), ('min_area', 'max_area'))

# (field, one that it may not be above) by message.
_ORDERED = {
    'EvalConfig': (('recall_lower_bound', 'recall_upper_bound'),),
    'KeepAspectRatioResizer': (('min_dimension', 'max_dimension'),),
    'FeaturePyramidNetworks': (('min_level', 'max_level'),),
    'BidirectionalFeaturePyramidNetworks': (('min_level', 'max_level'),),
    'MultiscaleAnchorGenerator': (('min_level', 'max_level'),),
    'BatchNonMaxSuppression': (('max_detections_per_class', 'max_total_detections'),),
    'ConvolutionalBoxPredictor.BoxEncodingsClipRange': (('min', 'max'),),
    'WeightSharedConvolutionalBoxPredictor.BoxEncodingsClipRange': (('min', 'max'),),
    'RandomPixelValueScale': (('minval', 'maxval'),),
    'RandomImageScale': (('min_scale_ratio', 'max_scale_ratio'),),
    'RandomAdjustContrast': (('min_delta', 'max_delta'),),
    'RandomAdjustSaturation': (('min_delta', 'max_delta'),),
    'RandomCropImage': _CROPS,
    'RandomCropPadImage': _CROPS,
    'SSDRandomCropOperation': _CROPS,
    'SSDRandomCropPadOperation': _CROPS,
    'SSDRandomCropFixedAspectRatioOperation': _CROPS[1:],
    'SSDRandomCropPadFixedAspectRatioOperation': _CROPS,
    'RandomJpegQuality': (('min_jpeg_quality', 'max_jpeg_quality'),),
    'RandomDownscaleToTargetPixels': (('min_target_pixels', 'max_target_pixels'),),
    'RandomPatchGaussian': (
        ('min_patch_size', 'max_patch_size'),
        ('min_gaussian_stddev', 'max_gaussian_stddev'),
    ),
    'RandomSquareCropByScale': (('scale_min', 'scale_max'),),
    'RandomRotation': (('min_angle', 'max_angle'),),
    'RandomScaleCropAndPadToSquare': (('scale_min', 'scale_max'),),
}

_REQUIRES = {
    'TrainConfig.load_all_detection_checkpoint_vars': 'fine_tune_checkpoint',
    'CenterNet.keypoint_label_map_path': 'keypoint_estimation_task',
    'FasterRcnn.output_reframed_masks': 'number_of_stages: 3',
    'InputReader.frame_index': 'input_type: TF_SEQUENCE_EXAMPLE',
}

VALUES = ConfigRules(
    ranges=_RANGES,
    required={message: tuple(fields.split()) for message, fields in _REQUIRED.items()},
    choices=_CHOICES,
    ordered=_ORDERED,
    requires=_REQUIRES,
)
