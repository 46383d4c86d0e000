"""Operations and constants of TFLite files.

The tables of a file are those of the public schema `schema.fbs` of TensorFlow Lite.
"""

from __future__ import annotations

import struct
from typing import Any, Dict, List, Mapping, NamedTuple, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.export.devices import tflite_interpreter
from model_fns.detection.deployment.file_suppression import TFLITE_OP

IDENTIFIER = b'TFL3'  # from byte 4 of a file
LEFT_OUT = -1  # the index of an optional input without a tensor
CUSTOM = 'CUSTOM'
_LAYERS = ('CONV_2D', 'DEPTHWISE_CONV_2D', 'FULLY_CONNECTED')
_INTEGERS = (np.int8, np.uint8, np.int16)


class Tensor(NamedTuple):
    """Tensor of a file.

    Attributes:
        name: as the converter has named it; several names are separated by `;`.
        dtype: NumPy's type; None: it has no such type.
        shape: its sides.
        value: of a constant, else None.
    """

    name: str
    dtype: Any
    shape: Tuple[int, ...]
    value: Any = None


class Operation(NamedTuple):
    """Operation of a file.

    Attributes:
        kind: name of the schema, such as `CONV_2D`; that of a custom operation is its own.
        inputs: indices of tensors, or `LEFT_OUT`.
        outputs: indices of tensors.
        options: by the names of the schema; those of a custom operation by its own.
        is_custom: True: it is not of the schema.
    """

    kind: str
    inputs: Tuple[int, ...]
    outputs: Tuple[int, ...]
    options: Mapping[str, Any]
    is_custom: bool = False


class File(NamedTuple):
    """Network of a file.

    Attributes:
        tensors: in the order of their indices.
        operations: each behind those that it depends on.
        inputs: indices of tensors.
        outputs: index of the tensor of each output of the signature; empty: there is no signature.
    """

    tensors: List[Tensor]
    operations: List[Operation]
    inputs: List[int]
    outputs: Dict[str, int]


def read(path: str) -> File:
    """Read a file.

    Args:
        path: of the file.

    Raises:
        errors.UserError: it is malformed, quantized, or the interpreter of TFLite cannot run it.
    """
    from tensorflow.lite.tools import flatbuffer_utils

    with tf.io.gfile.GFile(path, 'rb') as opened:
        content = opened.read()
    try:
        file = _parse(flatbuffer_utils.convert_bytearray_to_object(bytearray(content)))
        _check_indices(file)
    except (AttributeError, LookupError, TypeError, ValueError, struct.error) as error:
        raise errors.UserError(
            f'{path} is a truncated or corrupt TFLite file: its tables refer to what is not in it.'
        ) from error
    _refuse_kind(path, file)
    # Only now, as the interpreter ends its process where a table refers to what is not there.
    tflite_interpreter.load(path)
    return file


def _refuse_kind(path: str, file: File) -> None:
    """Refuse a file of operations or weights that are no network of floating point.

    Raises:
        errors.UserError: it is for another processor or program, or quantized.
    """
    known = {TFLITE_OP, tflite_interpreter.EDGE_TPU}  # which the interpreter refuses itself
    custom = {one.kind for one in file.operations if one.is_custom} - known
    if custom:
        raise errors.UserError(
            f'{path} has custom operations of another program: '
            f'{errors.shortened(sorted(custom))}; expected those of TFLite, or {TFLITE_OP}.'
        )
    weights = [
        file.tensors[one.inputs[1]]
        for one in file.operations
        if one.kind in _LAYERS and len(one.inputs) > 1
    ]
    if any(one.dtype in _INTEGERS for one in weights):
        raise errors.UserError(
            f'{path} is quantized, or trained for it; expected weights and activations of floating '
            'point only.'
        )


def _check_indices(file: File) -> None:
    """Check that operations, inputs and outputs refer to tensors.

    Raises:
        IndexError: one does not.
    """
    indices = [*file.inputs, *file.outputs.values()]
    for operation in file.operations:
        indices += [*operation.outputs, *(i for i in operation.inputs if i != LEFT_OUT)]
    for index in indices:
        if not 0 <= index < len(file.tensors):
            raise IndexError(f'there is no tensor {index}')


def _parse(model: Any) -> File:
    graph = model.subgraphs[0]
    signatures = model.signatureDefs or []
    outputs = signatures[0].outputs if signatures else []
    return File(
        [_parse_tensor(each, model.buffers) for each in graph.tensors],
        [_parse_operation(each, model.operatorCodes) for each in graph.operators],
        [int(index) for index in graph.inputs],
        {each.name.decode(): int(each.tensorIndex) for each in outputs},
    )


def _parse_tensor(tensor: Any, buffers: Any) -> Tensor:
    from tensorflow.lite.python import schema_py_generated as schema

    kinds = {value: name for name, value in _enum(schema.TensorType).items()}
    kind = kinds.get(tensor.type, '').lower()  # NumPy's name, but for booleans
    dtype = np.bool_ if kind == 'bool' else getattr(np, kind, None)
    sides = () if tensor.shape is None else tensor.shape
    shape = tuple(int(side) for side in sides)
    data = buffers[tensor.buffer].data
    value = None
    if 0 in shape:
        value = np.zeros(shape, dtype)
    elif data is not None and len(data) and dtype is not None:
        value = np.frombuffer(np.asarray(data, np.uint8).tobytes(), dtype).reshape(shape)
    return Tensor((tensor.name or b'').decode(), dtype, shape, value)


def _parse_operation(operation: Any, codes: Any) -> Operation:
    from tensorflow.lite.python import schema_py_generated as schema

    code = codes[operation.opcodeIndex]
    # A code above 127 is in the newer of the two fields.
    number = max(code.builtinCode, code.deprecatedBuiltinCode)
    kinds = {value: name for name, value in _enum(schema.BuiltinOperator).items()}
    kind, options = kinds.get(number, str(number)), vars(operation.builtinOptions or object)
    is_custom = kind == CUSTOM
    if is_custom:
        kind = code.customCode.decode()
        # Other programs write theirs in a form of their own.
        options = _parse_options(operation.customOptions) if kind == TFLITE_OP else {}
    indices = (operation.inputs, operation.outputs)
    inputs, outputs = (tuple(int(i) for i in ([] if one is None else one)) for one in indices)
    return Operation(kind, inputs, outputs, dict(options), is_custom)


def _parse_options(data: Any) -> Dict[str, Any]:
    """Return the options of a custom operation: a map of flexbuffers, or nothing."""
    from flatbuffers import flexbuffers

    if data is None or not len(data):
        return {}
    options = flexbuffers.Loads(bytearray(data))
    return options if isinstance(options, dict) else {}


def _enum(kind: Any) -> Dict[str, int]:
    return {name: value for name, value in vars(kind).items() if isinstance(value, int)}
