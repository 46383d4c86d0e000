"""Field support of detection: which fields do what, which nothing, and which are refused."""

from __future__ import annotations

from google.protobuf import message as message_lib

from estimator_lib.config import support
from estimator_lib.config.rules import ALL, Condition, ConfigRules, because, names
from model_fns import config_rules
from protos import hyperparams_pb2

_SPAGHETTINET = 'it belongs to the SpaghettiNet models, which are not available'
_ONE_COMPUTATION = 'there is one way to compute it, which is fast'
_MULTICLASS = 'examples have no multi-class scores: the classes of boxes are their labels'

# Messages with all of their fields.
_MODEL_PARTS = (
    'ImageResizer KeepAspectRatioResizer FixedShapeResizer ConditionalShapeResizer '
    'PadToMultipleResizer FeaturePyramidNetworks BidirectionalFeaturePyramidNetworks '
    'AnchorGenerator GridAnchorGenerator SsdAnchorGenerator MultiscaleAnchorGenerator '
    'FlexibleGridAnchorGenerator AnchorGrid FasterRcnnBoxCoder MeanStddevBoxCoder SquareBoxCoder '
    'RotatedBoxCoder GaussianLocalizationLoss IouSimilarity '
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
    'RandomPatchGaussian RandomSquareCropByScale RandomScaleCropAndPadToSquare AdjustGamma '
    'RandomRotation'
)

_SUPPORTED = {
    'DetectionModel': names('ssd'),
    'TrainConfig': names(
        'data_augmentation_options load_all_detection_checkpoint_vars max_number_of_boxes'
    ),
    'InputReader': names(
        'frame_index ignored_boxes load_context_features load_instance_masks mask_type '
        'max_number_of_boxes num_keypoints use_display_name use_keypoint_label_map'
    ),
    'EvalConfig': names(
        'metrics_set include_metrics_per_category all_metrics_per_category super_categories '
        'recall_lower_bound recall_upper_bound min_score_threshold max_num_boxes_to_visualize '
        'skip_scores skip_labels visualize_groundtruth_boxes '
        'groundtruth_box_visualization_color skip_predictions_for_unlabeled_class '
        'image_classes_field_map_empty_to_ones keypoint_edge eval_instance_masks '
        'parameterized_metric'
    ),
    **dict.fromkeys(names('KeypointEdge ParameterizedMetric CocoKeypointMetrics'), ALL),
    **dict.fromkeys(names(f'{_MODEL_PARTS} {_AUGMENTATIONS}'), ALL),
    'Ssd': names(
        'num_classes image_resizer feature_extractor box_coder matcher similarity_calculator '
        'encode_background_as_zeros negative_class_weight box_predictor anchor_generator '
        'post_processing normalize_loss_by_num_matches normalize_loc_loss_by_codesize loss '
        'freeze_batchnorm inplace_batchnorm_update add_background_class box_type'
    ),
    'SsdFeatureExtractor': names(
        'type depth_multiplier min_depth conv_hyperparams '
        'override_base_feature_extractor_hyperparams pad_to_multiple use_explicit_padding '
        'use_depthwise fpn bifpn num_layers drop_path_keep_prob'
    ),
    'BoxCoder': names(
        'faster_rcnn_box_coder mean_stddev_box_coder square_box_coder rotated_box_coder'
    ),
    'ArgMaxMatcher': names(
        'matched_threshold unmatched_threshold ignore_thresholds negatives_lower_than_unmatched '
        'force_match_for_each_row'
    ),
    'Hyperparams': names(
        'op regularizer initializer activation batch_norm sync_batch_norm force_use_bias'
    ),
    'BoxPredictor': names('convolutional_box_predictor weight_shared_convolutional_box_predictor'),
    'WeightSharedConvolutionalBoxPredictor': names(
        'conv_hyperparams num_layers_before_predictor depth kernel_size box_code_size '
        'class_prediction_bias_init use_dropout dropout_keep_probability share_prediction_tower '
        'use_depthwise score_converter box_encodings_clip_range apply_conv_hyperparams_to_heads '
        'apply_conv_hyperparams_pointwise'
    ),
    'WeightedSmoothL1LocalizationLoss': names('delta'),
    'ClassificationLoss': names(
        'weighted_sigmoid weighted_softmax weighted_logits_softmax bootstrapped_sigmoid '
        'weighted_sigmoid_focal'
    ),
    'SigmoidFocalClassificationLoss': names('gamma alpha'),
    'WeightedSoftmaxClassificationLoss': names('logit_scale'),
    'WeightedSoftmaxClassificationAgainstLogitsLoss': names('logit_scale'),
    'BootstrappedSigmoidClassificationLoss': names('alpha hard_bootstrap'),
    'BatchNonMaxSuppression': names(
        'score_threshold iou_threshold max_detections_per_class max_total_detections '
        'use_class_agnostic_nms max_classes_per_detection soft_nms_sigma use_combined_nms '
        'change_coordinate_frame use_cpu_nms'
    ),
    'XYPairs': names('x_y_pair'),
    'PreprocessingStep': names(
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
        'random_scale_crop_and_pad_to_square adjust_gamma random_rotation'
    ),
}

_IGNORED = {
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
        for message in names(
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

_UNSUPPORTED = {
    'Ssd': {
        'explicit_background_class': 'use add_background_class',
        'use_confidences_as_targets': 'targets are one-hot',
        'mask_head_config': config_rules.MASKS,
    },
    'SsdFeatureExtractor': {
        'spaghettinet_arch_name': _SPAGHETTINET,
        'replace_preprocessor_with_placeholder': (
            'images are always preprocessed as the network was trained'
        ),
    },
    'BoxCoder': {'keypoint_box_coder': 'boxes are learned without keypoints'},
    'Hyperparams': {'group_norm': 'use batch_norm, with train: false for small batches'},
    'BoxPredictor': because(
        'it is for the second stage of model.faster_rcnn',
        'mask_rcnn_box_predictor rfcn_box_predictor',
    ),
    'Loss.EqualizationLoss': {
        'weight': 'the published system computes nothing of it, so leave it out for its results'
    },
    'ClassificationLoss': because(
        'it is of heat maps and masks, for model.center_net; expected a loss of anchors',
        'penalty_reduced_logistic_focal_loss weighted_dice_classification_loss',
    ),
    'PreprocessingStep': {'convert_class_logits_to_softmax': _MULTICLASS},
}

_CONDITIONS = {
    'Hyperparams.op': Condition(
        lambda value, config: value == hyperparams_pb2.Hyperparams.CONV,
        'the layers are convolutions; expected CONV',
    ),
}

FIELD_SUPPORT = ConfigRules(
    supported=_SUPPORTED, ignored=_IGNORED, unsupported=_UNSUPPORTED, conditions=_CONDITIONS
)


def refuse(message: message_lib.Message, where: str) -> None:
    """Raises for what is not supported in a part of `model`, whose config need not be at hand.

    Args:
        message: the part.
        where: its path in the config.

    Raises:
        errors.ConfigError: with every such field.
    """
    support.refuse(FIELD_SUPPORT, message, where)
