from protos import duration_pb2 as _duration_pb2
from protos import rules_pb2 as _rules_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Backbone(_message.Message):
    __slots__ = ("name", "depth_multiplier", "min_depth", "output_stride", "weight_decay", "batch_norm_decay", "batch_norm_epsilon", "multi_grid", "channel_divisor", "drop_path_keep_prob", "drop_path_steps", "drop_path_length", "stem_filters")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DEPTH_MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    MIN_DEPTH_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_STRIDE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_DECAY_FIELD_NUMBER: _ClassVar[int]
    BATCH_NORM_DECAY_FIELD_NUMBER: _ClassVar[int]
    BATCH_NORM_EPSILON_FIELD_NUMBER: _ClassVar[int]
    MULTI_GRID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_DIVISOR_FIELD_NUMBER: _ClassVar[int]
    DROP_PATH_KEEP_PROB_FIELD_NUMBER: _ClassVar[int]
    DROP_PATH_STEPS_FIELD_NUMBER: _ClassVar[int]
    DROP_PATH_LENGTH_FIELD_NUMBER: _ClassVar[int]
    STEM_FILTERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    depth_multiplier: float
    min_depth: int
    output_stride: int
    weight_decay: float
    batch_norm_decay: float
    batch_norm_epsilon: float
    multi_grid: _containers.RepeatedScalarFieldContainer[int]
    channel_divisor: int
    drop_path_keep_prob: float
    drop_path_steps: int
    drop_path_length: _duration_pb2.Duration
    stem_filters: int
    def __init__(self, name: _Optional[str] = ..., depth_multiplier: _Optional[float] = ..., min_depth: _Optional[int] = ..., output_stride: _Optional[int] = ..., weight_decay: _Optional[float] = ..., batch_norm_decay: _Optional[float] = ..., batch_norm_epsilon: _Optional[float] = ..., multi_grid: _Optional[_Iterable[int]] = ..., channel_divisor: _Optional[int] = ..., drop_path_keep_prob: _Optional[float] = ..., drop_path_steps: _Optional[int] = ..., drop_path_length: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., stem_filters: _Optional[int] = ...) -> None: ...
