from protos import duration_pb2 as _duration_pb2
from protos import rules_pb2 as _rules_pb2
from google.protobuf.internal import python_message as _python_message
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GraphRewriter(_message.Message):
    __slots__ = ("quantization",)
    Extensions: _python_message._ExtensionDict
    QUANTIZATION_FIELD_NUMBER: _ClassVar[int]
    quantization: Quantization
    def __init__(self, quantization: _Optional[_Union[Quantization, _Mapping]] = ...) -> None: ...

class Quantization(_message.Message):
    __slots__ = ("delay", "delay_length", "weight_bits", "activation_bits", "symmetric", "freeze_bn_delay", "freeze_bn_length")
    DELAY_FIELD_NUMBER: _ClassVar[int]
    DELAY_LENGTH_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_BITS_FIELD_NUMBER: _ClassVar[int]
    ACTIVATION_BITS_FIELD_NUMBER: _ClassVar[int]
    SYMMETRIC_FIELD_NUMBER: _ClassVar[int]
    FREEZE_BN_DELAY_FIELD_NUMBER: _ClassVar[int]
    FREEZE_BN_LENGTH_FIELD_NUMBER: _ClassVar[int]
    delay: int
    delay_length: _duration_pb2.Duration
    weight_bits: int
    activation_bits: int
    symmetric: bool
    freeze_bn_delay: int
    freeze_bn_length: _duration_pb2.Duration
    def __init__(self, delay: _Optional[int] = ..., delay_length: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., weight_bits: _Optional[int] = ..., activation_bits: _Optional[int] = ..., symmetric: bool = ..., freeze_bn_delay: _Optional[int] = ..., freeze_bn_length: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...
