from protos import eval_pb2 as _eval_pb2
from protos import export_pb2 as _export_pb2
from protos import graph_rewriter_pb2 as _graph_rewriter_pb2
from protos import input_reader_pb2 as _input_reader_pb2
from protos import model_pb2 as _model_pb2
from protos import rules_pb2 as _rules_pb2
from protos import train_pb2 as _train_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import python_message as _python_message
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TrainEvalPipelineConfig(_message.Message):
    __slots__ = ("model", "train_config", "train_input_reader", "eval_config", "eval_input_reader", "graph_rewriter", "export_config")
    Extensions: _python_message._ExtensionDict
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TRAIN_CONFIG_FIELD_NUMBER: _ClassVar[int]
    TRAIN_INPUT_READER_FIELD_NUMBER: _ClassVar[int]
    EVAL_CONFIG_FIELD_NUMBER: _ClassVar[int]
    EVAL_INPUT_READER_FIELD_NUMBER: _ClassVar[int]
    GRAPH_REWRITER_FIELD_NUMBER: _ClassVar[int]
    EXPORT_CONFIG_FIELD_NUMBER: _ClassVar[int]
    model: _model_pb2.DetectionModel
    train_config: _train_pb2.TrainConfig
    train_input_reader: _input_reader_pb2.InputReader
    eval_config: _eval_pb2.EvalConfig
    eval_input_reader: _containers.RepeatedCompositeFieldContainer[_input_reader_pb2.InputReader]
    graph_rewriter: _graph_rewriter_pb2.GraphRewriter
    export_config: _export_pb2.ExportConfig
    def __init__(self, model: _Optional[_Union[_model_pb2.DetectionModel, _Mapping]] = ..., train_config: _Optional[_Union[_train_pb2.TrainConfig, _Mapping]] = ..., train_input_reader: _Optional[_Union[_input_reader_pb2.InputReader, _Mapping]] = ..., eval_config: _Optional[_Union[_eval_pb2.EvalConfig, _Mapping]] = ..., eval_input_reader: _Optional[_Iterable[_Union[_input_reader_pb2.InputReader, _Mapping]]] = ..., graph_rewriter: _Optional[_Union[_graph_rewriter_pb2.GraphRewriter, _Mapping]] = ..., export_config: _Optional[_Union[_export_pb2.ExportConfig, _Mapping]] = ...) -> None: ...
