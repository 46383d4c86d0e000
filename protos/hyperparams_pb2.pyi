from protos import rules_pb2 as _rules_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Hyperparams(_message.Message):
    __slots__ = ("op", "regularizer", "initializer", "activation", "batch_norm", "sync_batch_norm", "group_norm", "regularize_depthwise", "force_use_bias")
    class Activation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NONE: _ClassVar[Hyperparams.Activation]
        RELU: _ClassVar[Hyperparams.Activation]
        RELU_6: _ClassVar[Hyperparams.Activation]
        SWISH: _ClassVar[Hyperparams.Activation]
    NONE: Hyperparams.Activation
    RELU: Hyperparams.Activation
    RELU_6: Hyperparams.Activation
    SWISH: Hyperparams.Activation
    class Op(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CONV: _ClassVar[Hyperparams.Op]
        FC: _ClassVar[Hyperparams.Op]
    CONV: Hyperparams.Op
    FC: Hyperparams.Op
    OP_FIELD_NUMBER: _ClassVar[int]
    REGULARIZER_FIELD_NUMBER: _ClassVar[int]
    INITIALIZER_FIELD_NUMBER: _ClassVar[int]
    ACTIVATION_FIELD_NUMBER: _ClassVar[int]
    BATCH_NORM_FIELD_NUMBER: _ClassVar[int]
    SYNC_BATCH_NORM_FIELD_NUMBER: _ClassVar[int]
    GROUP_NORM_FIELD_NUMBER: _ClassVar[int]
    REGULARIZE_DEPTHWISE_FIELD_NUMBER: _ClassVar[int]
    FORCE_USE_BIAS_FIELD_NUMBER: _ClassVar[int]
    op: Hyperparams.Op
    regularizer: Regularizer
    initializer: Initializer
    activation: Hyperparams.Activation
    batch_norm: BatchNorm
    sync_batch_norm: BatchNorm
    group_norm: GroupNorm
    regularize_depthwise: bool
    force_use_bias: bool
    def __init__(self, op: _Optional[_Union[Hyperparams.Op, str]] = ..., regularizer: _Optional[_Union[Regularizer, _Mapping]] = ..., initializer: _Optional[_Union[Initializer, _Mapping]] = ..., activation: _Optional[_Union[Hyperparams.Activation, str]] = ..., batch_norm: _Optional[_Union[BatchNorm, _Mapping]] = ..., sync_batch_norm: _Optional[_Union[BatchNorm, _Mapping]] = ..., group_norm: _Optional[_Union[GroupNorm, _Mapping]] = ..., regularize_depthwise: bool = ..., force_use_bias: bool = ...) -> None: ...

class Regularizer(_message.Message):
    __slots__ = ("l1_regularizer", "l2_regularizer")
    L1_REGULARIZER_FIELD_NUMBER: _ClassVar[int]
    L2_REGULARIZER_FIELD_NUMBER: _ClassVar[int]
    l1_regularizer: L1Regularizer
    l2_regularizer: L2Regularizer
    def __init__(self, l1_regularizer: _Optional[_Union[L1Regularizer, _Mapping]] = ..., l2_regularizer: _Optional[_Union[L2Regularizer, _Mapping]] = ...) -> None: ...

class L1Regularizer(_message.Message):
    __slots__ = ("weight",)
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    weight: float
    def __init__(self, weight: _Optional[float] = ...) -> None: ...

class L2Regularizer(_message.Message):
    __slots__ = ("weight",)
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    weight: float
    def __init__(self, weight: _Optional[float] = ...) -> None: ...

class Initializer(_message.Message):
    __slots__ = ("truncated_normal_initializer", "variance_scaling_initializer", "random_normal_initializer", "keras_initializer_by_name")
    TRUNCATED_NORMAL_INITIALIZER_FIELD_NUMBER: _ClassVar[int]
    VARIANCE_SCALING_INITIALIZER_FIELD_NUMBER: _ClassVar[int]
    RANDOM_NORMAL_INITIALIZER_FIELD_NUMBER: _ClassVar[int]
    KERAS_INITIALIZER_BY_NAME_FIELD_NUMBER: _ClassVar[int]
    truncated_normal_initializer: TruncatedNormalInitializer
    variance_scaling_initializer: VarianceScalingInitializer
    random_normal_initializer: RandomNormalInitializer
    keras_initializer_by_name: str
    def __init__(self, truncated_normal_initializer: _Optional[_Union[TruncatedNormalInitializer, _Mapping]] = ..., variance_scaling_initializer: _Optional[_Union[VarianceScalingInitializer, _Mapping]] = ..., random_normal_initializer: _Optional[_Union[RandomNormalInitializer, _Mapping]] = ..., keras_initializer_by_name: _Optional[str] = ...) -> None: ...

class TruncatedNormalInitializer(_message.Message):
    __slots__ = ("mean", "stddev")
    MEAN_FIELD_NUMBER: _ClassVar[int]
    STDDEV_FIELD_NUMBER: _ClassVar[int]
    mean: float
    stddev: float
    def __init__(self, mean: _Optional[float] = ..., stddev: _Optional[float] = ...) -> None: ...

class VarianceScalingInitializer(_message.Message):
    __slots__ = ("factor", "uniform", "mode")
    class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        FAN_IN: _ClassVar[VarianceScalingInitializer.Mode]
        FAN_OUT: _ClassVar[VarianceScalingInitializer.Mode]
        FAN_AVG: _ClassVar[VarianceScalingInitializer.Mode]
    FAN_IN: VarianceScalingInitializer.Mode
    FAN_OUT: VarianceScalingInitializer.Mode
    FAN_AVG: VarianceScalingInitializer.Mode
    FACTOR_FIELD_NUMBER: _ClassVar[int]
    UNIFORM_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    factor: float
    uniform: bool
    mode: VarianceScalingInitializer.Mode
    def __init__(self, factor: _Optional[float] = ..., uniform: bool = ..., mode: _Optional[_Union[VarianceScalingInitializer.Mode, str]] = ...) -> None: ...

class RandomNormalInitializer(_message.Message):
    __slots__ = ("mean", "stddev")
    MEAN_FIELD_NUMBER: _ClassVar[int]
    STDDEV_FIELD_NUMBER: _ClassVar[int]
    mean: float
    stddev: float
    def __init__(self, mean: _Optional[float] = ..., stddev: _Optional[float] = ...) -> None: ...

class BatchNorm(_message.Message):
    __slots__ = ("decay", "center", "scale", "epsilon", "train")
    DECAY_FIELD_NUMBER: _ClassVar[int]
    CENTER_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    TRAIN_FIELD_NUMBER: _ClassVar[int]
    decay: float
    center: bool
    scale: bool
    epsilon: float
    train: bool
    def __init__(self, decay: _Optional[float] = ..., center: bool = ..., scale: bool = ..., epsilon: _Optional[float] = ..., train: bool = ...) -> None: ...

class GroupNorm(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
