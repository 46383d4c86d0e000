from protos import rules_pb2 as _rules_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FeaturePyramidNetworks(_message.Message):
    __slots__ = ("min_level", "max_level", "additional_layer_depth", "layout")
    class Layout(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OBJECT_DETECTION_API: _ClassVar[FeaturePyramidNetworks.Layout]
        TORCHVISION: _ClassVar[FeaturePyramidNetworks.Layout]
    OBJECT_DETECTION_API: FeaturePyramidNetworks.Layout
    TORCHVISION: FeaturePyramidNetworks.Layout
    MIN_LEVEL_FIELD_NUMBER: _ClassVar[int]
    MAX_LEVEL_FIELD_NUMBER: _ClassVar[int]
    ADDITIONAL_LAYER_DEPTH_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    min_level: int
    max_level: int
    additional_layer_depth: int
    layout: FeaturePyramidNetworks.Layout
    def __init__(self, min_level: _Optional[int] = ..., max_level: _Optional[int] = ..., additional_layer_depth: _Optional[int] = ..., layout: _Optional[_Union[FeaturePyramidNetworks.Layout, str]] = ...) -> None: ...

class BidirectionalFeaturePyramidNetworks(_message.Message):
    __slots__ = ("min_level", "max_level", "num_iterations", "num_filters", "combine_method")
    MIN_LEVEL_FIELD_NUMBER: _ClassVar[int]
    MAX_LEVEL_FIELD_NUMBER: _ClassVar[int]
    NUM_ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    NUM_FILTERS_FIELD_NUMBER: _ClassVar[int]
    COMBINE_METHOD_FIELD_NUMBER: _ClassVar[int]
    min_level: int
    max_level: int
    num_iterations: int
    num_filters: int
    combine_method: str
    def __init__(self, min_level: _Optional[int] = ..., max_level: _Optional[int] = ..., num_iterations: _Optional[int] = ..., num_filters: _Optional[int] = ..., combine_method: _Optional[str] = ...) -> None: ...
