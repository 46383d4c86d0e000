"""The part of the table of fields that is about detectors and their augmentations."""

from __future__ import annotations

from typing import Dict, FrozenSet, Mapping, Union

# In a column: every field of the message.
ALL = frozenset({'*'})

TWO_STAGES = 'two-stage detection is not available yet'
KEYPOINTS = 'keypoint-based detection is not available'
MASKS = 'masks need a two-stage model'
_SPAGHETTINET = 'it belongs to the SpaghettiNet models, which are not available'
_EFFICIENTDET = 'it belongs to the EfficientDet models, which are not available'
_ONE_COMPUTATION = 'there is one way to compute it, which is fast'
_MULTICLASS = 'examples have no multi-class scores: the classes of boxes are their labels'


def _names(text: str) -> FrozenSet[str]:
    return frozenset(text.split())


def _with_reason(reason: str, text: str) -> Dict[str, str]:
    return dict.fromkeys(text.split(), reason)


# Messages with all of their fields.
_MODEL_PARTS = (
    'ImageResizer KeepAspectRatioResizer FixedShapeResizer ConditionalShapeResizer '
    'PadToMultipleResizer FeaturePyramidNetworks '
    'AnchorGenerator GridAnchorGenerator SsdAnchorGenerator MultiscaleAnchorGenerator '
    'FlexibleGridAnchorGenerator AnchorGrid FasterRcnnBoxCoder MeanStddevBoxCoder SquareBoxCoder '
    'Matcher RegionSimilarityCalculator ThresholdedIouSimilarity '
    'Regularizer L1Regularizer L2Regularizer Initializer TruncatedNormalInitializer '
    'VarianceScalingInitializer RandomNormalInitializer BatchNorm '
    'ConvolutionalBoxPredictor ConvolutionalBoxPredictor.BoxEncodingsClipRange '
    'WeightSharedConvolutionalBoxPredictor.BoxEncodingsClipRange '
    'Loss LocalizationLoss HardExampleMiner RandomExampleSampler '
    'PostProcessing CalibrationConfig FunctionApproximation ClassIdFunctionApproximations '
    'SigmoidCalibration ClassIdSigmoidCalibrations TemperatureScalingCalibration '
    'XYPairs.XYPair SigmoidParameters'
)
_AUGMENTATIONS = (
    'NormalizeImage RandomHorizontalFlip RandomVerticalFlip RandomRotation90 '
    'RandomPixelValueScale RandomImageScale RandomRGBtoGray RandomAdjustBrightness '
    'RandomAdjustContrast RandomAdjustHue RandomAdjustSaturation RandomDistortColor '
    'RandomJitterBoxes RandomCropImage RandomPadImage RandomAbsolutePadImage RandomCropPadImage '
    'RandomCropToAspectRatio RandomBlackPatches RandomResizeMethod ResizeImage '
    'SubtractChannelMean SSDRandomCrop SSDRandomCropOperation SSDRandomCropPad '
    'SSDRandomCropPadOperation SSDRandomCropFixedAspectRatio '
    'SSDRandomCropFixedAspectRatioOperation SSDRandomCropPadFixedAspectRatio '
    'SSDRandomCropPadFixedAspectRatioOperation RandomSelfConcatImage AutoAugmentImage '
    'DropLabelProbabilistically RemapLabels RandomJpegQuality RandomDownscaleToTargetPixels '
    'RandomPatchGaussian RandomSquareCropByScale RandomScaleCropAndPadToSquare AdjustGamma'
)

HONOURED: Mapping[str, FrozenSet[str]] = {
    **dict.fromkeys(_names(f'{_MODEL_PARTS} {_AUGMENTATIONS}'), ALL),
    'Ssd': _names(
        'num_classes image_resizer feature_extractor box_coder matcher similarity_calculator '
        'encode_background_as_zeros negative_class_weight box_predictor anchor_generator '
        'post_processing normalize_loss_by_num_matches normalize_loc_loss_by_codesize loss '
        'freeze_batchnorm inplace_batchnorm_update add_background_class'
    ),
    'SsdFeatureExtractor': _names(
        'type depth_multiplier min_depth conv_hyperparams '
        'override_base_feature_extractor_hyperparams pad_to_multiple use_explicit_padding '
        'use_depthwise fpn num_layers'
    ),
    'BoxCoder': _names('faster_rcnn_box_coder mean_stddev_box_coder square_box_coder'),
    'ArgMaxMatcher': _names(
        'matched_threshold unmatched_threshold ignore_thresholds negatives_lower_than_unmatched '
        'force_match_for_each_row'
    ),
    'Hyperparams': _names(
        'op regularizer initializer activation batch_norm sync_batch_norm force_use_bias'
    ),
    'BoxPredictor': _names('convolutional_box_predictor weight_shared_convolutional_box_predictor'),
    'WeightSharedConvolutionalBoxPredictor': _names(
        'conv_hyperparams num_layers_before_predictor depth kernel_size box_code_size '
        'class_prediction_bias_init use_dropout dropout_keep_probability share_prediction_tower '
        'use_depthwise score_converter box_encodings_clip_range'
    ),
    'WeightedSmoothL1LocalizationLoss': _names('delta'),
    'ClassificationLoss': _names(
        'weighted_sigmoid weighted_softmax weighted_logits_softmax bootstrapped_sigmoid '
        'weighted_sigmoid_focal'
    ),
    'SigmoidFocalClassificationLoss': _names('gamma alpha'),
    'WeightedSoftmaxClassificationLoss': _names('logit_scale'),
    'WeightedSoftmaxClassificationAgainstLogitsLoss': _names('logit_scale'),
    'BootstrappedSigmoidClassificationLoss': _names('alpha hard_bootstrap'),
    'BatchNonMaxSuppression': _names(
        'score_threshold iou_threshold max_detections_per_class max_total_detections '
        'use_class_agnostic_nms max_classes_per_detection soft_nms_sigma use_combined_nms '
        'change_coordinate_frame use_cpu_nms'
    ),
    'XYPairs': _names('x_y_pair'),
    'PreprocessingStep': _names(
        'normalize_image random_horizontal_flip random_pixel_value_scale random_image_scale '
        'random_rgb_to_gray random_adjust_brightness random_adjust_contrast random_adjust_hue '
        'random_adjust_saturation random_distort_color random_jitter_boxes random_crop_image '
        'random_pad_image random_crop_pad_image random_crop_to_aspect_ratio random_black_patches '
        'random_resize_method scale_boxes_to_pixel_coordinates resize_image subtract_channel_mean '
        'ssd_random_crop ssd_random_crop_pad ssd_random_crop_fixed_aspect_ratio '
        'ssd_random_crop_pad_fixed_aspect_ratio random_vertical_flip random_rotation90 '
        'rgb_to_gray random_absolute_pad_image random_self_concat_image autoaugment_image '
        'drop_label_probabilistically remap_labels random_jpeg_quality '
        'random_downscale_to_target_pixels random_patch_gaussian random_square_crop_by_scale '
        'random_scale_crop_and_pad_to_square adjust_gamma'
    ),
}

