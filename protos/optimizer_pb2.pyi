from protos import duration_pb2 as _duration_pb2
from protos import rules_pb2 as _rules_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Optimizer(_message.Message):
    __slots__ = ("rms_prop_optimizer", "momentum_optimizer", "adam_optimizer", "sgd_optimizer", "adagrad_optimizer", "adadelta_optimizer", "ftrl_optimizer", "adamw_optimizer", "use_moving_average", "moving_average_decay", "moving_averages", "layer_decay")
    class MovingAverages(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OF_THE_TASK: _ClassVar[Optimizer.MovingAverages]
        TRAINED_VARIABLES: _ClassVar[Optimizer.MovingAverages]
        MODEL_VARIABLES: _ClassVar[Optimizer.MovingAverages]
    OF_THE_TASK: Optimizer.MovingAverages
    TRAINED_VARIABLES: Optimizer.MovingAverages
    MODEL_VARIABLES: Optimizer.MovingAverages
    RMS_PROP_OPTIMIZER_FIELD_NUMBER: _ClassVar[int]
    MOMENTUM_OPTIMIZER_FIELD_NUMBER: _ClassVar[int]
    ADAM_OPTIMIZER_FIELD_NUMBER: _ClassVar[int]
    SGD_OPTIMIZER_FIELD_NUMBER: _ClassVar[int]
    ADAGRAD_OPTIMIZER_FIELD_NUMBER: _ClassVar[int]
    ADADELTA_OPTIMIZER_FIELD_NUMBER: _ClassVar[int]
    FTRL_OPTIMIZER_FIELD_NUMBER: _ClassVar[int]
    ADAMW_OPTIMIZER_FIELD_NUMBER: _ClassVar[int]
    USE_MOVING_AVERAGE_FIELD_NUMBER: _ClassVar[int]
    MOVING_AVERAGE_DECAY_FIELD_NUMBER: _ClassVar[int]
    MOVING_AVERAGES_FIELD_NUMBER: _ClassVar[int]
    LAYER_DECAY_FIELD_NUMBER: _ClassVar[int]
    rms_prop_optimizer: RMSPropOptimizer
    momentum_optimizer: MomentumOptimizer
    adam_optimizer: AdamOptimizer
    sgd_optimizer: SgdOptimizer
    adagrad_optimizer: AdagradOptimizer
    adadelta_optimizer: AdadeltaOptimizer
    ftrl_optimizer: FtrlOptimizer
    adamw_optimizer: AdamWOptimizer
    use_moving_average: bool
    moving_average_decay: float
    moving_averages: Optimizer.MovingAverages
    layer_decay: float
    def __init__(self, rms_prop_optimizer: _Optional[_Union[RMSPropOptimizer, _Mapping]] = ..., momentum_optimizer: _Optional[_Union[MomentumOptimizer, _Mapping]] = ..., adam_optimizer: _Optional[_Union[AdamOptimizer, _Mapping]] = ..., sgd_optimizer: _Optional[_Union[SgdOptimizer, _Mapping]] = ..., adagrad_optimizer: _Optional[_Union[AdagradOptimizer, _Mapping]] = ..., adadelta_optimizer: _Optional[_Union[AdadeltaOptimizer, _Mapping]] = ..., ftrl_optimizer: _Optional[_Union[FtrlOptimizer, _Mapping]] = ..., adamw_optimizer: _Optional[_Union[AdamWOptimizer, _Mapping]] = ..., use_moving_average: bool = ..., moving_average_decay: _Optional[float] = ..., moving_averages: _Optional[_Union[Optimizer.MovingAverages, str]] = ..., layer_decay: _Optional[float] = ...) -> None: ...

class RMSPropOptimizer(_message.Message):
    __slots__ = ("learning_rate", "momentum_optimizer_value", "decay", "epsilon", "centered")
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    MOMENTUM_OPTIMIZER_VALUE_FIELD_NUMBER: _ClassVar[int]
    DECAY_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    CENTERED_FIELD_NUMBER: _ClassVar[int]
    learning_rate: LearningRate
    momentum_optimizer_value: float
    decay: float
    epsilon: float
    centered: bool
    def __init__(self, learning_rate: _Optional[_Union[LearningRate, _Mapping]] = ..., momentum_optimizer_value: _Optional[float] = ..., decay: _Optional[float] = ..., epsilon: _Optional[float] = ..., centered: bool = ...) -> None: ...

class MomentumOptimizer(_message.Message):
    __slots__ = ("learning_rate", "momentum_optimizer_value", "use_nesterov")
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    MOMENTUM_OPTIMIZER_VALUE_FIELD_NUMBER: _ClassVar[int]
    USE_NESTEROV_FIELD_NUMBER: _ClassVar[int]
    learning_rate: LearningRate
    momentum_optimizer_value: float
    use_nesterov: bool
    def __init__(self, learning_rate: _Optional[_Union[LearningRate, _Mapping]] = ..., momentum_optimizer_value: _Optional[float] = ..., use_nesterov: bool = ...) -> None: ...

class AdamOptimizer(_message.Message):
    __slots__ = ("learning_rate", "epsilon", "beta1", "beta2")
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    BETA1_FIELD_NUMBER: _ClassVar[int]
    BETA2_FIELD_NUMBER: _ClassVar[int]
    learning_rate: LearningRate
    epsilon: float
    beta1: float
    beta2: float
    def __init__(self, learning_rate: _Optional[_Union[LearningRate, _Mapping]] = ..., epsilon: _Optional[float] = ..., beta1: _Optional[float] = ..., beta2: _Optional[float] = ...) -> None: ...

class AdamWOptimizer(_message.Message):
    __slots__ = ("learning_rate", "weight_decay", "epsilon", "beta1", "beta2")
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_DECAY_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    BETA1_FIELD_NUMBER: _ClassVar[int]
    BETA2_FIELD_NUMBER: _ClassVar[int]
    learning_rate: LearningRate
    weight_decay: float
    epsilon: float
    beta1: float
    beta2: float
    def __init__(self, learning_rate: _Optional[_Union[LearningRate, _Mapping]] = ..., weight_decay: _Optional[float] = ..., epsilon: _Optional[float] = ..., beta1: _Optional[float] = ..., beta2: _Optional[float] = ...) -> None: ...

class LearningRate(_message.Message):
    __slots__ = ("constant_learning_rate", "exponential_decay_learning_rate", "manual_step_learning_rate", "cosine_decay_learning_rate", "polynomial_decay_learning_rate", "deeplab_learning_rate", "exponential_decay_with_warmup_learning_rate", "warmup_stable_decay_learning_rate")
    CONSTANT_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    EXPONENTIAL_DECAY_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    MANUAL_STEP_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    COSINE_DECAY_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    POLYNOMIAL_DECAY_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    DEEPLAB_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    EXPONENTIAL_DECAY_WITH_WARMUP_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    WARMUP_STABLE_DECAY_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    constant_learning_rate: ConstantLearningRate
    exponential_decay_learning_rate: ExponentialDecayLearningRate
    manual_step_learning_rate: ManualStepLearningRate
    cosine_decay_learning_rate: CosineDecayLearningRate
    polynomial_decay_learning_rate: PolynomialDecayLearningRate
    deeplab_learning_rate: DeepLabLearningRate
    exponential_decay_with_warmup_learning_rate: ExponentialDecayWithWarmupLearningRate
    warmup_stable_decay_learning_rate: WarmupStableDecayLearningRate
    def __init__(self, constant_learning_rate: _Optional[_Union[ConstantLearningRate, _Mapping]] = ..., exponential_decay_learning_rate: _Optional[_Union[ExponentialDecayLearningRate, _Mapping]] = ..., manual_step_learning_rate: _Optional[_Union[ManualStepLearningRate, _Mapping]] = ..., cosine_decay_learning_rate: _Optional[_Union[CosineDecayLearningRate, _Mapping]] = ..., polynomial_decay_learning_rate: _Optional[_Union[PolynomialDecayLearningRate, _Mapping]] = ..., deeplab_learning_rate: _Optional[_Union[DeepLabLearningRate, _Mapping]] = ..., exponential_decay_with_warmup_learning_rate: _Optional[_Union[ExponentialDecayWithWarmupLearningRate, _Mapping]] = ..., warmup_stable_decay_learning_rate: _Optional[_Union[WarmupStableDecayLearningRate, _Mapping]] = ...) -> None: ...

class ConstantLearningRate(_message.Message):
    __slots__ = ("learning_rate",)
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    learning_rate: float
    def __init__(self, learning_rate: _Optional[float] = ...) -> None: ...

class ExponentialDecayLearningRate(_message.Message):
    __slots__ = ("initial_learning_rate", "decay_steps", "decay", "decay_factor", "staircase", "burnin_learning_rate", "burnin_steps", "burnin", "min_learning_rate")
    INITIAL_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    DECAY_STEPS_FIELD_NUMBER: _ClassVar[int]
    DECAY_FIELD_NUMBER: _ClassVar[int]
    DECAY_FACTOR_FIELD_NUMBER: _ClassVar[int]
    STAIRCASE_FIELD_NUMBER: _ClassVar[int]
    BURNIN_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    BURNIN_STEPS_FIELD_NUMBER: _ClassVar[int]
    BURNIN_FIELD_NUMBER: _ClassVar[int]
    MIN_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    initial_learning_rate: float
    decay_steps: int
    decay: _duration_pb2.Duration
    decay_factor: float
    staircase: bool
    burnin_learning_rate: float
    burnin_steps: int
    burnin: _duration_pb2.Duration
    min_learning_rate: float
    def __init__(self, initial_learning_rate: _Optional[float] = ..., decay_steps: _Optional[int] = ..., decay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., decay_factor: _Optional[float] = ..., staircase: bool = ..., burnin_learning_rate: _Optional[float] = ..., burnin_steps: _Optional[int] = ..., burnin: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., min_learning_rate: _Optional[float] = ...) -> None: ...

class ManualStepLearningRate(_message.Message):
    __slots__ = ("initial_learning_rate", "schedule", "warmup")
    class LearningRateSchedule(_message.Message):
        __slots__ = ("step", "at", "learning_rate")
        STEP_FIELD_NUMBER: _ClassVar[int]
        AT_FIELD_NUMBER: _ClassVar[int]
        LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
        step: int
        at: _duration_pb2.Duration
        learning_rate: float
        def __init__(self, step: _Optional[int] = ..., at: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., learning_rate: _Optional[float] = ...) -> None: ...
    INITIAL_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    WARMUP_FIELD_NUMBER: _ClassVar[int]
    initial_learning_rate: float
    schedule: _containers.RepeatedCompositeFieldContainer[ManualStepLearningRate.LearningRateSchedule]
    warmup: bool
    def __init__(self, initial_learning_rate: _Optional[float] = ..., schedule: _Optional[_Iterable[_Union[ManualStepLearningRate.LearningRateSchedule, _Mapping]]] = ..., warmup: bool = ...) -> None: ...

class CosineDecayLearningRate(_message.Message):
    __slots__ = ("learning_rate_base", "total_steps", "total", "warmup_learning_rate", "warmup_steps", "warmup", "hold_base_rate_steps", "hold_base_rate", "end_learning_rate")
    LEARNING_RATE_BASE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_STEPS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    WARMUP_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    WARMUP_STEPS_FIELD_NUMBER: _ClassVar[int]
    WARMUP_FIELD_NUMBER: _ClassVar[int]
    HOLD_BASE_RATE_STEPS_FIELD_NUMBER: _ClassVar[int]
    HOLD_BASE_RATE_FIELD_NUMBER: _ClassVar[int]
    END_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    learning_rate_base: float
    total_steps: int
    total: _duration_pb2.Duration
    warmup_learning_rate: float
    warmup_steps: int
    warmup: _duration_pb2.Duration
    hold_base_rate_steps: int
    hold_base_rate: _duration_pb2.Duration
    end_learning_rate: float
    def __init__(self, learning_rate_base: _Optional[float] = ..., total_steps: _Optional[int] = ..., total: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., warmup_learning_rate: _Optional[float] = ..., warmup_steps: _Optional[int] = ..., warmup: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., hold_base_rate_steps: _Optional[int] = ..., hold_base_rate: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., end_learning_rate: _Optional[float] = ...) -> None: ...

class WarmupStableDecayLearningRate(_message.Message):
    __slots__ = ("learning_rate_base", "warmup_learning_rate", "warmup_steps", "warmup", "cool_down_steps", "cool_down", "total_steps", "total", "end_learning_rate")
    LEARNING_RATE_BASE_FIELD_NUMBER: _ClassVar[int]
    WARMUP_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    WARMUP_STEPS_FIELD_NUMBER: _ClassVar[int]
    WARMUP_FIELD_NUMBER: _ClassVar[int]
    COOL_DOWN_STEPS_FIELD_NUMBER: _ClassVar[int]
    COOL_DOWN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_STEPS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    END_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    learning_rate_base: float
    warmup_learning_rate: float
    warmup_steps: int
    warmup: _duration_pb2.Duration
    cool_down_steps: int
    cool_down: _duration_pb2.Duration
    total_steps: int
    total: _duration_pb2.Duration
    end_learning_rate: float
    def __init__(self, learning_rate_base: _Optional[float] = ..., warmup_learning_rate: _Optional[float] = ..., warmup_steps: _Optional[int] = ..., warmup: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., cool_down_steps: _Optional[int] = ..., cool_down: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., total_steps: _Optional[int] = ..., total: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., end_learning_rate: _Optional[float] = ...) -> None: ...

class SgdOptimizer(_message.Message):
    __slots__ = ("learning_rate",)
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    learning_rate: LearningRate
    def __init__(self, learning_rate: _Optional[_Union[LearningRate, _Mapping]] = ...) -> None: ...

class AdagradOptimizer(_message.Message):
    __slots__ = ("learning_rate", "initial_accumulator_value")
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    INITIAL_ACCUMULATOR_VALUE_FIELD_NUMBER: _ClassVar[int]
    learning_rate: LearningRate
    initial_accumulator_value: float
    def __init__(self, learning_rate: _Optional[_Union[LearningRate, _Mapping]] = ..., initial_accumulator_value: _Optional[float] = ...) -> None: ...

class AdadeltaOptimizer(_message.Message):
    __slots__ = ("learning_rate", "rho", "epsilon")
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    RHO_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    learning_rate: LearningRate
    rho: float
    epsilon: float
    def __init__(self, learning_rate: _Optional[_Union[LearningRate, _Mapping]] = ..., rho: _Optional[float] = ..., epsilon: _Optional[float] = ...) -> None: ...

class FtrlOptimizer(_message.Message):
    __slots__ = ("learning_rate", "learning_rate_power", "initial_accumulator_value", "l1", "l2")
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_POWER_FIELD_NUMBER: _ClassVar[int]
    INITIAL_ACCUMULATOR_VALUE_FIELD_NUMBER: _ClassVar[int]
    L1_FIELD_NUMBER: _ClassVar[int]
    L2_FIELD_NUMBER: _ClassVar[int]
    learning_rate: LearningRate
    learning_rate_power: float
    initial_accumulator_value: float
    l1: float
    l2: float
    def __init__(self, learning_rate: _Optional[_Union[LearningRate, _Mapping]] = ..., learning_rate_power: _Optional[float] = ..., initial_accumulator_value: _Optional[float] = ..., l1: _Optional[float] = ..., l2: _Optional[float] = ...) -> None: ...

class PolynomialDecayLearningRate(_message.Message):
    __slots__ = ("initial_learning_rate", "end_learning_rate", "decay_steps", "decay", "power")
    INITIAL_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    END_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    DECAY_STEPS_FIELD_NUMBER: _ClassVar[int]
    DECAY_FIELD_NUMBER: _ClassVar[int]
    POWER_FIELD_NUMBER: _ClassVar[int]
    initial_learning_rate: float
    end_learning_rate: float
    decay_steps: int
    decay: _duration_pb2.Duration
    power: float
    def __init__(self, initial_learning_rate: _Optional[float] = ..., end_learning_rate: _Optional[float] = ..., decay_steps: _Optional[int] = ..., decay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., power: _Optional[float] = ...) -> None: ...

class ExponentialDecayWithWarmupLearningRate(_message.Message):
    __slots__ = ("learning_rate_base", "decay_steps", "decay", "decay_factor", "staircase", "warmup_learning_rate", "warmup_steps", "warmup", "min_learning_rate")
    LEARNING_RATE_BASE_FIELD_NUMBER: _ClassVar[int]
    DECAY_STEPS_FIELD_NUMBER: _ClassVar[int]
    DECAY_FIELD_NUMBER: _ClassVar[int]
    DECAY_FACTOR_FIELD_NUMBER: _ClassVar[int]
    STAIRCASE_FIELD_NUMBER: _ClassVar[int]
    WARMUP_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    WARMUP_STEPS_FIELD_NUMBER: _ClassVar[int]
    WARMUP_FIELD_NUMBER: _ClassVar[int]
    MIN_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    learning_rate_base: float
    decay_steps: int
    decay: _duration_pb2.Duration
    decay_factor: float
    staircase: bool
    warmup_learning_rate: float
    warmup_steps: int
    warmup: _duration_pb2.Duration
    min_learning_rate: float
    def __init__(self, learning_rate_base: _Optional[float] = ..., decay_steps: _Optional[int] = ..., decay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., decay_factor: _Optional[float] = ..., staircase: bool = ..., warmup_learning_rate: _Optional[float] = ..., warmup_steps: _Optional[int] = ..., warmup: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., min_learning_rate: _Optional[float] = ...) -> None: ...

class DeepLabLearningRate(_message.Message):
    __slots__ = ("policy", "base_learning_rate", "training_number_of_steps", "training_length", "learning_power", "decay_steps", "decay", "end_learning_rate", "learning_rate_decay_factor", "learning_rate_decay_step", "learning_rate_decay", "boundaries", "boundaries_at", "learning_rates", "slow_start_step", "slow_start_length", "slow_start_learning_rate", "slow_start")
    class Policy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        POLY: _ClassVar[DeepLabLearningRate.Policy]
        STEP: _ClassVar[DeepLabLearningRate.Policy]
        COSINE: _ClassVar[DeepLabLearningRate.Policy]
        MULTI_STEPS: _ClassVar[DeepLabLearningRate.Policy]
    POLY: DeepLabLearningRate.Policy
    STEP: DeepLabLearningRate.Policy
    COSINE: DeepLabLearningRate.Policy
    MULTI_STEPS: DeepLabLearningRate.Policy
    class SlowStart(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CONSTANT: _ClassVar[DeepLabLearningRate.SlowStart]
        LINEAR: _ClassVar[DeepLabLearningRate.SlowStart]
    CONSTANT: DeepLabLearningRate.SlowStart
    LINEAR: DeepLabLearningRate.SlowStart
    POLICY_FIELD_NUMBER: _ClassVar[int]
    BASE_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    TRAINING_NUMBER_OF_STEPS_FIELD_NUMBER: _ClassVar[int]
    TRAINING_LENGTH_FIELD_NUMBER: _ClassVar[int]
    LEARNING_POWER_FIELD_NUMBER: _ClassVar[int]
    DECAY_STEPS_FIELD_NUMBER: _ClassVar[int]
    DECAY_FIELD_NUMBER: _ClassVar[int]
    END_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_DECAY_FACTOR_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_DECAY_STEP_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_DECAY_FIELD_NUMBER: _ClassVar[int]
    BOUNDARIES_FIELD_NUMBER: _ClassVar[int]
    BOUNDARIES_AT_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATES_FIELD_NUMBER: _ClassVar[int]
    SLOW_START_STEP_FIELD_NUMBER: _ClassVar[int]
    SLOW_START_LENGTH_FIELD_NUMBER: _ClassVar[int]
    SLOW_START_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    SLOW_START_FIELD_NUMBER: _ClassVar[int]
    policy: DeepLabLearningRate.Policy
    base_learning_rate: float
    training_number_of_steps: int
    training_length: _duration_pb2.Duration
    learning_power: float
    decay_steps: int
    decay: _duration_pb2.Duration
    end_learning_rate: float
    learning_rate_decay_factor: float
    learning_rate_decay_step: int
    learning_rate_decay: _duration_pb2.Duration
    boundaries: _containers.RepeatedScalarFieldContainer[int]
    boundaries_at: _containers.RepeatedCompositeFieldContainer[_duration_pb2.Duration]
    learning_rates: _containers.RepeatedScalarFieldContainer[float]
    slow_start_step: int
    slow_start_length: _duration_pb2.Duration
    slow_start_learning_rate: float
    slow_start: DeepLabLearningRate.SlowStart
    def __init__(self, policy: _Optional[_Union[DeepLabLearningRate.Policy, str]] = ..., base_learning_rate: _Optional[float] = ..., training_number_of_steps: _Optional[int] = ..., training_length: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., learning_power: _Optional[float] = ..., decay_steps: _Optional[int] = ..., decay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., end_learning_rate: _Optional[float] = ..., learning_rate_decay_factor: _Optional[float] = ..., learning_rate_decay_step: _Optional[int] = ..., learning_rate_decay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., boundaries: _Optional[_Iterable[int]] = ..., boundaries_at: _Optional[_Iterable[_Union[_duration_pb2.Duration, _Mapping]]] = ..., learning_rates: _Optional[_Iterable[float]] = ..., slow_start_step: _Optional[int] = ..., slow_start_length: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., slow_start_learning_rate: _Optional[float] = ..., slow_start: _Optional[_Union[DeepLabLearningRate.SlowStart, str]] = ...) -> None: ...
