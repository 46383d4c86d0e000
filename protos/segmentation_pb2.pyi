from protos import backbone_pb2 as _backbone_pb2
from protos import duration_pb2 as _duration_pb2
from protos import rules_pb2 as _rules_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MergeMethod(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MERGE_MAX: _ClassVar[MergeMethod]
    MERGE_AVERAGE: _ClassVar[MergeMethod]
MERGE_MAX: MergeMethod
MERGE_AVERAGE: MergeMethod

class Segmentation(_message.Message):
    __slots__ = ("num_classes", "ignore_label", "backbone", "crop_height", "crop_width", "dataset", "aspp", "dense_prediction_cell", "decoder", "logits_kernel_size", "image_pyramid", "merge_method", "fine_tune_batch_norm", "predict_with_upsampled_logits", "last_layers_contain_logits_only", "preprocessing", "loss", "instance_center", "offset", "edge", "instance_grouping", "evaluation", "export", "use_bounded_activation")
    NUM_CLASSES_FIELD_NUMBER: _ClassVar[int]
    IGNORE_LABEL_FIELD_NUMBER: _ClassVar[int]
    BACKBONE_FIELD_NUMBER: _ClassVar[int]
    CROP_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    CROP_WIDTH_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    ASPP_FIELD_NUMBER: _ClassVar[int]
    DENSE_PREDICTION_CELL_FIELD_NUMBER: _ClassVar[int]
    DECODER_FIELD_NUMBER: _ClassVar[int]
    LOGITS_KERNEL_SIZE_FIELD_NUMBER: _ClassVar[int]
    IMAGE_PYRAMID_FIELD_NUMBER: _ClassVar[int]
    MERGE_METHOD_FIELD_NUMBER: _ClassVar[int]
    FINE_TUNE_BATCH_NORM_FIELD_NUMBER: _ClassVar[int]
    PREDICT_WITH_UPSAMPLED_LOGITS_FIELD_NUMBER: _ClassVar[int]
    LAST_LAYERS_CONTAIN_LOGITS_ONLY_FIELD_NUMBER: _ClassVar[int]
    PREPROCESSING_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_CENTER_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    EDGE_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_GROUPING_FIELD_NUMBER: _ClassVar[int]
    EVALUATION_FIELD_NUMBER: _ClassVar[int]
    EXPORT_FIELD_NUMBER: _ClassVar[int]
    USE_BOUNDED_ACTIVATION_FIELD_NUMBER: _ClassVar[int]
    num_classes: int
    ignore_label: int
    backbone: _backbone_pb2.Backbone
    crop_height: int
    crop_width: int
    dataset: str
    aspp: AtrousSpatialPyramidPooling
    dense_prediction_cell: DensePredictionCell
    decoder: SegmentationDecoder
    logits_kernel_size: int
    image_pyramid: _containers.RepeatedScalarFieldContainer[float]
    merge_method: MergeMethod
    fine_tune_batch_norm: bool
    predict_with_upsampled_logits: bool
    last_layers_contain_logits_only: bool
    preprocessing: SegmentationPreprocessing
    loss: SegmentationLoss
    instance_center: InstanceCenterHead
    offset: OffsetHead
    edge: EdgeHead
    instance_grouping: InstanceGrouping
    evaluation: SegmentationEvaluation
    export: SegmentationExport
    use_bounded_activation: bool
    def __init__(self, num_classes: _Optional[int] = ..., ignore_label: _Optional[int] = ..., backbone: _Optional[_Union[_backbone_pb2.Backbone, _Mapping]] = ..., crop_height: _Optional[int] = ..., crop_width: _Optional[int] = ..., dataset: _Optional[str] = ..., aspp: _Optional[_Union[AtrousSpatialPyramidPooling, _Mapping]] = ..., dense_prediction_cell: _Optional[_Union[DensePredictionCell, _Mapping]] = ..., decoder: _Optional[_Union[SegmentationDecoder, _Mapping]] = ..., logits_kernel_size: _Optional[int] = ..., image_pyramid: _Optional[_Iterable[float]] = ..., merge_method: _Optional[_Union[MergeMethod, str]] = ..., fine_tune_batch_norm: bool = ..., predict_with_upsampled_logits: bool = ..., last_layers_contain_logits_only: bool = ..., preprocessing: _Optional[_Union[SegmentationPreprocessing, _Mapping]] = ..., loss: _Optional[_Union[SegmentationLoss, _Mapping]] = ..., instance_center: _Optional[_Union[InstanceCenterHead, _Mapping]] = ..., offset: _Optional[_Union[OffsetHead, _Mapping]] = ..., edge: _Optional[_Union[EdgeHead, _Mapping]] = ..., instance_grouping: _Optional[_Union[InstanceGrouping, _Mapping]] = ..., evaluation: _Optional[_Union[SegmentationEvaluation, _Mapping]] = ..., export: _Optional[_Union[SegmentationExport, _Mapping]] = ..., use_bounded_activation: bool = ...) -> None: ...

class AtrousSpatialPyramidPooling(_message.Message):
    __slots__ = ("atrous_rates", "separable_convolution", "num_filters", "batch_norm", "image_level_feature", "image_pooling_crop_height", "image_pooling_crop_width", "image_pooling_stride_height", "image_pooling_stride_width", "concat_projection", "squeeze_and_excitation", "quantized_sigmoid_gate", "batch_norm_decay", "dropout_keep_prob")
    ATROUS_RATES_FIELD_NUMBER: _ClassVar[int]
    SEPARABLE_CONVOLUTION_FIELD_NUMBER: _ClassVar[int]
    NUM_FILTERS_FIELD_NUMBER: _ClassVar[int]
    BATCH_NORM_FIELD_NUMBER: _ClassVar[int]
    IMAGE_LEVEL_FEATURE_FIELD_NUMBER: _ClassVar[int]
    IMAGE_POOLING_CROP_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    IMAGE_POOLING_CROP_WIDTH_FIELD_NUMBER: _ClassVar[int]
    IMAGE_POOLING_STRIDE_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    IMAGE_POOLING_STRIDE_WIDTH_FIELD_NUMBER: _ClassVar[int]
    CONCAT_PROJECTION_FIELD_NUMBER: _ClassVar[int]
    SQUEEZE_AND_EXCITATION_FIELD_NUMBER: _ClassVar[int]
    QUANTIZED_SIGMOID_GATE_FIELD_NUMBER: _ClassVar[int]
    BATCH_NORM_DECAY_FIELD_NUMBER: _ClassVar[int]
    DROPOUT_KEEP_PROB_FIELD_NUMBER: _ClassVar[int]
    atrous_rates: _containers.RepeatedScalarFieldContainer[int]
    separable_convolution: bool
    num_filters: int
    batch_norm: bool
    image_level_feature: bool
    image_pooling_crop_height: int
    image_pooling_crop_width: int
    image_pooling_stride_height: int
    image_pooling_stride_width: int
    concat_projection: bool
    squeeze_and_excitation: bool
    quantized_sigmoid_gate: bool
    batch_norm_decay: float
    dropout_keep_prob: float
    def __init__(self, atrous_rates: _Optional[_Iterable[int]] = ..., separable_convolution: bool = ..., num_filters: _Optional[int] = ..., batch_norm: bool = ..., image_level_feature: bool = ..., image_pooling_crop_height: _Optional[int] = ..., image_pooling_crop_width: _Optional[int] = ..., image_pooling_stride_height: _Optional[int] = ..., image_pooling_stride_width: _Optional[int] = ..., concat_projection: bool = ..., squeeze_and_excitation: bool = ..., quantized_sigmoid_gate: bool = ..., batch_norm_decay: _Optional[float] = ..., dropout_keep_prob: _Optional[float] = ...) -> None: ...

class DensePredictionCell(_message.Message):
    __slots__ = ("branches", "json_path", "num_filters", "separable_convolution", "batch_norm_decay", "dropout_keep_prob")
    class Branch(_message.Message):
        __slots__ = ("operation", "input", "kernel_size", "rate_height", "rate_width", "grid_height", "grid_width")
        class Operation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
            __slots__ = ()
            CONVOLUTION: _ClassVar[DensePredictionCell.Branch.Operation]
            PYRAMID_POOLING: _ClassVar[DensePredictionCell.Branch.Operation]
        CONVOLUTION: DensePredictionCell.Branch.Operation
        PYRAMID_POOLING: DensePredictionCell.Branch.Operation
        OPERATION_FIELD_NUMBER: _ClassVar[int]
        INPUT_FIELD_NUMBER: _ClassVar[int]
        KERNEL_SIZE_FIELD_NUMBER: _ClassVar[int]
        RATE_HEIGHT_FIELD_NUMBER: _ClassVar[int]
        RATE_WIDTH_FIELD_NUMBER: _ClassVar[int]
        GRID_HEIGHT_FIELD_NUMBER: _ClassVar[int]
        GRID_WIDTH_FIELD_NUMBER: _ClassVar[int]
        operation: DensePredictionCell.Branch.Operation
        input: int
        kernel_size: int
        rate_height: int
        rate_width: int
        grid_height: int
        grid_width: int
        def __init__(self, operation: _Optional[_Union[DensePredictionCell.Branch.Operation, str]] = ..., input: _Optional[int] = ..., kernel_size: _Optional[int] = ..., rate_height: _Optional[int] = ..., rate_width: _Optional[int] = ..., grid_height: _Optional[int] = ..., grid_width: _Optional[int] = ...) -> None: ...
    BRANCHES_FIELD_NUMBER: _ClassVar[int]
    JSON_PATH_FIELD_NUMBER: _ClassVar[int]
    NUM_FILTERS_FIELD_NUMBER: _ClassVar[int]
    SEPARABLE_CONVOLUTION_FIELD_NUMBER: _ClassVar[int]
    BATCH_NORM_DECAY_FIELD_NUMBER: _ClassVar[int]
    DROPOUT_KEEP_PROB_FIELD_NUMBER: _ClassVar[int]
    branches: _containers.RepeatedCompositeFieldContainer[DensePredictionCell.Branch]
    json_path: str
    num_filters: int
    separable_convolution: bool
    batch_norm_decay: float
    dropout_keep_prob: float
    def __init__(self, branches: _Optional[_Iterable[_Union[DensePredictionCell.Branch, _Mapping]]] = ..., json_path: _Optional[str] = ..., num_filters: _Optional[int] = ..., separable_convolution: bool = ..., batch_norm_decay: _Optional[float] = ..., dropout_keep_prob: _Optional[float] = ...) -> None: ...

class SegmentationDecoder(_message.Message):
    __slots__ = ("output_strides", "separable_convolution", "num_filters", "sum_merge", "output_is_logits", "unet_filters")
    OUTPUT_STRIDES_FIELD_NUMBER: _ClassVar[int]
    SEPARABLE_CONVOLUTION_FIELD_NUMBER: _ClassVar[int]
    NUM_FILTERS_FIELD_NUMBER: _ClassVar[int]
    SUM_MERGE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_IS_LOGITS_FIELD_NUMBER: _ClassVar[int]
    UNET_FILTERS_FIELD_NUMBER: _ClassVar[int]
    output_strides: _containers.RepeatedScalarFieldContainer[int]
    separable_convolution: bool
    num_filters: int
    sum_merge: bool
    output_is_logits: bool
    unet_filters: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, output_strides: _Optional[_Iterable[int]] = ..., separable_convolution: bool = ..., num_filters: _Optional[int] = ..., sum_merge: bool = ..., output_is_logits: bool = ..., unet_filters: _Optional[_Iterable[int]] = ...) -> None: ...

