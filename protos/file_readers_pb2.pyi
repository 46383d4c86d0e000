from protos import rules_pb2 as _rules_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FileOptions(_message.Message):
    __slots__ = ("list_path", "split", "part", "seed", "ignore_exif", "bits")
    LIST_PATH_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    IGNORE_EXIF_FIELD_NUMBER: _ClassVar[int]
    BITS_FIELD_NUMBER: _ClassVar[int]
    list_path: _containers.RepeatedScalarFieldContainer[str]
    split: str
    part: str
    seed: int
    ignore_exif: bool
    bits: int
    def __init__(self, list_path: _Optional[_Iterable[str]] = ..., split: _Optional[str] = ..., part: _Optional[str] = ..., seed: _Optional[int] = ..., ignore_exif: bool = ..., bits: _Optional[int] = ...) -> None: ...

class CocoInputReader(_message.Message):
    __slots__ = ("image_path", "annotation_path", "options", "rotated_boxes")
    IMAGE_PATH_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_PATH_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    ROTATED_BOXES_FIELD_NUMBER: _ClassVar[int]
    image_path: _containers.RepeatedScalarFieldContainer[str]
    annotation_path: _containers.RepeatedScalarFieldContainer[str]
    options: FileOptions
    rotated_boxes: bool
    def __init__(self, image_path: _Optional[_Iterable[str]] = ..., annotation_path: _Optional[_Iterable[str]] = ..., options: _Optional[_Union[FileOptions, _Mapping]] = ..., rotated_boxes: bool = ...) -> None: ...

class VocInputReader(_message.Message):
    __slots__ = ("image_path", "annotation_path", "options", "rotated_boxes")
    IMAGE_PATH_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_PATH_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    ROTATED_BOXES_FIELD_NUMBER: _ClassVar[int]
    image_path: _containers.RepeatedScalarFieldContainer[str]
    annotation_path: _containers.RepeatedScalarFieldContainer[str]
    options: FileOptions
    rotated_boxes: bool
    def __init__(self, image_path: _Optional[_Iterable[str]] = ..., annotation_path: _Optional[_Iterable[str]] = ..., options: _Optional[_Union[FileOptions, _Mapping]] = ..., rotated_boxes: bool = ...) -> None: ...

class YoloInputReader(_message.Message):
    __slots__ = ("image_path", "annotation_path", "options", "rotated_boxes", "names_path")
    IMAGE_PATH_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_PATH_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    ROTATED_BOXES_FIELD_NUMBER: _ClassVar[int]
    NAMES_PATH_FIELD_NUMBER: _ClassVar[int]
    image_path: _containers.RepeatedScalarFieldContainer[str]
    annotation_path: _containers.RepeatedScalarFieldContainer[str]
    options: FileOptions
    rotated_boxes: bool
    names_path: str
    def __init__(self, image_path: _Optional[_Iterable[str]] = ..., annotation_path: _Optional[_Iterable[str]] = ..., options: _Optional[_Union[FileOptions, _Mapping]] = ..., rotated_boxes: bool = ..., names_path: _Optional[str] = ...) -> None: ...

class FolderInputReader(_message.Message):
    __slots__ = ("image_path", "options")
    IMAGE_PATH_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    image_path: _containers.RepeatedScalarFieldContainer[str]
    options: FileOptions
    def __init__(self, image_path: _Optional[_Iterable[str]] = ..., options: _Optional[_Union[FileOptions, _Mapping]] = ...) -> None: ...

class MaskInputReader(_message.Message):
    __slots__ = ("image_path", "annotation_path", "options", "mask_values", "mask_colors", "ignore_label", "image_suffix", "annotation_suffix")
    IMAGE_PATH_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_PATH_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    MASK_VALUES_FIELD_NUMBER: _ClassVar[int]
    MASK_COLORS_FIELD_NUMBER: _ClassVar[int]
    IGNORE_LABEL_FIELD_NUMBER: _ClassVar[int]
    IMAGE_SUFFIX_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_SUFFIX_FIELD_NUMBER: _ClassVar[int]
    image_path: _containers.RepeatedScalarFieldContainer[str]
    annotation_path: _containers.RepeatedScalarFieldContainer[str]
    options: FileOptions
    mask_values: str
    mask_colors: str
    ignore_label: str
    image_suffix: str
    annotation_suffix: str
    def __init__(self, image_path: _Optional[_Iterable[str]] = ..., annotation_path: _Optional[_Iterable[str]] = ..., options: _Optional[_Union[FileOptions, _Mapping]] = ..., mask_values: _Optional[str] = ..., mask_colors: _Optional[str] = ..., ignore_label: _Optional[str] = ..., image_suffix: _Optional[str] = ..., annotation_suffix: _Optional[str] = ...) -> None: ...

class InstanceInputReader(_message.Message):
    __slots__ = ("image_path", "annotation_path", "options", "class_name", "ignore_label", "image_suffix", "annotation_suffix")
    IMAGE_PATH_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_PATH_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    CLASS_NAME_FIELD_NUMBER: _ClassVar[int]
    IGNORE_LABEL_FIELD_NUMBER: _ClassVar[int]
    IMAGE_SUFFIX_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_SUFFIX_FIELD_NUMBER: _ClassVar[int]
    image_path: _containers.RepeatedScalarFieldContainer[str]
    annotation_path: _containers.RepeatedScalarFieldContainer[str]
    options: FileOptions
    class_name: str
    ignore_label: str
    image_suffix: str
    annotation_suffix: str
    def __init__(self, image_path: _Optional[_Iterable[str]] = ..., annotation_path: _Optional[_Iterable[str]] = ..., options: _Optional[_Union[FileOptions, _Mapping]] = ..., class_name: _Optional[str] = ..., ignore_label: _Optional[str] = ..., image_suffix: _Optional[str] = ..., annotation_suffix: _Optional[str] = ...) -> None: ...
