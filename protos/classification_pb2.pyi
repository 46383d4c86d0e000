from protos import backbone_pb2 as _backbone_pb2
from protos import rules_pb2 as _rules_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Classification(_message.Message):
    __slots__ = ("num_classes", "backbone", "image_height", "image_width", "preprocessing", "use_grayscale", "labels_offset", "label_smoothing", "dropout_keep_prob", "auxiliary_loss_weight", "slow_color_distortion", "loss", "mirror_images", "multi_label")
    NUM_CLASSES_FIELD_NUMBER: _ClassVar[int]
    BACKBONE_FIELD_NUMBER: _ClassVar[int]
    IMAGE_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    IMAGE_WIDTH_FIELD_NUMBER: _ClassVar[int]
    PREPROCESSING_FIELD_NUMBER: _ClassVar[int]
    USE_GRAYSCALE_FIELD_NUMBER: _ClassVar[int]
    LABELS_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LABEL_SMOOTHING_FIELD_NUMBER: _ClassVar[int]
    DROPOUT_KEEP_PROB_FIELD_NUMBER: _ClassVar[int]
    AUXILIARY_LOSS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    SLOW_COLOR_DISTORTION_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    MIRROR_IMAGES_FIELD_NUMBER: _ClassVar[int]
    MULTI_LABEL_FIELD_NUMBER: _ClassVar[int]
    num_classes: int
    backbone: _backbone_pb2.Backbone
    image_height: int
    image_width: int
    preprocessing: str
    use_grayscale: bool
    labels_offset: int
    label_smoothing: float
    dropout_keep_prob: float
    auxiliary_loss_weight: float
    slow_color_distortion: bool
    loss: ClassifierLoss
    mirror_images: bool
    multi_label: bool
    def __init__(self, num_classes: _Optional[int] = ..., backbone: _Optional[_Union[_backbone_pb2.Backbone, _Mapping]] = ..., image_height: _Optional[int] = ..., image_width: _Optional[int] = ..., preprocessing: _Optional[str] = ..., use_grayscale: bool = ..., labels_offset: _Optional[int] = ..., label_smoothing: _Optional[float] = ..., dropout_keep_prob: _Optional[float] = ..., auxiliary_loss_weight: _Optional[float] = ..., slow_color_distortion: bool = ..., loss: _Optional[_Union[ClassifierLoss, _Mapping]] = ..., mirror_images: bool = ..., multi_label: bool = ...) -> None: ...

class ClassifierLoss(_message.Message):
    __slots__ = ("class_weights", "focal_gamma")
    CLASS_WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    FOCAL_GAMMA_FIELD_NUMBER: _ClassVar[int]
    class_weights: _containers.RepeatedScalarFieldContainer[float]
    focal_gamma: float
    def __init__(self, class_weights: _Optional[_Iterable[float]] = ..., focal_gamma: _Optional[float] = ...) -> None: ...
