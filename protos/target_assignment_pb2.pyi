from protos import box_coding_pb2 as _box_coding_pb2
from protos import duration_pb2 as _duration_pb2
from protos import rules_pb2 as _rules_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TargetAssigner(_message.Message):
    __slots__ = ("matcher", "similarity_calculator", "box_coder")
    MATCHER_FIELD_NUMBER: _ClassVar[int]
    SIMILARITY_CALCULATOR_FIELD_NUMBER: _ClassVar[int]
    BOX_CODER_FIELD_NUMBER: _ClassVar[int]
    matcher: Matcher
    similarity_calculator: RegionSimilarityCalculator
    box_coder: _box_coding_pb2.BoxCoder
    def __init__(self, matcher: _Optional[_Union[Matcher, _Mapping]] = ..., similarity_calculator: _Optional[_Union[RegionSimilarityCalculator, _Mapping]] = ..., box_coder: _Optional[_Union[_box_coding_pb2.BoxCoder, _Mapping]] = ...) -> None: ...

class Matcher(_message.Message):
    __slots__ = ("argmax_matcher", "bipartite_matcher", "atss_matcher", "dynamic_matcher")
    ARGMAX_MATCHER_FIELD_NUMBER: _ClassVar[int]
    BIPARTITE_MATCHER_FIELD_NUMBER: _ClassVar[int]
    ATSS_MATCHER_FIELD_NUMBER: _ClassVar[int]
    DYNAMIC_MATCHER_FIELD_NUMBER: _ClassVar[int]
    argmax_matcher: ArgMaxMatcher
    bipartite_matcher: BipartiteMatcher
    atss_matcher: AtssMatcher
    dynamic_matcher: DynamicMatcher
    def __init__(self, argmax_matcher: _Optional[_Union[ArgMaxMatcher, _Mapping]] = ..., bipartite_matcher: _Optional[_Union[BipartiteMatcher, _Mapping]] = ..., atss_matcher: _Optional[_Union[AtssMatcher, _Mapping]] = ..., dynamic_matcher: _Optional[_Union[DynamicMatcher, _Mapping]] = ...) -> None: ...

class ArgMaxMatcher(_message.Message):
    __slots__ = ("matched_threshold", "unmatched_threshold", "ignore_thresholds", "negatives_lower_than_unmatched", "force_match_for_each_row", "use_matmul_gather")
    MATCHED_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    UNMATCHED_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    IGNORE_THRESHOLDS_FIELD_NUMBER: _ClassVar[int]
    NEGATIVES_LOWER_THAN_UNMATCHED_FIELD_NUMBER: _ClassVar[int]
    FORCE_MATCH_FOR_EACH_ROW_FIELD_NUMBER: _ClassVar[int]
    USE_MATMUL_GATHER_FIELD_NUMBER: _ClassVar[int]
    matched_threshold: float
    unmatched_threshold: float
    ignore_thresholds: bool
    negatives_lower_than_unmatched: bool
    force_match_for_each_row: bool
    use_matmul_gather: bool
    def __init__(self, matched_threshold: _Optional[float] = ..., unmatched_threshold: _Optional[float] = ..., ignore_thresholds: bool = ..., negatives_lower_than_unmatched: bool = ..., force_match_for_each_row: bool = ..., use_matmul_gather: bool = ...) -> None: ...

class BipartiteMatcher(_message.Message):
    __slots__ = ("use_matmul_gather",)
    USE_MATMUL_GATHER_FIELD_NUMBER: _ClassVar[int]
    use_matmul_gather: bool
    def __init__(self, use_matmul_gather: bool = ...) -> None: ...

class AtssMatcher(_message.Message):
    __slots__ = ("candidates_per_map",)
    CANDIDATES_PER_MAP_FIELD_NUMBER: _ClassVar[int]
    candidates_per_map: int
    def __init__(self, candidates_per_map: _Optional[int] = ...) -> None: ...

class DynamicMatcher(_message.Message):
    __slots__ = ("max_anchors", "classification_weight", "localization_weight", "static_steps", "static")
    MAX_ANCHORS_FIELD_NUMBER: _ClassVar[int]
    CLASSIFICATION_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    LOCALIZATION_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    STATIC_STEPS_FIELD_NUMBER: _ClassVar[int]
    STATIC_FIELD_NUMBER: _ClassVar[int]
    max_anchors: int
    classification_weight: float
    localization_weight: float
    static_steps: int
    static: _duration_pb2.Duration
    def __init__(self, max_anchors: _Optional[int] = ..., classification_weight: _Optional[float] = ..., localization_weight: _Optional[float] = ..., static_steps: _Optional[int] = ..., static: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class RegionSimilarityCalculator(_message.Message):
    __slots__ = ("neg_sq_dist_similarity", "iou_similarity", "ioa_similarity", "thresholded_iou_similarity")
    NEG_SQ_DIST_SIMILARITY_FIELD_NUMBER: _ClassVar[int]
    IOU_SIMILARITY_FIELD_NUMBER: _ClassVar[int]
    IOA_SIMILARITY_FIELD_NUMBER: _ClassVar[int]
    THRESHOLDED_IOU_SIMILARITY_FIELD_NUMBER: _ClassVar[int]
    neg_sq_dist_similarity: NegSqDistSimilarity
    iou_similarity: IouSimilarity
    ioa_similarity: IoaSimilarity
    thresholded_iou_similarity: ThresholdedIouSimilarity
    def __init__(self, neg_sq_dist_similarity: _Optional[_Union[NegSqDistSimilarity, _Mapping]] = ..., iou_similarity: _Optional[_Union[IouSimilarity, _Mapping]] = ..., ioa_similarity: _Optional[_Union[IoaSimilarity, _Mapping]] = ..., thresholded_iou_similarity: _Optional[_Union[ThresholdedIouSimilarity, _Mapping]] = ...) -> None: ...

class NegSqDistSimilarity(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class IouSimilarity(_message.Message):
    __slots__ = ("max_angle_difference",)
    MAX_ANGLE_DIFFERENCE_FIELD_NUMBER: _ClassVar[int]
    max_angle_difference: float
    def __init__(self, max_angle_difference: _Optional[float] = ...) -> None: ...

class IoaSimilarity(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ThresholdedIouSimilarity(_message.Message):
    __slots__ = ("iou_threshold",)
    IOU_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    iou_threshold: float
    def __init__(self, iou_threshold: _Optional[float] = ...) -> None: ...
