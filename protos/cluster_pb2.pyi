from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ClusterConfig(_message.Message):
    __slots__ = ("mode", "num_clones", "clone_on_cpu", "partition_variables_over_bytes", "wait_timeout_seconds")
    class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        AUTO: _ClassVar[ClusterConfig.Mode]
        CLONES: _ClassVar[ClusterConfig.Mode]
        MIRRORED: _ClassVar[ClusterConfig.Mode]
        ASYNC_PARAMETER_SERVERS: _ClassVar[ClusterConfig.Mode]
        SYNC_PARAMETER_SERVERS: _ClassVar[ClusterConfig.Mode]
        MULTI_WORKER_MIRRORED: _ClassVar[ClusterConfig.Mode]
    AUTO: ClusterConfig.Mode
    CLONES: ClusterConfig.Mode
    MIRRORED: ClusterConfig.Mode
    ASYNC_PARAMETER_SERVERS: ClusterConfig.Mode
    SYNC_PARAMETER_SERVERS: ClusterConfig.Mode
    MULTI_WORKER_MIRRORED: ClusterConfig.Mode
    MODE_FIELD_NUMBER: _ClassVar[int]
    NUM_CLONES_FIELD_NUMBER: _ClassVar[int]
    CLONE_ON_CPU_FIELD_NUMBER: _ClassVar[int]
    PARTITION_VARIABLES_OVER_BYTES_FIELD_NUMBER: _ClassVar[int]
    WAIT_TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    mode: ClusterConfig.Mode
    num_clones: int
    clone_on_cpu: bool
    partition_variables_over_bytes: int
    wait_timeout_seconds: int
    def __init__(self, mode: _Optional[_Union[ClusterConfig.Mode, str]] = ..., num_clones: _Optional[int] = ..., clone_on_cpu: bool = ..., partition_variables_over_bytes: _Optional[int] = ..., wait_timeout_seconds: _Optional[int] = ...) -> None: ...
