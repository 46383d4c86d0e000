from protos import rules_pb2 as _rules_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TrainingDataType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DATA_TYPE_UNKNOWN: _ClassVar[TrainingDataType]
    ALL_CLASSES: _ClassVar[TrainingDataType]
    CLASS_SPECIFIC: _ClassVar[TrainingDataType]
DATA_TYPE_UNKNOWN: TrainingDataType
ALL_CLASSES: TrainingDataType
CLASS_SPECIFIC: TrainingDataType

class BatchNonMaxSuppression(_message.Message):
    __slots__ = ("score_threshold", "iou_threshold", "max_detections_per_class", "max_total_detections", "use_static_shapes", "use_class_agnostic_nms", "max_classes_per_detection", "soft_nms_sigma", "use_partitioned_nms", "use_combined_nms", "change_coordinate_frame", "use_hard_nms", "use_cpu_nms")
    SCORE_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    IOU_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    MAX_DETECTIONS_PER_CLASS_FIELD_NUMBER: _ClassVar[int]
    MAX_TOTAL_DETECTIONS_FIELD_NUMBER: _ClassVar[int]
    USE_STATIC_SHAPES_FIELD_NUMBER: _ClassVar[int]
    USE_CLASS_AGNOSTIC_NMS_FIELD_NUMBER: _ClassVar[int]
    MAX_CLASSES_PER_DETECTION_FIELD_NUMBER: _ClassVar[int]
    SOFT_NMS_SIGMA_FIELD_NUMBER: _ClassVar[int]
    USE_PARTITIONED_NMS_FIELD_NUMBER: _ClassVar[int]
    USE_COMBINED_NMS_FIELD_NUMBER: _ClassVar[int]
    CHANGE_COORDINATE_FRAME_FIELD_NUMBER: _ClassVar[int]
    USE_HARD_NMS_FIELD_NUMBER: _ClassVar[int]
    USE_CPU_NMS_FIELD_NUMBER: _ClassVar[int]
    score_threshold: float
    iou_threshold: float
    max_detections_per_class: int
    max_total_detections: int
    use_static_shapes: bool
    use_class_agnostic_nms: bool
    max_classes_per_detection: int
    soft_nms_sigma: float
    use_partitioned_nms: bool
    use_combined_nms: bool
    change_coordinate_frame: bool
    use_hard_nms: bool
    use_cpu_nms: bool
    def __init__(self, score_threshold: _Optional[float] = ..., iou_threshold: _Optional[float] = ..., max_detections_per_class: _Optional[int] = ..., max_total_detections: _Optional[int] = ..., use_static_shapes: bool = ..., use_class_agnostic_nms: bool = ..., max_classes_per_detection: _Optional[int] = ..., soft_nms_sigma: _Optional[float] = ..., use_partitioned_nms: bool = ..., use_combined_nms: bool = ..., change_coordinate_frame: bool = ..., use_hard_nms: bool = ..., use_cpu_nms: bool = ...) -> None: ...

