from protos import rules_pb2 as _rules_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BoxType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    AXIS_ALIGNED: _ClassVar[BoxType]
    UPRIGHT: _ClassVar[BoxType]
    ROTATED: _ClassVar[BoxType]
AXIS_ALIGNED: BoxType
UPRIGHT: BoxType
ROTATED: BoxType

class BoxCoder(_message.Message):
    __slots__ = ("faster_rcnn_box_coder", "mean_stddev_box_coder", "square_box_coder", "keypoint_box_coder", "rotated_box_coder")
    FASTER_RCNN_BOX_CODER_FIELD_NUMBER: _ClassVar[int]
    MEAN_STDDEV_BOX_CODER_FIELD_NUMBER: _ClassVar[int]
    SQUARE_BOX_CODER_FIELD_NUMBER: _ClassVar[int]
    KEYPOINT_BOX_CODER_FIELD_NUMBER: _ClassVar[int]
    ROTATED_BOX_CODER_FIELD_NUMBER: _ClassVar[int]
    faster_rcnn_box_coder: FasterRcnnBoxCoder
    mean_stddev_box_coder: MeanStddevBoxCoder
    square_box_coder: SquareBoxCoder
    keypoint_box_coder: KeypointBoxCoder
    rotated_box_coder: RotatedBoxCoder
    def __init__(self, faster_rcnn_box_coder: _Optional[_Union[FasterRcnnBoxCoder, _Mapping]] = ..., mean_stddev_box_coder: _Optional[_Union[MeanStddevBoxCoder, _Mapping]] = ..., square_box_coder: _Optional[_Union[SquareBoxCoder, _Mapping]] = ..., keypoint_box_coder: _Optional[_Union[KeypointBoxCoder, _Mapping]] = ..., rotated_box_coder: _Optional[_Union[RotatedBoxCoder, _Mapping]] = ...) -> None: ...

class FasterRcnnBoxCoder(_message.Message):
    __slots__ = ("y_scale", "x_scale", "height_scale", "width_scale")
    Y_SCALE_FIELD_NUMBER: _ClassVar[int]
    X_SCALE_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_SCALE_FIELD_NUMBER: _ClassVar[int]
    WIDTH_SCALE_FIELD_NUMBER: _ClassVar[int]
    y_scale: float
    x_scale: float
    height_scale: float
    width_scale: float
    def __init__(self, y_scale: _Optional[float] = ..., x_scale: _Optional[float] = ..., height_scale: _Optional[float] = ..., width_scale: _Optional[float] = ...) -> None: ...

class KeypointBoxCoder(_message.Message):
    __slots__ = ("num_keypoints", "y_scale", "x_scale", "height_scale", "width_scale")
    NUM_KEYPOINTS_FIELD_NUMBER: _ClassVar[int]
    Y_SCALE_FIELD_NUMBER: _ClassVar[int]
    X_SCALE_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_SCALE_FIELD_NUMBER: _ClassVar[int]
    WIDTH_SCALE_FIELD_NUMBER: _ClassVar[int]
    num_keypoints: int
    y_scale: float
    x_scale: float
    height_scale: float
    width_scale: float
    def __init__(self, num_keypoints: _Optional[int] = ..., y_scale: _Optional[float] = ..., x_scale: _Optional[float] = ..., height_scale: _Optional[float] = ..., width_scale: _Optional[float] = ...) -> None: ...

class MeanStddevBoxCoder(_message.Message):
    __slots__ = ("stddev",)
    STDDEV_FIELD_NUMBER: _ClassVar[int]
    stddev: float
    def __init__(self, stddev: _Optional[float] = ...) -> None: ...

class SquareBoxCoder(_message.Message):
    __slots__ = ("y_scale", "x_scale", "length_scale")
    Y_SCALE_FIELD_NUMBER: _ClassVar[int]
    X_SCALE_FIELD_NUMBER: _ClassVar[int]
    LENGTH_SCALE_FIELD_NUMBER: _ClassVar[int]
    y_scale: float
    x_scale: float
    length_scale: float
    def __init__(self, y_scale: _Optional[float] = ..., x_scale: _Optional[float] = ..., length_scale: _Optional[float] = ...) -> None: ...

class RotatedBoxCoder(_message.Message):
    __slots__ = ("y_scale", "x_scale", "height_scale", "width_scale", "angle_scale", "angle_wrap")
    class AngleWrap(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NONE: _ClassVar[RotatedBoxCoder.AngleWrap]
        PI: _ClassVar[RotatedBoxCoder.AngleWrap]
        HALF_PI: _ClassVar[RotatedBoxCoder.AngleWrap]
    NONE: RotatedBoxCoder.AngleWrap
    PI: RotatedBoxCoder.AngleWrap
    HALF_PI: RotatedBoxCoder.AngleWrap
    Y_SCALE_FIELD_NUMBER: _ClassVar[int]
    X_SCALE_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_SCALE_FIELD_NUMBER: _ClassVar[int]
    WIDTH_SCALE_FIELD_NUMBER: _ClassVar[int]
    ANGLE_SCALE_FIELD_NUMBER: _ClassVar[int]
    ANGLE_WRAP_FIELD_NUMBER: _ClassVar[int]
    y_scale: float
    x_scale: float
    height_scale: float
    width_scale: float
    angle_scale: float
    angle_wrap: RotatedBoxCoder.AngleWrap
    def __init__(self, y_scale: _Optional[float] = ..., x_scale: _Optional[float] = ..., height_scale: _Optional[float] = ..., width_scale: _Optional[float] = ..., angle_scale: _Optional[float] = ..., angle_wrap: _Optional[_Union[RotatedBoxCoder.AngleWrap, str]] = ...) -> None: ...
