from protos import rules_pb2 as _rules_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AnchorGenerator(_message.Message):
    __slots__ = ("grid_anchor_generator", "ssd_anchor_generator", "multiscale_anchor_generator", "flexible_grid_anchor_generator")
    GRID_ANCHOR_GENERATOR_FIELD_NUMBER: _ClassVar[int]
    SSD_ANCHOR_GENERATOR_FIELD_NUMBER: _ClassVar[int]
    MULTISCALE_ANCHOR_GENERATOR_FIELD_NUMBER: _ClassVar[int]
    FLEXIBLE_GRID_ANCHOR_GENERATOR_FIELD_NUMBER: _ClassVar[int]
    grid_anchor_generator: GridAnchorGenerator
    ssd_anchor_generator: SsdAnchorGenerator
    multiscale_anchor_generator: MultiscaleAnchorGenerator
    flexible_grid_anchor_generator: FlexibleGridAnchorGenerator
    def __init__(self, grid_anchor_generator: _Optional[_Union[GridAnchorGenerator, _Mapping]] = ..., ssd_anchor_generator: _Optional[_Union[SsdAnchorGenerator, _Mapping]] = ..., multiscale_anchor_generator: _Optional[_Union[MultiscaleAnchorGenerator, _Mapping]] = ..., flexible_grid_anchor_generator: _Optional[_Union[FlexibleGridAnchorGenerator, _Mapping]] = ...) -> None: ...

class SsdAnchorGenerator(_message.Message):
    __slots__ = ("num_layers", "min_scale", "max_scale", "scales", "aspect_ratios", "interpolated_scale_aspect_ratio", "reduce_boxes_in_lowest_layer", "base_anchor_height", "base_anchor_width", "height_stride", "width_stride", "height_offset", "width_offset", "angles")
    NUM_LAYERS_FIELD_NUMBER: _ClassVar[int]
    MIN_SCALE_FIELD_NUMBER: _ClassVar[int]
    MAX_SCALE_FIELD_NUMBER: _ClassVar[int]
    SCALES_FIELD_NUMBER: _ClassVar[int]
    ASPECT_RATIOS_FIELD_NUMBER: _ClassVar[int]
    INTERPOLATED_SCALE_ASPECT_RATIO_FIELD_NUMBER: _ClassVar[int]
    REDUCE_BOXES_IN_LOWEST_LAYER_FIELD_NUMBER: _ClassVar[int]
    BASE_ANCHOR_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    BASE_ANCHOR_WIDTH_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_STRIDE_FIELD_NUMBER: _ClassVar[int]
    WIDTH_STRIDE_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    WIDTH_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ANGLES_FIELD_NUMBER: _ClassVar[int]
    num_layers: int
    min_scale: float
    max_scale: float
    scales: _containers.RepeatedScalarFieldContainer[float]
    aspect_ratios: _containers.RepeatedScalarFieldContainer[float]
    interpolated_scale_aspect_ratio: float
    reduce_boxes_in_lowest_layer: bool
    base_anchor_height: float
    base_anchor_width: float
    height_stride: _containers.RepeatedScalarFieldContainer[int]
    width_stride: _containers.RepeatedScalarFieldContainer[int]
    height_offset: _containers.RepeatedScalarFieldContainer[int]
    width_offset: _containers.RepeatedScalarFieldContainer[int]
    angles: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, num_layers: _Optional[int] = ..., min_scale: _Optional[float] = ..., max_scale: _Optional[float] = ..., scales: _Optional[_Iterable[float]] = ..., aspect_ratios: _Optional[_Iterable[float]] = ..., interpolated_scale_aspect_ratio: _Optional[float] = ..., reduce_boxes_in_lowest_layer: bool = ..., base_anchor_height: _Optional[float] = ..., base_anchor_width: _Optional[float] = ..., height_stride: _Optional[_Iterable[int]] = ..., width_stride: _Optional[_Iterable[int]] = ..., height_offset: _Optional[_Iterable[int]] = ..., width_offset: _Optional[_Iterable[int]] = ..., angles: _Optional[_Iterable[float]] = ...) -> None: ...

