from protos import anchors_pb2 as _anchors_pb2
from protos import box_coding_pb2 as _box_coding_pb2
from protos import box_predictors_pb2 as _box_predictors_pb2
from protos import feature_pyramids_pb2 as _feature_pyramids_pb2
from protos import hyperparams_pb2 as _hyperparams_pb2
from protos import image_resizer_pb2 as _image_resizer_pb2
from protos import losses_pb2 as _losses_pb2
from protos import post_processing_pb2 as _post_processing_pb2
from protos import rules_pb2 as _rules_pb2
from protos import target_assignment_pb2 as _target_assignment_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Ssd(_message.Message):
    __slots__ = ("num_classes", "image_resizer", "feature_extractor", "box_coder", "matcher", "similarity_calculator", "encode_background_as_zeros", "negative_class_weight", "box_predictor", "anchor_generator", "post_processing", "normalize_loss_by_num_matches", "normalize_loc_loss_by_codesize", "loss", "freeze_batchnorm", "inplace_batchnorm_update", "add_background_class", "explicit_background_class", "use_confidences_as_targets", "implicit_example_weight", "return_raw_detections_during_predict", "mask_head_config", "box_type")
    class MaskHead(_message.Message):
        __slots__ = ("mask_height", "mask_width", "masks_are_class_agnostic", "mask_prediction_conv_depth", "mask_prediction_num_conv_layers", "convolve_then_upsample_masks", "mask_loss_weight", "mask_loss_sample_size", "conv_hyperparams", "initial_crop_size")
        MASK_HEIGHT_FIELD_NUMBER: _ClassVar[int]
        MASK_WIDTH_FIELD_NUMBER: _ClassVar[int]
        MASKS_ARE_CLASS_AGNOSTIC_FIELD_NUMBER: _ClassVar[int]
        MASK_PREDICTION_CONV_DEPTH_FIELD_NUMBER: _ClassVar[int]
        MASK_PREDICTION_NUM_CONV_LAYERS_FIELD_NUMBER: _ClassVar[int]
        CONVOLVE_THEN_UPSAMPLE_MASKS_FIELD_NUMBER: _ClassVar[int]
        MASK_LOSS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
        MASK_LOSS_SAMPLE_SIZE_FIELD_NUMBER: _ClassVar[int]
        CONV_HYPERPARAMS_FIELD_NUMBER: _ClassVar[int]
        INITIAL_CROP_SIZE_FIELD_NUMBER: _ClassVar[int]
        mask_height: int
        mask_width: int
        masks_are_class_agnostic: bool
        mask_prediction_conv_depth: int
        mask_prediction_num_conv_layers: int
        convolve_then_upsample_masks: bool
        mask_loss_weight: float
        mask_loss_sample_size: int
        conv_hyperparams: _hyperparams_pb2.Hyperparams
        initial_crop_size: int
        def __init__(self, mask_height: _Optional[int] = ..., mask_width: _Optional[int] = ..., masks_are_class_agnostic: bool = ..., mask_prediction_conv_depth: _Optional[int] = ..., mask_prediction_num_conv_layers: _Optional[int] = ..., convolve_then_upsample_masks: bool = ..., mask_loss_weight: _Optional[float] = ..., mask_loss_sample_size: _Optional[int] = ..., conv_hyperparams: _Optional[_Union[_hyperparams_pb2.Hyperparams, _Mapping]] = ..., initial_crop_size: _Optional[int] = ...) -> None: ...
    NUM_CLASSES_FIELD_NUMBER: _ClassVar[int]
    IMAGE_RESIZER_FIELD_NUMBER: _ClassVar[int]
    FEATURE_EXTRACTOR_FIELD_NUMBER: _ClassVar[int]
    BOX_CODER_FIELD_NUMBER: _ClassVar[int]
    MATCHER_FIELD_NUMBER: _ClassVar[int]
    SIMILARITY_CALCULATOR_FIELD_NUMBER: _ClassVar[int]
    ENCODE_BACKGROUND_AS_ZEROS_FIELD_NUMBER: _ClassVar[int]
    NEGATIVE_CLASS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    BOX_PREDICTOR_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_GENERATOR_FIELD_NUMBER: _ClassVar[int]
    POST_PROCESSING_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_LOSS_BY_NUM_MATCHES_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_LOC_LOSS_BY_CODESIZE_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    FREEZE_BATCHNORM_FIELD_NUMBER: _ClassVar[int]
    INPLACE_BATCHNORM_UPDATE_FIELD_NUMBER: _ClassVar[int]
    ADD_BACKGROUND_CLASS_FIELD_NUMBER: _ClassVar[int]
    EXPLICIT_BACKGROUND_CLASS_FIELD_NUMBER: _ClassVar[int]
    USE_CONFIDENCES_AS_TARGETS_FIELD_NUMBER: _ClassVar[int]
    IMPLICIT_EXAMPLE_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    RETURN_RAW_DETECTIONS_DURING_PREDICT_FIELD_NUMBER: _ClassVar[int]
    MASK_HEAD_CONFIG_FIELD_NUMBER: _ClassVar[int]
    BOX_TYPE_FIELD_NUMBER: _ClassVar[int]
    num_classes: int
    image_resizer: _image_resizer_pb2.ImageResizer
    feature_extractor: SsdFeatureExtractor
    box_coder: _box_coding_pb2.BoxCoder
    matcher: _target_assignment_pb2.Matcher
    similarity_calculator: _target_assignment_pb2.RegionSimilarityCalculator
    encode_background_as_zeros: bool
    negative_class_weight: float
    box_predictor: _box_predictors_pb2.BoxPredictor
    anchor_generator: _anchors_pb2.AnchorGenerator
    post_processing: _post_processing_pb2.PostProcessing
    normalize_loss_by_num_matches: bool
    normalize_loc_loss_by_codesize: bool
    loss: _losses_pb2.Loss
    freeze_batchnorm: bool
    inplace_batchnorm_update: bool
    add_background_class: bool
    explicit_background_class: bool
    use_confidences_as_targets: bool
    implicit_example_weight: float
    return_raw_detections_during_predict: bool
    mask_head_config: Ssd.MaskHead
    box_type: _box_coding_pb2.BoxType
    def __init__(self, num_classes: _Optional[int] = ..., image_resizer: _Optional[_Union[_image_resizer_pb2.ImageResizer, _Mapping]] = ..., feature_extractor: _Optional[_Union[SsdFeatureExtractor, _Mapping]] = ..., box_coder: _Optional[_Union[_box_coding_pb2.BoxCoder, _Mapping]] = ..., matcher: _Optional[_Union[_target_assignment_pb2.Matcher, _Mapping]] = ..., similarity_calculator: _Optional[_Union[_target_assignment_pb2.RegionSimilarityCalculator, _Mapping]] = ..., encode_background_as_zeros: bool = ..., negative_class_weight: _Optional[float] = ..., box_predictor: _Optional[_Union[_box_predictors_pb2.BoxPredictor, _Mapping]] = ..., anchor_generator: _Optional[_Union[_anchors_pb2.AnchorGenerator, _Mapping]] = ..., post_processing: _Optional[_Union[_post_processing_pb2.PostProcessing, _Mapping]] = ..., normalize_loss_by_num_matches: bool = ..., normalize_loc_loss_by_codesize: bool = ..., loss: _Optional[_Union[_losses_pb2.Loss, _Mapping]] = ..., freeze_batchnorm: bool = ..., inplace_batchnorm_update: bool = ..., add_background_class: bool = ..., explicit_background_class: bool = ..., use_confidences_as_targets: bool = ..., implicit_example_weight: _Optional[float] = ..., return_raw_detections_during_predict: bool = ..., mask_head_config: _Optional[_Union[Ssd.MaskHead, _Mapping]] = ..., box_type: _Optional[_Union[_box_coding_pb2.BoxType, str]] = ...) -> None: ...