NO_EFFECT: Mapping[str, Mapping[str, str]] = {
    'Ssd': {
        'implicit_example_weight': 'it is for use_confidences_as_targets, which is not available',
        'return_raw_detections_during_predict': 'raw detections are always among the outputs',
    },
    'ArgMaxMatcher': {'use_matmul_gather': _ONE_COMPUTATION},
    'BipartiteMatcher': {'use_matmul_gather': _ONE_COMPUTATION},
    # As published for TensorFlow 1: the lists of penalties in its checkpoints' graphs have them.
    'Hyperparams': {'regularize_depthwise': 'depthwise weights are always penalised as others are'},
    **{
        message: {'anchorwise_output': 'losses are always by anchor until they are summed'}
        for message in _names(
            'WeightedL2LocalizationLoss WeightedSmoothL1LocalizationLoss '
            'WeightedSigmoidClassificationLoss SigmoidFocalClassificationLoss '
            'WeightedSoftmaxClassificationLoss WeightedSoftmaxClassificationAgainstLogitsLoss '
            'BootstrappedSigmoidClassificationLoss'
        )
    },
    'Loss.EqualizationLoss': {'exclude_prefixes': 'there is no equalization loss'},
    'BatchNonMaxSuppression': {
        'use_static_shapes': 'shapes are always static',
        'use_partitioned_nms': _ONE_COMPUTATION,
        'use_hard_nms': 'suppression is hard unless soft_nms_sigma makes it soft',
    },
    'XYPairs': {'training_data_type': 'what it was fitted on does not change a function'},
}

REFUSED: Mapping[str, Union[str, Mapping[str, str]]] = {
    'Ssd': {
        'explicit_background_class': 'use add_background_class',
        'use_confidences_as_targets': 'targets are one-hot',
        'mask_head_config': MASKS,
    },
    'Ssd.MaskHead': MASKS,
    'SsdFeatureExtractor': {
        'bifpn': _EFFICIENTDET,
        'spaghettinet_arch_name': _SPAGHETTINET,
        'replace_preprocessor_with_placeholder': (
            'images are always preprocessed as the network was trained'
        ),
    },
    'BidirectionalFeaturePyramidNetworks': _EFFICIENTDET,
    'BoxCoder': {'keypoint_box_coder': 'boxes are learned without keypoints'},
    'KeypointBoxCoder': 'boxes are learned without keypoints',
    'Hyperparams': {'group_norm': 'use batch_norm, with train: false for small batches'},
    'BoxPredictor': _with_reason(TWO_STAGES, 'mask_rcnn_box_predictor rfcn_box_predictor'),
    'WeightSharedConvolutionalBoxPredictor': _with_reason(
        _EFFICIENTDET, 'apply_conv_hyperparams_to_heads apply_conv_hyperparams_pointwise'
    ),
    'Loss.EqualizationLoss': {
        'weight': 'the published system computes nothing of it, so leave it out for its results'
    },
    'ClassificationLoss': _with_reason(
        KEYPOINTS, 'penalty_reduced_logistic_focal_loss weighted_dice_classification_loss'
    ),
    'PreprocessingStep': {'convert_class_logits_to_softmax': _MULTICLASS},
    'ConvertClassLogitsToSoftmax': _MULTICLASS,
    **_with_reason(
        TWO_STAGES,
        'FasterRcnn FasterRcnnFeatureExtractor Context MaskRCNNBoxPredictor RfcnBoxPredictor',
    ),
    **_with_reason(
        KEYPOINTS,
        'CenterNet CenterNetFeatureExtractor CenterNet.ObjectDetection '
        'CenterNet.ObjectCenterParams CenterNet.KeypointEstimation CenterNet.MaskEstimation '
        'CenterNet.DensePoseEstimation CenterNet.TrackEstimation '
        'CenterNet.TemporalOffsetEstimation CenterNet.DeepMACMaskEstimation '
        'CenterNet.PredictionHeadParams PenaltyReducedLogisticFocalLoss '
        'WeightedDiceClassificationLoss',
    ),
}
