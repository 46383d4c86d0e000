from protos import rules_pb2 as _rules_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ServingInput(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    IMAGE_TENSOR: _ClassVar[ServingInput]
    ENCODED_IMAGE_STRING_TENSOR: _ClassVar[ServingInput]
    SERIALIZED_TF_EXAMPLE: _ClassVar[ServingInput]
IMAGE_TENSOR: ServingInput
ENCODED_IMAGE_STRING_TENSOR: ServingInput
SERIALIZED_TF_EXAMPLE: ServingInput

class ExportConfig(_message.Message):
    __slots__ = ("serving_input", "best", "latest", "final", "license")
    SERVING_INPUT_FIELD_NUMBER: _ClassVar[int]
    BEST_FIELD_NUMBER: _ClassVar[int]
    LATEST_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    LICENSE_FIELD_NUMBER: _ClassVar[int]
    serving_input: ServingInput
    best: BestExport
    latest: LatestExport
    final: FinalExport
    license: str
    def __init__(self, serving_input: _Optional[_Union[ServingInput, str]] = ..., best: _Optional[_Union[BestExport, _Mapping]] = ..., latest: _Optional[_Union[LatestExport, _Mapping]] = ..., final: _Optional[_Union[FinalExport, _Mapping]] = ..., license: _Optional[str] = ...) -> None: ...

class BestExport(_message.Message):
    __slots__ = ("metric", "higher_is_better", "keep_max")
    METRIC_FIELD_NUMBER: _ClassVar[int]
    HIGHER_IS_BETTER_FIELD_NUMBER: _ClassVar[int]
    KEEP_MAX_FIELD_NUMBER: _ClassVar[int]
    metric: str
    higher_is_better: bool
    keep_max: int
    def __init__(self, metric: _Optional[str] = ..., higher_is_better: bool = ..., keep_max: _Optional[int] = ...) -> None: ...

class LatestExport(_message.Message):
    __slots__ = ("keep_max",)
    KEEP_MAX_FIELD_NUMBER: _ClassVar[int]
    keep_max: int
    def __init__(self, keep_max: _Optional[int] = ...) -> None: ...

class FinalExport(_message.Message):
    __slots__ = ("enabled",)
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    enabled: bool
    def __init__(self, enabled: bool = ...) -> None: ...