class PostProcessing(_message.Message):
    __slots__ = ("batch_non_max_suppression", "score_converter", "logit_scale", "calibration_config")
    class ScoreConverter(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        IDENTITY: _ClassVar[PostProcessing.ScoreConverter]
        SIGMOID: _ClassVar[PostProcessing.ScoreConverter]
        SOFTMAX: _ClassVar[PostProcessing.ScoreConverter]
    IDENTITY: PostProcessing.ScoreConverter
    SIGMOID: PostProcessing.ScoreConverter
    SOFTMAX: PostProcessing.ScoreConverter
    BATCH_NON_MAX_SUPPRESSION_FIELD_NUMBER: _ClassVar[int]
    SCORE_CONVERTER_FIELD_NUMBER: _ClassVar[int]
    LOGIT_SCALE_FIELD_NUMBER: _ClassVar[int]
    CALIBRATION_CONFIG_FIELD_NUMBER: _ClassVar[int]
    batch_non_max_suppression: BatchNonMaxSuppression
    score_converter: PostProcessing.ScoreConverter
    logit_scale: float
    calibration_config: CalibrationConfig
    def __init__(self, batch_non_max_suppression: _Optional[_Union[BatchNonMaxSuppression, _Mapping]] = ..., score_converter: _Optional[_Union[PostProcessing.ScoreConverter, str]] = ..., logit_scale: _Optional[float] = ..., calibration_config: _Optional[_Union[CalibrationConfig, _Mapping]] = ...) -> None: ...

class CalibrationConfig(_message.Message):
    __slots__ = ("function_approximation", "class_id_function_approximations", "sigmoid_calibration", "class_id_sigmoid_calibrations", "temperature_scaling_calibration")
    FUNCTION_APPROXIMATION_FIELD_NUMBER: _ClassVar[int]
    CLASS_ID_FUNCTION_APPROXIMATIONS_FIELD_NUMBER: _ClassVar[int]
    SIGMOID_CALIBRATION_FIELD_NUMBER: _ClassVar[int]
    CLASS_ID_SIGMOID_CALIBRATIONS_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_SCALING_CALIBRATION_FIELD_NUMBER: _ClassVar[int]
    function_approximation: FunctionApproximation
    class_id_function_approximations: ClassIdFunctionApproximations
    sigmoid_calibration: SigmoidCalibration
    class_id_sigmoid_calibrations: ClassIdSigmoidCalibrations
    temperature_scaling_calibration: TemperatureScalingCalibration
    def __init__(self, function_approximation: _Optional[_Union[FunctionApproximation, _Mapping]] = ..., class_id_function_approximations: _Optional[_Union[ClassIdFunctionApproximations, _Mapping]] = ..., sigmoid_calibration: _Optional[_Union[SigmoidCalibration, _Mapping]] = ..., class_id_sigmoid_calibrations: _Optional[_Union[ClassIdSigmoidCalibrations, _Mapping]] = ..., temperature_scaling_calibration: _Optional[_Union[TemperatureScalingCalibration, _Mapping]] = ...) -> None: ...

class FunctionApproximation(_message.Message):
    __slots__ = ("x_y_pairs",)
    X_Y_PAIRS_FIELD_NUMBER: _ClassVar[int]
    x_y_pairs: XYPairs
    def __init__(self, x_y_pairs: _Optional[_Union[XYPairs, _Mapping]] = ...) -> None: ...

class ClassIdFunctionApproximations(_message.Message):
    __slots__ = ("class_id_xy_pairs_map",)
    class ClassIdXyPairsMapEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: XYPairs
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[XYPairs, _Mapping]] = ...) -> None: ...
    CLASS_ID_XY_PAIRS_MAP_FIELD_NUMBER: _ClassVar[int]
    class_id_xy_pairs_map: _containers.MessageMap[int, XYPairs]
    def __init__(self, class_id_xy_pairs_map: _Optional[_Mapping[int, XYPairs]] = ...) -> None: ...

class SigmoidCalibration(_message.Message):
    __slots__ = ("sigmoid_parameters",)
    SIGMOID_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    sigmoid_parameters: SigmoidParameters
    def __init__(self, sigmoid_parameters: _Optional[_Union[SigmoidParameters, _Mapping]] = ...) -> None: ...

class ClassIdSigmoidCalibrations(_message.Message):
    __slots__ = ("class_id_sigmoid_parameters_map",)
    class ClassIdSigmoidParametersMapEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: SigmoidParameters
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[SigmoidParameters, _Mapping]] = ...) -> None: ...
    CLASS_ID_SIGMOID_PARAMETERS_MAP_FIELD_NUMBER: _ClassVar[int]
    class_id_sigmoid_parameters_map: _containers.MessageMap[int, SigmoidParameters]
    def __init__(self, class_id_sigmoid_parameters_map: _Optional[_Mapping[int, SigmoidParameters]] = ...) -> None: ...

class TemperatureScalingCalibration(_message.Message):
    __slots__ = ("scaler",)
    SCALER_FIELD_NUMBER: _ClassVar[int]
    scaler: float
    def __init__(self, scaler: _Optional[float] = ...) -> None: ...

class XYPairs(_message.Message):
    __slots__ = ("x_y_pair", "training_data_type")
    class XYPair(_message.Message):
        __slots__ = ("x", "y")
        X_FIELD_NUMBER: _ClassVar[int]
        Y_FIELD_NUMBER: _ClassVar[int]
        x: float
        y: float
        def __init__(self, x: _Optional[float] = ..., y: _Optional[float] = ...) -> None: ...
    X_Y_PAIR_FIELD_NUMBER: _ClassVar[int]
    TRAINING_DATA_TYPE_FIELD_NUMBER: _ClassVar[int]
    x_y_pair: _containers.RepeatedCompositeFieldContainer[XYPairs.XYPair]
    training_data_type: TrainingDataType
    def __init__(self, x_y_pair: _Optional[_Iterable[_Union[XYPairs.XYPair, _Mapping]]] = ..., training_data_type: _Optional[_Union[TrainingDataType, str]] = ...) -> None: ...

class SigmoidParameters(_message.Message):
    __slots__ = ("a", "b")
    A_FIELD_NUMBER: _ClassVar[int]
    B_FIELD_NUMBER: _ClassVar[int]
    a: float
    b: float
    def __init__(self, a: _Optional[float] = ..., b: _Optional[float] = ...) -> None: ...