class SegmentationPreprocessing(_message.Message):
    __slots__ = ("min_resize_value", "max_resize_value", "resize_factor", "keep_aspect_ratio", "min_scale_factor", "max_scale_factor", "scale_factor_step_size", "flip_probability", "max_rotation_degrees", "max_brightness_change", "max_motion_blur_length", "motion_blur_probability", "max_contrast_factor", "max_saturation_factor")
    MIN_RESIZE_VALUE_FIELD_NUMBER: _ClassVar[int]
    MAX_RESIZE_VALUE_FIELD_NUMBER: _ClassVar[int]
    RESIZE_FACTOR_FIELD_NUMBER: _ClassVar[int]
    KEEP_ASPECT_RATIO_FIELD_NUMBER: _ClassVar[int]
    MIN_SCALE_FACTOR_FIELD_NUMBER: _ClassVar[int]
    MAX_SCALE_FACTOR_FIELD_NUMBER: _ClassVar[int]
    SCALE_FACTOR_STEP_SIZE_FIELD_NUMBER: _ClassVar[int]
    FLIP_PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    MAX_ROTATION_DEGREES_FIELD_NUMBER: _ClassVar[int]
    MAX_BRIGHTNESS_CHANGE_FIELD_NUMBER: _ClassVar[int]
    MAX_MOTION_BLUR_LENGTH_FIELD_NUMBER: _ClassVar[int]
    MOTION_BLUR_PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    MAX_CONTRAST_FACTOR_FIELD_NUMBER: _ClassVar[int]
    MAX_SATURATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    min_resize_value: int
    max_resize_value: int
    resize_factor: int
    keep_aspect_ratio: bool
    min_scale_factor: float
    max_scale_factor: float
    scale_factor_step_size: float
    flip_probability: float
    max_rotation_degrees: float
    max_brightness_change: float
    max_motion_blur_length: int
    motion_blur_probability: float
    max_contrast_factor: float
    max_saturation_factor: float
    def __init__(self, min_resize_value: _Optional[int] = ..., max_resize_value: _Optional[int] = ..., resize_factor: _Optional[int] = ..., keep_aspect_ratio: bool = ..., min_scale_factor: _Optional[float] = ..., max_scale_factor: _Optional[float] = ..., scale_factor_step_size: _Optional[float] = ..., flip_probability: _Optional[float] = ..., max_rotation_degrees: _Optional[float] = ..., max_brightness_change: _Optional[float] = ..., max_motion_blur_length: _Optional[int] = ..., motion_blur_probability: _Optional[float] = ..., max_contrast_factor: _Optional[float] = ..., max_saturation_factor: _Optional[float] = ...) -> None: ...

