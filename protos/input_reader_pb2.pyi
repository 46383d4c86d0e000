from protos import rules_pb2 as _rules_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf.internal import python_message as _python_message
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class InstanceMaskType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DEFAULT: _ClassVar[InstanceMaskType]
    NUMERICAL_MASKS: _ClassVar[InstanceMaskType]
    PNG_MASKS: _ClassVar[InstanceMaskType]

class InputType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INPUT_DEFAULT: _ClassVar[InputType]
    TF_EXAMPLE: _ClassVar[InputType]
    TF_SEQUENCE_EXAMPLE: _ClassVar[InputType]

class CorruptRecordPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FAIL: _ClassVar[CorruptRecordPolicy]
    SKIP: _ClassVar[CorruptRecordPolicy]
DEFAULT: InstanceMaskType
NUMERICAL_MASKS: InstanceMaskType
PNG_MASKS: InstanceMaskType
INPUT_DEFAULT: InputType
TF_EXAMPLE: InputType
TF_SEQUENCE_EXAMPLE: InputType
FAIL: CorruptRecordPolicy
SKIP: CorruptRecordPolicy

class InputReader(_message.Message):
    __slots__ = ("name", "label_map_path", "shuffle", "shuffle_buffer_size", "filenames_shuffle_buffer_size", "num_epochs", "sample_1_of_n_examples", "num_readers", "num_parallel_batches", "num_prefetch_batches", "queue_capacity", "min_after_dequeue", "read_block_length", "prefetch_size", "num_parallel_map_calls", "drop_remainder", "num_additional_channels", "num_keypoints", "keypoint_type_weight", "max_number_of_boxes", "load_multiclass_scores", "load_context_features", "load_context_image_ids", "load_instance_masks", "mask_type", "load_dense_pose", "load_track_id", "load_keypoint_depth_features", "use_display_name", "include_source_id", "input_type", "frame_index", "use_keypoint_label_map", "tf_record_input_reader", "external_input_reader", "coco_input_reader", "voc_input_reader", "yolo_input_reader", "folder_input_reader", "mask_input_reader", "instance_input_reader", "labelme_input_reader", "panoptic_input_reader", "csv_input_reader", "sample_from_datasets_weights", "expand_labels_hierarchy", "corrupt_record_policy", "examples_per_batch", "cache", "max_image_pixels", "cache_max_megabytes", "cache_folder", "image_bits", "channel_means", "channel_deviations", "num_examples", "ignored_boxes", "labeled_classes", "tiles")
    class BoxFlag(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CROWD: _ClassVar[InputReader.BoxFlag]
        DIFFICULT: _ClassVar[InputReader.BoxFlag]
        GROUP_OF: _ClassVar[InputReader.BoxFlag]
    CROWD: InputReader.BoxFlag
    DIFFICULT: InputReader.BoxFlag
    GROUP_OF: InputReader.BoxFlag
    class Cache(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NONE: _ClassVar[InputReader.Cache]
        RECORDS: _ClassVar[InputReader.Cache]
        MEMORY: _ClassVar[InputReader.Cache]
        FILE: _ClassVar[InputReader.Cache]
    NONE: InputReader.Cache
    RECORDS: InputReader.Cache
    MEMORY: InputReader.Cache
    FILE: InputReader.Cache
    NAME_FIELD_NUMBER: _ClassVar[int]
    LABEL_MAP_PATH_FIELD_NUMBER: _ClassVar[int]
    SHUFFLE_FIELD_NUMBER: _ClassVar[int]
    SHUFFLE_BUFFER_SIZE_FIELD_NUMBER: _ClassVar[int]
    FILENAMES_SHUFFLE_BUFFER_SIZE_FIELD_NUMBER: _ClassVar[int]
    NUM_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_1_OF_N_EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    NUM_READERS_FIELD_NUMBER: _ClassVar[int]
    NUM_PARALLEL_BATCHES_FIELD_NUMBER: _ClassVar[int]
    NUM_PREFETCH_BATCHES_FIELD_NUMBER: _ClassVar[int]
    QUEUE_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    MIN_AFTER_DEQUEUE_FIELD_NUMBER: _ClassVar[int]
    READ_BLOCK_LENGTH_FIELD_NUMBER: _ClassVar[int]
    PREFETCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    NUM_PARALLEL_MAP_CALLS_FIELD_NUMBER: _ClassVar[int]
    DROP_REMAINDER_FIELD_NUMBER: _ClassVar[int]
    NUM_ADDITIONAL_CHANNELS_FIELD_NUMBER: _ClassVar[int]
    NUM_KEYPOINTS_FIELD_NUMBER: _ClassVar[int]
    KEYPOINT_TYPE_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    MAX_NUMBER_OF_BOXES_FIELD_NUMBER: _ClassVar[int]
    LOAD_MULTICLASS_SCORES_FIELD_NUMBER: _ClassVar[int]
    LOAD_CONTEXT_FEATURES_FIELD_NUMBER: _ClassVar[int]
    LOAD_CONTEXT_IMAGE_IDS_FIELD_NUMBER: _ClassVar[int]
    LOAD_INSTANCE_MASKS_FIELD_NUMBER: _ClassVar[int]
    MASK_TYPE_FIELD_NUMBER: _ClassVar[int]
    LOAD_DENSE_POSE_FIELD_NUMBER: _ClassVar[int]
    LOAD_TRACK_ID_FIELD_NUMBER: _ClassVar[int]
    LOAD_KEYPOINT_DEPTH_FEATURES_FIELD_NUMBER: _ClassVar[int]
    USE_DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    INPUT_TYPE_FIELD_NUMBER: _ClassVar[int]
    FRAME_INDEX_FIELD_NUMBER: _ClassVar[int]
    USE_KEYPOINT_LABEL_MAP_FIELD_NUMBER: _ClassVar[int]
    TF_RECORD_INPUT_READER_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_INPUT_READER_FIELD_NUMBER: _ClassVar[int]
    COCO_INPUT_READER_FIELD_NUMBER: _ClassVar[int]
    VOC_INPUT_READER_FIELD_NUMBER: _ClassVar[int]
    YOLO_INPUT_READER_FIELD_NUMBER: _ClassVar[int]
    FOLDER_INPUT_READER_FIELD_NUMBER: _ClassVar[int]
    MASK_INPUT_READER_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_INPUT_READER_FIELD_NUMBER: _ClassVar[int]
    LABELME_INPUT_READER_FIELD_NUMBER: _ClassVar[int]
    PANOPTIC_INPUT_READER_FIELD_NUMBER: _ClassVar[int]
    CSV_INPUT_READER_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FROM_DATASETS_WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    EXPAND_LABELS_HIERARCHY_FIELD_NUMBER: _ClassVar[int]
    CORRUPT_RECORD_POLICY_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_PER_BATCH_FIELD_NUMBER: _ClassVar[int]
    CACHE_FIELD_NUMBER: _ClassVar[int]
    MAX_IMAGE_PIXELS_FIELD_NUMBER: _ClassVar[int]
    CACHE_MAX_MEGABYTES_FIELD_NUMBER: _ClassVar[int]
    CACHE_FOLDER_FIELD_NUMBER: _ClassVar[int]
    IMAGE_BITS_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_MEANS_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_DEVIATIONS_FIELD_NUMBER: _ClassVar[int]
    NUM_EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    IGNORED_BOXES_FIELD_NUMBER: _ClassVar[int]
    LABELED_CLASSES_FIELD_NUMBER: _ClassVar[int]
    TILES_FIELD_NUMBER: _ClassVar[int]
    name: str
    label_map_path: str
    shuffle: bool
    shuffle_buffer_size: int
    filenames_shuffle_buffer_size: int
    num_epochs: int
    sample_1_of_n_examples: int
    num_readers: int
    num_parallel_batches: int
    num_prefetch_batches: int
    queue_capacity: int
    min_after_dequeue: int
    read_block_length: int
    prefetch_size: int
    num_parallel_map_calls: int
    drop_remainder: bool
    num_additional_channels: int
    num_keypoints: int
    keypoint_type_weight: _containers.RepeatedScalarFieldContainer[float]
    max_number_of_boxes: int
    load_multiclass_scores: bool
    load_context_features: bool
    load_context_image_ids: bool
    load_instance_masks: bool
    mask_type: InstanceMaskType
    load_dense_pose: bool
    load_track_id: bool
    load_keypoint_depth_features: bool
    use_display_name: bool
    include_source_id: bool
    input_type: InputType
    frame_index: int
    use_keypoint_label_map: bool
    tf_record_input_reader: TFRecordInputReader
    external_input_reader: ExternalInputReader
    coco_input_reader: CocoInputReader
    voc_input_reader: VocInputReader
    yolo_input_reader: YoloInputReader
    folder_input_reader: FolderInputReader
    mask_input_reader: MaskInputReader
    instance_input_reader: InstanceInputReader
    labelme_input_reader: LabelmeInputReader
    panoptic_input_reader: PanopticInputReader
    csv_input_reader: CsvInputReader
    sample_from_datasets_weights: _containers.RepeatedScalarFieldContainer[float]
    expand_labels_hierarchy: bool
    corrupt_record_policy: CorruptRecordPolicy
    examples_per_batch: _containers.RepeatedScalarFieldContainer[int]
    cache: InputReader.Cache
    max_image_pixels: int
    cache_max_megabytes: int
    cache_folder: str
    image_bits: int
    channel_means: _containers.RepeatedScalarFieldContainer[float]
    channel_deviations: _containers.RepeatedScalarFieldContainer[float]
    num_examples: int
    ignored_boxes: _containers.RepeatedScalarFieldContainer[InputReader.BoxFlag]
    labeled_classes: _containers.RepeatedScalarFieldContainer[str]
    tiles: ReaderTiles
    def __init__(self, name: _Optional[str] = ..., label_map_path: _Optional[str] = ..., shuffle: bool = ..., shuffle_buffer_size: _Optional[int] = ..., filenames_shuffle_buffer_size: _Optional[int] = ..., num_epochs: _Optional[int] = ..., sample_1_of_n_examples: _Optional[int] = ..., num_readers: _Optional[int] = ..., num_parallel_batches: _Optional[int] = ..., num_prefetch_batches: _Optional[int] = ..., queue_capacity: _Optional[int] = ..., min_after_dequeue: _Optional[int] = ..., read_block_length: _Optional[int] = ..., prefetch_size: _Optional[int] = ..., num_parallel_map_calls: _Optional[int] = ..., drop_remainder: bool = ..., num_additional_channels: _Optional[int] = ..., num_keypoints: _Optional[int] = ..., keypoint_type_weight: _Optional[_Iterable[float]] = ..., max_number_of_boxes: _Optional[int] = ..., load_multiclass_scores: bool = ..., load_context_features: bool = ..., load_context_image_ids: bool = ..., load_instance_masks: bool = ..., mask_type: _Optional[_Union[InstanceMaskType, str]] = ..., load_dense_pose: bool = ..., load_track_id: bool = ..., load_keypoint_depth_features: bool = ..., use_display_name: bool = ..., include_source_id: bool = ..., input_type: _Optional[_Union[InputType, str]] = ..., frame_index: _Optional[int] = ..., use_keypoint_label_map: bool = ..., tf_record_input_reader: _Optional[_Union[TFRecordInputReader, _Mapping]] = ..., external_input_reader: _Optional[_Union[ExternalInputReader, _Mapping]] = ..., coco_input_reader: _Optional[_Union[CocoInputReader, _Mapping]] = ..., voc_input_reader: _Optional[_Union[VocInputReader, _Mapping]] = ..., yolo_input_reader: _Optional[_Union[YoloInputReader, _Mapping]] = ..., folder_input_reader: _Optional[_Union[FolderInputReader, _Mapping]] = ..., mask_input_reader: _Optional[_Union[MaskInputReader, _Mapping]] = ..., instance_input_reader: _Optional[_Union[InstanceInputReader, _Mapping]] = ..., labelme_input_reader: _Optional[_Union[LabelmeInputReader, _Mapping]] = ..., panoptic_input_reader: _Optional[_Union[PanopticInputReader, _Mapping]] = ..., csv_input_reader: _Optional[_Union[CsvInputReader, _Mapping]] = ..., sample_from_datasets_weights: _Optional[_Iterable[float]] = ..., expand_labels_hierarchy: bool = ..., corrupt_record_policy: _Optional[_Union[CorruptRecordPolicy, str]] = ..., examples_per_batch: _Optional[_Iterable[int]] = ..., cache: _Optional[_Union[InputReader.Cache, str]] = ..., max_image_pixels: _Optional[int] = ..., cache_max_megabytes: _Optional[int] = ..., cache_folder: _Optional[str] = ..., image_bits: _Optional[int] = ..., channel_means: _Optional[_Iterable[float]] = ..., channel_deviations: _Optional[_Iterable[float]] = ..., num_examples: _Optional[int] = ..., ignored_boxes: _Optional[_Iterable[_Union[InputReader.BoxFlag, str]]] = ..., labeled_classes: _Optional[_Iterable[str]] = ..., tiles: _Optional[_Union[ReaderTiles, _Mapping]] = ...) -> None: ...

class ReaderTiles(_message.Message):
    __slots__ = ("size", "overlap", "min_area_inside", "drop_empty")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    MIN_AREA_INSIDE_FIELD_NUMBER: _ClassVar[int]
    DROP_EMPTY_FIELD_NUMBER: _ClassVar[int]
    size: int
    overlap: int
    min_area_inside: float
    drop_empty: bool
    def __init__(self, size: _Optional[int] = ..., overlap: _Optional[int] = ..., min_area_inside: _Optional[float] = ..., drop_empty: bool = ...) -> None: ...

class TFRecordInputReader(_message.Message):
    __slots__ = ("input_path",)
    INPUT_PATH_FIELD_NUMBER: _ClassVar[int]
    input_path: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, input_path: _Optional[_Iterable[str]] = ...) -> None: ...

class FileOptions(_message.Message):
    __slots__ = ("list_path", "split", "part", "seed", "ignore_exif", "bits", "additional_channel_path", "ignore_class", "group")
    LIST_PATH_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    IGNORE_EXIF_FIELD_NUMBER: _ClassVar[int]
    BITS_FIELD_NUMBER: _ClassVar[int]
    ADDITIONAL_CHANNEL_PATH_FIELD_NUMBER: _ClassVar[int]
    IGNORE_CLASS_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    list_path: _containers.RepeatedScalarFieldContainer[str]
    split: str
    part: str
    seed: int
    ignore_exif: bool
    bits: int
    additional_channel_path: _containers.RepeatedScalarFieldContainer[str]
    ignore_class: _containers.RepeatedScalarFieldContainer[str]
    group: str
    def __init__(self, list_path: _Optional[_Iterable[str]] = ..., split: _Optional[str] = ..., part: _Optional[str] = ..., seed: _Optional[int] = ..., ignore_exif: bool = ..., bits: _Optional[int] = ..., additional_channel_path: _Optional[_Iterable[str]] = ..., ignore_class: _Optional[_Iterable[str]] = ..., group: _Optional[str] = ...) -> None: ...

class CocoInputReader(_message.Message):
    __slots__ = ("image_path", "annotation_path", "options", "rotated_boxes", "class_masks")
    IMAGE_PATH_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_PATH_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    ROTATED_BOXES_FIELD_NUMBER: _ClassVar[int]
    CLASS_MASKS_FIELD_NUMBER: _ClassVar[int]
    image_path: _containers.RepeatedScalarFieldContainer[str]
    annotation_path: _containers.RepeatedScalarFieldContainer[str]
    options: FileOptions
    rotated_boxes: bool
    class_masks: bool
    def __init__(self, image_path: _Optional[_Iterable[str]] = ..., annotation_path: _Optional[_Iterable[str]] = ..., options: _Optional[_Union[FileOptions, _Mapping]] = ..., rotated_boxes: bool = ..., class_masks: bool = ...) -> None: ...

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
    __slots__ = ("image_path", "annotation_path", "options", "rotated_boxes", "names_path", "class_masks")
    IMAGE_PATH_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_PATH_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    ROTATED_BOXES_FIELD_NUMBER: _ClassVar[int]
    NAMES_PATH_FIELD_NUMBER: _ClassVar[int]
    CLASS_MASKS_FIELD_NUMBER: _ClassVar[int]
    image_path: _containers.RepeatedScalarFieldContainer[str]
    annotation_path: _containers.RepeatedScalarFieldContainer[str]
    options: FileOptions
    rotated_boxes: bool
    names_path: str
    class_masks: bool
    def __init__(self, image_path: _Optional[_Iterable[str]] = ..., annotation_path: _Optional[_Iterable[str]] = ..., options: _Optional[_Union[FileOptions, _Mapping]] = ..., rotated_boxes: bool = ..., names_path: _Optional[str] = ..., class_masks: bool = ...) -> None: ...

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

class LabelmeInputReader(_message.Message):
    __slots__ = ("image_path", "annotation_path", "options", "rotated_boxes", "class_masks")
    IMAGE_PATH_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_PATH_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    ROTATED_BOXES_FIELD_NUMBER: _ClassVar[int]
    CLASS_MASKS_FIELD_NUMBER: _ClassVar[int]
    image_path: _containers.RepeatedScalarFieldContainer[str]
    annotation_path: _containers.RepeatedScalarFieldContainer[str]
    options: FileOptions
    rotated_boxes: bool
    class_masks: bool
    def __init__(self, image_path: _Optional[_Iterable[str]] = ..., annotation_path: _Optional[_Iterable[str]] = ..., options: _Optional[_Union[FileOptions, _Mapping]] = ..., rotated_boxes: bool = ..., class_masks: bool = ...) -> None: ...

class PanopticInputReader(_message.Message):
    __slots__ = ("image_path", "annotation_path", "options")
    IMAGE_PATH_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_PATH_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    image_path: _containers.RepeatedScalarFieldContainer[str]
    annotation_path: _containers.RepeatedScalarFieldContainer[str]
    options: FileOptions
    def __init__(self, image_path: _Optional[_Iterable[str]] = ..., annotation_path: _Optional[_Iterable[str]] = ..., options: _Optional[_Union[FileOptions, _Mapping]] = ...) -> None: ...

class CsvInputReader(_message.Message):
    __slots__ = ("image_path", "annotation_path", "options")
    IMAGE_PATH_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_PATH_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    image_path: _containers.RepeatedScalarFieldContainer[str]
    annotation_path: _containers.RepeatedScalarFieldContainer[str]
    options: FileOptions
    def __init__(self, image_path: _Optional[_Iterable[str]] = ..., annotation_path: _Optional[_Iterable[str]] = ..., options: _Optional[_Union[FileOptions, _Mapping]] = ...) -> None: ...

class ExternalInputReader(_message.Message):
    __slots__ = ()
    Extensions: _python_message._ExtensionDict
    def __init__(self) -> None: ...