class MultiscaleAnchorGenerator(_message.Message):
    __slots__ = ("min_level", "max_level", "anchor_scale", "aspect_ratios", "scales_per_octave", "normalize_coordinates", "angles", "layout")
    class Layout(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OBJECT_DETECTION_API: _ClassVar[MultiscaleAnchorGenerator.Layout]
        TORCHVISION: _ClassVar[MultiscaleAnchorGenerator.Layout]
    OBJECT_DETECTION_API: MultiscaleAnchorGenerator.Layout
    TORCHVISION: MultiscaleAnchorGenerator.Layout
    MIN_LEVEL_FIELD_NUMBER: _ClassVar[int]
    MAX_LEVEL_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_SCALE_FIELD_NUMBER: _ClassVar[int]
    ASPECT_RATIOS_FIELD_NUMBER: _ClassVar[int]
    SCALES_PER_OCTAVE_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_COORDINATES_FIELD_NUMBER: _ClassVar[int]
    ANGLES_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    min_level: int
    max_level: int
    anchor_scale: float
    aspect_ratios: _containers.RepeatedScalarFieldContainer[float]
    scales_per_octave: int
    normalize_coordinates: bool
    angles: _containers.RepeatedScalarFieldContainer[float]
    layout: MultiscaleAnchorGenerator.Layout
    def __init__(self, min_level: _Optional[int] = ..., max_level: _Optional[int] = ..., anchor_scale: _Optional[float] = ..., aspect_ratios: _Optional[_Iterable[float]] = ..., scales_per_octave: _Optional[int] = ..., normalize_coordinates: bool = ..., angles: _Optional[_Iterable[float]] = ..., layout: _Optional[_Union[MultiscaleAnchorGenerator.Layout, str]] = ...) -> None: ...

class GridAnchorGenerator(_message.Message):
    __slots__ = ("height", "width", "height_stride", "width_stride", "height_offset", "width_offset", "scales", "aspect_ratios", "angles")
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_STRIDE_FIELD_NUMBER: _ClassVar[int]
    WIDTH_STRIDE_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    WIDTH_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SCALES_FIELD_NUMBER: _ClassVar[int]
    ASPECT_RATIOS_FIELD_NUMBER: _ClassVar[int]
    ANGLES_FIELD_NUMBER: _ClassVar[int]
    height: int
    width: int
    height_stride: int
    width_stride: int
    height_offset: int
    width_offset: int
    scales: _containers.RepeatedScalarFieldContainer[float]
    aspect_ratios: _containers.RepeatedScalarFieldContainer[float]
    angles: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, height: _Optional[int] = ..., width: _Optional[int] = ..., height_stride: _Optional[int] = ..., width_stride: _Optional[int] = ..., height_offset: _Optional[int] = ..., width_offset: _Optional[int] = ..., scales: _Optional[_Iterable[float]] = ..., aspect_ratios: _Optional[_Iterable[float]] = ..., angles: _Optional[_Iterable[float]] = ...) -> None: ...

class FlexibleGridAnchorGenerator(_message.Message):
    __slots__ = ("anchor_grid", "normalize_coordinates", "angles")
    ANCHOR_GRID_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_COORDINATES_FIELD_NUMBER: _ClassVar[int]
    ANGLES_FIELD_NUMBER: _ClassVar[int]
    anchor_grid: _containers.RepeatedCompositeFieldContainer[AnchorGrid]
    normalize_coordinates: bool
    angles: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, anchor_grid: _Optional[_Iterable[_Union[AnchorGrid, _Mapping]]] = ..., normalize_coordinates: bool = ..., angles: _Optional[_Iterable[float]] = ...) -> None: ...

class AnchorGrid(_message.Message):
    __slots__ = ("base_sizes", "aspect_ratios", "height_stride", "width_stride", "height_offset", "width_offset")
    BASE_SIZES_FIELD_NUMBER: _ClassVar[int]
    ASPECT_RATIOS_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_STRIDE_FIELD_NUMBER: _ClassVar[int]
    WIDTH_STRIDE_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    WIDTH_OFFSET_FIELD_NUMBER: _ClassVar[int]
    base_sizes: _containers.RepeatedScalarFieldContainer[float]
    aspect_ratios: _containers.RepeatedScalarFieldContainer[float]
    height_stride: int
    width_stride: int
    height_offset: int
    width_offset: int
    def __init__(self, base_sizes: _Optional[_Iterable[float]] = ..., aspect_ratios: _Optional[_Iterable[float]] = ..., height_stride: _Optional[int] = ..., width_stride: _Optional[int] = ..., height_offset: _Optional[int] = ..., width_offset: _Optional[int] = ...) -> None: ...