class SegmentationLoss(_message.Message):
    __slots__ = ("weight", "class_weights", "class_weighting", "class_weighting_examples", "top_k_percent_pixels", "hard_example_mining_step", "hard_example_mining_length", "upsample_logits", "dice_weight")
    class ClassWeighting(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        GIVEN: _ClassVar[SegmentationLoss.ClassWeighting]
        INVERSE_FREQUENCY: _ClassVar[SegmentationLoss.ClassWeighting]
        MEDIAN_FREQUENCY: _ClassVar[SegmentationLoss.ClassWeighting]
    GIVEN: SegmentationLoss.ClassWeighting
    INVERSE_FREQUENCY: SegmentationLoss.ClassWeighting
    MEDIAN_FREQUENCY: SegmentationLoss.ClassWeighting
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    CLASS_WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    CLASS_WEIGHTING_FIELD_NUMBER: _ClassVar[int]
    CLASS_WEIGHTING_EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    TOP_K_PERCENT_PIXELS_FIELD_NUMBER: _ClassVar[int]
    HARD_EXAMPLE_MINING_STEP_FIELD_NUMBER: _ClassVar[int]
    HARD_EXAMPLE_MINING_LENGTH_FIELD_NUMBER: _ClassVar[int]
    UPSAMPLE_LOGITS_FIELD_NUMBER: _ClassVar[int]
    DICE_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    weight: float
    class_weights: _containers.RepeatedScalarFieldContainer[float]
    class_weighting: SegmentationLoss.ClassWeighting
    class_weighting_examples: int
    top_k_percent_pixels: float
    hard_example_mining_step: int
    hard_example_mining_length: _duration_pb2.Duration
    upsample_logits: bool
    dice_weight: float
    def __init__(self, weight: _Optional[float] = ..., class_weights: _Optional[_Iterable[float]] = ..., class_weighting: _Optional[_Union[SegmentationLoss.ClassWeighting, str]] = ..., class_weighting_examples: _Optional[int] = ..., top_k_percent_pixels: _Optional[float] = ..., hard_example_mining_step: _Optional[int] = ..., hard_example_mining_length: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., upsample_logits: bool = ..., dice_weight: _Optional[float] = ...) -> None: ...

class InstanceCenterHead(_message.Message):
    __slots__ = ("weight", "sigma", "num_filters")
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    SIGMA_FIELD_NUMBER: _ClassVar[int]
    NUM_FILTERS_FIELD_NUMBER: _ClassVar[int]
    weight: float
    sigma: float
    num_filters: int
    def __init__(self, weight: _Optional[float] = ..., sigma: _Optional[float] = ..., num_filters: _Optional[int] = ...) -> None: ...

class OffsetHead(_message.Message):
    __slots__ = ("weight", "num_filters")
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    NUM_FILTERS_FIELD_NUMBER: _ClassVar[int]
    weight: float
    num_filters: int
    def __init__(self, weight: _Optional[float] = ..., num_filters: _Optional[int] = ...) -> None: ...

class EdgeHead(_message.Message):
    __slots__ = ("weight", "edge_width", "num_classes", "of_instances", "num_filters", "edge_pixel_weight", "tolerance")
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    EDGE_WIDTH_FIELD_NUMBER: _ClassVar[int]
    NUM_CLASSES_FIELD_NUMBER: _ClassVar[int]
    OF_INSTANCES_FIELD_NUMBER: _ClassVar[int]
    NUM_FILTERS_FIELD_NUMBER: _ClassVar[int]
    EDGE_PIXEL_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    TOLERANCE_FIELD_NUMBER: _ClassVar[int]
    weight: float
    edge_width: int
    num_classes: int
    of_instances: bool
    num_filters: int
    edge_pixel_weight: float
    tolerance: float
    def __init__(self, weight: _Optional[float] = ..., edge_width: _Optional[int] = ..., num_classes: _Optional[int] = ..., of_instances: bool = ..., num_filters: _Optional[int] = ..., edge_pixel_weight: _Optional[float] = ..., tolerance: _Optional[float] = ...) -> None: ...

class InstanceGrouping(_message.Message):
    __slots__ = ("thing_classes", "center_threshold", "suppression_window", "max_instances", "min_instance_area", "min_stuff_area")
    THING_CLASSES_FIELD_NUMBER: _ClassVar[int]
    CENTER_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    SUPPRESSION_WINDOW_FIELD_NUMBER: _ClassVar[int]
    MAX_INSTANCES_FIELD_NUMBER: _ClassVar[int]
    MIN_INSTANCE_AREA_FIELD_NUMBER: _ClassVar[int]
    MIN_STUFF_AREA_FIELD_NUMBER: _ClassVar[int]
    thing_classes: _containers.RepeatedScalarFieldContainer[int]
    center_threshold: float
    suppression_window: int
    max_instances: int
    min_instance_area: int
    min_stuff_area: int
    def __init__(self, thing_classes: _Optional[_Iterable[int]] = ..., center_threshold: _Optional[float] = ..., suppression_window: _Optional[int] = ..., max_instances: _Optional[int] = ..., min_instance_area: _Optional[int] = ..., min_stuff_area: _Optional[int] = ...) -> None: ...

class SegmentationEvaluation(_message.Message):
    __slots__ = ("scales", "add_flipped_images", "training_metrics_window", "save_raw_predictions", "crop_height", "crop_width")
    SCALES_FIELD_NUMBER: _ClassVar[int]
    ADD_FLIPPED_IMAGES_FIELD_NUMBER: _ClassVar[int]
    TRAINING_METRICS_WINDOW_FIELD_NUMBER: _ClassVar[int]
    SAVE_RAW_PREDICTIONS_FIELD_NUMBER: _ClassVar[int]
    CROP_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    CROP_WIDTH_FIELD_NUMBER: _ClassVar[int]
    scales: _containers.RepeatedScalarFieldContainer[float]
    add_flipped_images: bool
    training_metrics_window: int
    save_raw_predictions: bool
    crop_height: int
    crop_width: int
    def __init__(self, scales: _Optional[_Iterable[float]] = ..., add_flipped_images: bool = ..., training_metrics_window: _Optional[int] = ..., save_raw_predictions: bool = ..., crop_height: _Optional[int] = ..., crop_width: _Optional[int] = ...) -> None: ...

class SegmentationExport(_message.Message):
    __slots__ = ("output_stride", "atrous_rates", "scales", "add_flipped_images")
    OUTPUT_STRIDE_FIELD_NUMBER: _ClassVar[int]
    ATROUS_RATES_FIELD_NUMBER: _ClassVar[int]
    SCALES_FIELD_NUMBER: _ClassVar[int]
    ADD_FLIPPED_IMAGES_FIELD_NUMBER: _ClassVar[int]
    output_stride: int
    atrous_rates: _containers.RepeatedScalarFieldContainer[int]
    scales: _containers.RepeatedScalarFieldContainer[float]
    add_flipped_images: bool
    def __init__(self, output_stride: _Optional[int] = ..., atrous_rates: _Optional[_Iterable[int]] = ..., scales: _Optional[_Iterable[float]] = ..., add_flipped_images: bool = ...) -> None: ...
