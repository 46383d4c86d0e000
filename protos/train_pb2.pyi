from protos import augmentation_pb2 as _augmentation_pb2
from protos import cluster_pb2 as _cluster_pb2
from protos import duration_pb2 as _duration_pb2
from protos import optimizer_pb2 as _optimizer_pb2
from protos import rules_pb2 as _rules_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CheckpointVersion(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNKNOWN: _ClassVar[CheckpointVersion]
    V1: _ClassVar[CheckpointVersion]
    V2: _ClassVar[CheckpointVersion]

class TrainingLoop(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ESTIMATOR: _ClassVar[TrainingLoop]
    TF_FUNCTION: _ClassVar[TrainingLoop]

class NonFiniteLossPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STOP_TRAINING: _ClassVar[NonFiniteLossPolicy]
    WARN: _ClassVar[NonFiniteLossPolicy]
    SKIP_STEP: _ClassVar[NonFiniteLossPolicy]

class GradientClipping(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GLOBAL_NORM: _ClassVar[GradientClipping]
    NORM_PER_VARIABLE: _ClassVar[GradientClipping]
UNKNOWN: CheckpointVersion
V1: CheckpointVersion
V2: CheckpointVersion
ESTIMATOR: TrainingLoop
TF_FUNCTION: TrainingLoop
STOP_TRAINING: NonFiniteLossPolicy
WARN: NonFiniteLossPolicy
SKIP_STEP: NonFiniteLossPolicy
GLOBAL_NORM: GradientClipping
NORM_PER_VARIABLE: GradientClipping

class TrainConfig(_message.Message):
    __slots__ = ("batch_size", "data_augmentation_options", "sync_replicas", "keep_checkpoint_every_n_hours", "optimizer", "gradient_clipping_by_norm", "fine_tune_checkpoint", "fine_tune_checkpoint_type", "fine_tune_checkpoint_version", "from_detection_checkpoint", "load_all_detection_checkpoint_vars", "run_fine_tune_checkpoint_dummy_computation", "num_steps", "length", "startup_delay_steps", "bias_grad_multiplier", "update_trainable_variables", "freeze_variables", "replicas_to_aggregate", "batch_queue_capacity", "num_batch_queue_threads", "prefetch_queue_capacity", "merge_multiple_label_boxes", "use_multiclass_scores", "add_regularization_loss", "max_number_of_boxes", "unpad_groundtruth_tensors", "retain_original_images", "use_bfloat16", "summarize_gradients", "checkpoints", "progress", "non_finite_loss_policy", "gradient_multipliers", "last_layer_gradient_multiplier", "random_seed", "early_stopping", "cluster", "checkpoint_exclude_scopes", "trainable_scopes", "ignore_missing_variables", "initialize_last_layer", "gradient_clipping", "max_skipped_steps", "checkpoint_include_scopes", "checkpoint_names", "min_restored_fraction", "loop", "steps_per_call", "loss_scale", "accumulate_steps", "repeat_factor_threshold", "ignored_coverage", "per_process_gpu_memory_fraction")
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    DATA_AUGMENTATION_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    SYNC_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    KEEP_CHECKPOINT_EVERY_N_HOURS_FIELD_NUMBER: _ClassVar[int]
    OPTIMIZER_FIELD_NUMBER: _ClassVar[int]
    GRADIENT_CLIPPING_BY_NORM_FIELD_NUMBER: _ClassVar[int]
    FINE_TUNE_CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    FINE_TUNE_CHECKPOINT_TYPE_FIELD_NUMBER: _ClassVar[int]
    FINE_TUNE_CHECKPOINT_VERSION_FIELD_NUMBER: _ClassVar[int]
    FROM_DETECTION_CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    LOAD_ALL_DETECTION_CHECKPOINT_VARS_FIELD_NUMBER: _ClassVar[int]
    RUN_FINE_TUNE_CHECKPOINT_DUMMY_COMPUTATION_FIELD_NUMBER: _ClassVar[int]
    NUM_STEPS_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    STARTUP_DELAY_STEPS_FIELD_NUMBER: _ClassVar[int]
    BIAS_GRAD_MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TRAINABLE_VARIABLES_FIELD_NUMBER: _ClassVar[int]
    FREEZE_VARIABLES_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_TO_AGGREGATE_FIELD_NUMBER: _ClassVar[int]
    BATCH_QUEUE_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    NUM_BATCH_QUEUE_THREADS_FIELD_NUMBER: _ClassVar[int]
    PREFETCH_QUEUE_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    MERGE_MULTIPLE_LABEL_BOXES_FIELD_NUMBER: _ClassVar[int]
    USE_MULTICLASS_SCORES_FIELD_NUMBER: _ClassVar[int]
    ADD_REGULARIZATION_LOSS_FIELD_NUMBER: _ClassVar[int]
    MAX_NUMBER_OF_BOXES_FIELD_NUMBER: _ClassVar[int]
    UNPAD_GROUNDTRUTH_TENSORS_FIELD_NUMBER: _ClassVar[int]
    RETAIN_ORIGINAL_IMAGES_FIELD_NUMBER: _ClassVar[int]
    USE_BFLOAT16_FIELD_NUMBER: _ClassVar[int]
    SUMMARIZE_GRADIENTS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    NON_FINITE_LOSS_POLICY_FIELD_NUMBER: _ClassVar[int]
    GRADIENT_MULTIPLIERS_FIELD_NUMBER: _ClassVar[int]
    LAST_LAYER_GRADIENT_MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    RANDOM_SEED_FIELD_NUMBER: _ClassVar[int]
    EARLY_STOPPING_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_EXCLUDE_SCOPES_FIELD_NUMBER: _ClassVar[int]
    TRAINABLE_SCOPES_FIELD_NUMBER: _ClassVar[int]
    IGNORE_MISSING_VARIABLES_FIELD_NUMBER: _ClassVar[int]
    INITIALIZE_LAST_LAYER_FIELD_NUMBER: _ClassVar[int]
    GRADIENT_CLIPPING_FIELD_NUMBER: _ClassVar[int]
    MAX_SKIPPED_STEPS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_INCLUDE_SCOPES_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_NAMES_FIELD_NUMBER: _ClassVar[int]
    MIN_RESTORED_FRACTION_FIELD_NUMBER: _ClassVar[int]
    LOOP_FIELD_NUMBER: _ClassVar[int]
    STEPS_PER_CALL_FIELD_NUMBER: _ClassVar[int]
    LOSS_SCALE_FIELD_NUMBER: _ClassVar[int]
    ACCUMULATE_STEPS_FIELD_NUMBER: _ClassVar[int]
    REPEAT_FACTOR_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    IGNORED_COVERAGE_FIELD_NUMBER: _ClassVar[int]
    PER_PROCESS_GPU_MEMORY_FRACTION_FIELD_NUMBER: _ClassVar[int]
    batch_size: int
    data_augmentation_options: _containers.RepeatedCompositeFieldContainer[_augmentation_pb2.PreprocessingStep]
    sync_replicas: bool
    keep_checkpoint_every_n_hours: float
    optimizer: _optimizer_pb2.Optimizer
    gradient_clipping_by_norm: float
    fine_tune_checkpoint: str
    fine_tune_checkpoint_type: str
    fine_tune_checkpoint_version: CheckpointVersion
    from_detection_checkpoint: bool
    load_all_detection_checkpoint_vars: bool
    run_fine_tune_checkpoint_dummy_computation: bool
    num_steps: int
    length: _duration_pb2.Duration
    startup_delay_steps: float
    bias_grad_multiplier: float
    update_trainable_variables: _containers.RepeatedScalarFieldContainer[str]
    freeze_variables: _containers.RepeatedScalarFieldContainer[str]
    replicas_to_aggregate: int
    batch_queue_capacity: int
    num_batch_queue_threads: int
    prefetch_queue_capacity: int
    merge_multiple_label_boxes: bool
    use_multiclass_scores: bool
    add_regularization_loss: bool
    max_number_of_boxes: int
    unpad_groundtruth_tensors: bool
    retain_original_images: bool
    use_bfloat16: bool
    summarize_gradients: bool
    checkpoints: CheckpointConfig
    progress: ProgressConfig
    non_finite_loss_policy: NonFiniteLossPolicy
    gradient_multipliers: _containers.RepeatedCompositeFieldContainer[GradientMultiplier]
    last_layer_gradient_multiplier: float
    random_seed: int
    early_stopping: EarlyStopping
    cluster: _cluster_pb2.ClusterConfig
    checkpoint_exclude_scopes: _containers.RepeatedScalarFieldContainer[str]
    trainable_scopes: _containers.RepeatedScalarFieldContainer[str]
    ignore_missing_variables: bool
    initialize_last_layer: bool
    gradient_clipping: GradientClipping
    max_skipped_steps: int
    checkpoint_include_scopes: _containers.RepeatedScalarFieldContainer[str]
    checkpoint_names: _containers.RepeatedCompositeFieldContainer[CheckpointName]
    min_restored_fraction: float
    loop: TrainingLoop
    steps_per_call: int
    loss_scale: float
    accumulate_steps: int
    repeat_factor_threshold: float
    ignored_coverage: float
    per_process_gpu_memory_fraction: float
    def __init__(self, batch_size: _Optional[int] = ..., data_augmentation_options: _Optional[_Iterable[_Union[_augmentation_pb2.PreprocessingStep, _Mapping]]] = ..., sync_replicas: bool = ..., keep_checkpoint_every_n_hours: _Optional[float] = ..., optimizer: _Optional[_Union[_optimizer_pb2.Optimizer, _Mapping]] = ..., gradient_clipping_by_norm: _Optional[float] = ..., fine_tune_checkpoint: _Optional[str] = ..., fine_tune_checkpoint_type: _Optional[str] = ..., fine_tune_checkpoint_version: _Optional[_Union[CheckpointVersion, str]] = ..., from_detection_checkpoint: bool = ..., load_all_detection_checkpoint_vars: bool = ..., run_fine_tune_checkpoint_dummy_computation: bool = ..., num_steps: _Optional[int] = ..., length: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., startup_delay_steps: _Optional[float] = ..., bias_grad_multiplier: _Optional[float] = ..., update_trainable_variables: _Optional[_Iterable[str]] = ..., freeze_variables: _Optional[_Iterable[str]] = ..., replicas_to_aggregate: _Optional[int] = ..., batch_queue_capacity: _Optional[int] = ..., num_batch_queue_threads: _Optional[int] = ..., prefetch_queue_capacity: _Optional[int] = ..., merge_multiple_label_boxes: bool = ..., use_multiclass_scores: bool = ..., add_regularization_loss: bool = ..., max_number_of_boxes: _Optional[int] = ..., unpad_groundtruth_tensors: bool = ..., retain_original_images: bool = ..., use_bfloat16: bool = ..., summarize_gradients: bool = ..., checkpoints: _Optional[_Union[CheckpointConfig, _Mapping]] = ..., progress: _Optional[_Union[ProgressConfig, _Mapping]] = ..., non_finite_loss_policy: _Optional[_Union[NonFiniteLossPolicy, str]] = ..., gradient_multipliers: _Optional[_Iterable[_Union[GradientMultiplier, _Mapping]]] = ..., last_layer_gradient_multiplier: _Optional[float] = ..., random_seed: _Optional[int] = ..., early_stopping: _Optional[_Union[EarlyStopping, _Mapping]] = ..., cluster: _Optional[_Union[_cluster_pb2.ClusterConfig, _Mapping]] = ..., checkpoint_exclude_scopes: _Optional[_Iterable[str]] = ..., trainable_scopes: _Optional[_Iterable[str]] = ..., ignore_missing_variables: bool = ..., initialize_last_layer: bool = ..., gradient_clipping: _Optional[_Union[GradientClipping, str]] = ..., max_skipped_steps: _Optional[int] = ..., checkpoint_include_scopes: _Optional[_Iterable[str]] = ..., checkpoint_names: _Optional[_Iterable[_Union[CheckpointName, _Mapping]]] = ..., min_restored_fraction: _Optional[float] = ..., loop: _Optional[_Union[TrainingLoop, str]] = ..., steps_per_call: _Optional[int] = ..., loss_scale: _Optional[float] = ..., accumulate_steps: _Optional[int] = ..., repeat_factor_threshold: _Optional[float] = ..., ignored_coverage: _Optional[float] = ..., per_process_gpu_memory_fraction: _Optional[float] = ...) -> None: ...

class CheckpointConfig(_message.Message):
    __slots__ = ("save_every_n_steps", "save_every_n_seconds", "save_every", "keep_max")
    SAVE_EVERY_N_STEPS_FIELD_NUMBER: _ClassVar[int]
    SAVE_EVERY_N_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SAVE_EVERY_FIELD_NUMBER: _ClassVar[int]
    KEEP_MAX_FIELD_NUMBER: _ClassVar[int]
    save_every_n_steps: int
    save_every_n_seconds: int
    save_every: _duration_pb2.Duration
    keep_max: int
    def __init__(self, save_every_n_steps: _Optional[int] = ..., save_every_n_seconds: _Optional[int] = ..., save_every: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., keep_max: _Optional[int] = ...) -> None: ...

class ProgressConfig(_message.Message):
    __slots__ = ("every_n_steps", "every", "summary_every_n_steps", "summary_every", "profile_step", "profile_at", "summarize_variables", "pictures_every_n_steps", "pictures_every", "draw_first_examples", "draw_predictions", "summarize_activations")
    EVERY_N_STEPS_FIELD_NUMBER: _ClassVar[int]
    EVERY_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_EVERY_N_STEPS_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_EVERY_FIELD_NUMBER: _ClassVar[int]
    PROFILE_STEP_FIELD_NUMBER: _ClassVar[int]
    PROFILE_AT_FIELD_NUMBER: _ClassVar[int]
    SUMMARIZE_VARIABLES_FIELD_NUMBER: _ClassVar[int]
    PICTURES_EVERY_N_STEPS_FIELD_NUMBER: _ClassVar[int]
    PICTURES_EVERY_FIELD_NUMBER: _ClassVar[int]
    DRAW_FIRST_EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    DRAW_PREDICTIONS_FIELD_NUMBER: _ClassVar[int]
    SUMMARIZE_ACTIVATIONS_FIELD_NUMBER: _ClassVar[int]
    every_n_steps: int
    every: _duration_pb2.Duration
    summary_every_n_steps: int
    summary_every: _duration_pb2.Duration
    profile_step: int
    profile_at: _duration_pb2.Duration
    summarize_variables: bool
    pictures_every_n_steps: int
    pictures_every: _duration_pb2.Duration
    draw_first_examples: int
    draw_predictions: bool
    summarize_activations: bool
    def __init__(self, every_n_steps: _Optional[int] = ..., every: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., summary_every_n_steps: _Optional[int] = ..., summary_every: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., profile_step: _Optional[int] = ..., profile_at: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., summarize_variables: bool = ..., pictures_every_n_steps: _Optional[int] = ..., pictures_every: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., draw_first_examples: _Optional[int] = ..., draw_predictions: bool = ..., summarize_activations: bool = ...) -> None: ...

class GradientMultiplier(_message.Message):
    __slots__ = ("variable_pattern", "multiplier")
    VARIABLE_PATTERN_FIELD_NUMBER: _ClassVar[int]
    MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    variable_pattern: str
    multiplier: float
    def __init__(self, variable_pattern: _Optional[str] = ..., multiplier: _Optional[float] = ...) -> None: ...

class CheckpointName(_message.Message):
    __slots__ = ("variable", "name")
    VARIABLE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    variable: str
    name: str
    def __init__(self, variable: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class EarlyStopping(_message.Message):
    __slots__ = ("metric", "higher_is_better", "patience_evaluations", "min_delta", "min_steps", "min_length")
    METRIC_FIELD_NUMBER: _ClassVar[int]
    HIGHER_IS_BETTER_FIELD_NUMBER: _ClassVar[int]
    PATIENCE_EVALUATIONS_FIELD_NUMBER: _ClassVar[int]
    MIN_DELTA_FIELD_NUMBER: _ClassVar[int]
    MIN_STEPS_FIELD_NUMBER: _ClassVar[int]
    MIN_LENGTH_FIELD_NUMBER: _ClassVar[int]
    metric: str
    higher_is_better: bool
    patience_evaluations: int
    min_delta: float
    min_steps: int
    min_length: _duration_pb2.Duration
    def __init__(self, metric: _Optional[str] = ..., higher_is_better: bool = ..., patience_evaluations: _Optional[int] = ..., min_delta: _Optional[float] = ..., min_steps: _Optional[int] = ..., min_length: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...
