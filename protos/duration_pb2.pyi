from protos import rules_pb2 as _rules_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Duration(_message.Message):
    __slots__ = ("steps", "epochs", "examples", "percent")
    STEPS_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    PERCENT_FIELD_NUMBER: _ClassVar[int]
    steps: int
    epochs: float
    examples: int
    percent: float
    def __init__(self, steps: _Optional[int] = ..., epochs: _Optional[float] = ..., examples: _Optional[int] = ..., percent: _Optional[float] = ...) -> None: ...
