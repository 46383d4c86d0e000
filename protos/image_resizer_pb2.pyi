from protos import rules_pb2 as _rules_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ResizeType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BILINEAR: _ClassVar[ResizeType]
    NEAREST_NEIGHBOR: _ClassVar[ResizeType]
    BICUBIC: _ClassVar[ResizeType]
    AREA: _ClassVar[ResizeType]
BILINEAR: ResizeType
NEAREST_NEIGHBOR: ResizeType
BICUBIC: ResizeType
AREA: ResizeType

class ImageResizer(_message.Message):
    __slots__ = ("keep_aspect_ratio_resizer", "fixed_shape_resizer", "identity_resizer", "conditional_shape_resizer", "pad_to_multiple_resizer")
    KEEP_ASPECT_RATIO_RESIZER_FIELD_NUMBER: _ClassVar[int]
    FIXED_SHAPE_RESIZER_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_RESIZER_FIELD_NUMBER: _ClassVar[int]
    CONDITIONAL_SHAPE_RESIZER_FIELD_NUMBER: _ClassVar[int]
    PAD_TO_MULTIPLE_RESIZER_FIELD_NUMBER: _ClassVar[int]
    keep_aspect_ratio_resizer: KeepAspectRatioResizer
    fixed_shape_resizer: FixedShapeResizer
    identity_resizer: IdentityResizer
    conditional_shape_resizer: ConditionalShapeResizer
    pad_to_multiple_resizer: PadToMultipleResizer
    def __init__(self, keep_aspect_ratio_resizer: _Optional[_Union[KeepAspectRatioResizer, _Mapping]] = ..., fixed_shape_resizer: _Optional[_Union[FixedShapeResizer, _Mapping]] = ..., identity_resizer: _Optional[_Union[IdentityResizer, _Mapping]] = ..., conditional_shape_resizer: _Optional[_Union[ConditionalShapeResizer, _Mapping]] = ..., pad_to_multiple_resizer: _Optional[_Union[PadToMultipleResizer, _Mapping]] = ...) -> None: ...

class IdentityResizer(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class KeepAspectRatioResizer(_message.Message):
    __slots__ = ("min_dimension", "max_dimension", "resize_method", "pad_to_max_dimension", "convert_to_grayscale", "per_channel_pad_value")
    MIN_DIMENSION_FIELD_NUMBER: _ClassVar[int]
    MAX_DIMENSION_FIELD_NUMBER: _ClassVar[int]
    RESIZE_METHOD_FIELD_NUMBER: _ClassVar[int]
    PAD_TO_MAX_DIMENSION_FIELD_NUMBER: _ClassVar[int]
    CONVERT_TO_GRAYSCALE_FIELD_NUMBER: _ClassVar[int]
    PER_CHANNEL_PAD_VALUE_FIELD_NUMBER: _ClassVar[int]
    min_dimension: int
    max_dimension: int
    resize_method: ResizeType
    pad_to_max_dimension: bool
    convert_to_grayscale: bool
    per_channel_pad_value: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, min_dimension: _Optional[int] = ..., max_dimension: _Optional[int] = ..., resize_method: _Optional[_Union[ResizeType, str]] = ..., pad_to_max_dimension: bool = ..., convert_to_grayscale: bool = ..., per_channel_pad_value: _Optional[_Iterable[float]] = ...) -> None: ...

class FixedShapeResizer(_message.Message):
    __slots__ = ("height", "width", "resize_method", "convert_to_grayscale")
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    RESIZE_METHOD_FIELD_NUMBER: _ClassVar[int]
    CONVERT_TO_GRAYSCALE_FIELD_NUMBER: _ClassVar[int]
    height: int
    width: int
    resize_method: ResizeType
    convert_to_grayscale: bool
    def __init__(self, height: _Optional[int] = ..., width: _Optional[int] = ..., resize_method: _Optional[_Union[ResizeType, str]] = ..., convert_to_grayscale: bool = ...) -> None: ...

class ConditionalShapeResizer(_message.Message):
    __slots__ = ("condition", "size_threshold", "resize_method", "convert_to_grayscale")
    class ResizeCondition(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        INVALID: _ClassVar[ConditionalShapeResizer.ResizeCondition]
        GREATER: _ClassVar[ConditionalShapeResizer.ResizeCondition]
        SMALLER: _ClassVar[ConditionalShapeResizer.ResizeCondition]
    INVALID: ConditionalShapeResizer.ResizeCondition
    GREATER: ConditionalShapeResizer.ResizeCondition
    SMALLER: ConditionalShapeResizer.ResizeCondition
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    SIZE_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    RESIZE_METHOD_FIELD_NUMBER: _ClassVar[int]
    CONVERT_TO_GRAYSCALE_FIELD_NUMBER: _ClassVar[int]
    condition: ConditionalShapeResizer.ResizeCondition
    size_threshold: int
    resize_method: ResizeType
    convert_to_grayscale: bool
    def __init__(self, condition: _Optional[_Union[ConditionalShapeResizer.ResizeCondition, str]] = ..., size_threshold: _Optional[int] = ..., resize_method: _Optional[_Union[ResizeType, str]] = ..., convert_to_grayscale: bool = ...) -> None: ...

class PadToMultipleResizer(_message.Message):
    __slots__ = ("multiple", "convert_to_grayscale")
    MULTIPLE_FIELD_NUMBER: _ClassVar[int]
    CONVERT_TO_GRAYSCALE_FIELD_NUMBER: _ClassVar[int]
    multiple: int
    convert_to_grayscale: bool
    def __init__(self, multiple: _Optional[int] = ..., convert_to_grayscale: bool = ...) -> None: ...