class SsdFeatureExtractor(_message.Message):
    __slots__ = ("type", "depth_multiplier", "min_depth", "conv_hyperparams", "override_base_feature_extractor_hyperparams", "pad_to_multiple", "use_explicit_padding", "use_depthwise", "fpn", "bifpn", "replace_preprocessor_with_placeholder", "num_layers", "spaghettinet_arch_name", "drop_path_keep_prob", "batch_norm_trainable", "pad_stacked_maps")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DEPTH_MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    MIN_DEPTH_FIELD_NUMBER: _ClassVar[int]
    CONV_HYPERPARAMS_FIELD_NUMBER: _ClassVar[int]
    OVERRIDE_BASE_FEATURE_EXTRACTOR_HYPERPARAMS_FIELD_NUMBER: _ClassVar[int]
    PAD_TO_MULTIPLE_FIELD_NUMBER: _ClassVar[int]
    USE_EXPLICIT_PADDING_FIELD_NUMBER: _ClassVar[int]
    USE_DEPTHWISE_FIELD_NUMBER: _ClassVar[int]
    FPN_FIELD_NUMBER: _ClassVar[int]
    BIFPN_FIELD_NUMBER: _ClassVar[int]
    REPLACE_PREPROCESSOR_WITH_PLACEHOLDER_FIELD_NUMBER: _ClassVar[int]
    NUM_LAYERS_FIELD_NUMBER: _ClassVar[int]
    SPAGHETTINET_ARCH_NAME_FIELD_NUMBER: _ClassVar[int]
    DROP_PATH_KEEP_PROB_FIELD_NUMBER: _ClassVar[int]
    BATCH_NORM_TRAINABLE_FIELD_NUMBER: _ClassVar[int]
    PAD_STACKED_MAPS_FIELD_NUMBER: _ClassVar[int]
    type: str
    depth_multiplier: float
    min_depth: int
    conv_hyperparams: _hyperparams_pb2.Hyperparams
    override_base_feature_extractor_hyperparams: bool
    pad_to_multiple: int
    use_explicit_padding: bool
    use_depthwise: bool
    fpn: _feature_pyramids_pb2.FeaturePyramidNetworks
    bifpn: _feature_pyramids_pb2.BidirectionalFeaturePyramidNetworks
    replace_preprocessor_with_placeholder: bool
    num_layers: int
    spaghettinet_arch_name: str
    drop_path_keep_prob: float
    batch_norm_trainable: bool
    pad_stacked_maps: bool
    def __init__(self, type: _Optional[str] = ..., depth_multiplier: _Optional[float] = ..., min_depth: _Optional[int] = ..., conv_hyperparams: _Optional[_Union[_hyperparams_pb2.Hyperparams, _Mapping]] = ..., override_base_feature_extractor_hyperparams: bool = ..., pad_to_multiple: _Optional[int] = ..., use_explicit_padding: bool = ..., use_depthwise: bool = ..., fpn: _Optional[_Union[_feature_pyramids_pb2.FeaturePyramidNetworks, _Mapping]] = ..., bifpn: _Optional[_Union[_feature_pyramids_pb2.BidirectionalFeaturePyramidNetworks, _Mapping]] = ..., replace_preprocessor_with_placeholder: bool = ..., num_layers: _Optional[int] = ..., spaghettinet_arch_name: _Optional[str] = ..., drop_path_keep_prob: _Optional[float] = ..., batch_norm_trainable: bool = ..., pad_stacked_maps: bool = ...) -> None: ...
