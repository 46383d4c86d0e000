from google.protobuf import descriptor_pb2 as _descriptor_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SharedRule(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NOT_SHARED: _ClassVar[SharedRule]
    DEPTH_OF_KEYPOINTS: _ClassVar[SharedRule]
    LOSSES_BY_ANCHOR: _ClassVar[SharedRule]
    LOSS_OF_ANCHORS: _ClassVar[SharedRule]
    LOSS_OF_HEAT_MAPS: _ClassVar[SharedRule]
    NO_QUEUES: _ClassVar[SharedRule]
    OBJECTS_ONLY: _ClassVar[SharedRule]
    ONE_COMPUTATION: _ClassVar[SharedRule]
    SECOND_STAGE_HEAD: _ClassVar[SharedRule]
    SINGLE_SHOT_HEAD: _ClassVar[SharedRule]
    STEP_OF_OBJECTS: _ClassVar[SharedRule]
NOT_SHARED: SharedRule
DEPTH_OF_KEYPOINTS: SharedRule
LOSSES_BY_ANCHOR: SharedRule
LOSS_OF_ANCHORS: SharedRule
LOSS_OF_HEAT_MAPS: SharedRule
NO_QUEUES: SharedRule
OBJECTS_ONLY: SharedRule
ONE_COMPUTATION: SharedRule
SECOND_STAGE_HEAD: SharedRule
SINGLE_SHOT_HEAD: SharedRule
STEP_OF_OBJECTS: SharedRule
RULE_FIELD_NUMBER: _ClassVar[int]
rule: _descriptor.FieldDescriptor
PARTS_FIELD_NUMBER: _ClassVar[int]
parts: _descriptor.FieldDescriptor
CONFLICT_FIELD_NUMBER: _ClassVar[int]
conflict: _descriptor.FieldDescriptor
NEEDED_FIELD_NUMBER: _ClassVar[int]
needed: _descriptor.FieldDescriptor

class Rule(_message.Message):
    __slots__ = ("min", "max", "more_than", "less_than", "not_above", "required", "requires", "ignored", "unsupported", "values", "only_for", "shared", "in_steps", "needs", "excludes", "entries", "one_for_each")
    MIN_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    MORE_THAN_FIELD_NUMBER: _ClassVar[int]
    LESS_THAN_FIELD_NUMBER: _ClassVar[int]
    NOT_ABOVE_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    REQUIRES_FIELD_NUMBER: _ClassVar[int]
    IGNORED_FIELD_NUMBER: _ClassVar[int]
    UNSUPPORTED_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    ONLY_FOR_FIELD_NUMBER: _ClassVar[int]
    SHARED_FIELD_NUMBER: _ClassVar[int]
    IN_STEPS_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    EXCLUDES_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    ONE_FOR_EACH_FIELD_NUMBER: _ClassVar[int]
    min: float
    max: float
    more_than: float
    less_than: float
    not_above: str
    required: bool
    requires: str
    ignored: str
    unsupported: str
    values: _containers.RepeatedScalarFieldContainer[str]
    only_for: str
    shared: SharedRule
    in_steps: str
    needs: _containers.RepeatedScalarFieldContainer[str]
    excludes: _containers.RepeatedScalarFieldContainer[str]
    entries: int
    one_for_each: str
    def __init__(self, min: _Optional[float] = ..., max: _Optional[float] = ..., more_than: _Optional[float] = ..., less_than: _Optional[float] = ..., not_above: _Optional[str] = ..., required: bool = ..., requires: _Optional[str] = ..., ignored: _Optional[str] = ..., unsupported: _Optional[str] = ..., values: _Optional[_Iterable[str]] = ..., only_for: _Optional[str] = ..., shared: _Optional[_Union[SharedRule, str]] = ..., in_steps: _Optional[str] = ..., needs: _Optional[_Iterable[str]] = ..., excludes: _Optional[_Iterable[str]] = ..., entries: _Optional[int] = ..., one_for_each: _Optional[str] = ...) -> None: ...

class Conflict(_message.Message):
    __slots__ = ("when", "at", "of", "problem", "ignored", "warning")
    WHEN_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    OF_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    IGNORED_FIELD_NUMBER: _ClassVar[int]
    WARNING_FIELD_NUMBER: _ClassVar[int]
    when: _containers.RepeatedScalarFieldContainer[str]
    at: str
    of: _containers.RepeatedScalarFieldContainer[str]
    problem: str
    ignored: str
    warning: str
    def __init__(self, when: _Optional[_Iterable[str]] = ..., at: _Optional[str] = ..., of: _Optional[_Iterable[str]] = ..., problem: _Optional[str] = ..., ignored: _Optional[str] = ..., warning: _Optional[str] = ...) -> None: ...
